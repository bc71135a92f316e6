/*
 * block.h - the blocks of a model: what each holds
 *
 * A kind is a const struct at the end of its file, lib/model/block/NAME.c, which alone says what
 * its tensors and its buffers are. Adding one: that file, and its lines in block.c.
 */
#ifndef MODEL_BLOCK_BLOCK_H
#define MODEL_BLOCK_BLOCK_H

#include "lib/model/memory.h"

struct param_row;
struct buffer_row;

struct block_kind {
	const char *name;
	const struct param_row *params;   /* in model order; rows.h */
	const struct buffer_row *buffers; /* where a rank has such a block */
};

extern const struct block_kind block_embedding, block_attention, block_mlp, block_head;
/* Every kind that there is, ended by NULL. */
extern const struct block_kind *const block_kinds[];

/* The blocks of a layer in the order of the forward pass, ended by NULL; the layer as in struct
 * param: -1 what is before the layers, num_layers what is after them. */
const struct block_kind *const *block_recipe(const struct model_config *c, int64_t layer);

#endif
