/*
 * choose.c - a token out of logits
 *
 * Tokens are taken from a heap, the likeliest first, and no more of them than the draw needs.
 * Probabilities are not normalised: the draw is scaled by their sum instead.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "train/run/choose.h"

#include <math.h>
#include <stdlib.h>

/* Logits that are doubles at a time. */
enum { PART = 512 };

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

/* The largest of the first v, after the cap. */
static double
largest(const struct logits *l, int64_t v)
{
	double max;

	logits_double(l, dtype_first_largest(l->data, l->type, v), 1, &max);
	return max;
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
draw_token(const struct sampling *s, const struct logits *l, int64_t v, int64_t position)
{
	int64_t n = s->top_k > 0 && s->top_k < v ? s->top_k : v, i = 0;
	struct heap h = { mem_alloc((size_t)v, sizeof *h.r), v, v };
	double max = largest(l, v), part[PART], draw;

	for (int64_t k = 0; k < v; k++) {
		if (k % PART == 0)
			logits_double(l, k, int64_min(PART, v - k), part);
		h.r[k] = (struct ranked){ exp((part[k % PART] - max) / s->temperature), k };
	}
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
choose(const struct sampling *s, const struct logits *l, int64_t v, int64_t position)
{
	if (logits_count_nonfinite(l))
		return -1;
	return s->temperature == 0 ? dtype_first_largest(l->data, l->type, v)
				   : draw_token(s, l, v, position);
}

double
choose_logprob(const struct logits *l, int64_t id)
{
	double max = largest(l, l->count), part[PART], sum = 0, chosen;

	for (int64_t i = 0; i < l->count; i++) {
		if (i % PART == 0)
			logits_double(l, i, int64_min(PART, l->count - i), part);
		sum += exp(part[i % PART] - max);
	}
	logits_double(l, id, 1, &chosen);
	return chosen - max - log(sum);
}
