/* glu.c - elements times a function of others. Source: docs/math.md 2.12 */
#include "train/cpu/real.h"

static void
forward(const void *ctx, const struct span *s)
{
	const struct glu *g = ctx;
	real x_buf[CPU_SPAN], z_buf[CPU_SPAN], y_buf[CPU_SPAN], *y = span_out(&g->y, s, y_buf);
	const real *x = span_load(&g->x, s, x_buf), *z = span_load(&g->z, s, z_buf);

	for (int64_t i = 0; i < s->count; i++)
		y[i] = x[i] * (g->silu ? z[i] : 1) * real_sigmoid(z[i]);
	span_store(&g->y, s, y);
}

void
cpu_name(glu)(struct stream *st, const struct glu *g)
{
	ops_require(tensor_same_shape(&g->y, &g->x) && tensor_same_shape(&g->z, &g->x));
	cpu_spans(st, &g->y, forward, g);
}

/* Of f: p (1 - p), or with silu p (1 + z (1 - p)). Each element is read before it is written. */
static void
backward(const void *ctx, const struct span *s)
{
	const struct glu_grad *g = ctx;
	real x_buf[CPU_SPAN], z_buf[CPU_SPAN], dy_buf[CPU_SPAN], dx_buf[CPU_SPAN], dz_buf[CPU_SPAN];
	real *dx = span_out(&g->dx, s, dx_buf), *dz = span_out(&g->dz, s, dz_buf);
	const real *x = span_load(&g->x, s, x_buf), *z = span_load(&g->z, s, z_buf),
		   *dy = span_load(&g->dy, s, dy_buf);

	for (int64_t i = 0; i < s->count; i++) {
		real p = real_sigmoid(z[i]), d = dy[i],
		     slope = g->silu ? p * (1 + z[i] * (1 - p)) : p * (1 - p);

		dz[i] = d * x[i] * slope;
		dx[i] = d * (g->silu ? z[i] : 1) * p;
	}
	span_store(&g->dz, s, dz);
	span_store(&g->dx, s, dx);
}

void
cpu_name(glu_grad)(struct stream *st, const struct glu_grad *g)
{
	ops_require(tensor_same_shape(&g->dx, &g->x) && tensor_same_shape(&g->dz, &g->x) &&
	    tensor_same_shape(&g->dy, &g->x) && tensor_same_shape(&g->z, &g->x));
	cpu_spans(st, &g->dx, backward, g);
}
