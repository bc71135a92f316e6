/*
 * delta_rule.c - linear attention by the gated delta rule, position after position
 *
 * An item is a key head with its heads of values, whose states lie side by side in the rows of one
 * matrix, sample after sample. The backward pass finds the states before each chunk of positions
 * first, and then, from the last chunk to the first, those before each position of one. Source:
 * docs/math.md 2.12.
 */
#include "train/cpu/real.h"

enum { VALUES_MAX = 64, WIDTH_MAX = 8192 }; /* of a key head: heads of values, their columns */
static const real epsilon = (real)1e-6;

/* A key head of a sample. */
struct head {
	const struct delta_rule *r;
	int64_t number, sample;
	int64_t d, e, values, width; /* values e is the width of a state's rows */
	real scale;
};

/* A position of it: q and k of length 1, and the factors of each head of values. */
struct token {
	real q[CPU_HEAD_MAX], k[CPU_HEAD_MAX], q_inverse, k_inverse;
	real *v, *rest; /* [width]; rest: v - M^T k, with M decayed */
	real beta[VALUES_MAX], rate[VALUES_MAX], shifted[VALUES_MAX], log_decay[VALUES_MAX],
	    decay[VALUES_MAX];
};

static struct head
head_of(const struct delta_rule *r, int64_t number)
{
	struct head h = { .r = r,
		.number = number,
		.d = r->k.shape[1] / r->num_key_heads,
		.e = r->v.shape[1] / r->num_value_heads,
		.values = r->num_value_heads / r->num_key_heads };

	h.width = h.values * h.e;
	h.scale = 1 / real_math(sqrt)((real)h.d);
	return h;
}

static int64_t
positions(const struct delta_rule *r)
{
	return r->q.shape[0] / r->micro_batch;
}

/* The columns of a position that belong to the head. */
static struct span
columns(const struct head *h, int64_t position, int64_t width)
{
	return (struct span){ position * h->r->micro_batch + h->sample, h->number * width, width };
}

static void
load(const struct head *h, const struct tensor *t, int64_t position, int64_t width, real *to)
{
	struct span s = columns(h, position, width);

	dtype_convert(to, REAL_DTYPE, span_address(t, &s), t->dtype, (size_t)width);
}

static void
store(
    const struct head *h, const struct tensor *t, int64_t position, int64_t width, const real *from)
{
	struct span s = columns(h, position, width);

	dtype_convert(span_address(t, &s), t->dtype, from, REAL_DTYPE, (size_t)width);
}

/* Elements of a vector that belong to the head's heads of values. */
static void
load_heads(const struct head *h, const struct tensor *t, real *to)
{
	struct span s = { 0, h->number * h->values, h->values };

	dtype_convert(to, REAL_DTYPE, (char *)t->data + (size_t)s.first * dtype_size(t->dtype),
	    t->dtype, (size_t)s.count);
}

/* Divides x by its length, whose inverse it returns. */
static real
normalise(real *x, int64_t n)
{
	real inverse = 1 / real_math(sqrt)(row_dot(x, x, n) + epsilon);

	for (int64_t i = 0; i < n; i++)
		x[i] *= inverse;
	return inverse;
}

static real
softplus(real x)
{
	return (x > 0 ? x : 0) + real_math(log1p)(real_math(exp)(-real_math(fabs)(x)));
}

static void
token_load(struct token *t, const struct head *h, int64_t position)
{
	const struct delta_rule *r = h->r;
	real log_rate[VALUES_MAX], bias[VALUES_MAX];

	load(h, &r->q, position, h->d, t->q);
	load(h, &r->k, position, h->d, t->k);
	load(h, &r->v, position, h->width, t->v);
	load(h, &r->beta, position, h->values, t->beta);
	load(h, &r->decay, position, h->values, t->shifted);
	load_heads(h, &r->decay_log, log_rate);
	load_heads(h, &r->decay_bias, bias);
	t->q_inverse = normalise(t->q, h->d);
	t->k_inverse = normalise(t->k, h->d);
	for (int64_t j = 0; j < h->values; j++) {
		t->beta[j] = 1 / (1 + real_math(exp)(-t->beta[j]));
		t->shifted[j] += bias[j];
		t->rate[j] = real_math(exp)(log_rate[j]);
		t->log_decay[j] = -t->rate[j] * softplus(t->shifted[j]);
		t->decay[j] = real_math(exp)(t->log_decay[j]);
	}
}

