/* short_conv.c - sums over the last positions of each channel. Source: docs/math.md 2.12 */
#include "train/cpu/real.h"

enum { CHANNELS = 64, TAPS = 16 }; /* of an item; the most of a channel */

/* Some channels of all positions of a sample. */
struct part {
	const struct short_conv *c;
	int64_t sample;
	struct span channels;
	int64_t taps;
	real weight[CHANNELS * TAPS];
};

static int64_t
items(const struct short_conv *c)
{
	return int64_div_up(c->x.shape[1], CHANNELS);
}

static void
part_init(struct part *p, const struct short_conv *c, int64_t item)
{
	int64_t first = item * CHANNELS;
	real buf[TAPS];

	*p = (struct part){ .c = c,
		.channels = { 0, first, int64_min(CHANNELS, c->x.shape[1] - first) },
		.taps = c->weight.shape[1] };
	for (int64_t i = 0; i < p->channels.count; i++) {
		struct span s = { first + i, 0, p->taps };

		memcpy(p->weight + i * TAPS, span_load(&c->weight, &s, buf),
		    (size_t)p->taps * sizeof *buf);
	}
}

/* The row of a position of the pass. */
static struct span
row_of(const struct part *p, int64_t position)
{
	return (struct span){ position * p->c->micro_batch + p->sample, p->channels.first,
		p->channels.count };
}

/* Where its document begins, counted as positions of the pass are. */
static int64_t
begins(const struct part *p, int64_t position)
{
	const struct tensor *first = &p->c->first;

	return (first->data ? ((const int32_t *)first->data)[row_of(p, position).row] : 0) -
	    cpu_position(&p->c->position);
}

/* The channels of x at a position, which may be before those of the pass. */
static const real *
input(const struct part *p, int64_t position, real *buf)
{
	struct span s = row_of(p, position < 0 ? position + p->taps - 1 : position);

	return span_load(position < 0 ? &p->c->before : &p->c->x, &s, buf);
}

/* The sums of a position before SiLU. */
static void
sums(const struct part *p, int64_t position, real *out)
{
	int64_t first = int64_max(begins(p, position), p->c->before.data ? 1 - p->taps : 0);
	real buf[CHANNELS];

	memset(out, 0, CHANNELS * sizeof *out);
	for (int64_t j = 0; j < p->taps; j++) {
		int64_t at = position - p->taps + 1 + j;
		const real *x;

		if (at < first)
			continue;
		x = input(p, at, buf);
		for (int64_t i = 0; i < p->channels.count; i++)
			out[i] += p->weight[i * TAPS + j] * x[i];
	}
}

/* Shifts what is kept by the positions of the pass. */
static void
keep(const struct part *p, int64_t positions)
{
	real buf[CHANNELS];

	for (int64_t at = 0; at < p->taps - 1; at++) {
		struct span s = row_of(p, at);

		dtype_convert(span_address(&p->c->before, &s), p->c->before.dtype,
		    input(p, positions - p->taps + 1 + at, buf), REAL_DTYPE, s.count);
	}
}

static void
forward(const void *ctx, int64_t item, void *scratch)
{
	const struct short_conv *c = ctx;
	int64_t positions = c->x.shape[0] / c->micro_batch;
	struct part p;

	(void)scratch;
	part_init(&p, c, item);
	for (; p.sample < c->micro_batch; p.sample++) {
		for (int64_t at = 0; at < positions; at++) {
			struct span s = row_of(&p, at);
			real a[CHANNELS], buf[CHANNELS], *y = span_out(&c->y, &s, buf);

			sums(&p, at, a);
			for (int64_t i = 0; i < s.count; i++)
				y[i] = a[i] * real_sigmoid(a[i]);
			span_store(&c->y, &s, y);
		}
		if (c->before.data)
			keep(&p, positions);
	}
}

