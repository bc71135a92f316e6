/*
 * rows.h - the rows in which a block states its parameters and buffers
 *
 * A row names its sizes and the condition under which it exists; rows.c gives the sizes numbers.
 * Only the files of blocks, params.c and memory.c need this header.
 */
#ifndef MODEL_BLOCK_ROWS_H
#define MODEL_BLOCK_ROWS_H

#include "lib/model/block/block.h"
#include "lib/model/block/sizes.h"

#include <stddef.h>

/* Sizes by name: of whole tensors in rows of parameters, of a tensor rank's share in rows of
 * buffers. T = s/c*b rows of tokens: the positions that a context rank holds. */
enum dim {
	D_NONE,
	D_ONE,
	D_THREE,
	D_TOKENS,     /* T */
	D_ROWS,       /* of T, what lies between blocks: with sequence parallelism T/t */
	D_LANDING,    /* of these, for a message forward and one backward */
	D_OTHERS,     /* of T, the part of each tensor rank but one */
	D_ALL_TOKENS, /* s*b: of all context ranks */
	D_SEQ,        /* s */
	D_HELD,       /* s/c */
	D_HIDDEN,     /* h */
	D_POSITIONS,
	D_ROTARY, /* elements of a head that rotate */
	D_Q,      /* n*d */
	D_KV,     /* g*d */
	D_QKV,    /* Q + 2 KV */
	D_QK,     /* Q + KV */
	D_PAIR,   /* 2 KV: k and v side by side */
	D_Q_SOME, /* Q/c: of the heads of a context rank */
	D_PACKED, /* QKV + 2 Q */
	D_Q_NORM, /* d, or n*d: what a norm of q takes, and one of k */
	D_K_NORM,
	D_NORMS, /* n + g, or 2: of the norms of q and k */
	D_HEADS, /* b*n */
	D_FFN,   /* f */
	D_FC1,   /* f, or 2f with a gate */
	D_EXPERTS,
	D_LOCAL_EXPERTS, /* of a rank */
	D_SLICES,        /* of all experts: as many of each as ranks share it */
	D_EXPERT_RANKS,  /* that hold them once together */
	D_TOPK,
	D_TOPK_SLICES,   /* of the k experts of a row */
	D_ROUTED,        /* a row for each of these, of all rows of a rank */
	D_ARRIVING,      /* rows that the experts of a rank take at once */
	D_SCOPES,        /* in which the load of experts is balanced */
	D_EXPERT_LAYERS, /* of the model */
	D_ROUTER_SUMS,
	D_EXPERT_FFN, /* of an expert, in rows of buffers of its slice */
	D_EXPERT_FC1,
	D_SHARED_FFN, /* of the expert of all tokens */
	D_SHARED_FC1,
	D_VOCAB,     /* without padding as a parameter, with it in memory */
	D_ATTN_WORK, /* workspace.h */
	D_DOCUMENTS, /* rows that attention is told the documents of: T, or s*b */
	/* rows of gradients of keys: of all positions and, from the queries of the first stretch,
	 * of the first half; and of one stretch, from each of the other ranks */
	D_KEYS_PARTIAL,
	D_KEYS_OTHERS,
	D_SENT, /* elements that attention sends to other context ranks, in both passes */
	/* of the rank: all parameters it holds */
	D_WEIGHTS,
	D_GRADS,
	D_PLACES,
	D_LARGEST,    /* bucket */
	D_PASSING,    /* elements of other replicas' parts, pushed to this one at a time */
	D_OWN,        /* elements that the rank's optimizer owns */
	D_OWN_DEVICE, /* of them, those that the device updates, and the host */
	D_OWN_HOST,
	D_OWN_MATRICES, /* of it, matrices of layers, and all else */
	D_OWN_OTHERS,
	D_RING,    /* what is on its way to the host */
	D_SCORES,  /* of the model's layers, the heads of the rank */
	D_MATRIX,  /* elements of the largest matrix of a layer, in all its ranks */
	D_UPDATES, /* of the largest share of one, for each of its ranks: param_ranks */
	D_GRAM,    /* of the largest square of a shorter side */
	D_SCALARS,
	/* of 8-bit operands */
	D_FP8_SCALE,
	D_FP8_SLOTS,
	D_FP8_HISTORY,
	D_FP8_WEIGHTS, /* elements of the rank's linears */
	D_FP8_IN,      /* the widest input of a linear, and the widest output */
	D_FP8_OUT,
	D_FP8_EXPERT, /* the wider of both, of experts that choose their rows */
	/* scales of blocks: of weights, and of what a linear reads at a time */
	D_FP8_SQUARES,
	D_FP8_SQUARES_TRANSPOSED,
	D_FP8_X_LINES,
	D_FP8_DY_LINES,
	D_FP8_DY_TRANSPOSED_LINES,
	D_FP8_EXPERT_LINES,
	D_TOKEN_LINES, /* of a column of T */
	D_HASHES,      /* twice: the loss, and each of the tensors */
	D_COUNT
};