/* Whether a document begins at a position of the pass. */
static bool
begins(const struct head *h, int64_t position)
{
	const struct tensor *first = &h->r->first;
	int64_t at = first->data ? ((const int32_t *)first->data)[columns(h, position, 1).row] : 0;

	return at == position + cpu_position(&h->r->position);
}

/* m [d,width]: the columns of each head of values times a factor. */
static void
decay(const struct head *h, const real *factor, real *m)
{
	for (int64_t i = 0; i < h->d; i++)
		for (int64_t j = 0; j < h->values; j++, m += h->e)
			for (int64_t c = 0; c < h->e; c++)
				m[c] *= factor[j];
}

/* out [width] = x^T m. */
static void
product(const struct head *h, const real *x, const real *m, real *out)
{
	memset(out, 0, (size_t)h->width * sizeof *out);
	for (int64_t i = 0; i < h->d; i++, m += h->width)
		for (int64_t c = 0; c < h->width; c++)
			out[c] += x[i] * m[c];
}

/* m += x y^T. */
static void
add_outer(const struct head *h, const real *x, const real *y, real *m)
{
	for (int64_t i = 0; i < h->d; i++, m += h->width)
		for (int64_t c = 0; c < h->width; c++)
			m[c] += x[i] * y[c];
}

/* to [width] = factor of each head of values times from. */
static void
scale_heads(const struct head *h, const real *factor, const real *from, real *to)
{
	for (int64_t c = 0; c < h->width; c++)
		to[c] = factor[c / h->e] * from[c];
}

/* The state decays, and what of v it does not have yet remains. */
static void
approach(const struct head *h, struct token *t, real *m)
{
	decay(h, t->decay, m);
	product(h, t->k, m, t->rest);
	for (int64_t c = 0; c < h->width; c++)
		t->rest[c] = t->v[c] - t->rest[c];
}

/* From the state before a position to that after it. */
static void
advance(const struct head *h, struct token *t, real *m, real *written)
{
	approach(h, t, m);
	scale_heads(h, t->beta, t->rest, written);
	add_outer(h, t->k, written, m);
}

static void
clear(const struct head *h, real *m)
{
	memset(m, 0, (size_t)(h->d * h->width) * sizeof *m);
}

static real *
state_of(const struct head *h)
{
	const struct delta_rule *r = h->r;

	if (r->state.data)
		return real_at(
		    &r->state, (h->sample * r->num_key_heads + h->number) * h->d * h->width);
	return real_at(&r->work, h->number * h->d * h->width);
}

static void
forward_sample(const struct head *h, struct token *t, real *out)
{
	real *m = state_of(h);

	if (!h->r->state.data)
		clear(h, m);
	for (int64_t at = 0; at < positions(h->r); at++) {
		token_load(t, h, at);
		if (begins(h, at))
			clear(h, m);
		advance(h, t, m, out);
		product(h, t->q, m, out);
		for (int64_t c = 0; c < h->width; c++)
			out[c] *= h->scale;
		store(h, &h->r->out, at, h->width, out);
	}
}

static void
forward(const void *ctx, int64_t item, void *scratch)
{
	struct head h = head_of(ctx, item);
	real *place = scratch;
	struct token t = { .v = place, .rest = place + h.width };

	for (; h.sample < h.r->micro_batch; h.sample++)
		forward_sample(&h, &t, place + 2 * h.width);
}

static void
check(const struct delta_rule *r)
{
	struct head h;
	int64_t rows = r->q.shape[0];

	ops_require(r->micro_batch > 0 && rows % r->micro_batch == 0);
	ops_require(r->num_key_heads > 0 && r->num_value_heads % r->num_key_heads == 0 &&
	    r->k.shape[1] % r->num_key_heads == 0 && r->v.shape[1] % r->num_value_heads == 0);
	h = head_of(r, 0);
	ops_require(tensor_same_shape(&r->q, &r->k) && r->v.shape[0] == rows);
	ops_require(r->beta.shape[0] == rows && r->beta.shape[1] == r->num_value_heads &&
	    tensor_same_shape(&r->beta, &r->decay));
	ops_require(r->decay_log.shape[0] == r->num_value_heads &&
	    r->decay_bias.shape[0] == r->num_value_heads);
	ops_require(!r->first.data || r->first.dtype == DTYPE_I32);
	ops_require(h.d <= CPU_HEAD_MAX && h.values <= VALUES_MAX && h.width <= WIDTH_MAX);
	ops_require(r->work.data || r->state.data);
	ops_require(!r->state.data || r->state.dtype == REAL_DTYPE);
	ops_require(!r->work.data || r->work.dtype == REAL_DTYPE);
}

