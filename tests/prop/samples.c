/* samples.c - data order does not depend on where reading starts; every sequence is drawn once per
 * epoch */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/check.h"
#include "tests/one_corpus.h"

#include <unistd.h>

static struct err e;

static uint32_t
draw(uint64_t seed, uint32_t *counter, uint32_t below)
{
	uint32_t c[4] = { (*counter)++, 0, 0, 0 }, out[4];

	rng_philox(seed, c, out);
	return out[0] % below;
}

/* Samples read in any order, from newly opened maps, equal those read in order. */
static void
order(uint64_t seed)
{
	enum { S = 16 };
	struct dataset *d = dataset_open("tests/golden/data/corpora/b_i32", &e);
	struct samples_config c = {
		.split = "9,1",
		.num_samples = 4000,
		.seq_length = S,
		.seed = 5,
		.add_extra_token = true,
		.drop_last_partial = true,
	};
	struct samples *s = samples_open(d, &c, &e), *fresh = samples_open(d, &c, &e);
	int64_t n = samples_count(s), *all = mem_alloc((size_t)n * (S + 1), sizeof *all),
		one[S + 1];
	uint32_t counter = 0;

	for (int64_t i = 0; i < n; i++)
		CHECK(samples_tokens(s, i, all + i * (S + 1), &e) == S + 1);
	for (int k = 0; k < 20; k++) {
		int64_t start = draw(seed, &counter, (uint32_t)n - 8);

		for (int64_t i = start; i < start + 8; i++) {
			CHECK(samples_tokens(fresh, i, one, &e) == S + 1);
			CHECK(!memcmp(one, all + i * (S + 1), sizeof one));
		}
	}
	samples_close(s);
	samples_close(fresh);
	dataset_close(d);
	free(all);
}

/* Every epoch except a separate last one contains each sequence once; each sample number is drawn
 * once. */
static void
coverage(uint64_t seed)
{
	struct dataset *d = dataset_open("tests/golden/data/corpora/d_sent_u16", &e);
	uint32_t counter = 1000;
	int64_t sequences = dataset_num_sequences(d);

	for (int k = 0; k < 30; k++) {
		struct samples_config c = {
			.num_samples = draw(seed, &counter, 2000),
			.seq_length = 1 + draw(seed, &counter, 40),
			.seed = draw(seed, &counter, 99),
			.add_extra_token = draw(seed, &counter, 2),
			.drop_last_partial = draw(seed, &counter, 2),
		};
		struct samples *s = samples_open(d, &c, &e);
		int64_t *seen = mem_zalloc((size_t)sequences, sizeof *seen), total = 0, sum = 0;

		CHECK(s && samples_count(s) >= c.num_samples);
		for (int64_t i = 0; i < s->num_positions; i++)
			seen[samples_document_index(s, i)]++;
		for (int64_t i = 0; i < sequences; i++)
			CHECK(seen[i] == samples_num_epochs(s));
		for (int64_t i = 0; i < samples_count(s); i++) {
			struct sample_part part[64];
			int64_t n = samples_parts(s, i, part, 64);

			for (int64_t j = 0; j < n && j < 64; j++)
				sum += part[j].count;
			total += samples_shuffle_index(s, i);
		}
		CHECK(total == samples_count(s) * (samples_count(s) - 1) / 2);
		if (c.drop_last_partial)
			CHECK(sum == samples_count(s) * (c.seq_length + c.add_extra_token));
		samples_close(s);
		free(seen);
	}
	dataset_close(d);
}

int
main(void)
{
	uint64_t seed = check_seed();

	order(seed);
	coverage(seed);
	return check_done();
}
