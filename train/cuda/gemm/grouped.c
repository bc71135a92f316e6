/*
 * grouped.c - GEMMs of experts
 */
#include "train/cuda/gemm/grouped.h"

/* Shapes and types; the numbers of rows are only known to the device. */
static void
check_shapes(const struct grouped *g)
{
	bool weight = g->kind == GROUPED_WEIGHT;
	const struct tensor *stack = weight ? &g->c : &g->b, *other = weight ? &g->b : &g->c;
	int64_t experts = g->counts.shape[1], m = stack->shape[0] / experts, n = stack->shape[1];

	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2);
	ops_require(experts > 0 && experts <= GROUPED_EXPERTS && stack->shape[0] == experts * m);
	ops_require(g->a.ndim == 2 && g->b.ndim == 2 && g->c.ndim == 2);
	ops_require(g->a.shape[0] == other->shape[0] && g->a.shape[0] <= INT32_MAX / 2);
	ops_require(stack->shape[0] <= INT32_MAX / 2 && n <= INT32_MAX / 2);
	ops_require(g->a.shape[1] == (g->kind == GROUPED_FORWARD ? n : m));
	ops_require(other->shape[1] == (g->kind == GROUPED_FORWARD ? m : n));
	ops_require(g->b.dtype == g->a.dtype);
	ops_require(g->c.dtype == g->a.dtype || (weight && g->c.dtype == DTYPE_F32));
	ops_require(g->beta == 0 || (weight && g->beta == 1));
}

void
cuda_grouped(struct stream *st, const struct grouped *g)
{
	check_shapes(g);
	if (tensor_elements(&g->c) == 0)
		return;
	grouped_plain(st, g);
	cu_launched(st, "grouped");
}
