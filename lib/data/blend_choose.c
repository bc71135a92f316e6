/*
 * blend_choose.c - which corpus gives the next sample: the one with the largest deficit against its
 * weight
 *
 * For sample i, with f = max(i, 1), corpus k has the error w[k] * f - c[k], where c[k] is the
 * number of samples drawn from it so far; the largest error wins, the first of equals. The
 * definition examines every corpus for every sample. With many corpora the choice is made in
 * batches, among candidates: the corpora whose error can reach a floor before the batch ends.
 *
 * Nothing is approximated. Errors are the rounded doubles that Megatron-LM compares; rounding keeps
 * order, so the error of a corpus at the end of the batch, as computed, is at least any before it.
 * A corpus that is not a candidate stays below the floor and cannot win while the best candidate is
 * above it. When the best candidate falls below the floor, the batch ends early. Source of the
 * rule: Megatron-LM core/datasets/helpers.cpp.
 */
#include "lib/base/mem.h"
#include "lib/data/blend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LANES errors are computed in parallel; up to FEW corpora, all errors are computed for every
 * sample. */
enum { FEW = 100, LANES = 4, STEPS_MIN = 32, STEPS_MAX = 512 };

/* The draw count of a corpus that must not win: no error of a real corpus is as low. */
#define GONE 1e18

/* Corpora in order, one error each; padded to a multiple of LANES with entries that cannot win. */
struct lines {
	int count, cap;
	double *weight, *drawn;
	int *corpus;
};

struct batches {
	struct lines all, some; /* every corpus; the candidates */
	int64_t steps;          /* of a batch */
	double margin;          /* from the largest error at the start down to the floor; adapts */
	double floor;
	/* The best of the candidates that did not fit, all of which come after those that did:
	 * their errors are at most that of this line. */
	bool crowded;
	double rest_weight, rest_drawn;
};

static void
lines_init(struct lines *l, int cap)
{
	l->count = 0;
	l->cap = cap;
	l->weight = mem_zalloc((size_t)cap + LANES, sizeof *l->weight);
	l->drawn = mem_zalloc((size_t)cap + LANES, sizeof *l->drawn);
	l->corpus = mem_zalloc((size_t)cap + LANES, sizeof *l->corpus);
}

static void
lines_release(struct lines *l)
{
	free(l->weight);
	free(l->drawn);
	free(l->corpus);
}

/* Adds a line; the padding is not touched. */
static void
lines_add(struct lines *l, int corpus, double weight, double drawn)
{
	l->corpus[l->count] = corpus;
	l->weight[l->count] = weight;
	l->drawn[l->count++] = drawn;
}

/* Pads the last group of lanes. */
static void
lines_pad(struct lines *l)
{
	for (int i = l->count; i % LANES; i++) {
		l->weight[i] = 0;
		l->drawn[i] = GONE;
	}
}

/*
 * The first corpus with the largest error at f; *most is the error. Each lane keeps its own
 * maximum, without a branch. The two operations are rounded separately: the library is compiled
 * without contraction.
 */
static int
lines_best(const struct lines *l, double f, double *most)
{
	double best[LANES];
	int64_t at[LANES] = { 0 };
	int lane = 0;

	for (int k = 0; k < LANES; k++)
		best[k] = -HUGE_VAL;
	for (int i = 0; i < l->count; i += LANES)
		for (int k = 0; k < LANES; k++) {
			double error = l->weight[i + k] * f - l->drawn[i + k];

			at[k] = error > best[k] ? i : at[k];
			best[k] = error > best[k] ? error : best[k];
		}
	for (int k = 1; k < LANES; k++)
		if (best[k] > best[lane] || (best[k] == best[lane] && at[k] < at[lane]))
			lane = k;
	*most = best[lane];
	return (int)at[lane] + lane;
}

/* Chooses the candidates of a batch from f to last. */
static void
gather(struct batches *b, double f, double last)
{
	const struct lines *all = &b->all;
	double most;

	lines_best(all, f, &most);
	b->floor = most - b->margin;
	b->some.count = 0;
	b->crowded = false;
	for (int k = 0; k < all->count; k++) {
		double w = all->weight[k], c = all->drawn[k];

		if (w * last - c < b->floor)
			continue;
		if (b->some.count < b->some.cap) {
			lines_add(&b->some, k, w, c);
			continue;
		}
		b->rest_weight = b->crowded && b->rest_weight > w ? b->rest_weight : w;
		b->rest_drawn = b->crowded && b->rest_drawn < c ? b->rest_drawn : c;
		b->crowded = true;
	}
	lines_pad(&b->some);
}

