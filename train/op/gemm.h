/* gemm.h - products of matrices, and how numbers of 8 bits are scaled in them */
#ifndef TRAIN_OP_GEMM_H
#define TRAIN_OP_GEMM_H

#include "train/op/call.h"

/*
 * c = alpha * op(a) op(b) + beta * c; op(a) [m,k], op(b) [k,n], c [m,n], row-major, row strides
 * free. a, b act, or a real: the gradient of a router's logits; c act or real (main gradients
 * accumulate with beta 1 without a 16-bit round trip).
 *
 * The epilogue, in this order; a tensor without data is none:
 *   bias   act [n], added to every row
 *   aux    act [m,n], dense: GEMM_GELU keeps the value before the activation there, GEMM_GELU_GRAD
 *          reads it
 *   act    c = gelu_tanh(aux), or c = op(a) op(b) * gelu_tanh'(aux); only with beta 0
 *   dbias  real [m]: beta * dbias + the sums of op(a) over k (the bias gradient beside a weight
 *          gradient); beta 0 or 1
 *
 * a and b may both be F8_E4M3 or F8_E5M2, not both F8_E5M2: then a is stored [m,k] and b [n,k]
 * (trans_a false, trans_b true: dense along k, all that Hopper multiplies), beta is 0, or 1 where c
 * is F32, act GEMM_LINEAR and dbias none.
 */
enum gemm_act { GEMM_LINEAR, GEMM_GELU, GEMM_GELU_GRAD };
struct gemm {
	struct tensor c, a, b;
	bool trans_a, trans_b; /* the array is stored transposed: a is [k,m], b is [n,k] */
	double alpha, beta;
	struct tensor bias, aux, dbias;
	enum gemm_act act;
	/* What the stored 8-bit numbers have to be multiplied by: F32 [1], or of blocks as
	 * scale_kind tells, then of both and not squares twice; or none */
	struct tensor scale_a, scale_b;
	/* Sums of a GEMM of 8 bits are promoted to F32 as they grow (gradients); false: they may be
	 * held in the fewer bits of fast accumulation (forward). The CPU sums in F32 anyway. */
	bool exact;
};

/* How a tensor [r,k] of 8 bits that is summed along k is scaled, by the shape of its scales, which
 * are F32 and dense: a number for all of it; for each 128 neighbours of a row, [ceil(k / 128), r];
 * or for each 128 x 128 elements, [ceil(r / 128), ceil(k / 128) and on to a multiple of 4]. So
 * cuBLASLt reads them. r and k are multiples of 16, by which the shapes differ. */
enum scale_kind { SCALE_TENSOR, SCALE_LINES, SCALE_SQUARES };
enum { SCALE_BLOCK = 128 };
static inline enum scale_kind
scale_kind(const struct tensor *scale, const struct tensor *t)
{
	int64_t lines = (t->shape[1] + SCALE_BLOCK - 1) / SCALE_BLOCK;

	if (!scale->data || scale->ndim != 2)
		return SCALE_TENSOR;
	if (scale->shape[0] == lines && scale->shape[1] == t->shape[0])
		return SCALE_LINES;
	ops_require(scale->shape[0] == (t->shape[0] + SCALE_BLOCK - 1) / SCALE_BLOCK &&
	    scale->shape[1] == (lines + 3) / 4 * 4);
	return SCALE_SQUARES;
}

/* Where a factor and its inverse stand in a row of numbers, the rest of which is not used: cuBLASLt
 * (13.0) refuses to multiply by one that is not on a multiple of 16 bytes. */
enum { SCALE_INVERSE, SCALE_FACTOR, SCALE_ROW = 4 };

static inline const char *
gemm_name(const struct gemm *g)
{
	bool eight = dtype_is_float8(g->a.dtype),
	     weight = eight ? g->exact && g->c.dtype == DTYPE_F32 : g->trans_a,
	     forward = eight ? !g->exact : g->trans_b;

	return weight ? "gemm weight gradient" : forward ? "gemm forward" : "gemm input gradient";
}

static inline void
describe_gemm(struct op_call *c, const struct gemm *g)
{
	int64_t k = g->trans_a ? g->a.shape[0] : g->a.shape[1];

	c->name = gemm_name(g);
	c->flops = 2 * (double)tensor_elements(&g->c) * (double)k;
	op_reads(c, &g->a);
	op_reads(c, &g->b);
	if (g->beta != 0)
		op_reads(c, &g->c);
	op_writes(c, "c", &g->c);
	op_writes(c, "dbias", &g->dbias);
	if (g->act == GEMM_GELU)
		op_writes(c, "aux", &g->aux);
	else
		op_reads(c, &g->aux);
}

#endif

#ifdef OPERATION
OPERATION(gemm, gemm)
#endif
