/* choose.c - draws out of logits against a sort of all tokens, and the share of each over many */
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/run/choose.h"

#include <math.h>
#include <stdlib.h>

enum { VOCABULARY = 37, DRAWS = 20000 };

/* A token and its weight. */
struct ranked {
	double p;
	int64_t id;
};

static int
by_probability(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->p < y->p ? 1 : x->p > y->p ? -1 : x->id > y->id ? 1 : -1;
}

/* The same draw from sorted tokens. */
static int64_t
sorted(const struct sampling *s, const double *logits, int64_t v, int64_t position)
{
	struct ranked r[VOCABULARY];
	double max = logits[0], sum = 0, left = 0, draw;
	int64_t n = v, id = 0;

	for (int64_t i = 1; i < v; i++)
		max = fmax(max, logits[i]);
	for (int64_t i = 0; i < v; i++)
		r[i] = (struct ranked){ exp((logits[i] - max) / s->temperature), i };
	qsort(r, (size_t)v, sizeof *r, by_probability);
	if (s->top_k > 0 && s->top_k < n)
		n = s->top_k;
	for (int64_t i = 0; i < n; i++)
		sum += r[i].p;
	while (id < n && left <= s->top_p * sum)
		left += r[id++].p;
	n = id;
	draw = left *
	    (double)rng_uniform(s->seed, (uint64_t)position, rng_stream("generate"), s->prompt);
	for (id = 0; id < n - 1 && draw >= r[id].p; id++)
		draw -= r[id].p;
	return r[id].id;
}

static void
test_sorted(void)
{
	double logits[VOCABULARY];

	for (int64_t t = 0; t < 3000; t++) {
		int64_t v = 1 + t % VOCABULARY;
		struct sampling s = { .temperature = 0.3 + (double)(t % 7) / 3,
			.top_k = t % 5 * 4,
			.top_p = t % 3 ? 1 : (double)(t % 11) / 11,
			.seed = (uint64_t)t,
			.prompt = (uint32_t)(t % 4) };

		for (int64_t i = 0; i < v; i++) /* with equal ones */
			logits[i] =
			    floor(6 * (double)rng_uniform(7, (uint64_t)(t * VOCABULARY + i), 1, 0));
		CHECK(choose(&s, logits, v, t) == sorted(&s, logits, v, t));
	}
}

static void
test_likeliest(void)
{
	const double logits[] = { 1, 3, 2, 3 };
	struct sampling s = { .top_p = 1 };

	CHECK(choose(&s, logits, 4, 0) == 1); /* the first of equals */
	s.temperature = 2;
	s.top_k = 1;
	CHECK(choose(&s, logits, 4, 0) == 1);
	s.top_k = 0;
	s.top_p = 0;
	CHECK(choose(&s, logits, 4, 0) == 1);
}

/* Of many draws each token has its share within five standard errors. */
static void
test_shares(void)
{
	const double logits[] = { 0, 1, -1, 0.5 };
	struct sampling s = { .temperature = 1, .top_p = 1, .seed = 3 };
	int count[4] = { 0 };

	for (int64_t i = 0; i < DRAWS; i++)
		count[choose(&s, logits, 4, i)]++;
	for (int64_t i = 0; i < 4; i++) {
		double p = exp(choose_logprob(logits, 4, i));

		CHECK(fabs(count[i] - p * DRAWS) < 5 * sqrt(p * (1 - p) * DRAWS));
	}
	CHECK(fabs(choose_logprob(logits, 4, 1) - (1 - log(1 + exp(1) + exp(-1) + exp(0.5)))) <
	    1e-14);
}

int
main(void)
{
	test_sorted();
	test_likeliest();
	test_shares();
	return check_done();
}
