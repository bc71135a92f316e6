/*
 * norm.h - LayerNorm or RMSNorm of a block's input and of its branch
 */
#ifndef TRAIN_LAYERS_NORM_H
#define TRAIN_LAYERS_NORM_H

#include "train/layers/layer.h"

/* Computes the norm of the layer's input x into its buffer, or in 8 bits for the linear that is
 * next. */
void norm_take(const struct layer *l, struct step *s, const struct tensor *x);
/* The same, unless the layer before has done so. Returns the buffer; where the norm is made in 8
 * bits and has none, the copy that the linear reads. */
struct tensor norm_forward(const struct layer *l, struct step *s, const struct tensor *x);
/* The norm for a linear that takes it by itself, in a pass whose linears_join; none without one. x
 * becomes what it is of, or what is read. */
struct norm norm_joined(const struct layer *l, struct step *s, struct tensor *x);
/* The output of the norm in the backward pass: as saved, or recomputed; in 8 bits, recomputed for
 * the forward GEMM or, transposed, for the weight's gradient. In 16 bits it is the same for
 * both, and need not be asked for twice. */
enum norm_use { NORM_FORWARD, NORM_WEIGHT };
struct tensor norm_recompute(
    const struct layer *l, struct step *s, const struct tensor *x, enum norm_use use);
/* The arguments of that norm, for callers that compute x and its norm in one pass. */
struct norm norm_of(const struct layer *l, struct step *s, const struct tensor *x);
/* dx += gradient through the norm; and the gradient of the bias before it, where residual_sums has
 * that place. */
struct norm_flow {
	struct tensor dx, dy, x;
};
void norm_backward(const struct layer *l, struct step *s, const struct norm_flow *f);
/* Where the branch [R,h] is to be written; its norm, if it has one, into BUF_BRANCH; and from the
 * gradient of BUF_BRANCH, in act, that of the branch: dy itself, or BUF_DPOST. */
struct tensor norm_branch(const struct layer *l, struct step *s);
void norm_branch_forward(const struct layer *l, struct step *s);
struct tensor norm_branch_backward(const struct layer *l, struct step *s, const struct tensor *dy);

#endif
