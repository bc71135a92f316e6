/*
 * layer.h - a layer of the stage: what a block does to the residual stream
 *
 * A kind is a const struct at the end of its file. Its parameters and buffers, and where the layer
 * stands, are the block's (lib/model/block), where mplan sees them. x, y and dx are stream [R,h]:
 * R is T, or with sequence parallelism T/t, the tensor rank's own rows. Rows are positions first,
 * so these are one stretch of the T.
 */
#ifndef TRAIN_LAYERS_LAYER_H
#define TRAIN_LAYERS_LAYER_H

#include "lib/model/block/block.h"
#include "train/engine/engine.h"
#include "train/engine/fp8.h"
#include "train/uses.h"

/* A layer's dropouts, which are part of the random stream's number. */
enum dropout_site { SITE_EMBEDDING, SITE_ATTENTION, SITE_ATTENTION_OUT, SITE_MLP_OUT, SITE_COUNT };

struct layer_kind {
	const struct block_kind *block;
	enum dropout_site site; /* of the dropout before the residual sum; SITE_COUNT: none */
	/* y from x; x is kept for the backward pass. y without data: only what the backward pass
	 * needs is computed. With block.norm_taken the norm of x is already computed. */
	void (*forward)(
	    const struct layer *, struct step *, const struct tensor *y, const struct tensor *x);
	/* dx holds the gradient of y and becomes that of x; gradients of the parameters are added
	 * to. With block.bias_taken that of the residual's bias is already computed. */
	void (*backward)(
	    const struct layer *, struct step *, const struct tensor *dx, const struct tensor *x);
	enum fp8_linear reads; /* which reads the norm of the input, where one does in 8 bits */
	const enum use *uses;  /* what it calls (train/uses.h) */
};

struct layer {
	const struct layer_kind *kind;
	const struct block *block;
	/* The layer after this one, if its norm is taken with this one's residual sum; the layer
	 * before, if this one's norm takes the gradient of its bias; else NULL. */
	const struct layer *norm_after, *bias_before;
};

#define LAYER_DECLARED(name) extern const struct layer_kind layer_##name;
BLOCKS(LAYER_DECLARED)
#undef LAYER_DECLARED

/* What gated activations of the model take in place of their inputs. */
static inline struct act_gate
layer_gate(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;

	return (struct act_gate){ c->activation_func_clamp_value, c->glu_linear_offset };
}

/* A buffer of the layer's block in this step; a number of another block is a bug. */
struct tensor layer_buffer(const struct layer *l, const struct step *s, int number);

#endif
