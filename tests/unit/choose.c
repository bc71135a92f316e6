/* choose.c - draws out of logits against a sort of all tokens, and the share of each over many */
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/run/choose.h"

#include <math.h>
#include <stdlib.h>

enum { VOCABULARY = 37, DRAWS = 20000 };

static struct logits
doubles(const double *x, int64_t v)
{
	return (struct logits){ x, DTYPE_F64, v, 0 };
}

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
	struct logits l;

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
		l = doubles(logits, v);
		CHECK(choose(&s, &l, v, t) == sorted(&s, logits, v, t));
	}
}

static void
test_likeliest(void)
{
	const double logits[] = { 1, 3, 2, 3 }, zeroes[] = { -1, -0.0, 0, -0.0 };
	struct logits l = doubles(logits, 4), z = doubles(zeroes, 4);
	struct sampling s = { .top_p = 1 };

	CHECK(choose(&s, &l, 4, 0) == 1); /* the first of equals */
	CHECK(choose(&s, &z, 4, 0) == 1);
	CHECK(choose(&s, &l, 1, 0) == 0); /* of those that the tokenizer has */
	s.temperature = 2;
	s.top_k = 1;
	CHECK(choose(&s, &l, 4, 0) == 1);
	CHECK(choose(&s, &z, 4, 0) == 1);
	CHECK(choose(&s, &l, 1, 0) == 0);
	s.top_k = 0;
	s.top_p = 0;
	CHECK(choose(&s, &l, 4, 0) == 1);
}

/* Nothing is chosen beside a logit that is not finite, be it one that no token has, or one that the
 * cap would make finite. */
static void
test_not_finite(void)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	const double bad[] = { NAN, -NAN, INFINITY, -INFINITY, 1 };

	for (int i = 0; i < 4 * 5 * 4 * 2 * 2; i++) {
		double x[] = { 3, 1, 2, -1 }, which = bad[i / 4 % 5];
		enum dtype t = types[i % 4];
		char stored[sizeof x];
		struct logits l = { stored, t, 4, i / 80 % 2 ? 30 : 0 };
		struct sampling s = { .temperature = i / 160, .top_p = 1 };
		int64_t id;

		x[i / 20 % 4] = which;
		dtype_convert(stored, t, x, DTYPE_F64, 4);
		id = choose(&s, &l, 2, 0);
		CHECK(isfinite(which) ? id == 0 || id == 1 : id == -1);
	}
}

/* As many numbers as fill several parts, in a narrow type: a draw is that of the same numbers as
 * doubles, and a probability that of a plain sum, with the cap and without. */
static void
test_stored(void)
{
	enum { MANY = 1300 };
	static double x[MANY];
	static uint16_t stored[MANY];
	struct logits narrow = { stored, DTYPE_BF16, MANY, 0 };

	for (int64_t i = 0; i < MANY; i++)
		x[i] = 40 * (double)rng_uniform(9, (uint64_t)i, 1, 0) - 20;
	dtype_convert(stored, DTYPE_BF16, x, DTYPE_F64, MANY);
	for (int cap = 0; cap <= 30; cap += 30) {
		double sum = 0;
		struct logits l = doubles(x, MANY);

		narrow.softcap = cap;
		dtype_convert(x, DTYPE_F64, stored, DTYPE_BF16, MANY);
		for (int64_t i = 0; i < MANY; i++)
			x[i] = cap ? cap * tanh(x[i] / cap) : x[i];
		for (int64_t i = 0; i < MANY; i++)
			sum += exp(x[i]);
		for (int64_t i = 0; i < MANY; i += 13)
			CHECK(fabs(choose_logprob(&narrow, i) - (x[i] - log(sum))) < 1e-12);
		for (int64_t i = 0; i < 40; i++) {
			struct sampling s = {
				.temperature = (double)(i % 4), .top_p = 0.9, .seed = 2
			};

			CHECK(choose(&s, &narrow, MANY - i, i) == choose(&s, &l, MANY - i, i));
		}
	}
}

/* tanh rounds both of the large ones to 1: the larger is chosen, and both are as likely. */
static void
test_capped(void)
{
	const double x[] = { 1, 1000, 2000, 2000 };
	struct logits l = { x, DTYPE_F64, 4, 30 };
	struct sampling s = { .top_p = 1 };

	CHECK(choose(&s, &l, 4, 0) == 2);
	CHECK(choose(&s, &l, 2, 0) == 1);
	CHECK(choose_logprob(&l, 1) == choose_logprob(&l, 2));
	CHECK(fabs(choose_logprob(&l, 1) + log(3)) < 1e-12);
	l.softcap = 0;
	s.temperature = 1;
	CHECK(choose(&s, &l, 3, 0) == 2);
}

/* Of many draws each token has its share within five standard errors. */
static void
test_shares(void)
{
	const double logits[] = { 0, 1, -1, 0.5 };
	struct logits l = doubles(logits, 4);
	struct sampling s = { .temperature = 1, .top_p = 1, .seed = 3 };
	int count[4] = { 0 };

	for (int64_t i = 0; i < DRAWS; i++)
		count[choose(&s, &l, 4, i)]++;
	for (int64_t i = 0; i < 4; i++) {
		double p = exp(choose_logprob(&l, i));

		CHECK(fabs(count[i] - p * DRAWS) < 5 * sqrt(p * (1 - p) * DRAWS));
	}
	CHECK(fabs(choose_logprob(&l, 1) - (1 - log(1 + exp(1) + exp(-1) + exp(0.5)))) < 1e-14);
}

int
main(void)
{
	test_sorted();
	test_likeliest();
	test_not_finite();
	test_stored();
	test_capped();
	test_shares();
	return check_done();
}
