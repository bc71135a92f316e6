/* scale_columns.c - columns times a number each; sums over rows are of one column at a time */
#include "train/cpu/real.h"

static void
scale_span(const void *ctx, const struct span *s)
{
	const struct scale_columns *a = ctx;
	struct span factors = { 0, s->first, s->count };
	real x_buf[CPU_SPAN], g_buf[CPU_SPAN], y_buf[CPU_SPAN];
	const real *x = span_load(&a->x, s, x_buf), *g = span_load(&a->g, &factors, g_buf);
	real *y = span_out(&a->y, s, y_buf);

	for (int64_t i = 0; i < s->count; i++)
		y[i] = g[i] * x[i];
	span_store(&a->y, s, y);
}

static void
sum_column(const void *ctx, int64_t column, void *scratch)
{
	const struct scale_columns *a = ctx;

	(void)scratch;
	for (int64_t r = 0; r < a->x.shape[0]; r++) {
		struct span s = { r, column, 1 };
		real x, input;

		*real_at(&a->dg, column) +=
		    *span_load(&a->x, &s, &x) * *span_load(&a->input, &s, &input);
	}
}

/* The sums come first, since y may be x. */
void
cpu_name(scale_columns)(struct stream *st, const struct scale_columns *a)
{
	ops_require(a->x.ndim == 2 && tensor_same_shape(&a->y, &a->x) && a->g.ndim == 1 &&
	    a->g.shape[0] == a->x.shape[1]);
	ops_require(!a->dg.data ||
	    (tensor_same_shape(&a->input, &a->x) && tensor_same_shape(&a->dg, &a->g) &&
		a->dg.dtype == REAL_DTYPE));
	if (a->dg.data)
		cpu_for(st, a->x.shape[1], sum_column, a);
	cpu_spans(st, &a->y, scale_span, a);
}
