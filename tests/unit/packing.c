/* packing.c - best-fit packing against a slow packer and against all ways to pack, its fill on
 * lengths as corpora have them, its speed, and the maps that are made of it */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/samples_impl.h"
#include "tests/check.h"

#include <math.h>
#include <unistd.h>
#include <stdlib.h>

static struct err e;
static char dir[] = "/tmp/mikoshi-packing-XXXXXX";

/* --- one packing ------------------------------------------------------------------------------ */

/* The rule as it is said: looks at every bin for each item; `got` is when a bin got its room. */
static int64_t
slow(const int32_t *length, int64_t n, int64_t capacity, int64_t *bin_of)
{
	int64_t room[64], got[64], bins = 0, time = 0;
	bool done[64] = { false };

	for (int64_t k = 0; k < n; k++) {
		int64_t item = -1, best = -1;

		for (int64_t i = 0; i < n; i++)
			if (!done[i] && (item < 0 || length[i] > length[item]))
				item = i;
		for (int64_t b = 0; b < bins; b++)
			if (room[b] >= length[item] &&
			    (best < 0 || room[b] < room[best] ||
				(room[b] == room[best] && got[b] < got[best])))
				best = b;
		if (best < 0) {
			best = bins++;
			room[best] = capacity;
		}
		room[best] -= length[item];
		got[best] = ++time;
		done[item] = true;
		bin_of[item] = best;
	}
	return bins;
}

/* The fewest bins, by trying all: items one after the other into each bin that there is, or a new
 * one. */
static int
fewest(const int32_t *length, int n, int capacity, int *room, int bins, int best)
{
	if (bins >= best)
		return best;
	if (n == 0)
		return bins;
	for (int b = 0; b <= bins; b++) {
		int was = b < bins ? room[b] : capacity;

		if (was < *length)
			continue;
		room[b] = was - *length;
		best = fewest(length + 1, n - 1, capacity, room, bins + (b == bins), best);
		room[b] = was;
	}
	return best;
}

static void
test_small(void)
{
	uint64_t draw = 1;
	int more = 0, total = 0;

	for (int round = 0; round < 4000; round++) {
		int32_t length[9];
		int64_t n = 1 + round % 9, capacity = 2 + round % 23, of[9], bins;
		int room[10];
		struct packing p;
		bool same = true;

		for (int64_t i = 0; i < n; i++) {
			draw = draw * 6364136223846793005u + 1442695040888963407u;
			length[i] = (int32_t)(1 + (draw >> 33) % (uint64_t)capacity);
		}
		packing_best_fit(length, NULL, n, capacity, &p);
		bins = slow(length, n, capacity, of);
		CHECK(p.bins == bins && p.begin[0] == 0 && p.begin[p.bins] == n);
		for (int64_t b = 0; b < p.bins; b++)
			for (int64_t k = p.begin[b]; k < p.begin[b + 1]; k++)
				same = same && of[p.item[k]] == b;
		CHECK(same);
		total += (int)bins;
		more += (int)bins - fewest(length, (int)n, (int)capacity, room, 0, (int)n + 1);
		packing_release(&p);
	}
	/* Hardly ever more bins than the fewest. */
	CHECK(more >= 0 && more * 100 < total);
}

static void
test_example(void)
{
	static const int32_t length[] = { 5, 3, 8, 2, 7, 3, 4, 1 };
	static const int64_t item[] = { 2, 3, 4, 1, 0, 6, 7, 5 }, begin[] = { 0, 2, 4, 7, 8 };
	struct packing p;

	packing_best_fit(length, NULL, 8, 10, &p);
	CHECK(p.bins == 4 && !memcmp(p.item, item, sizeof item) &&
	    !memcmp(p.begin, begin, sizeof begin));
	packing_release(&p);
}

