/*
 * optim.c - update rules of the optimizers on flat ranges. Source: docs/math.md 4.2
 *
 * All arrays are dense. Arithmetic is in real; the weight is rounded from the new master value, so
 * rounding errors do not pile up. Moments in BF16 are rounded stochastically: an average that moves
 * by less than half a unit in the last place, as exp_avg_sq does in nearly every step, would never
 * move otherwise. Constants are computed in double and rounded once.
 */
#include "lib/base/rng.h"
#include "train/cpu/real.h"

/* The random words of a span; neighbours share blocks of four. */
static void
draw_words(const struct draws *d, const struct span *s, uint32_t *word)
{
	uint32_t block[4];
	uint64_t have = UINT64_MAX;

	for (int64_t i = 0; i < s->count; i++) {
		uint64_t number = draws_number(d, s->first + i), b = number / 4;

		if (b != have)
			rng_philox(d->key,
			    (uint32_t[]){ (uint32_t)b, (uint32_t)(b >> 32), d->stream, d->step },
			    block);
		have = b;
		word[i] = block[number % 4];
	}
}

/* Writes a moment back if span_load converted it: rounds by 16 bits of each word from `shift` on.
 */
static void
store_moment(
    const struct tensor *t, const struct span *s, const real *x, const uint32_t *word, int shift)
{
	uint16_t *out = span_address(t, s);

	if (t->dtype == REAL_DTYPE)
		return;
	for (int64_t i = 0; i < s->count; i++)
		out[i] = dtype_bf16_stochastic((float)x[i], (uint16_t)(word[i] >> shift));
}

/* A master: in place, or joined into buf from a BF16 weight and its low bits. */
static real *
load_master(
    const struct tensor *master, const struct tensor *low_bits, const struct span *s, real *buf)
{
	const uint16_t *high = span_address(master, s), *low = span_address(low_bits, s);

	if (!low_bits->data)
		return span_address(master, s);
	for (int64_t i = 0; i < s->count; i++)
		buf[i] = (real)dtype_f32_from_parts(high[i], low[i]);
	return buf;
}

static void
store_master(
    const struct tensor *master, const struct tensor *low_bits, const struct span *s, const real *w)
{
	uint16_t *low = span_address(low_bits, s);

	for (int64_t i = 0; low_bits->data && i < s->count; i++)
		low[i] = dtype_low_bits_from_f32((float)w[i]);
	span_store(master, s, w);
}

static void
split_span(const void *ctx, const struct span *s)
{
	const struct halves *a = ctx;

	store_master(&a->master, &a->low_bits, s, span_address(&a->x, s));
}

void
cpu_name(split)(struct stream *st, const struct halves *a)
{
	ops_require(a->master.dtype == DTYPE_BF16 && a->low_bits.dtype == DTYPE_U16 &&
	    a->x.dtype == REAL_DTYPE);
	ops_require(tensor_same_shape(&a->master, &a->x) && tensor_same_shape(&a->low_bits, &a->x));
	cpu_spans(st, &a->x, split_span, a);
}

static bool
is_real_or_bf16(const struct tensor *t)
{
	return t->dtype == REAL_DTYPE || t->dtype == DTYPE_BF16;
}

/* Decoupled decay is added to the step, L2 to the gradient. L2 is 0 with decoupled decay and the
 * other way round, so one formula does for both. */
static void
adamw_span(const void *ctx, const struct span *s)
{
	const struct adamw *a = ctx;
	real w_buf[CPU_SPAN], m_buf[CPU_SPAN], v_buf[CPU_SPAN],
	    *w = load_master(&a->master, &a->low_bits, s, w_buf),
	    *m = span_load(&a->exp_avg, s, m_buf), *v = span_load(&a->exp_avg_sq, s, v_buf);
	real grad_buf[CPU_SPAN];
	uint32_t word[CPU_SPAN];
	const real *grad = span_load(&a->grad, s, grad_buf);
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
	if (m == m_buf || v == v_buf)
		draw_words(&a->draws, s, word);
	store_moment(&a->exp_avg, s, m, word, 0);
	store_moment(&a->exp_avg_sq, s, v, word, 16);
	store_master(&a->master, &a->low_bits, s, w);
	if (a->weight.data)
		dtype_convert(
		    span_address(&a->weight, s), a->weight.dtype, w, REAL_DTYPE, s->count);
}

/* In place on [n] each; each element is independent of the others. */
void
cpu_name(adamw)(struct stream *st, const struct adamw *a)
{
	ops_require(a->low_bits.data ? a->master.dtype == DTYPE_BF16 && !a->weight.data
				     : a->master.dtype == REAL_DTYPE);
	ops_require(is_real_or_bf16(&a->grad));
	ops_require(is_real_or_bf16(&a->exp_avg) && is_real_or_bf16(&a->exp_avg_sq) &&
	    tensor_same_shape(&a->master, &a->grad));
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

static void
average_span(const void *ctx, const struct span *s)
{
	const struct average *a = ctx;
	real buf[CPU_SPAN], *average = span_address(&a->average, s);
	const real *master = load_master(&a->master, &a->low_bits, s, buf);
	const real share = (real)a->share;

	for (int64_t i = 0; i < s->count; i++)
		average[i] += (master[i] - average[i]) * share;
}

/* A share of 1 makes an average of 0 the master itself. */
void
cpu_name(average)(struct stream *st, const struct average *a)
{
	ops_require(a->average.dtype == REAL_DTYPE && tensor_same_shape(&a->average, &a->master));
	ops_require(a->master.dtype == (a->low_bits.data ? DTYPE_BF16 : REAL_DTYPE));
	cpu_spans(st, &a->average, average_span, a);
}

static void
balance_span(const void *ctx, const struct span *s)
{
	const struct balance *b = ctx;
	real x_buf[CPU_SPAN], load_buf[CPU_SPAN],
	    mean = (real)b->mean, *x = load_master(&b->master, &b->low_bits, s, x_buf);
	const real *load = span_load(&b->load, s, load_buf);

	for (int64_t i = 0; i < s->count; i++)
		x[i] += (real)b->rate * (real)((load[i] < mean) - (load[i] > mean));
	store_master(&b->master, &b->low_bits, s, x);
	if (b->weight.data)
		dtype_convert(
		    span_address(&b->weight, s), b->weight.dtype, x, REAL_DTYPE, s->count);
}

void
cpu_name(balance)(struct stream *st, const struct balance *b)
{
	ops_require(b->master.dtype == (b->low_bits.data ? DTYPE_BF16 : REAL_DTYPE));
	ops_require(is_real_or_bf16(&b->load) && tensor_same_shape(&b->load, &b->master));
	cpu_spans(st, &b->master, balance_span, b);
}

static void
shrink_span(const void *ctx, const struct span *s)
{
	const struct shrink *a = ctx;
	real buf[CPU_SPAN], *x = load_master(&a->master, &a->low_bits, s, buf);

	for (int64_t i = 0; i < s->count; i++)
		x[i] *= (real)a->factor;
	store_master(&a->master, &a->low_bits, s, x);
	if (a->weight.data)
		dtype_convert(
		    span_address(&a->weight, s), a->weight.dtype, x, REAL_DTYPE, s->count);
}

void
cpu_name(shrink)(struct stream *st, const struct shrink *a)
{
	ops_require(a->master.dtype == (a->low_bits.data ? DTYPE_BF16 : REAL_DTYPE));
	cpu_spans(st, &a->master, shrink_span, a);
}