void
cpu_name(delta_rule)(struct stream *st, const struct delta_rule *r)
{
	check(r);
	ops_require(tensor_same_shape(&r->out, &r->v));
	cpu_for(st, r->num_key_heads, forward, r);
}

/* --- backward --------------------------------------------------------------------------------- */

/* What a key head has in the backward pass. */
struct back {
	struct head h;
	const struct delta_rule_grad *g;
	struct token t;
	real *written, *dout, *dwritten, *dread; /* [width] */
	/* the states before each chunk, and before each position of one; the gradient of a state */
	real *before, *within, *dm;
	real ddecay_log[VALUES_MAX], ddecay_bias[VALUES_MAX];
};

static real *
nth(const struct back *b, real *m, int64_t n)
{
	return m + n * b->h.d * b->h.width;
}

/* The states before each chunk of a sample. */
static void
find_states(struct back *b)
{
	real *m = b->within;

	clear(&b->h, m);
	for (int64_t at = 0; at < positions(b->h.r); at++) {
		if (at % b->g->chunk == 0)
			memcpy(nth(b, b->before, at / b->g->chunk), m,
			    (size_t)(b->h.d * b->h.width) * sizeof *m);
		token_load(&b->t, &b->h, at);
		if (begins(&b->h, at))
			clear(&b->h, m);
		advance(&b->h, &b->t, m, b->written);
	}
}

/* The states before each of its positions. */
static void
find_chunk(struct back *b, int64_t first, int64_t count)
{
	size_t bytes = (size_t)(b->h.d * b->h.width) * sizeof(real);

	memcpy(b->within, nth(b, b->before, first / b->g->chunk), bytes);
	for (int64_t i = 0; i < count; i++) {
		real *m = nth(b, b->within, i);

		if (begins(&b->h, first + i))
			clear(&b->h, m);
		if (i + 1 == count)
			break;
		memcpy(nth(b, b->within, i + 1), m, bytes);
		token_load(&b->t, &b->h, first + i);
		advance(&b->h, &b->t, nth(b, b->within, i + 1), b->written);
	}
}

/* The gradient of what was divided by its length, from that of the quotient x: dx is replaced. */
static void
normalise_grad(const real *x, real inverse, real *dx, int64_t n)
{
	real along = row_dot(x, dx, n);

	for (int64_t i = 0; i < n; i++)
		dx[i] = inverse * (dx[i] - x[i] * along);
}

/* Of q and k of length 1; dm, the gradient of the state after the position, becomes that of the
 * decayed one, m. dread is that of v, and less it that of M^T k. */
static void
read_grad(struct back *b, const real *m, real *dq, real *dk)
{
	const struct head *h = &b->h;
	struct token *t = &b->t;
	real reach = row_dot(b->written, b->dout, h->width);

	add_outer(h, t->q, b->dout, b->dm);
	product(h, t->k, b->dm, b->dwritten);
	scale_heads(h, t->beta, b->dwritten, b->dread);
	for (int64_t i = 0; i < h->d; i++) {
		const real *row = m + i * h->width;

		dq[i] = row_dot(row, b->dout, h->width) + t->k[i] * reach;
		dk[i] = row_dot(b->dm + i * h->width, b->written, h->width) -
		    row_dot(row, b->dread, h->width);
	}
	for (int64_t i = 0; i < h->d; i++)
		for (int64_t c = 0; c < h->width; c++)
			b->dm[i * h->width + c] -= t->k[i] * b->dread[c];
}

/* Of the decay's exponent, by heads of values; dm becomes the gradient of the state before. */
static void
decay_grad(struct back *b, const real *m, real *dlog_decay)
{
	const struct head *h = &b->h;

	memset(dlog_decay, 0, (size_t)h->values * sizeof *dlog_decay);
	for (int64_t i = 0; i < h->d; i++)
		for (int64_t j = 0; j < h->values; j++) {
			int64_t at = i * h->width + j * h->e;

			dlog_decay[j] += row_dot(b->dm + at, m + at, h->e);
		}
	decay(h, b->t.decay, b->dm);
}

