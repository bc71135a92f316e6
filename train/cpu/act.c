/*
 * act.c - activation functions, and those that gate one half of a row by the other
 *
 * Source: docs/math.md 2.6; Hendrycks & Gimpel 2016 arXiv:1606.08415, Shazeer 2020
 * arXiv:2002.05202.
 */
#include "train/cpu/real.h"

/* A function of one variable by rows. */
struct curve {
	void (*value)(real *y, const real *x, int64_t n);
	void (*slope)(real *dy, const real *x, int64_t n); /* dy *= f'(x) */
	bool gated;                                        /* y = f(gate) * up */
};

/* One call's arguments, for the functions of a span. Tensors that a pass does not use are NULL:
 * rows without a weight count as they are. dweight is added to. */
struct act_call {
	const struct curve *curve;
	struct act_gate gate;
	const struct tensor *y, *dx, *dy, *x, *weight, *dweight;
};

/* 2u of GELU's tanh form: 0.5 (1 + tanh u) is the logistic function of 2u. */
static inline real
gelu_inner(real x)
{
	return (real)1.5957691216057308 * (x + (real)0.044715 * x * x * x);
}

/* y = x / (1 + e^-2u), which is 0.5 x (1 + tanh u). */
void
cpu_name(gelu_tanh)(real *y, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * real_sigmoid(gelu_inner(x[i]));
}

/* With p the logistic factor: p + x p' ; p' = p (1 - p) d(2u)/dx. */
void
cpu_name(gelu_tanh_slope)(real *dy, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real p = real_sigmoid(gelu_inner(x[i])),
		     du = (real)1.5957691216057308 * (1 + 3 * (real)0.044715 * x[i] * x[i]);

		dy[i] *= p + x[i] * p * (1 - p) * du;
	}
}

/* y = x Phi(x); erfc keeps the digits of the left tail. */
static void
gelu_erf(real *y, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * (real)0.5 * real_math(erfc)(-x[i] * (real)0.70710678118654752);
}

/* Phi(x) + x phi(x). */
static void
gelu_erf_slope(real *dy, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real cdf = (real)0.5 * real_math(erfc)(-x[i] * (real)0.70710678118654752);

		dy[i] *=
		    cdf + x[i] * (real)0.39894228040143268 * real_exp((real)-0.5 * x[i] * x[i]);
	}
}

/* max(x, 0)^2; a NaN stays one. */
static void
relu2(real *y, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] < 0 ? 0 : x[i] * x[i];
}

/* 2 max(x, 0). */
static void
relu2_slope(real *dy, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dy[i] *= x[i] < 0 ? 0 : 2 * x[i];
}

/* x times its logistic function. */
static void
silu(real *y, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * real_sigmoid(x[i]);
}

/* p (1 + x (1 - p)). */
static void
silu_slope(real *dy, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real p = real_sigmoid(x[i]);

		dy[i] *= p * (1 + x[i] * (1 - p));
	}
}

/* x times p, the logistic function of 1.702 x. */
static void
quick_gelu(real *y, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * real_sigmoid((real)1.702 * x[i]);
}

/* p (1 + 1.702 x (1 - p)). */
static void
quick_gelu_slope(real *dy, const real *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real p = real_sigmoid((real)1.702 * x[i]);

		dy[i] *= p * (1 + (real)1.702 * x[i] * (1 - p));
	}
}

/* By enum act_kind; a new kind is a row here and a case in cuda/act.cu. */
static const struct curve curves[ACT_KINDS] = {
	[ACT_GELU_TANH] = { cpu_name(gelu_tanh), cpu_name(gelu_tanh_slope), false },
	[ACT_GELU_ERF] = { gelu_erf, gelu_erf_slope, false },
	[ACT_RELU2] = { relu2, relu2_slope, false },
	[ACT_SWIGLU] = { silu, silu_slope, true },
	[ACT_GEGLU_TANH] = { cpu_name(gelu_tanh), cpu_name(gelu_tanh_slope), true },
	[ACT_QUICK_GEGLU] = { quick_gelu, quick_gelu_slope, true },
};

/* The span of the second half of a row of 2f columns. */
static struct span
up_span(const struct tensor *x, const struct span *s)
{
	return (struct span){ s->row, s->first + tensor_num_columns(x) / 2, s->count };
}

/* By whose weight a row is multiplied. */
static real
weight_of(const struct act_call *c, int64_t row)
{
	return c->weight ? *real_at(c->weight, row) : 1;
}

/* x *= w; most rows have no weight, and times 1 is as it was. */
static void
scale(real *x, int64_t n, real w)
{
	for (int64_t i = 0; i < n && w != 1; i++)
		x[i] *= w;
}