static void
check(const struct short_conv *c)
{
	ops_require(c->micro_batch > 0 && c->x.shape[0] % c->micro_batch == 0);
	ops_require(c->weight.shape[0] == c->x.shape[1] && c->weight.shape[1] <= TAPS);
	ops_require(!c->first.data || c->first.dtype == DTYPE_I32);
}

void
cpu_name(short_conv)(struct stream *st, const struct short_conv *c)
{
	check(c);
	ops_require(tensor_same_shape(&c->y, &c->x));
	ops_require(!c->before.data ||
	    (c->before.shape[0] == (c->weight.shape[1] - 1) * c->micro_batch &&
		c->before.shape[1] == c->x.shape[1]));
	cpu_for(st, items(c), forward, c);
}

/* The gradient of the sums of a position. */
static void
sum_gradients(const struct part *p, const struct short_conv_grad *g, int64_t position, real *da)
{
	struct span s = row_of(p, position);
	real buf[CHANNELS];
	const real *dy = span_load(&g->dy, &s, buf);

	sums(p, position, da);
	for (int64_t i = 0; i < s.count; i++) {
		real z = da[i], f = real_sigmoid(z);

		da[i] = dy[i] * f * (1 + z * (1 - f));
	}
}

/* What the sums of a position give to the weights, and to the inputs that they take: dx[j] is of
 * the position that tap j takes. */
static void
distribute(
    const struct part *p, int64_t position, const real *da, real *dweight, real dx[TAPS][CHANNELS])
{
	int64_t first = int64_max(begins(p, position), 0);
	real buf[CHANNELS];

	for (int64_t j = 0; j < p->taps; j++) {
		int64_t at = position - p->taps + 1 + j;
		const real *x;

		if (at < first)
			continue;
		x = input(p, at, buf);
		for (int64_t i = 0; i < p->channels.count; i++) {
			dweight[i * TAPS + j] += da[i] * x[i];
			dx[j][i] += da[i] * p->weight[i * TAPS + j];
		}
	}
}

/* From the last position to the first: after one its own gradient is complete, which is that of the
 * last tap. */
static void
backward_sample(const struct part *p, const struct short_conv_grad *g, real *dweight)
{
	real dx[TAPS][CHANNELS] = { { 0 } }, da[CHANNELS];

	for (int64_t at = p->c->x.shape[0] / p->c->micro_batch; at-- > 0;) {
		struct span s = row_of(p, at);

		sum_gradients(p, g, at, da);
		distribute(p, at, da, dweight, dx);
		dtype_convert(
		    span_address(&g->dx, &s), g->dx.dtype, dx[p->taps - 1], REAL_DTYPE, s.count);
		for (int64_t j = p->taps - 1; j > 0; j--)
			memcpy(dx[j], dx[j - 1], sizeof dx[j]);
		memset(dx[0], 0, sizeof dx[0]);
	}
}

static void
backward(const void *ctx, int64_t item, void *scratch)
{
	const struct short_conv_grad *g = ctx;
	real dweight[CHANNELS * TAPS] = { 0 };
	struct part p;

	(void)scratch;
	part_init(&p, &g->fwd, item);
	for (; p.sample < g->fwd.micro_batch; p.sample++)
		backward_sample(&p, g, dweight);
	for (int64_t i = 0; i < p.channels.count; i++)
		for (int64_t j = 0; j < p.taps; j++) {
			real *to = real_at(&g->dweight, (p.channels.first + i) * p.taps + j);

			*to = (g->accumulate ? *to : 0) + dweight[i * TAPS + j];
		}
}

void
cpu_name(short_conv_grad)(struct stream *st, const struct short_conv_grad *g)
{
	check(&g->fwd);
	ops_require(tensor_same_shape(&g->dx, &g->fwd.x) && tensor_same_shape(&g->dy, &g->fwd.x));
	ops_require(tensor_same_shape(&g->dweight, &g->fwd.weight) &&
	    g->dweight.dtype == REAL_DTYPE && !g->fwd.before.data);
	cpu_for(st, items(&g->fwd), backward, g);
}