/* Gradients of the factors of each head of values. */
static void
factors_grad(struct back *b, int64_t position, const real *dlog_decay)
{
	const struct head *h = &b->h;
	struct token *t = &b->t;
	real dbeta[VALUES_MAX], ddecay[VALUES_MAX];

	for (int64_t j = 0; j < h->values; j++) {
		int64_t at = j * h->e;

		dbeta[j] =
		    t->beta[j] * (1 - t->beta[j]) * row_dot(b->dwritten + at, t->rest + at, h->e);
		ddecay[j] = -t->rate[j] * dlog_decay[j] / (1 + real_math(exp)(-t->shifted[j]));
		b->ddecay_log[j] += dlog_decay[j] * t->log_decay[j];
		b->ddecay_bias[j] += ddecay[j];
	}
	store(h, &b->g->dbeta, position, h->values, dbeta);
	store(h, &b->g->ddecay, position, h->values, ddecay);
}

/* All gradients of a position; m is the state before it, which decays. */
static void
position_grad(struct back *b, int64_t position, real *m)
{
	const struct head *h = &b->h;
	real dq[CPU_HEAD_MAX], dk[CPU_HEAD_MAX], dlog_decay[VALUES_MAX];

	token_load(&b->t, h, position);
	load(h, &b->g->dout, position, h->width, b->dout);
	for (int64_t c = 0; c < h->width; c++)
		b->dout[c] *= h->scale;
	approach(h, &b->t, m);
	scale_heads(h, b->t.beta, b->t.rest, b->written);
	read_grad(b, m, dq, dk);
	decay_grad(b, m, dlog_decay);
	normalise_grad(b->t.q, b->t.q_inverse, dq, h->d);
	normalise_grad(b->t.k, b->t.k_inverse, dk, h->d);
	store(h, &b->g->dq, position, h->d, dq);
	store(h, &b->g->dk, position, h->d, dk);
	store(h, &b->g->dv, position, h->width, b->dread);
	factors_grad(b, position, dlog_decay);
	if (begins(h, position))
		clear(h, b->dm);
}

static void
backward_sample(struct back *b)
{
	int64_t n = positions(b->h.r), chunk = b->g->chunk;

	find_states(b);
	clear(&b->h, b->dm);
	for (int64_t c = int64_div_up(n, chunk); c-- > 0;) {
		int64_t first = c * chunk, count = int64_min(chunk, n - first);

		find_chunk(b, first, count);
		for (int64_t i = count; i-- > 0;)
			position_grad(b, first + i, nth(b, b->within, i));
	}
}

static void
give(const struct back *b, const struct tensor *to, const real *sums)
{
	for (int64_t j = 0; j < b->h.values; j++) {
		real *at = real_at(to, b->h.number * b->h.values + j);

		*at = (b->g->accumulate ? *at : 0) + sums[j];
	}
}

static void
backward(const void *ctx, int64_t item, void *scratch)
{
	const struct delta_rule_grad *g = ctx;
	struct head h = head_of(&g->fwd, item);
	int64_t width = h.width, chunks = int64_div_up(positions(&g->fwd), g->chunk),
		states = chunks + g->chunk + 1;
	real *place = scratch;
	struct back b = { .h = h,
		.g = g,
		.t = { .v = place, .rest = place + width },
		.written = place + 2 * width,
		.dout = place + 3 * width,
		.dwritten = place + 4 * width,
		.dread = place + 5 * width };

	b.before = real_at(&g->fwd.work, item * states * h.d * width);
	b.within = nth(&b, b.before, chunks);
	b.dm = nth(&b, b.within, g->chunk);
	for (; b.h.sample < g->fwd.micro_batch; b.h.sample++)
		backward_sample(&b);
	give(&b, &g->ddecay_log, b.ddecay_log);
	give(&b, &g->ddecay_bias, b.ddecay_bias);
}

void
cpu_name(delta_rule_grad)(struct stream *st, const struct delta_rule_grad *g)
{
	const struct delta_rule *r = &g->fwd;
	int64_t chunks = g->chunk > 0 ? int64_div_up(positions(r), g->chunk) : 0;

	check(r);
	ops_require(g->chunk > 0 && r->work.data && !r->state.data &&
	    tensor_elements(&r->work) >= r->num_key_heads * (chunks + g->chunk + 1) *
		    (r->k.shape[1] / r->num_key_heads) * (r->v.shape[1] / r->num_key_heads));
	ops_require(tensor_same_shape(&g->dq, &r->q) && tensor_same_shape(&g->dk, &r->k) &&
	    tensor_same_shape(&g->dv, &r->v) && tensor_same_shape(&g->dout, &r->v));
	ops_require(
	    tensor_same_shape(&g->dbeta, &r->beta) && tensor_same_shape(&g->ddecay, &r->decay));
	ops_require(g->ddecay_log.dtype == REAL_DTYPE && g->ddecay_bias.dtype == REAL_DTYPE);
	cpu_for(st, r->num_key_heads, backward, g);
}
