/*
 * linear.h - the two linears of tensor parallelism
 */
#ifndef TRAIN_LAYERS_LINEAR_H
#define TRAIN_LAYERS_LINEAR_H

#include "train/layers/linear_operands.h"

/* All T rows of a tensor of which this rank holds R; x itself where those are all. They last until
 * the next gather_rows, and rows of them until partial sums are written there. */
struct tensor gather_rows(struct step *s, const struct tensor *x);
/* Where the partial sums [T,w] of y [R,w] are to be written, the same place; and y = the own rows
 * of their sum over the tensor ranks. */
struct tensor partial_sums(struct step *s, const struct tensor *y);
void scatter_sums(struct step *s, const struct tensor *y);
/* Which of the T rows is the first of the R. */
int64_t first_row(const struct step *s);

/* The GEMMs of a rank alone, of any rows: y = x W^T + bias; dx = dy W; dweight = dy^T x, of all
 * rows, and dbias = column sums of dy, added to those of earlier micro batches. weight_gradient
 * comes after the input GEMMs of the same dy. */
void forward_gemm(struct step *s, const struct linear *l);
void input_gradient(struct step *s, const struct linear_grad *g);
void weight_gradient(struct step *s, const struct linear_grad *g);
/* The gradient of some rows of the weight, of 16 bits. */
void weight_gradient_of(
    struct step *s, const struct linear_grad *g, const struct position_range *rows);

/* Whether linears of the pass are one operation with the norm before them and what comes after
 * (train/op/linear_step.h): of few rows and the only tensor rank, in 16 bits or more, with RMSNorm.
 * Each norm is taken where it is read then. */
bool linears_join(const struct step *s);
/* Such a linear, l->x being what p->norm is of, if it is set; p has what is joined to it. */
void linear_step(struct step *s, const struct linear *l, const struct linear_step *p);

/* Column parallel: y [T,out/t] = x W^T + bias with x [R,in]; W [out/t,in]. */
void column_forward(struct step *s, const struct linear *l);
/* dx [R,in], summed over tensor ranks; g->x becomes whole, for weight_gradient. begin comes before
 * it, when x is there and nothing more is to be read of gather_rows, and end after it: only then is
 * dx there. Tensor ranks may gather the rows of x beside what is queued between begin and the call,
 * and sum beside what is queued between the call and end. */
void column_backward_begin(struct step *s, struct linear_grad *g);
void column_backward(struct step *s, struct linear_grad *g);
void column_backward_end(struct step *s);
/* Row parallel: y [R,out] = x [T,in/t] W^T, summed over tensor ranks, + bias; W [out,in/t], the
 * bias whole on every rank. */
void row_forward(struct step *s, const struct linear *l);
/* dx [T,in/t]; g->dy [R,out] becomes [T,out] for weight_gradient, which is next: x may be
 * recomputed in between. With rows_overlap dy lasts until the next call; begin may then come
 * before it, with the rows that will be its dy, to gather them beside what is queued between. */
void row_backward_begin(struct step *s, const struct tensor *dy);
void row_backward(struct step *s, struct linear_grad *g);
/* Whether tensor ranks share the rows and exchange them beside GEMMs. */
bool rows_overlap(const struct step *s);

#endif