/* Draws sample i from a corpus. Returns its new draw count for its line: GONE for an exhausted
 * corpus. */
static double
give(const struct blend_choice *c, struct batches *b, int64_t i, int k)
{
	int64_t n = c->drawn[k]++;

	if (c->dataset) {
		c->dataset[i] = (int16_t)k;
		c->dataset_sample[i] = n;
	}
	b->all.drawn[k] = (double)(n + 1);
	if (c->limit && n + 1 == c->limit[k]) {
		b->all.weight[k] = 0;
		b->all.drawn[k] = GONE;
	}
	return b->all.drawn[k];
}

/* Chooses samples from i on while the candidates are certain to hold the winner; returns the first
 * sample not chosen. */
static int64_t
run_batch(const struct blend_choice *c, struct batches *b, int64_t i)
{
	int64_t end = c->size - i < b->steps ? c->size : i + b->steps;
	double most;

	gather(b, i ? (double)i : 1.0, end > 1 ? (double)(end - 1) : 1.0);
	for (; i < end; i++) {
		double f = i ? (double)i : 1.0;
		int at = lines_best(&b->some, f, &most);

		if (most < b->floor || (b->crowded && most < b->rest_weight * f - b->rest_drawn))
			break;
		b->some.drawn[at] = give(c, b, i, b->some.corpus[at]);
		b->some.weight[at] = b->all.weight[b->some.corpus[at]];
	}
	if (b->crowded)
		b->margin *= 0.75;
	else if (i < end)
		b->margin = b->margin * 1.5 + 1e-12;
	return i;
}

/* Few corpora need no candidates. The batch length balances the number of candidates: both grow
 * with the square root of the number of corpora. When the winner did not fit among the candidates,
 * all corpora are examined. */
void
blend_choose(const struct blend_choice *c)
{
	struct batches b = { .steps = STEPS_MIN };

	while (b.steps < STEPS_MAX && b.steps * b.steps < 2 * (int64_t)c->count)
		b.steps *= 2;
	b.margin = (double)b.steps / c->count;
	memset(c->drawn, 0, (size_t)c->count * sizeof *c->drawn);
	lines_init(&b.all, c->count);
	lines_init(&b.some, 4 * (int)b.steps);
	for (int k = 0; k < c->count; k++)
		lines_add(&b.all, k, c->weight[k], 0);
	lines_pad(&b.all);
	for (int64_t i = 0; i < c->size;) {
		int64_t next = c->count > FEW ? run_batch(c, &b, i) : i;

		if (next == i) { /* one sample among all corpora */
			double most;

			give(c, &b, i, lines_best(&b.all, i ? (double)i : 1.0, &most));
			next++;
		}
		i = next;
	}
	lines_release(&b.all);
	lines_release(&b.some);
}

/* Sums up to 128 numbers: eight running sums, then their sum. */
static double
sum_block(const double *x, int n)
{
	double r[8], sum;
	int i;

	if (n < 8) {
		sum = 0;
		for (i = 0; i < n; i++)
			sum += x[i];
		return sum;
	}
	memcpy(r, x, sizeof r);
	for (i = 8; i + 8 <= n; i += 8)
		for (int k = 0; k < 8; k++)
			r[k] += x[i + k];
	sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
	for (; i < n; i++)
		sum += x[i];
	return sum;
}

/* NumPy's pairwise sum. Source: numpy/core/src/umath/loops_utils.h.src, pairwise_sum. Depth is the
 * logarithm of n. */
static double
pairwise_sum(const double *x, int n)
{
	int half = n / 2 - n / 2 % 8;

	if (n <= 128)
		return sum_block(x, n);
	return pairwise_sum(x, half) + pairwise_sum(x + half, n - half);
}

/* The order of the sum decides the last bit, and the last bit decides ties. */
void
blend_normalise(const double *weight, int count, double *out)
{
	double sum = pairwise_sum(weight, count);

	for (int i = 0; i < count; i++)
		out[i] = weight[i] / sum;
}

/* The ceiling of a rounded product, as in Python's math.ceil(n * w). */
int64_t
blend_share(int64_t n, double w)
{
	return (int64_t)ceil((double)n * w);
}

/* 1 + surplus is one rounded sum. */
int64_t
blend_request(int64_t n, double w, double surplus)
{
	return (int64_t)ceil((double)blend_share(n, w) * (1 + surplus));
}
