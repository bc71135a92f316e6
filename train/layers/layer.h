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

/* --- layer.c ---------------------------------------------------------------------------------- */

/* A buffer of the layer's block in this step; a number of another block is a bug. */
struct tensor layer_buffer(const struct layer *l, const struct step *s, int number);

/* --- linear.c: the two linears of tensor parallelism ------------------------------------------ */

/* All T rows of a tensor of which this rank holds R; x itself where those are all. They last until
 * the next gather_rows, and rows of them until partial sums are written there. */
struct tensor gather_rows(struct step *s, const struct tensor *x);
/* Where the partial sums [T,h] of y [R,h] are to be written, the same place; and y = the own rows
 * of their sum over the tensor ranks. */
struct tensor partial_sums(struct step *s, const struct tensor *y);
void scatter_sums(struct step *s, const struct tensor *y);
/* Which of the T rows is the first of the R. */
int64_t first_row(const struct step *s);

/* With fp8, x and dy may be in 8 bits: copies that the operations which made them have made
 * (fp8_input and so on). pre.data set: the tanh GELU is applied to the output in the epilogue, and
 * pre keeps its input. */
struct linear {
	struct tensor y, x, weight, bias, pre; /* bias.data NULL: none */
	const struct fp8_gemm *fp8;            /* NULL: GEMMs read 16 bits */
};
/* pre.data set: dx continues back through the tanh GELU that made x from pre. */
struct linear_grad {
	struct tensor dx, dy, x, weight, dweight, dbias, pre; /* dbias.data NULL: none */
	const struct fp8_gemm *fp8;
	int64_t first_row; /* of the T, that of dy */
};
/* The GEMMs of a rank alone, of any rows: y = x W^T + bias; dx = dy W; dweight = dy^T x, of all
 * rows, and dbias = column sums of dy, added to those of earlier micro batches. weight_gradient
 * comes after the input GEMMs of the same dy. */
void forward_gemm(struct step *s, const struct linear *l);
void input_gradient(struct step *s, const struct linear_grad *g);
void weight_gradient(struct step *s, const struct linear_grad *g);
/* The gradient of some rows of the weight, of 16 bits. */
void weight_gradient_of(
    struct step *s, const struct linear_grad *g, const struct position_range *rows);

/* The copies of an operand of rows x columns, for what makes it or for quantise: of the input, for
 * the forward GEMM; of the same transposed, for the weight's gradient; of the output's gradient
 * both ways, for both gradients. They last until the GEMMs that read them: of other linears'
 * inputs none may be made meanwhile, nor of other outputs' gradients, but of fc1's while fc2's
 * weight has none yet. */
struct quantise fp8_input(struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
struct quantise fp8_input_transposed(
    struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
struct quantise fp8_output_gradient(
    struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
/* GEMMs of 8-bit operands (fp8.c), which linear.c calls where l->fp8 is set. */
void fp8_forward(struct step *s, const struct linear *l);
void fp8_input_gradient(struct step *s, const struct linear_grad *l);
void fp8_weight_gradient(struct step *s, const struct linear_grad *l);
/* A GEMM of experts with their weights, of 8-bit copies of its rows and of those that p has in
 * place of its b. */
void fp8_grouped(struct step *s, const struct fp8_gemm *p, const struct grouped *gemm);

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

/* --- norm.c: LayerNorm or RMSNorm of a block's input and of its branch ------------------------ */

/* Computes the norm of the layer's input x into its buffer, or in 8 bits for the linear that is
 * next. */
void norm_take(const struct layer *l, struct step *s, const struct tensor *x);
/* The same, unless the layer before has done so. Returns the buffer; where the norm is made in 8
 * bits and has none, the copy that the linear reads. */
struct tensor norm_forward(const struct layer *l, struct step *s, const struct tensor *x);
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

/* --- attention.c ------------------------------------------------------------------------------ */

/* The largest scores of the micro batch, by head, join those in the layer's row of BUF_SCORES;
 * after the forward pass, while its slot is held. */
void attention_measure(const struct layer *l, struct step *s);

/* --- residual.c: the end of a block ----------------------------------------------------------- */

/* Of R rows at the layer's site. */
struct dropout layer_dropout(
    const struct layer *l, const struct step *s, enum dropout_site site, double p);
/* y = x + dropout(branch + bias), and the norm of y when the next layer starts with one */
void residual_forward(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x);
/* The gradient of what a dropout adds to the stream, in act, from that of the stream: dx itself, or
 * BUF_DBRANCH where it is dropped or rounded. */
struct tensor dropout_backward(struct step *s, const struct tensor *dx, const struct dropout *drop);
/* Gradient of the branch, likewise. */
struct tensor residual_backward(const struct layer *l, struct step *s, const struct tensor *dx);
/* The destination of the bias's gradient, the column sums of that of the branch over all T rows;
 * none if it is computed already, or without a bias. */
struct tensor residual_dbias(const struct layer *l, struct step *s);
/* The destination of the column sums of the gradient that layer l leaves in dx, which are the
 * gradient of the bias before it; or none. */
struct tensor residual_sums(const struct layer *l, struct step *s);

#endif