/* Log-normal lengths, of a median of 365 tokens. */
static int64_t
log_normal(int32_t *length, int64_t n, int64_t most)
{
	int64_t sum = 0;
	uint32_t stream = rng_stream("packing test");

	for (int64_t i = 0; i < n; i++) {
		double u = (double)rng_uniform(7, (uint64_t)i, stream, 0) + 1e-9,
		       v = (double)rng_uniform(7, (uint64_t)i, stream, 1),
		       x = exp(log(365) + sqrt(-2 * log(u)) * cos(6.283185307179586 * v));

		length[i] = (int32_t)(x < 2 ? 2 : x > (double)most ? (double)most : x);
		sum += length[i];
	}
	return sum;
}

static void
test_fill(void)
{
	enum { DOCUMENTS = 60000, MILLION = 1000000 };
	int32_t *length = mem_alloc(MILLION, sizeof *length);
	struct packing p;
	double start;

	for (int64_t s = 2048; s <= 8192; s *= 2) {
		int64_t sum = log_normal(length, DOCUMENTS, s + 1);

		packing_best_fit(length, NULL, DOCUMENTS, s + 1, &p);
		CHECK((double)sum / (double)(p.bins * (s + 1)) >= 0.999);
		packing_release(&p);
	}
	log_normal(length, MILLION, 4097);
	start = clock_seconds();
	packing_best_fit(length, NULL, MILLION, 4097, &p);
	start = clock_seconds() - start;
	CHECK(start < 5); /* far below a second when nothing else runs */
	printf("a million lengths in %.3f s\n", start);
	packing_release(&p);
	free(length);
}

/* --- maps ------------------------------------------------------------------------------------- */

static const int32_t documents[] = { 3, 9, 1, 5, 0, 4, 8, 2, 25, 6, 3, 7 };
enum { DOCUMENTS = sizeof documents / sizeof *documents };

/* Token t of sequence i is 100 i + t. */
static struct dataset *
make_corpus(void)
{
	int32_t one[DOCUMENTS];
	uint16_t *tokens = mem_alloc(200, sizeof *tokens);
	struct dataset_batch b = { .tokens = tokens,
		.lengths = documents,
		.per_document = one,
		.sequences = DOCUMENTS,
		.documents = DOCUMENTS };
	struct dataset_writer *w;
	char prefix[64];
	int at = 0;

	snprintf(prefix, sizeof prefix, "%s/c", dir);
	for (int i = 0; i < DOCUMENTS; i++) {
		one[i] = 1;
		for (int t = 0; t < documents[i]; t++)
			tokens[at++] = (uint16_t)(100 * i + t);
	}
	w = dataset_writer_new(prefix, DTYPE_U16, &e);
	CHECK(w && dataset_add_batch(w, &b, &e) == 0 && dataset_commit(w, &e) == 0);
	free(tokens);
	return dataset_open(prefix, &e);
}

static struct samples *
open_packed(const struct dataset *d, struct samples_config *c)
{
	struct map_cache *cache = map_cache_new();
	struct samples *s = samples_plan(d, c, &e);

	if (!s)
		fprintf(stderr, "%s\n", e.msg);
	CHECK(s && samples_fill(s, c, cache, &e) == 0 && map_cache_commit(cache, &e) == 0);
	return s;
}

/* Every token that is kept comes once in each epoch, and a sample has whole parts of 2 tokens to a
 * bin. */
static void
check_epochs(const struct samples *s, int64_t tokens)
{
	int times[100 * DOCUMENTS + 100] = { 0 };
	int64_t per_epoch = samples_count(s) / samples_num_epochs(s), id[10], sum = 0;

	for (int64_t i = 0; i < samples_count(s); i++) {
		struct sample_part part[8];
		int64_t parts = samples_parts(s, i, part, 8), n = samples_tokens(s, i, id, &e),
			all = 0;

		for (int64_t k = 0; k < parts; k++) {
			CHECK(part[k].count >= 2);
			for (int64_t t = 0; t < part[k].count; t++)
				CHECK(id[all + t] == 100 * part[k].sequence + part[k].first + t);
			all += part[k].count;
		}
		CHECK(all == n && n <= 9);
		for (int64_t t = 0; t < n; t++)
			times[id[t]]++;
		sum += n;
		if ((i + 1) % per_epoch == 0)
			for (int t = 0; t < 100 * DOCUMENTS; t++)
				CHECK(times[t] == 0 || times[t] == (int)((i + 1) / per_epoch));
	}
	CHECK(sum == tokens * samples_num_epochs(s));
}

