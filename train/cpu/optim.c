/*
 * optim.c - update rules of the optimizers on flat ranges. Source: spec/training.md 4.2
 *
 * All of the state is in real precision and dense; the span is rounded to the weight's type from
 * the new master value, so rounding errors do not pile up. Constants are computed in double and
 * rounded once.
 */
#include "train/cpu/real.h"

/* Decoupled decay is added to the step, L2 to the gradient. L2 is 0 with decoupled decay and the
 * other way round, so one formula does for both. */
static void
adamw_span(const void *ctx, const struct span *s)
{
	const struct adamw *a = ctx;
	real *w = span_address(&a->master, s), *m = span_address(&a->exp_avg, s),
	     *v = span_address(&a->exp_avg_sq, s);
	const real *grad = span_address(&a->grad, s);
	const real beta1 = (real)a->beta1, rest1 = (real)(1 - a->beta1), beta2 = (real)a->beta2,
		   rest2 = (real)(1 - a->beta2);
	const real rate = (real)(a->lr / a->correction1), correction2 = (real)a->correction2,
		   eps = (real)a->eps;
	const real decay = (real)(a->decoupled ? a->lr * a->weight_decay : 0),
		   l2 = (real)(a->decoupled ? 0 : a->weight_decay);
	const real grad_scale = (real)a->grad_scale;

	for (int64_t i = 0; i < s->count; i++) {
		real g = grad[i] * grad_scale + l2 * w[i];

		m[i] = beta1 * m[i] + rest1 * g;
		v[i] = beta2 * v[i] + rest2 * g * g;
		w[i] -= rate * m[i] / (real_math(sqrt)(v[i] / correction2) + eps) + decay * w[i];
	}
	if (a->weight.data)
		dtype_convert(
		    span_address(&a->weight, s), a->weight.dtype, w, REAL_DTYPE, s->count);
}

/* In place on [n] each; each element is independent of the others. */
void
cpu_name(adamw)(struct stream *st, const struct adamw *a)
{
	ops_require(a->master.dtype == REAL_DTYPE && a->grad.dtype == REAL_DTYPE &&
	    a->exp_avg.dtype == REAL_DTYPE);
	ops_require(a->exp_avg_sq.dtype == REAL_DTYPE && tensor_same_shape(&a->master, &a->grad));
	cpu_spans(st, &a->master, adamw_span, a);
}

/* momentum = factor * momentum + g, w -= lr * momentum. Weight decay is always L2 here: it is
 * added to the gradient. */
static void
sgd_span(const void *ctx, const struct span *s)
{
	const struct sgd *a = ctx;
	real *w = span_address(&a->master, s), *m = span_address(&a->momentum, s);
	const real *grad = span_address(&a->grad, s);
	const real factor = (real)a->momentum_factor, decay = (real)a->weight_decay,
		   lr = (real)a->lr;
	const real grad_scale = (real)a->grad_scale;

	for (int64_t i = 0; i < s->count; i++) {
		m[i] = factor * m[i] + (grad[i] * grad_scale + decay * w[i]);
		w[i] -= lr * m[i];
	}
	if (a->weight.data)
		dtype_convert(
		    span_address(&a->weight, s), a->weight.dtype, w, REAL_DTYPE, s->count);
}

/* No dampening, no Nesterov. */
void
cpu_name(sgd)(struct stream *st, const struct sgd *a)
{
	ops_require(a->master.dtype == REAL_DTYPE && a->grad.dtype == REAL_DTYPE &&
	    a->momentum.dtype == REAL_DTYPE);
	ops_require(tensor_same_shape(&a->master, &a->grad));
	cpu_spans(st, &a->master, sgd_span, a);
}
