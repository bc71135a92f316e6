/* blend.c - the choice in batches equals that of the loop over all corpora, sample by sample, for
 * any weights */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/blend.h"
#include "tests/check.h"

static uint32_t
draw(uint64_t seed, uint32_t *counter, uint32_t below)
{
	uint32_t c[4] = { (*counter)++, 0, 0, 0 }, out[4];

	rng_philox(seed, c, out);
	return out[0] % below;
}

/* The corpus with the greatest error among those that have samples left; of equal ones the
 * first. */
static int
largest_deficit(const struct blend_choice *c, double f)
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

/* The definition: sample after sample, corpus after corpus. */
static void
choose_plain(const struct blend_choice *c)
{
	memset(c->drawn, 0, (size_t)c->count * sizeof *c->drawn);
	for (int64_t i = 0; i < c->size; i++) {
		int k = largest_deficit(c, i ? (double)i : 1.0);

		c->dataset[i] = (int16_t)k;
		c->dataset_sample[i] = c->drawn[k]++;
	}
}

/* Weights of one of several kinds, with ties always, sometimes, almost, or rarely. */
static double
weight(uint64_t seed, uint32_t *counter, int kind, int k)
{
	switch (kind) {
	case 0: return 1;                          /* all equal */
	case 1: return 1 + draw(seed, counter, 5); /* small integers: equal now and then */
	case 2: return 1 + 0x1p-52 * draw(seed, counter, 4);    /* differ in the last bit */
	case 3: return ldexp(1, -(int)draw(seed, counter, 40)); /* powers of two */
	case 4:
		return k == 0 ? 1e6
			      : 1 + draw(seed, counter, 1000) * 1e-3; /* one takes nearly all */
	case 5: return 1.0 / (1 + draw(seed, counter, 30));
	default: return 1e-9 + draw(seed, counter, 1u << 30);
	}
}

/* Makes one choice in both ways. */
static void
compare(uint64_t seed, uint32_t *counter, int kind, bool exhaustive)
{
	enum { MAX = 400 };
	int count = draw(seed, counter, 4) ? 101 + (int)draw(seed, counter, MAX - 101)
					   : 1 + (int)draw(seed, counter, 100);
	double w[MAX];
	int64_t limit[MAX], drawn[MAX], plain_drawn[MAX], size = 1 + draw(seed, counter, 6000),
							  total = 0;
	struct blend_choice c = { .weight = w, .count = count, .drawn = drawn }, plain;

	for (int k = 0; k < count; k++) {
		w[k] = weight(seed, counter, kind, k);
		limit[k] = 1 + draw(seed, counter, k % 7 ? 40 : 400);
		total += limit[k];
	}
	if (exhaustive) {
		for (int k = 0; k < count; k++)
			w[k] = (double)limit[k] / (double)total;
		c.limit = limit;
		size = total;
	} else {
		blend_normalise(w, count, w);
	}
	c.size = size;
	c.dataset = mem_alloc((size_t)size, sizeof *c.dataset);
	c.dataset_sample = mem_alloc((size_t)size, sizeof *c.dataset_sample);
	plain = c;
	plain.drawn = plain_drawn;
	plain.dataset = mem_alloc((size_t)size, sizeof *c.dataset);
	plain.dataset_sample = mem_alloc((size_t)size, sizeof *c.dataset_sample);
	blend_choose(&c);
	choose_plain(&plain);
	CHECK(!memcmp(c.dataset, plain.dataset, (size_t)size * sizeof *c.dataset));
	CHECK(!memcmp(
	    c.dataset_sample, plain.dataset_sample, (size_t)size * sizeof *c.dataset_sample));
	CHECK(!memcmp(drawn, plain_drawn, (size_t)count * sizeof *drawn));
	if (exhaustive)
		CHECK(!memcmp(drawn, limit, (size_t)count * sizeof *drawn));
	free(c.dataset);
	free(c.dataset_sample);
	free(plain.dataset);
	free(plain.dataset_sample);
}

/* One long blend: far from the start, the rounded products leave fewer digits of the differences.
 */
static void
long_blend(uint64_t seed)
{
	enum { COUNT = 120, SIZE = 3000000 };
	double w[COUNT];
	int64_t drawn[COUNT], plain_drawn[COUNT];
	struct blend_choice c = { .weight = w, .count = COUNT, .size = SIZE, .drawn = drawn },
			    plain;
	uint32_t counter = 1u << 20;

	for (int k = 0; k < COUNT; k++)
		w[k] = 1 + draw(seed, &counter, 3) * 1e-9 + draw(seed, &counter, 2) * 0x1p-50;
	blend_normalise(w, COUNT, w);
	c.dataset = mem_alloc(SIZE, sizeof *c.dataset);
	c.dataset_sample = mem_alloc(SIZE, sizeof *c.dataset_sample);
	plain = c;
	plain.drawn = plain_drawn;
	plain.dataset = mem_alloc(SIZE, sizeof *c.dataset);
	plain.dataset_sample = mem_alloc(SIZE, sizeof *c.dataset_sample);
	blend_choose(&c);
	choose_plain(&plain);
	CHECK(!memcmp(c.dataset, plain.dataset, SIZE * sizeof *c.dataset));
	CHECK(!memcmp(c.dataset_sample, plain.dataset_sample, SIZE * sizeof *c.dataset_sample));
	free(c.dataset);
	free(c.dataset_sample);
	free(plain.dataset);
	free(plain.dataset_sample);
}

int
main(void)
{
	uint64_t seed = check_seed();
	uint32_t counter = 0;

	for (int round = 0; round < 12; round++) {
		for (int kind = 0; kind < 7; kind++)
			compare(seed, &counter, kind, false);
		compare(seed, &counter, 0, true);
	}
	long_blend(seed);
	return check_done();
}
