/*
 * linear.c - column and row parallel linear layers
 *
 * Source: Shoeybi 2019 arXiv:1909.08053. Without sequence parallelism the input of a column layer
 * and the output of a row layer are whole on every tensor rank: the sums over ranks are
 * all-reduces. Biases and the tanh GELU ride on the products, which backends can do without
 * another pass over memory.
 */
#include "train/engine/timing.h"
#include "train/layers/layer.h"

/* Queued on the compute stream: the next operation needs the sum, so there is nothing to
 * overlap. */
static void
sum_over_tensor_ranks(struct step *s, const struct tensor *x)
{
	struct comm *tp = s->e->groups.tp;

	if (tp->size == 1)
		return;
	timing_begin(s->e, SPAN_TENSOR);
	tp->ops->all_reduce(COMM_HERE(tp), s->e->stream, x, REDUCE_SUM);
	timing_end(s->e, SPAN_TENSOR);
}

/* y = x W^T with what rides on it. Sums are in F32 or wider whatever the storage. */
static void
forward_product(struct step *s, const struct linear *l)
{
	struct gemm g = { .c = l->y,
		.a = l->x,
		.b = l->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU : GEMM_LINEAR };

	s->e->ops->gemm(s->e->stream, &g);
}

/* dx = dy W, taken on through the activation where one is fused. */
static void
input_product(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dx,
		.a = l->dy,
		.b = l->weight,
		.alpha = 1,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU_GRAD : GEMM_LINEAR };

	s->e->ops->gemm(s->e->stream, &g);
}

/* The first micro batch of a step writes main gradients, the others add to them in their own
 * precision: nothing has to be cleared. */
void
weight_backward(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dweight,
		.a = l->dy,
		.b = l->x,
		.trans_a = true,
		.alpha = 1,
		.beta = s->accumulate ? 1 : 0,
		.dbias = l->dbias };

	s->e->ops->gemm(s->e->stream, &g);
}

/* No communication: x is whole on every rank, y is this rank's columns. */
void
column_forward(struct step *s, const struct linear *l)
{
	forward_product(s, l);
}

/* Every rank's columns contribute to the whole dx, hence the sum over the tensor group. */
void
column_backward(struct step *s, const struct linear_grad *g)
{
	input_product(s, g);
	sum_over_tensor_ranks(s, &g->dx);
}

/* The bias is in the first rank's part of the sum, so that it comes in once and before anything is
 * rounded to 16 bits. Added after that, to the sum of two such values, it would count far too much
 * when it is small: their sum is often a tie between two others, and the least addend decides it by
 * half a unit. */
void
row_forward(struct step *s, const struct linear *l)
{
	struct linear part = *l;

	if (s->e->coord[AX_TP] > 0)
		part.bias = (struct tensor){ .data = NULL };
	forward_product(s, &part);
	sum_over_tensor_ranks(s, &l->y);
}

/* dy is whole on every rank and dx is this rank's columns: no communication. */
void
row_backward(struct step *s, const struct linear_grad *g)
{
	input_product(s, g);
}
