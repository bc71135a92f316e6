/*
 * block.h - the blocks of a model: what each holds and does, and which a rank has
 *
 * A kind is a const struct at the end of its file, lib/model/block/NAME.c, which alone says what
 * its tensors, its buffers and its operations are. Adding one: that file, and its lines in block.c.
 * The memory plan, the engine and mplan walk one list of a stage's blocks.
 */
#ifndef MODEL_BLOCK_BLOCK_H
#define MODEL_BLOCK_BLOCK_H

#include "lib/model/block/buffers.h"
#include "lib/model/block/roles.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

struct param_row;
struct buffer_row;
struct work;

/* The LayerNorm or RMSNorm at the start of a block: its parameters, its statistics, where its
 * output goes. */
struct block_norm {
	enum role weight, bias;
	enum buffer mean, rstd, out;
};

/* The residual sum at the end of a block. */
struct block_residual {
	enum role bias; /* of the linear that its branch ends with */
};

struct block_kind {
	const char *name;
	const struct param_row *params;        /* in model order; rows.h */
	const struct buffer_row *buffers;      /* where a rank has such a block */
	enum buffer input;                     /* where its input lies */
	const struct block_norm *norm;         /* of its input; NULL: none */
	const struct block_residual *residual; /* NULL: none */
	/* what it does with a micro batch, work.h; dim as in rows of buffers, of a tensor rank */
	void (*work)(struct work *w, const struct model_config *c, const int64_t *dim);
};

extern const struct block_kind block_embedding, block_attention, block_mlp, block_head;
/* Every kind that there is, ended by NULL. */
extern const struct block_kind *const block_kinds[];

/* The blocks of a layer in the order of the forward pass, ended by NULL; the layer as in struct
 * param: -1 what is before the layers, num_layers what is after them. */
const struct block_kind *const *block_recipe(const struct model_config *c, int64_t layer);

/* Layers [0, layers) of a stage are recomputed by the backward pass, `chunk` at a time. */
struct recompute_span {
	int64_t layers, chunk;
};
struct recompute_span block_recompute(const struct recompute *r, int64_t num_layers);

/* A block of a stage. */
struct block {
	const struct block_kind *kind;
	int layer;           /* of the model, as in struct param */
	int local;           /* the same from the stage's first; 0 before and after the layers */
	int recompute_chunk; /* its number among the chunks that the stage recomputes; -1: it keeps
				everything */
	/* the block before it takes its norm, in the pass over its residual sum */
	bool norm_taken;
	/* the norm of the block after it takes the gradient of its residual's bias, whose columns
	 * are at hand there */
	bool bias_taken;
};

/* The blocks of pipeline stage pp in the order of the forward pass, freed by the caller; returns
 * the count. */
int block_list(const struct model_config *c, const struct layout *l, const struct recompute *r,
    int pp, struct block **out);

#endif
