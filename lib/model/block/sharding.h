/*
 * sharding.h - how the tensors of a model are sharded and summed, as the rows of its blocks say
 */
#ifndef MODEL_BLOCK_SHARDING_H
#define MODEL_BLOCK_SHARDING_H

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
