/* lion.c - an update by the sign of a momentum: Chen et al. 2023 arXiv:2302.06675, algorithm 2 */
#include "train/cpu/real.h"

static void
lion_span(const void *ctx, const struct span *s)
{
	const struct lion *a = ctx;
	real grad_buf[CPU_SPAN], *w = span_address(&a->master, s), *m = span_address(&a->m, s);
	const real *grad = span_load(&a->grad, s, grad_buf);
	const real beta1 = (real)a->beta1, rest1 = (real)(1 - a->beta1), beta2 = (real)a->beta2,
		   rest2 = (real)(1 - a->beta2), lr = (real)a->lr;
	const real decay = (real)a->weight_decay, scale = (real)a->grad_scale;

	for (int64_t i = 0; i < s->count; i++) {
		real g = grad[i] * scale, c = beta1 * m[i] + rest1 * g;

		w[i] -= lr * ((real)((c > 0) - (c < 0)) + decay * w[i]);
		m[i] = beta2 * m[i] + rest2 * g;
	}
	if (a->weight.data)
		dtype_convert(
		    span_address(&a->weight, s), a->weight.dtype, w, REAL_DTYPE, s->count);
}

void
cpu_name(lion)(struct stream *st, const struct lion *a)
{
	ops_require(a->master.dtype == REAL_DTYPE && a->m.dtype == REAL_DTYPE);
	ops_require(
	    tensor_same_shape(&a->m, &a->master) && tensor_same_shape(&a->grad, &a->master));
	cpu_spans(st, &a->master, lion_span, a);
}