enum condition {
	ALWAYS,
	/* of the model */
	IF_LEARNED, /* positions */
	IF_ROPE,
	IF_WINDOW_ROPE, /* layers with a window have rotary angles of their own */
	IF_LAYERNORM,
	IF_PRE_NORM, /* of the inputs of blocks */
	IF_PRE_LAYERNORM,
	IF_POST_NORM, /* of their branches */
	IF_POST_LAYERNORM,
	IF_QKV_BIAS,
	IF_PROJ_BIAS,
	IF_MLP_BIAS,
	IF_GATED,
	IF_GATED_BIAS,
	IF_EXPERT_BIAS,
	IF_SHARED, /* layers with experts have one of all tokens */
	IF_SHARED_GATED,
	IF_UNTIED,
	IF_PARALLEL, /* attention and MLP of a layer read the same */
	IF_SERIAL,
	IF_QK_NORM,
	IF_QK_LAYERNORM, /* the norm subtracts the mean and has a bias */
	/* of the run */
	IF_TRAINING,
	IF_EXPERTS_TRAINING,
	IF_SHARED_TRAINING,
	IF_EXPERT_RANKS, /* that share the experts of a layer */
	IF_CAPACITY,     /* an expert drops rows above a number */
	IF_WINDOWS,      /* more rows may arrive at a rank's experts than it keeps */
	IF_WINDOWS_TRAINING,
	IF_QK_NORM_TRAINING,
	IF_POST_NORM_TRAINING,
	IF_PARALLEL_TRAINING,
	IF_BRANCH_GRAD, /* the branch's gradient is not that of the residual stream */
	IF_DOCUMENTS,
	IF_TENSOR,   /* more than one tensor rank */
	IF_SEQUENCE, /* each of which holds rows of its own between blocks */
	IF_OVERLAP,  /* and gathers some while the sums of others are scattered */
	IF_PARTS,    /* tensor ranks sum rows in parts */
	IF_GATHER,   /* context ranks gather keys and values */
	IF_GATHER_TRAINING,
	IF_HEADS, /* context ranks exchange positions for heads */
	IF_HEADS_TRAINING,
	IF_LINKS,        /* a pass hands something on, or a gradient down */
	IF_CHANNELS,     /* and messages of stages go beside passes */
	IF_WEIGHT_SLOTS, /* weights are sharded */
	IF_GRAD_SLOTS,   /* main gradients are */
	IF_NARROW,       /* gradients are sent to other replicas in BF16 */
	IF_PASSING,      /* gradients are sent to other replicas as they are */
	IF_HASHED,       /* gradients or weights are compared */
	IF_MASTER,       /* weights are narrower than real, without remainders */
	IF_REMAINDER,    /* masters are weights and remainders */
	IF_FP8,          /* linears read 8-bit operands */
	IF_FP8_TRAINING,
	IF_FP8_SLOTS,   /* each scaled as a whole */
	IF_FP8_HISTORY, /* by those of earlier steps */
	IF_FP8_BLOCKS,  /* scaled by blocks */
	IF_FP8_BLOCKS_TRAINING,
	IF_FP8_SHARED_TRAINING, /* and those of the expert of all tokens */
	IF_FP8_SHARED_BLOCKS_TRAINING,
	IF_GATED_OUT, /* the output of a gated activation is held in 16 bits, and of another */
	IF_UNGATED_OUT,
	IF_NORM_OUT,     /* that of the norm of a block's input */
	IF_AVERAGE,      /* an average of the weights is kept */
	IF_QK_CLIP,      /* weights of q and k are kept from growing */
	IF_MATRICES,     /* matrices are updated as such */
	IF_MATRICES_CUT, /* and ranks share each: param_ranks */
};

enum init { INIT_NORMAL, INIT_RESIDUAL, INIT_ONE, INIT_ZERO };

/* A tensor of a block. Weights are [out, in]: y = x W^T. */
struct param_row {
	/* the first "%d" is the layer, a second one the expert; NULL ends the rows */
	const char *name;
	enum role role;
	enum condition when; /* of the model */
	enum dim dim[2];
	enum shard_rule shard;
	int shard_dim;
	enum init init;
	unsigned flags;        /* PARAM_JOINED applies if the row before it exists */
	struct reduction sums; /* enum param_sum: who sums its gradient */
};

/* "act" is the run's dtype, "real" F32 or F64 (memory_real); "stream" is one of them, the type of
 * the residual stream and its gradient (memory_stream); "grads" that of main gradients; "update"
 * that of GEMMs that update matrices (memory_update). F8: of inputs and weights, F8_GRAD: of
 * gradients of outputs. STATE: of the first state of the update rule; the others follow. */
enum element {
	ACT,
	REAL,
	STREAM,
	GRADS,
	UPDATE,
	I32,
	U16,
	I64,
	BF16,
	F32,
	F64,
	F8,
	F8_GRAD,
	STATE
};

/* Scratch buffers live in phases; those without a common phase share bytes. The backward pass of an
 * attention block has two phases: up to the gradients of q, k and v, and from there on. ANY is any
 * phase of a pass; weights are updated outside of these. */
enum {
	FWD = 1,
	MLP_BWD = 2,
	ATTN_BWD = 4,
	QKV_BWD = 8,
	HEAD = 16,
	ANY = 31,
	OPTIM = 32,
	PHASES = 6,
};

/* A buffer of a block, or of the rank. Several rows may state the same one under mutually exclusive
 * conditions. */
struct buffer_row {
	const char *name;
	int buffer; /* a number of the block that states it */
	enum level level;
	bool when;
	enum element element;
	int64_t size[2]; /* { n }: a vector */
	unsigned phase;  /* of scratch buffers; of layer buffers, those in which they live there */
	/* enum recompute_module: recomputing any of these, a layer does not keep it: it is scratch
	 */
	unsigned recompute;
};

/* Takes the rows that a block, or the rank, states. A number of another block is a bug, and so is a
 * buffer that is stated twice. */
struct buffer_list;
void state_buffers(struct buffer_list *to, const struct buffer_row *rows, size_t n);

/* Whether a condition holds for the model; false for conditions on the run. */
bool model_meets(const struct model_config *c, enum condition when);
/* The sizes of whole tensors; 0 for sizes that no parameter has. */
void dims_whole(int64_t d[D_COUNT], const struct model_config *c);
/* The sizes on a tensor rank; 0 for those of the rank's parameters. */
void dims_share(int64_t d[D_COUNT], const struct model_config *c, const struct layout *l,
    const struct train_shape *s);

#endif
