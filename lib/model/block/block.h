/*
 * block.h - the blocks of a model: what each holds and computes, and which a rank has
 *
 * A kind is a const struct at the end of its file, lib/model/block/NAME.c, the one place that
 * states its tensors, buffers and operations. To add one, write that file and add its line to
 * list.h. The memory plan, the engine and mplan walk one list of a stage's blocks.
 */
#ifndef MODEL_BLOCK_BLOCK_H
#define MODEL_BLOCK_BLOCK_H

#include "lib/model/block/buffers.h"
#include "lib/model/block/list.h"
#include "lib/model/fp8.h"

struct buffer_list;
struct linear_list;
struct param_list;
struct sizes;
struct work;

/* A LayerNorm or RMSNorm of a block: its parameters, its statistics, its input and output. */
struct block_norm {
	int weight, bias; /* parameters; the others are buffers */
	int mean, rstd, in, out;
};

/* The residual sum at the end of a block. */
struct block_residual {
	int bias; /* of the linear at the end of its branch */
};

struct block_kind {
	const char *name;
	/* whether a layer has one: -1 stands before the layers, num_layers after them, as in struct
	 * param (model_end) */
	bool (*in)(const struct model_config *c, int64_t layer);
	/* states the parameters, in model order (rows.h) */
	void (*params)(struct param_list *to, const struct model_config *c);
	/* states the buffers of a rank that has such blocks (rows.h); or NULL */
	void (*buffers)(struct buffer_list *to, const struct sizes *z);
	int input; /* the buffer of its input */
	/* of its input, and of its branch before the residual sum, in models with such; or NULL */
	const struct block_norm *norm, *post;
	const struct block_residual *residual; /* NULL: none */
	/* its work per micro batch on a tensor rank (work.h) */
	void (*work)(struct work *w, const struct sizes *z);
	/* states those of its linears that may read 8-bit operands (linears.h); or NULL */
	void (*linears)(struct linear_list *to, const struct sizes *z);
};

/* All kinds in the order of the list, ended by NULL; at most as many as an unsigned has bits. */
extern const struct block_kind *const block_kinds[];
/* The number of a kind, enum block_number: its place among them from 1 on. */
int block_number(const struct block_kind *k);
/* The name of the kind of that number; "rank" for BLOCK_rank. */
const char *block_name(int number);

/* The blocks of a layer in the order of the forward pass, ended by NULL: the first, and the one
 * after k. */
const struct block_kind *const *block_first(const struct model_config *c, int64_t layer);
const struct block_kind *const *block_next(
    const struct block_kind *const *k, const struct model_config *c, int64_t layer);

/* Whether any layer, or an end of the model, has one. */
bool block_in_model(const struct block_kind *k, const struct model_config *c);

/* Layers [0, layers) of a stage's chunk are recomputed by the backward pass, `chunk` at a time. */
struct recompute_span {
	int64_t layers, chunk;
};
struct recompute_span block_recompute(const struct recompute *r, int64_t num_layers);

/* A block of a stage. */
struct block {
	const struct block_kind *kind;
	int layer; /* of the model, as in struct param */
	int chunk; /* of the stage's layers */
	/* the layer counted from the chunk's first, 0 before the layers; of layers after the head
	 * from the most layers of a chunk of the stage on; of heads their number */
	int local;
	/* its number among the stretches of its chunk that are recomputed; -1: it keeps everything
	 */
	int recompute_chunk;
	/* the number of its layer's unit among those of its chunk whose saved activations leave the
	 * device (activation_offload.h); -1: they stay. Set by memory_plan */
	int activation_offload;
	const struct block_norm *norm, *post; /* those of its kind that the model has; or NULL */
	/* whose weights its norm has: its own, or that of the layer's first block */
	const struct block_norm *weights;
	/* what it reads, or the norm of its input; parallel: its layer's input, as the layer's
	 * other block, so that one residual sum has both branches */
	int reads;
	bool parallel;
	/* the block before it computes its norm, in the same pass as its residual sum */
	bool norm_taken;
	/* the norm of the block after it computes the gradient of its residual's bias, since it has
	 * the columns at hand, in the type of the branch */
	bool bias_taken;
	/* the gradient that it leaves is what the last linear of the block before it reads */
	bool passes;
	/* its number among the blocks of its kind of the stage; and that of its layer among those
	 * whose linears read 8-bit operands, -1: it does not */
	int of_kind, fp8;
};

/* The blocks of a kind that pipeline stage pp has in its layers, over all its chunks. */
int64_t block_count(
    const struct block_kind *k, const struct model_config *c, const struct layout *l, int pp);

/* Whether the gradient of a branch is not that of the residual stream, but dropped or rounded. */
bool branch_has_own_gradient(const struct model_config *c, const struct train_shape *s);

/* The blocks of pipeline stage pp in the order of the forward pass, freed by the caller; returns
 * the count. */
int block_list(const struct model_config *c, const struct layout *l, const struct train_shape *s,
    int pp, struct block **out);

/* Whether block i of a list of n is the last of those that are recomputed together, whose output
 * exists already. */
bool block_recompute_ends(const struct block *b, int n, int i);

/* Whether it is of a layer, and not before or after them. */
bool block_in_layer(const struct block *b, const struct model_config *c);

/* Blocks [first, end) of a list of n are those of a chunk. */
struct block_range {
	int first, end;
};
struct block_range block_chunk(const struct block *b, int n, int chunk);

#endif
