/* norm.h - norms of rows, or of the heads in them */
#ifndef TRAIN_OP_NORM_H
#define TRAIN_OP_NORM_H

#include "train/op/quantise.h"

/* LayerNorm when mean.data is set, else RMSNorm. y = (x - mean) rstd w + bias, where there is a
 * bias, with w = weight + shift. A row holds norm_heads() heads of d elements side by side, each
 * normed by itself with the same weight; a row that is normed as a whole has one, and d = h. Head i
 * of row r has its statistics at r * heads + i.
 * Source: Ba 2016 arXiv:1607.06450; Zhang & Sennrich 2019 arXiv:1910.07467; eps is added to the
 * mean square. */
struct norm {
	struct tensor y;            /* act [T, heads*d] */
	struct tensor x;            /* stream or act [T, heads*d] */
	struct tensor weight, bias; /* act [d] */
	struct tensor mean, rstd;   /* real [T*heads], written; mean.data NULL for RMSNorm */
	double eps, shift;
	struct quantise copies; /* of y, with one head */
	/* mean and rstd hold already what an earlier call has written for this x */
	bool has_stats;
};
struct norm_grad {
	struct tensor dx;         /* as x: added to (the residual stream's gradient), or
				   * written with writes_dx */
	struct tensor x;          /* stream or act [T, heads*d] */
	struct tensor dy;         /* act [T, heads*d] */
	struct tensor weight;     /* act [d] */
	struct tensor mean, rstd; /* real [T*heads]; mean.data NULL for RMSNorm */
	/* real [d]: added to, or written without accumulate; dbias.data NULL without a bias. Sums
	 * over rows and heads: on the CPU over the rows of a head, and one head after another */
	struct tensor dweight, dbias;
	struct tensor dx_sum; /* real [h], likewise: column sums of dx as it is stored, on the CPU
			       * in the order of gemm's dbias; with one head, or none */
	bool accumulate, writes_dx;
	double shift;
};

/* The heads in a row of x, by the length of the weight. */
static inline int64_t
norm_heads(const struct tensor *x, const struct tensor *weight)
{
	ops_require(x->ndim == 2 && weight->shape[0] > 0 && x->shape[1] % weight->shape[0] == 0);
	return x->shape[1] / weight->shape[0];
}

static inline void
describe_norm_fwd(struct op_call *c, const struct norm *n)
{
	op_reads(c, &n->x);
	op_writes(c, "y", &n->y);
	op_writes_copies(c, &n->copies);
	op_writes(c, "mean", &n->mean);
	op_writes(c, "rstd", &n->rstd);
}

static inline void
describe_norm_bwd(struct op_call *c, const struct norm_grad *n)
{
	op_reads(c, &n->dy);
	op_reads(c, &n->x);
	if (!n->writes_dx)
		op_reads(c, &n->dx);
	op_writes(c, "dx", &n->dx);
	op_writes(c, "dweight", &n->dweight);
	op_writes(c, "dbias", &n->dbias);
	op_writes(c, "dx_sum", &n->dx_sum);
}

#endif

#ifdef OPERATION
OPERATION(norm_fwd, norm)
OPERATION(norm_bwd, norm_grad)
#endif
