/*
 * choose.c - a token out of logits
 *
 * Tokens are taken from a heap, the likeliest first, and no more of them than the draw needs.
 * Probabilities are not normalised: the draw is scaled by their sum instead.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "train/run/choose.h"

#include <math.h>
#include <stdlib.h>

/* A token and its weight: e^(logit / temperature). */
struct ranked {
	double p;
	int64_t id;
};

/* Tokens by weight: the first `left` of r are a heap, and those taken from it lie after them, in
 * reverse. */
struct heap {
	struct ranked *r;
	int64_t count, left;
};

/* Equal ones are in the order of their numbers. */
static int
before(const struct ranked *x, const struct ranked *y)
{
	return x->p > y->p || (x->p == y->p && x->id < y->id);
}

static void
sink(struct heap *h, int64_t at)
{
	struct ranked x = h->r[at];

	for (int64_t child; (child = 2 * at + 1) < h->left; at = child) {
		if (child + 1 < h->left && before(&h->r[child + 1], &h->r[child]))
			child++;
		if (!before(&h->r[child], &x))
			break;
		h->r[at] = h->r[child];
	}
	h->r[at] = x;
}

/* The number-th likeliest token. */
static const struct ranked *
likeliest(struct heap *h, int64_t number)
{
	while (h->count - h->left <= number) {
		struct ranked first = h->r[0];

		h->r[0] = h->r[--h->left];
		h->r[h->left] = first;
		sink(h, 0);
	}
	return &h->r[h->count - 1 - number];
}

/* The first of the largest. Several maxima are taken beside each other, since each step of one
 * waits for the step before. */
static int64_t
largest(const double *logits, int64_t v)
{
	enum { BESIDE = 4 };
	double max[BESIDE] = { logits[0], logits[0], logits[0], logits[0] };
	int64_t i = 0;

	for (; i + BESIDE <= v; i += BESIDE)
		for (int k = 0; k < BESIDE; k++)
			max[k] = logits[i + k] > max[k] ? logits[i + k] : max[k];
	for (; i < v; i++)
		max[0] = logits[i] > max[0] ? logits[i] : max[0];
	for (int k = 1; k < BESIDE; k++)
		max[0] = max[k] > max[0] ? max[k] : max[0];
	for (i = 0; i < v; i++)
		if (logits[i] == max[0])
			return i;
	return 0;
}

/* The joint weight of the first of at most n tokens that reach the share top_p of all n. */
static double
mass(struct heap *h, const struct sampling *s, int64_t n)
{
	double sum = 0, reached = 0;

	for (int64_t i = 0; i < n; i++)
		sum += n < h->count ? likeliest(h, i)->p : h->r[i].p;
	for (int64_t i = 0; s->top_p < 1 && i < n && reached <= s->top_p * sum; i++)
		reached += likeliest(h, i)->p;
	return s->top_p < 1 ? reached : sum;
}

/* A draw by temperature. */
static int64_t
draw_token(const struct sampling *s, const double *logits, int64_t v, int64_t position)
{
	int64_t best = largest(logits, v), n = s->top_k > 0 && s->top_k < v ? s->top_k : v, i = 0;
	struct heap h = { mem_alloc((size_t)v, sizeof *h.r), v, v };
	double draw;

	for (int64_t k = 0; k < v; k++)
		h.r[k] = (struct ranked){ exp((logits[k] - logits[best]) / s->temperature), k };
	for (int64_t k = v / 2; k-- > 0;)
		sink(&h, k);
	draw = mass(&h, s, n) *
	    (double)rng_uniform(s->seed, (uint64_t)position, rng_stream("generate"), s->prompt);
	while (i < n - 1 && draw >= likeliest(&h, i)->p)
		draw -= likeliest(&h, i++)->p;
	i = likeliest(&h, i)->id;
	free(h.r);
	return i;
}

int64_t
choose(const struct sampling *s, const double *logits, int64_t v, int64_t position)
{
	return s->temperature == 0 ? largest(logits, v) : draw_token(s, logits, v, position);
}

double
choose_logprob(const double *logits, int64_t v, int64_t id)
{
	double max = logits[largest(logits, v)], sum = 0;

	for (int64_t i = 0; i < v; i++)
		sum += exp(logits[i] - max);
	return logits[id] - max - log(sum);
}
