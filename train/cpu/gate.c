/* gate.c - rows times the sigmoid of a number of each. Source: docs/math.md 5.2 */
#include "train/cpu/real.h"

static void
check(const struct tensor *x, const struct tensor *z)
{
	ops_require(x->ndim == 2 && z->ndim == 2 && z->shape[0] == x->shape[0] &&
	    z->shape[1] == 1 && z->dtype == REAL_DTYPE);
}

static real
sigmoid(const struct tensor *z, int64_t row)
{
	return 1 / (1 + real_math(exp)(-*real_at(z, row)));
}

static void
forward(const void *ctx, const struct span *s)
{
	const struct gate *g = ctx;
	real x_buf[CPU_SPAN], y_buf[CPU_SPAN], *y = span_out(&g->y, s, y_buf),
					       factor = sigmoid(&g->z, s->row);
	const real *x = span_load(&g->x, s, x_buf);

	for (int64_t i = 0; i < s->count; i++)
		y[i] = factor * x[i];
	span_store(&g->y, s, y);
}

void
cpu_name(gate)(struct stream *st, const struct gate *g)
{
	check(&g->x, &g->z);
	ops_require(tensor_same_shape(&g->y, &g->x));
	cpu_spans(st, &g->y, forward, g);
}

/* Returns the sum of dy x over the span. */
static real
backward_span(const struct gate_grad *g, const struct span *s, real factor)
{
	real x_buf[CPU_SPAN], dy_buf[CPU_SPAN], dx_buf[CPU_SPAN], *dx = span_out(&g->dx, s, dx_buf);
	const real *x = span_load(&g->x, s, x_buf), *dy = span_load(&g->dy, s, dy_buf);

	for (int64_t i = 0; i < s->count; i++)
		dx[i] = factor * dy[i];
	span_store(&g->dx, s, dx);
	return row_dot(dy, x, s->count);
}

/* Some rows, the spans of each in order. */
static void
backward_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct gate_grad *g = ctx;
	int64_t h = g->dy.shape[1], per_item = cpu_rows_per_item(h),
		end = int64_min(g->dy.shape[0], (item + 1) * per_item);

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++) {
		real factor = sigmoid(&g->z, row), sum = 0;

		for (int64_t first = 0; first < h; first += CPU_SPAN) {
			struct span s = { row, first, int64_min(CPU_SPAN, h - first) };

			sum += backward_span(g, &s, factor);
		}
		*real_at(&g->dz, row) = factor * (1 - factor) * sum;
	}
}

void
cpu_name(gate_grad)(struct stream *st, const struct gate_grad *g)
{
	check(&g->x, &g->z);
	check(&g->dy, &g->dz);
	ops_require(tensor_same_shape(&g->dy, &g->x) && tensor_same_shape(&g->dx, &g->x));
	cpu_for(
	    st, int64_div_up(g->dy.shape[0], cpu_rows_per_item(g->dy.shape[1])), backward_rows, g);
}
