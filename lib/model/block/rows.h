/*
 * rows.h - the rows in which a block states its parameters and buffers
 *
 * Sizes and conditions are expressions of the model, or of the sizes of a rank (sizes.h). Only the
 * files of blocks, params.c, rank_buffers.c and memory.c need this header.
 */
#ifndef MODEL_BLOCK_ROWS_H
#define MODEL_BLOCK_ROWS_H

#include "lib/model/block/block.h"
#include "lib/model/block/sizes.h"

#include <stddef.h>

/* INIT_ONE: weights of norms, less model_norm_shift; INIT_UNSHIFTED_ONE: 1. INIT_LOG: logarithms of
 * numbers that are evenly spread from 0 to INIT_LOG_MOST. */
enum init { INIT_NORMAL, INIT_RESIDUAL, INIT_ONE, INIT_ZERO, INIT_UNSHIFTED_ONE, INIT_LOG };
enum { INIT_LOG_MOST = 16 };

/* A tensor of a block. Weights are [out, in]: y = x W^T. */
struct param_row {
	const char *name; /* in its layer; "%d" is the expert */
	int number;       /* of the block that states it */
	bool when;
	int64_t shape[2]; /* { n }: a vector; whole, without padding, which depends on the layout */
	enum shard_rule shard;
	int shard_dim;
	enum init init;
	unsigned flags;        /* PARAM_JOINED applies if the row before it exists */
	struct reduction sums; /* enum param_sum: who sums its gradient */
};

/* The rows of a norm over n elements: its weight and, where it has one, its bias, whose number is
 * the next. plain: of struct reduction. */
/* clang-format off */
#define NORM_ROWS(name, number, when, biased, n, plain) \
	{ name ".weight", number, when, { n }, SHARD_NONE, 0, INIT_ONE, 0, \
	    { plain, SUM_TENSOR } }, \
	{ name ".bias", (number) + 1, (when) && (biased), { n }, SHARD_NONE, 0, INIT_ZERO, 0, \
	    { plain, SUM_TENSOR } }
/* clang-format on */

/* The rows of a block, those of tensors that the model lacks among them. */
enum { PARAM_ROWS_MAX = 48 };
struct param_list {
	struct param_row row[PARAM_ROWS_MAX];
	int count, block;
	int64_t layer; /* as in struct param: a kind may name its tensors by it */
};
/* Adds rows to the list. A number of another block is a bug. */
void state_params(struct param_list *to, const struct param_row *rows, size_t n);
/* All rows of a kind of block in a layer. */
struct param_list block_params(
    const struct block_kind *k, const struct model_config *c, int64_t layer);

/* "act" is the run's dtype, "real" F32 or F64 (memory_compute); "stream" is one of them, the type
 * of the residual stream and its gradient (memory_residual); "grads" that of main gradients;
 * "update" that of GEMMs that update matrices (memory_update). F8: of inputs and weights, F8_GRAD:
 * of gradients of outputs. STATE: of the first state of the update rule; the others follow. */
enum element {
	ACT,
	COMPUTE,
	RESIDUAL,
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

/* The rows of the buffers that a block, or the rank, has under their conditions. */
enum { BUFFER_ROWS_MAX = 128 };
struct buffer_list {
	struct buffer_row row[BUFFER_ROWS_MAX];
	int count, block;
};
/* Adds the rows whose condition holds. A number of another block is a bug. */
void state_buffers(struct buffer_list *to, const struct buffer_row *rows, size_t n);

#endif
