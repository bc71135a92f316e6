/*
 * blend_choose.c - which corpus gives the next sample: the one that is furthest behind its weight
 *
 * For sample i, with f = max(i, 1), corpus k has the error w[k] * f - c[k], where c[k] samples came from it so far; the greatest
 * error wins, the first of equals. The definition looks at every corpus for every sample. With many corpora a tournament is kept
 * instead: each node of a binary tree knows the winner of the corpora below it, and the first f at which that could change.
 * A sample then costs the matches of the corpus that won, and of the few nodes whose time has come.
 *
 * Errors are compared as the rounded doubles that Megatron-LM compares. As real numbers, the difference of two errors is a line
 * in f; a node is left alone only while that line stays further from zero than rounding could move the two values. Source of
 * the rule: Megatron-LM core/datasets/helpers.cpp.
 */
#include "lib/base/mem.h"
#include "lib/format/blend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this many corpora the loop over all of them is quicker. */
enum { FEW = 24 };

/* Never, as a time; greater than any f. */
#define NEVER INT64_MAX
/* The samples drawn from a corpus that must not win: no error of a real corpus is as low. */
#define GONE 1e18

struct line {
	double weight, drawn;           /* error at f: weight * f - drawn */
};

struct node {
	int winner;
	int64_t expires;                /* first f at which this node or one below it may have another winner */
};

struct tournament {
	struct line *line;              /* [leaves] */
	struct node *node;              /* [2 leaves], the root is 1; children of n are 2n and 2n + 1; leaves have no node */
	int leaves;                     /* a power of 2 */
};

/* The two operations are rounded one by one: the library is compiled without contraction. */
static double
error_at(const struct line *l, double f)
{
	return l->weight * f - l->drawn;
}

/*
 * The first f after `now` at which v could win against u, which leads by `lead`, as computed at `now`.
 *
 * With u = 2^-53, an error is off by at most u (2 w f + c), so two of them by u (2 (w + w') f + c + c'); `slack` is four times
 * that, for this computation's own rounding too. Between now and now + n the lead changes by (w - w') n and the slack by a
 * part of (w + w') n.
 */
static int64_t
next_change(const struct line *u, const struct line *v, double lead, double now)
{
	double slope = u->weight - v->weight, sum = u->weight + v->weight, steps;
	double slack = 0x1p-50 * (sum * now + u->drawn + v->drawn + 1), loss = 0x1p-49 * sum - slope;

	if (slope == 0)                         /* the same product in both: the order is that of the counts, which are integers */
		return NEVER;
	if (lead <= slack)
		return (int64_t)now + 1;
	if (loss <= 0)
		return NEVER;
	steps = (lead - slack) / loss * (1 - 0x1p-20);
	if (steps >= 0x1p60)
		return NEVER;
	return (int64_t)now + (steps < 1 ? 1 : (int64_t)steps);
}

/* The winner below a node, or the corpus of a leaf. */
static int
winner_of(const struct tournament *t, int n)
{
	return n >= t->leaves ? n - t->leaves : t->node[n].winner;
}

/* When the winner below a node may change; that of a leaf never does. */
static int64_t
expiry_of(const struct tournament *t, int n)
{
	return n >= t->leaves ? NEVER : t->node[n].expires;
}

/* Plays the match of a node at f = now; those below it are settled. */
static void
play(struct tournament *t, int n, double now)
{
	int a = winner_of(t, 2 * n), b = winner_of(t, 2 * n + 1);
	double x = error_at(&t->line[a], now), y = error_at(&t->line[b], now);
	bool second = y > x;                    /* a tie goes to the first */
	int64_t left = expiry_of(t, 2 * n), right = expiry_of(t, 2 * n + 1), own;

	own = second ? next_change(&t->line[b], &t->line[a], y - x, now) : next_change(&t->line[a], &t->line[b], x - y, now);
	if (left < own)
		own = left;
	t->node[n] = (struct node){ second ? b : a, right < own ? right : own };
}

/* Settles the tree for f = now: every node that has expired, children first. Depth is at most 16. */
static void
settle(struct tournament *t, int n, int64_t now)
{
	if (expiry_of(t, n) > now)
		return;
	settle(t, 2 * n, now);
	settle(t, 2 * n + 1, now);
	play(t, n, (double)now);
}

/* All corpora at f = 1; leaves beyond the corpora lose against every corpus. */
static void
tournament_init(struct tournament *t, const struct blend_choice *c)
{
	for (t->leaves = 2; t->leaves < c->count; t->leaves *= 2)
		;
	t->line = mem_alloc((size_t)t->leaves, sizeof *t->line);
	t->node = mem_zalloc((size_t)t->leaves, sizeof *t->node);
	for (int k = 0; k < t->leaves; k++)
		t->line[k] = k < c->count ? (struct line){ c->weight[k], 0 } : (struct line){ 0, GONE };
	for (int n = t->leaves - 1; n > 0; n--)
		play(t, n, 1);
}

/* The corpus has given one more sample, or is exhausted: its matches are played again at f = now. */
static void
replay(struct tournament *t, int corpus, int64_t now)
{
	for (int n = (t->leaves + corpus) / 2; n > 0; n /= 2)
		t->node[n].expires = now;
	settle(t, 1, now);
}

/* By tournament. */
static void
choose_many(const struct blend_choice *c)
{
	struct tournament t;

	memset(c->drawn, 0, (size_t)c->count * sizeof *c->drawn);
	tournament_init(&t, c);
	for (int64_t i = 0; i < c->size; i++) {
		int k = t.node[1].winner;
		int64_t n = c->drawn[k]++;

		c->dataset[i] = (int16_t)k;
		c->dataset_sample[i] = n;
		t.line[k].drawn = (double)(n + 1);
		if (c->limit && n + 1 == c->limit[k])
			t.line[k] = (struct line){ 0, GONE };
		replay(&t, k, i + 1);
	}
	free(t.line);
	free(t.node);
}

/* The first of the greatest errors among the corpora that have samples left. */
static int
furthest_behind(const struct blend_choice *c, double f)
{
	double most = -HUGE_VAL;
	int best = 0;

	for (int k = 0; k < c->count; k++) {
		double error = c->weight[k] * f - (double)c->drawn[k];

		if (error > most && (!c->limit || c->drawn[k] < c->limit[k])) {
			most = error;
			best = k;
		}
	}
	return best;
}

/* Sample after sample, corpus after corpus. */
void
blend_choose_plain(const struct blend_choice *c)
{
	memset(c->drawn, 0, (size_t)c->count * sizeof *c->drawn);
	for (int64_t i = 0; i < c->size; i++) {
		int k = furthest_behind(c, i ? (double)i : 1.0);

		c->dataset[i] = (int16_t)k;
		c->dataset_sample[i] = c->drawn[k]++;
	}
}

/* Whichever is quicker; the result is the same. */
void
blend_choose(const struct blend_choice *c)
{
	if (c->count < FEW)
		blend_choose_plain(c);
	else
		choose_many(c);
}

/* Eight running sums, then their sum; up to 128 numbers. */
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

/* NumPy's pairwise sum. Source: numpy/core/src/umath/loops_utils.h.src, pairwise_sum. Depth is the logarithm of n. */
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

/* ceil of a rounded product, as Python's math.ceil(n * w). */
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
