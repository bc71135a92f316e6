/*
 * roles.h - the names of a model's tensors, and how they are sharded and summed; each is described
 * in the file of its block
 */
#ifndef MODEL_BLOCK_ROLES_H
#define MODEL_BLOCK_ROLES_H

/* The role of a tensor in its layer; the engine finds pointers by (layer, role). */
enum role {
	ROLE_WORD_EMBEDDINGS,
	ROLE_POSITION_EMBEDDINGS,
	ROLE_INPUT_NORM,
	ROLE_INPUT_NORM_BIAS,
	ROLE_Q,
	ROLE_K,
	ROLE_V,
	ROLE_Q_BIAS,
	ROLE_K_BIAS,
	ROLE_V_BIAS,
	ROLE_Q_NORM,
	ROLE_Q_NORM_BIAS,
	ROLE_K_NORM,
	ROLE_K_NORM_BIAS,
	ROLE_PROJ,
	ROLE_PROJ_BIAS,
	ROLE_POST_ATTN_NORM,
	ROLE_POST_ATTN_NORM_BIAS,
	ROLE_MLP_NORM,
	ROLE_MLP_NORM_BIAS,
	ROLE_GATE,
	ROLE_UP,
	ROLE_GATE_BIAS,
	ROLE_UP_BIAS,
	ROLE_DOWN,
	ROLE_DOWN_BIAS,
	ROLE_ROUTER,
	ROLE_EXPERT_BIAS,
	ROLE_EXPERT_GATE, /* of one expert, like the next two */
	ROLE_EXPERT_UP,
	ROLE_EXPERT_DOWN,
	ROLE_SHARED_GATE, /* of the expert of all tokens */
	ROLE_SHARED_UP,
	ROLE_SHARED_DOWN,
	ROLE_POST_MLP_NORM,
	ROLE_POST_MLP_NORM_BIAS,
	ROLE_FINAL_NORM,
	ROLE_FINAL_NORM_BIAS,
	ROLE_OUTPUT,
	ROLE_COUNT,
};

enum shard_rule {
	SHARD_NONE,   /* every tensor rank holds all of it */
	SHARD_EQUAL,  /* t equal parts along shard_dim */
	SHARD_GROUPS, /* by key/value groups; t > g ranks share a group's rows */
	SHARD_VOCAB,  /* rows padded to layout_vocab, then t equal parts */
	/* of an expert: as many equal parts along shard_dim as ranks share it */
	SHARD_EXPERT_TENSOR,
};

/* The ranks of a model replica whose partial gradients of a tensor must be summed. */
enum param_sum {
	SUM_TENSOR = 1, /* all tensor ranks, which hold all of it and use parts */
	SUM_GROUPS = 2, /* tensor ranks that hold the same key/value groups */
	SUM_ENDS = 4,   /* the first and the last stage, when they share a table */
};

/* The same by what tensor ranks hold of the rows between blocks: all, or a part each, with sequence
 * parallelism. */
struct reduction {
	unsigned plain, with_sequence_parallel;
};

enum param_flag {
	PARAM_JOINED = 1, /* no gap to the tensor before it */
	/* each expert of the layer has one; rows with it that follow each other and are joined
	 * take turns, and those of all experts lie without a gap */
	PARAM_EXPERT = 2,
	/* its gradient is a number of rows, which no norm counts; it moves by that alone */
	PARAM_BALANCE = 4,
};

#endif
