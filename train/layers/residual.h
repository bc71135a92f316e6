/*
 * residual.h - dropout and the residual sum at the end of a block
 */
#ifndef TRAIN_LAYERS_RESIDUAL_H
#define TRAIN_LAYERS_RESIDUAL_H

#include "train/layers/layer.h"
#include "train/layers/linear_operands.h"

/* Of R rows at the layer's site. */
struct dropout layer_dropout(
    const struct layer *l, const struct step *s, enum dropout_site site, double p);
/* y = x + dropout(branch + bias), and the norm of y when the next layer starts with one */
void residual_forward(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x);
/* The last linear of a branch, row parallel to norm_branch(), and then that. */
void branch_forward(const struct layer *l, struct step *s, const struct linear *last,
    const struct tensor *y, const struct tensor *x);
/* The gradient of what a dropout adds to the stream, in act, from that of the stream: dx itself, or
 * BUF_DBRANCH where it is dropped or rounded. */
struct tensor dropout_backward(struct step *s, const struct tensor *dx, const struct dropout *drop);
/* Gradient of the branch, likewise. */
struct tensor residual_backward(const struct layer *l, struct step *s, const struct tensor *dx);
/* The destination of the bias's gradient, the column sums of that of the branch over all T rows;
 * none if it is computed already, or without a bias. */
struct tensor residual_dbias(const struct layer *l, struct step *s);

#endif