/* Gate and up of a span, bounded, and up with its offset. A NaN stays one. */
static void
load_gate(const struct act_call *c, const struct span *s, real *gate, real *up)
{
	struct span us = up_span(c->x, s);
	real bound = (real)c->gate.clamp, offset = (real)c->gate.offset;

	memmove(gate, span_load(c->x, s, gate), (size_t)s->count * sizeof *gate);
	memmove(up, span_load(c->x, &us, up), (size_t)s->count * sizeof *up);
	for (int64_t i = 0; bound > 0 && i < s->count; i++) {
		gate[i] = gate[i] > bound ? bound : gate[i];
		up[i] = up[i] > bound ? bound : up[i] < -bound ? -bound : up[i];
	}
	for (int64_t i = 0; offset != 0 && i < s->count; i++)
		up[i] += offset;
}

/* No gradient passes a bound; gate and up as load_gate leaves them. */
static void
bound_gradients(
    const struct act_call *c, int64_t n, const real *gate, const real *up, real *dgate, real *dup)
{
	real bound = (real)c->gate.clamp, offset = (real)c->gate.offset;

	for (int64_t i = 0; bound > 0 && i < n; i++) {
		if (gate[i] >= bound)
			dgate[i] = 0;
		if (up[i] >= bound + offset || up[i] <= offset - bound)
			dup[i] = 0;
	}
}

/* y = f(x), or f(gate) up. The value goes through a buffer of its own, since y may be x. */
static void
forward(const void *ctx, const struct span *s)
{
	const struct act_call *c = ctx;
	real x[CPU_SPAN], y_buf[CPU_SPAN], up[CPU_SPAN], value[CPU_SPAN];
	real *y = span_out(c->y, s, y_buf);

	if (c->curve->gated)
		load_gate(c, s, x, up);
	c->curve->value(value, c->curve->gated ? x : span_load(c->x, s, x), s->count);
	for (int64_t i = 0; c->curve->gated && i < s->count; i++)
		value[i] *= up[i];
	scale(value, s->count, weight_of(c, s->row));
	memcpy(y, value, (size_t)s->count * sizeof *y);
	span_store(c->y, s, y);
}

/* Rounds a span from real to where it belongs. */
static void
put_span(const struct tensor *t, const struct span *s, const real *from)
{
	dtype_convert(span_address(t, s), t->dtype, from, REAL_DTYPE, s->count);
}

/* What becomes of a span's value and gradient before its curve is differentiated: the gradient of
 * the weight gets dy . y, and both are multiplied by the weight. y is stored, if asked for. */
static void
weigh(const struct act_call *c, const struct span *s, real *y, real *dy)
{
	real w = weight_of(c, s->row);

	if (c->dweight)
		*real_at(c->dweight, s->row) += row_dot(dy, y, s->count);
	scale(dy, s->count, w);
	if (!c->y)
		return;
	scale(y, s->count, w);
	put_span(c->y, s, y);
}

/* dgate = dy up f'(gate), dup = dy f(gate). Reads everything before it writes: dx may be x, and y
 * may be dy. */
static void
backward_gated(const void *ctx, const struct span *s)
{
	const struct act_call *c = ctx;
	real dy_buf[CPU_SPAN], gate[CPU_SPAN], up[CPU_SPAN];
	real y[CPU_SPAN], dy[CPU_SPAN], dgate[CPU_SPAN], dup[CPU_SPAN];
	struct span us = up_span(c->x, s);

	load_gate(c, s, gate, up);
	memcpy(dy, span_load(c->dy, s, dy_buf), (size_t)s->count * sizeof *dy);
	c->curve->value(dup, gate, s->count);
	for (int64_t i = 0; i < s->count; i++)
		y[i] = dup[i] * up[i];
	weigh(c, s, y, dy);
	for (int64_t i = 0; i < s->count; i++) {
		dgate[i] = dy[i] * up[i];
		dup[i] *= dy[i];
	}
	c->curve->slope(dgate, gate, s->count);
	bound_gradients(c, s->count, gate, up, dgate, dup);
	put_span(c->dx, s, dgate);
	put_span(c->dx, &us, dup);
}

/* dx = dy f'(x), with reads before writes as well. */
static void
backward_plain(const void *ctx, const struct span *s)
{
	const struct act_call *c = ctx;
	real dy_buf[CPU_SPAN], x_buf[CPU_SPAN], y[CPU_SPAN], dx[CPU_SPAN];
	const real *x = span_load(c->x, s, x_buf);

	memcpy(dx, span_load(c->dy, s, dy_buf), (size_t)s->count * sizeof *dx);
	if (c->y)
		c->curve->value(y, x, s->count);
	weigh(c, s, y, dx);
	c->curve->slope(dx, x, s->count);
	put_span(c->dx, s, dx);
}