static void
test_maps(void)
{
	/* 72 tokens, of which 1 is too short; 25 = 9 + 9 + 7 */
	static const int64_t kept[] = { 72, 72 - 16, 72 - 25 };
	struct dataset *d = make_corpus();
	char cache[64];

	snprintf(cache, sizeof cache, "%s/cache", dir);
	for (int how = 0; how < 3; how++) {
		struct samples_config c = { .split = "1,0,0",
			.num_samples = 20,
			.seq_length = 8,
			.seed = 11,
			.add_extra_token = true,
			.drop_last_partial = true,
			.packing = PACKING_BEST_FIT,
			.long_documents = how,
			.cache_dir = cache,
			.write_cache = true };
		struct samples *s = open_packed(d, &c), *again, *longer;
		int64_t a[10], b[10], n = samples_count(s);

		CHECK(!samples_from_cache(s) && n >= 20 && n % samples_num_epochs(s) == 0);
		CHECK(strstr(samples_note(s), "sequences of fewer than 2 tokens are left out"));
		check_epochs(s, kept[how]);
		again = open_packed(d, &c);
		CHECK(samples_from_cache(again));
		check_epochs(again, kept[how]);
		/* A longer run reads the same first. */
		c.num_samples = 70;
		longer = open_packed(d, &c);
		CHECK(samples_num_epochs(longer) > samples_num_epochs(s));
		for (int64_t i = 0; i < n; i++) {
			int64_t k = samples_tokens(s, i, a, &e);

			CHECK(k == samples_tokens(longer, i, b, &e));
			CHECK(!memcmp(a, b, (size_t)k * sizeof *a));
		}
		CHECK(samples_epochs(s, n) == (double)samples_num_epochs(s));
		CHECK(samples_fullness(s) > 0.75 && samples_fullness(s) <= 1);
		samples_close(s);
		samples_close(again);
		samples_close(longer);
	}
	dataset_close(d);
}

/* --- a sample --------------------------------------------------------------------------------- */

/* Documents begin at parts, whatever their tokens are; the first token of one is no label, and
 * padding is one more document. */
static void
test_assemble(void)
{
	static const int64_t id[] = { 5, 6, 7, 8, 9 };
	static const int32_t begin[] = { 0, 0, 2, 2, 2 };
	static const int32_t documents_want[] = { 0, 0, 2, 2, 2, 5, 5 },
			     positions_want[] = { 0, 1, 0, 1, 2, 0, 1 };
	static const float loss_want[] = { 1, 0, 1, 1, 0, 0, 0 };
	struct sample_options o = {
		.eod = 6, .pad = -1, .add_extra_token = true, .reset_position_ids = true
	};
	int32_t in[7], labels[7], positions[7], apart[7];
	float loss[7];
	struct sample s = { in, labels, positions, loss, apart };

	sample_assemble(&o, &(struct sample_tokens){ id, 5, NULL, begin }, 7, &s);
	CHECK(!memcmp(apart, documents_want, sizeof apart));
	CHECK(!memcmp(positions, positions_want, sizeof positions));
	CHECK(!memcmp(loss, loss_want, sizeof loss));
	o.reset_position_ids = false;
	sample_assemble(&o, &(struct sample_tokens){ id, 5, NULL, begin }, 7, &s);
	CHECK(positions[6] == 6 && apart[6] == 5);
}

int
main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_example();
	test_small();
	test_fill();
	test_maps();
	test_assemble();
	io_remove_tree(dir, &e);
	return check_done();
}
