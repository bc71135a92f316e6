/*
 * layer.h - a layer of the stage: what it does to the residual stream
 *
 * A kind is a const struct at the end of its file. Its parameters and saved bytes are rows of
 * lib/model (params.c, memory.c), where mplan sees them. x, y and dx are act [T,h].
 */
#ifndef TRAIN_LAYERS_LAYER_H
#define TRAIN_LAYERS_LAYER_H

#include "train/engine.h"

struct layer_kind {
	const char *name;
	/* y from x; x stays where it is for the backward pass. */
	void (*forward)(
	    const struct layer *, struct step *, const struct tensor *y, const struct tensor *x);
	/* dx holds the gradient of y and becomes that of x; gradients of the parameters are added
	 * to. */
	void (*backward)(
	    const struct layer *, struct step *, const struct tensor *dx, const struct tensor *x);
};

struct layer {
	const struct layer_kind *kind;
	int index;                      /* layer number in the model, as in struct param */
	int local;                      /* the same from the stage's first layer */
	enum buffer input;              /* where its input lies; output: the next layer's input, or the stage's */
};

extern const struct layer_kind layer_embedding, layer_attention, layer_mlp, layer_head;

/* --- linear.c: the two linears of tensor parallelism ------------------------------------------ */

/* y [T,out/t] = x [T,in] W^T + bias; W [out/t,in]. Column parallel: x is whole on every tensor
 * rank. */
void column_forward(struct step *s, const struct tensor *y, const struct tensor *x,
    const struct tensor *weight, const struct tensor *bias);
struct linear_grad {
	struct tensor dx, dy, x, weight, dweight, dbias;        /* dbias.data NULL: none */
};
/* dx [T,in] = sum over tensor ranks of dy W; dweight += dy^T x; dbias += column sums. */
void column_backward(struct step *s, const struct linear_grad *g);
/* y [T,out] = sum over tensor ranks of x [T,in/t] W^T; W [out,in/t]. The bias is the residual sum's
 * matter. */
void row_forward(
    struct step *s, const struct tensor *y, const struct tensor *x, const struct tensor *weight);
/* dx [T,in/t] = dy W; dweight += dy^T x; dbias += column sums (the same on every tensor rank). */
void row_backward(struct step *s, const struct linear_grad *g);

/* --- norm.c: LayerNorm or RMSNorm before a block ---------------------------------------------- */

struct norm_place {
	enum role weight, bias;
	enum buffer mean, rstd;
};
void norm_forward(const struct layer *l, struct step *s, const struct norm_place *p,
    const struct tensor *y, const struct tensor *x);
/* dx += gradient through the norm. */
struct norm_flow {
	struct tensor dx, dy, x;
};
void norm_backward(
    const struct layer *l, struct step *s, const struct norm_place *p, const struct norm_flow *f);

/* --- residual.c: the end of a block ----------------------------------------------------------- */

/* Which dropout of a layer: part of the counter's stream. */
enum dropout_site { SITE_EMBEDDING, SITE_ATTENTION, SITE_ATTENTION_OUT, SITE_MLP_OUT, SITE_COUNT };

struct dropout layer_dropout(
    const struct layer *l, const struct step *s, enum dropout_site site, double p);
/* y = x + dropout(branch + bias) */
void residual_forward(const struct layer *l, struct step *s, enum dropout_site site, enum role bias,
    const struct tensor *y, const struct tensor *x);
/* Gradient of the branch: dx itself without dropout, else BUF_DBRANCH. */
struct tensor residual_backward(
    const struct layer *l, struct step *s, enum dropout_site site, const struct tensor *dx);

#endif
