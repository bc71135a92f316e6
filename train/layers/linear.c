/*
 * linear.c - column and row parallel linear layers
 *
 * Source: Shoeybi 2019 arXiv:1909.08053. Without sequence parallelism the input of a column layer
 * and the output of a row layer are whole on every tensor rank: the sums over ranks are
 * all-reduces.
 */
#include "train/layers/layer.h"

/* c = alpha 1, beta given, op(a) op(b). All three products of a layer go through here; sums are
 * in F32 or wider whatever the storage. */
static void
product(struct step *s, const struct tensor *c, const struct tensor *a, const struct tensor *b,
    unsigned how)
{
	struct gemm g = { *c, *a, *b, (how & 1) != 0, (how & 2) != 0, 1.0, how & 4 ? 1.0 : 0.0 };

	s->e->ops->gemm(s->e->stream, &g);
}

enum { TRANS_A = 1, TRANS_B = 2, ADD = 4 };

/* Queued on the compute stream: the next operation needs the sum, so there is nothing to
 * overlap. */
static void
sum_over_tensor_ranks(struct step *s, const struct tensor *x)
{
	struct comm *tp = s->e->groups.tp;

	if (tp->size > 1)
		tp->ops->all_reduce(tp, s->e->stream, x, REDUCE_SUM);
}

/* y [T, out/t] = x [T, in] weight^T + bias. x is whole on every rank, y is this rank's columns:
 * no communication. */
void
column_forward(struct step *s, const struct tensor *y, const struct tensor *x,
    const struct tensor *weight, const struct tensor *bias)
{
	product(s, y, x, weight, TRANS_B);
	if (bias->data)
		s->e->ops->bias_add(s->e->stream, y, bias);
}

/* The parameters' gradients are the same for both kinds. Added to main gradients in their own
 * precision, over all micro batches of the step. */
static void
weight_backward(struct step *s, const struct linear_grad *g)
{
	product(s, &g->dweight, &g->dy, &g->x, TRANS_A | ADD);
	if (g->dbias.data)
		s->e->ops->column_sum(s->e->stream, &g->dbias, &g->dy);
}

/* Every rank's columns contribute to the whole dx, hence the sum over the tensor group. */
void
column_backward(struct step *s, const struct linear_grad *g)
{
	product(s, &g->dx, &g->dy, &g->weight, 0);
	sum_over_tensor_ranks(s, &g->dx);
	weight_backward(s, g);
}

/* y [T, out] is the sum of the ranks' partial products of x [T, in/t]. No bias: it would be
 * added once a rank. */
void
row_forward(
    struct step *s, const struct tensor *y, const struct tensor *x, const struct tensor *weight)
{
	product(s, y, x, weight, TRANS_B);
	sum_over_tensor_ranks(s, y);
}

/* dy is whole on every rank and dx is this rank's columns: no communication. */
void
row_backward(struct step *s, const struct linear_grad *g)
{
	product(s, &g->dx, &g->dy, &g->weight, 0);
	weight_backward(s, g);
}
