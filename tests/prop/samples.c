/* samples.c - data order does not depend on where reading starts; a damaged index is refused or
 * still legal */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/format/samples.h"
#include "tests/check.h"

#include <unistd.h>

static struct err e;

static uint32_t
draw(uint64_t seed, uint32_t *counter, uint32_t below)
{
	uint32_t c[4] = { (*counter)++, 0, 0, 0 }, out[4];

	rng_philox(seed, c, out);
	return out[0] % below;
}

/* Samples read in any order, from maps opened anew, are those read from the first to the last. */
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

/* Every epoch but a separate last one brings each sequence once; each sample number is drawn once.
 */
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
		for (int64_t i = 0; i < samples_document_index_length(s); i++)
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

/* One byte of a sound index changed: refused with a reason, or a dataset whose every token can be
 * read. */
static void
flips(uint64_t seed)
{
	char dir[] = "/tmp/mikoshi-prop-XXXXXX", prefix[64], idx[80], bin[80], *bytes;
	uint32_t counter = 2000;
	int refused = 0;
	size_t len;

	CHECK(mkdtemp(dir) &&
	    io_read_file("tests/golden/data/corpora/a_u16.idx", 0, &bytes, &len, &e) == 0);
	snprintf(prefix, sizeof prefix, "%s/x", dir);
	snprintf(idx, sizeof idx, "%s.idx", prefix);
	snprintf(bin, sizeof bin, "%s.bin", prefix);
	CHECK(io_copy_file("tests/golden/data/corpora/a_u16.bin", bin, &e) == 0);
	for (int k = 0; k < 1000; k++) {
		size_t at = draw(seed, &counter, (uint32_t)len);
		char bit = (char)(1 << draw(seed, &counter, 8));
		FILE *f = fopen(idx, "wb");
		struct dataset *d;

		bytes[at] ^= bit;
		CHECK(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
		bytes[at] ^= bit;
		e.msg[0] = '\0';
		d = dataset_open(prefix, &e);
		refused += !d;
		CHECK(d || (e.msg[0] && !strchr(e.msg, '\n')));
		for (int64_t i = 0; d && i < dataset_num_sequences(d); i++) {
			int64_t n = dataset_length(d, i), *ids = mem_alloc((size_t)n, sizeof *ids);

			dataset_tokens(d, i, 0, n, ids);
			free(ids);
		}
		dataset_close(d);
	}
	CHECK(refused > 900);                   /* only inner document boundaries can change and stay legal */
	printf("%d of 1000 refused\n", refused);
	free(bytes);
	io_remove_tree(dir, &e);
}

int
main(void)
{
	uint64_t seed = check_seed();

	order(seed);
	coverage(seed);
	flips(seed);
	return check_done();
}
