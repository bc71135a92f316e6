/* linear_step.h - a linear of a pass over one position of each sample, with what is around it */
#ifndef TRAIN_OP_LINEAR_STEP_H
#define TRAIN_OP_LINEAR_STEP_H

#include "train/op/act.h"
#include "train/op/dropout.h"
#include "train/op/gemm.h"

/*
 * y = act(p) where act.x has data, residual + p where residual has, else p; p = norm(x) weight^T +
 * bias, rounded as a linear layer's output is stored. Without a norm's weight x is multiplied as it
 * is. Forward only, of few rows m: a backend that has one kernel for it writes nothing but y. The
 * weight, the bias and what the norm multiplies by are read while earlier operations may still be
 * under way, so none of these makes them.
 */
struct linear_step {
	struct tensor y;        /* act [m,n]; with a residual stream [m,n] */
	struct tensor x;        /* act [m,k]; with a norm stream [m,k] */
	struct tensor weight;   /* act [n,k]; of a gated act [2n,k] */
	struct tensor bias;     /* act [rows of weight], or none */
	struct norm norm;       /* of x; y, mean and rstd: where they may be kept */
	struct act act;         /* of product, to y; without copies */
	struct tensor residual; /* stream [m,n], not y; or none */
	struct tensor product;  /* act [m, rows of weight]: where p may be kept; none if it is y */
};

/* Whether the shapes are those of one another. */
static inline bool
linear_step_fits(const struct linear_step *l)
{
	int64_t m = l->x.shape[0], k = l->x.shape[1], n = l->weight.shape[0];
	bool parts = l->act.x.data || l->residual.data;

	return l->y.ndim == 2 && l->x.ndim == 2 && l->weight.ndim == 2 && l->y.shape[0] == m &&
	    l->weight.shape[1] == k && (l->act.x.data || l->y.shape[1] == n) &&
	    (!l->bias.data || tensor_elements(&l->bias) == n) &&
	    parts == (l->product.data != NULL) &&
	    (!parts || (l->product.shape[0] == m && l->product.shape[1] == n)) &&
	    (!l->residual.data || (!l->act.x.data && tensor_same_shape(&l->residual, &l->y))) &&
	    (!l->act.x.data || (l->act.x.data == l->product.data && l->act.y.data == l->y.data)) &&
	    (!l->norm.weight.data ||
		(l->norm.x.data == l->x.data && l->norm.y.data &&
		    tensor_same_shape(&l->norm.y, &l->x) && tensor_elements(&l->norm.weight) == k));
}

static inline void
describe_linear_step(struct op_call *c, const struct linear_step *l)
{
	c->flops = 2 * (double)l->x.shape[0] * (double)tensor_elements(&l->weight);
	op_reads(c, &l->x);
	op_reads(c, &l->weight);
	op_reads(c, &l->residual);
	op_writes(c, "y", &l->y);
}

#endif

#ifdef OPERATION
OPERATION(linear_step, linear_step)
#endif