/* A gated kind has two columns of x for one of y. */
static void
check(const struct curve *curve, const struct tensor *y, const struct tensor *x)
{
	ops_require(tensor_num_rows(x) == tensor_num_rows(y) &&
	    tensor_num_columns(x) == tensor_num_columns(y) * (curve->gated ? 2 : 1));
}

static void
check_weight(const struct tensor *w, const struct tensor *y)
{
	ops_require(w->dtype == REAL_DTYPE && w->shape[0] == y->shape[0] && w->shape[1] == 1);
}

/* The shape and type of act(x). */
static struct tensor
value_of(const struct curve *curve, const struct tensor *x)
{
	struct tensor y = *x;

	if (curve->gated)
		y = tensor_2d(NULL, x->dtype, x->shape[0], x->shape[1] / 2);
	return y;
}

/* y [rows, f], x [rows, f] or [rows, 2 f] with the gate's half first; any floating types,
 * computed in real. y may not be x of a gated kind. */
void
cpu_name(act_fwd)(struct stream *st, const struct act *a)
{
	struct act_call c = { .curve = &curves[a->kind], .gate = a->gate, .x = &a->x };
	struct tensor like = value_of(c.curve, &a->x), y;
	struct result r = { &a->y, &like, &a->copies };

	y = cpu_name(result_begin)(&r);
	c.y = &y;
	check(c.curve, &y, &a->x);
	cpu_spans(st, &y, forward, &c);
	cpu_name(result_end)(st, &r, &y);
}

/* Written, not added to. dx may not be dy of a gated kind, whose rows are half as long. */
void
cpu_name(act_bwd)(struct stream *st, const struct act_grad *a)
{
	struct result dx = { &a->dx, &a->x, &a->dx_copies }, y = { &a->y, &a->dy, &a->y_copies };
	struct tensor dx_at = cpu_name(result_begin)(&dx), y_at = cpu_name(result_begin)(&y);
	struct act_call c = { .curve = &curves[a->kind],
		.gate = a->gate,
		.dx = &dx_at,
		.dy = &a->dy,
		.x = &a->x,
		.y = y_at.data ? &y_at : NULL };

	check(c.curve, &a->dy, &a->x);
	ops_require(tensor_same_shape(&dx_at, &a->x));
	ops_require(!c.y || tensor_same_shape(&y_at, &a->dy));
	cpu_spans(st, &a->dy, c.curve->gated ? backward_gated : backward_plain, &c);
	cpu_name(result_end)(st, &dx, &dx_at);
	cpu_name(result_end)(st, &y, &y_at);
}

/* --- rounds of the rows of experts ----------------------------------------------------------- */

void
cpu_name(expert_act)(struct stream *st, const struct expert_act *a)
{
	struct act_call c = {
		.curve = &curves[a->kind],
		.gate = a->gate,
		.y = &a->y,
		.x = &a->x,
		.weight = &a->weight,
	};
	struct tensor rows = tensor_rows(&a->y, 0, round_rows(&a->counts, a->first, a->y.shape[0]));

	check(c.curve, &a->y, &a->x);
	check_weight(&a->weight, &a->y);
	cpu_spans(st, &rows, forward, &c);
}

/* Rows of an item, and the spans of each in order: its weight's gradient is a sum over them. */
struct grad_rows {
	struct act_call call;
	int64_t rows;
};

static void
grad_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct grad_rows *g = ctx;
	const struct act_call *c = &g->call;
	int64_t f = c->dy->shape[1], per_item = cpu_rows_per_item(f),
		end = int64_min(g->rows, (item + 1) * per_item);

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++) {
		*real_at(c->dweight, row) = 0;
		for (int64_t first = 0; first < f; first += CPU_SPAN) {
			struct span s = { row, first, int64_min(CPU_SPAN, f - first) };

			(c->curve->gated ? backward_gated : backward_plain)(c, &s);
		}
	}
}

void
cpu_name(expert_act_grad)(struct stream *st, const struct expert_act_grad *a)
{
	struct grad_rows g = {
		.call = { .curve = &curves[a->kind],
		    .gate = a->gate,
		    .dx = &a->dx,
		    .dy = &a->dy,
		    .x = &a->x,
		    .y = &a->y,
		    .weight = &a->weight,
		    .dweight = &a->dweight },
		.rows = round_rows(&a->counts, a->first, a->dy.shape[0]),
	};

	check(g.call.curve, &a->dy, &a->x);
	ops_require(tensor_same_shape(&a->dx, &a->x) && tensor_same_shape(&a->y, &a->dy));
	check_weight(&a->weight, &a->dy);
	check_weight(&a->dweight, &a->dy);
	cpu_for(st, int64_div_up(g.rows, cpu_rows_per_item(a->dy.shape[1])), grad_rows, &g);
}
