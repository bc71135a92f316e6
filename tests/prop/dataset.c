/* dataset.c - properties of datasets: an index with any byte changed is refused or legal, never
 * misread; repair makes every dataset that it accepts valid; concatenated pieces are the whole;
 * mapped and read tokens are equal */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/data/dataset_repair.h"
#include "shard/shard.h"
#include "tests/check.h"
#include "tests/one_document.h"

#include <unistd.h>

static struct err e;
static char dir[64];

/* A number below n. */
static uint32_t
draw(uint64_t seed, uint32_t *counter, uint32_t n)
{
	uint32_t c[4] = { (*counter)++, 0, 0, 0 }, out[4];

	rng_philox(seed, c, out);
	return out[0] % n;
}

/* A path in the scratch directory; the last four results stay valid. */
static const char *
scratch(const char *name)
{
	static char path[4][128];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
	return path[turn];
}

/* Reads every token and every boundary of an accepted index. */
static void
read_all(const struct dataset *d)
{
	for (int64_t i = 0; i < dataset_num_sequences(d); i++) {
		int64_t n = dataset_length(d, i), *ids = mem_alloc((size_t)n, sizeof *ids);

		CHECK(dataset_tokens(d, i, 0, n, ids, &e) == 0);
		free(ids);
	}
	for (int64_t k = 0; k < dataset_num_documents(d); k++)
		CHECK(dataset_document_start(d, k) <= dataset_document_start(d, k + 1));
}

/* Repair refuses with a reason, or its result is valid. Saving syncs the disk, so it is not done
 * every time. */
static void
check_repair(const char *prefix, bool save)
{
	struct str found = { 0 };
	struct dataset_repair *r = dataset_repair_open(prefix, &found, &e);

	if (r && save && found.len) {
		struct dataset *d;

		CHECK(dataset_repair_save(r,
			  &(struct repair_target){ .output = scratch("repaired"), .replace = true },
			  &e) == 0);
		d = dataset_open(scratch("repaired"), &e);
		CHECK(d != NULL);
		dataset_close(d);
	}
	dataset_repair_close(r);
	str_release(&found);
}

/* Changes one byte of the index. With checksums every change is found. */
static void
flips(uint64_t seed)
{
	enum { ROUNDS = 10000 };
	struct verify_config verify = { .xxh = true };
	const char *prefix = mem_strdup(scratch("x")), *idx = mem_strdup(scratch("x.idx"));
	FILE *null = fopen("/dev/null", "w");
	uint32_t counter = 2000;
	int refused = 0, sums = 0;
	char *bytes;
	size_t len;

	CHECK(null &&
	    io_read_file("tests/golden/data/corpora/d_sent_u16.idx", 0, &bytes, &len, &e) == 0);
	CHECK(outfile_copy("tests/golden/data/corpora/d_sent_u16.bin", scratch("x.bin"), &e) == 0);
	CHECK(outfile_copy("tests/golden/data/corpora/d_sent_u16.idx", idx, &e) == 0);
	CHECK(shard_verify(&verify, prefix, null, &e) == 0);
	for (int k = 0; k < ROUNDS; k++) {
		size_t at = draw(seed, &counter, (uint32_t)len);
		char change = (char)(1 + draw(seed, &counter, 255));
		FILE *f = fopen(idx, "wb");
		struct dataset *d;

		bytes[at] ^= change;
		CHECK(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
		bytes[at] ^= change;
		e.msg[0] = '\0';
		d = dataset_open(prefix, &e);
		refused += !d;
		CHECK(d || (e.msg[0] && !strchr(e.msg, '\n')));
		if (d)
			read_all(d);
		dataset_close(d);
		sums += shard_verify(&verify, prefix, null, &e) < 0;
		check_repair(prefix, k % 1000 == 0);
	}
	/* only inner document boundaries can change within the rules */
	CHECK(refused > ROUNDS * 9 / 10);
	CHECK(sums == ROUNDS);
	printf("%d of %d refused, %d with checksums\n", refused, ROUNDS, sums);
	fclose(null);
	free(bytes);
	free((void *)(uintptr_t)prefix);
	free((void *)(uintptr_t)idx);
}

/* A dataset of up to 300 documents of up to 4 sequences, any of them empty. */
static void
make(const char *prefix, enum dtype t, uint64_t seed, uint32_t *counter)
{
	struct dataset_writer *w = dataset_writer_new(prefix, t, &e);
	size_t size = dtype_size(t);
	char tokens[4 * 40 * 8];

	CHECK(w != NULL);
	for (uint32_t k = draw(seed, counter, 300); k > 0; k--) {
		int32_t length[4], sequences = (int32_t)draw(seed, counter, 5);
		size_t at = 0;

		for (int32_t s = 0; s < sequences; s++) {
			length[s] = (int32_t)draw(seed, counter, 40);
			for (int32_t i = 0; i < length[s]; i++, at += size) {
				int64_t id = draw(seed, counter, 128);

				memcpy(tokens + at, &id, size);
			}
		}
		CHECK(add_document(w, tokens, length, sequences, &e) == 0);
	}
	CHECK(dataset_commit(w, &e) == 0);
}

/* Whether two files hold the same bytes. */
static bool
same_file(const char *a, const char *b)
{
	char *x, *y;
	size_t n, m;
	bool same;

	if (io_read_file(a, 0, &x, &n, &e) < 0)
		return false;
	if (io_read_file(b, 0, &y, &m, &e) < 0) {
		free(x);
		return false;
	}
	same = n == m && !memcmp(x, y, n);
	free(x);
	free(y);
	return same;
}

/* Documents copied in ranges of any size, mapped or read, give the same dataset; through a wider
 * type they give the same ids. */
static void
pieces(uint64_t seed)
{
	static const enum dtype types[] = { DTYPE_U8, DTYPE_I8, DTYPE_U16, DTYPE_I16, DTYPE_I32,
		DTYPE_I64 };
	uint32_t counter = 500000;

	for (int round = 0; round < 12; round++) {
		enum dtype t = types[round % 6], wide = dataset_common_type(t, DTYPE_I32);
		struct dataset_options o = { .no_mmap_bin = round % 2 };
		struct dataset_writer *w, *v;
		struct dataset *d, *x;

		make(scratch("whole"), t, seed, &counter);
		d = dataset_open_with(scratch("whole"), &o, &e);
		w = dataset_writer_new(scratch("again"), t, &e);
		v = dataset_writer_new(scratch("wide"), wide, &e);
		CHECK(d && w && v);
		for (int64_t at = 0, n; at < dataset_num_documents(d); at += n) {
			n = 1 + draw(seed, &counter, (uint32_t)(dataset_num_documents(d) - at));
			CHECK(dataset_add_documents(w, d, at, at + n, &e) == 0);
			CHECK(dataset_add_documents(v, d, at, at + n, &e) == 0);
		}
		CHECK(dataset_commit(w, &e) == 0 && dataset_commit(v, &e) == 0);
		CHECK(same_file(scratch("whole.idx"), scratch("again.idx")));
		CHECK(same_file(scratch("whole.bin"), scratch("again.bin")));
		x = dataset_open(scratch("wide"), &e);
		CHECK(x && dataset_dtype(x) == wide &&
		    dataset_num_sequences(x) == dataset_num_sequences(d) &&
		    dataset_num_documents(x) == dataset_num_documents(d));
		for (int64_t s = 0; x && s < dataset_num_sequences(x); s++) {
			int64_t a[40], b[40], n = dataset_length(d, s);

			CHECK(dataset_length(x, s) == n && dataset_tokens(d, s, 0, n, a, &e) == 0 &&
			    dataset_tokens(x, s, 0, n, b, &e) == 0 &&
			    !memcmp(a, b, (size_t)n * sizeof *a));
		}
		dataset_close(x);
		dataset_close(d);
	}
}

/* A .bin that becomes shorter while it is open is an error, and out does not keep its old contents.
 */
static void
shrinks(void)
{
	struct dataset_options o = { .no_mmap_bin = true };
	struct dataset *d;
	int64_t ids[64], last;

	CHECK(outfile_copy("tests/golden/data/corpora/a_u16.bin", scratch("s.bin"), &e) == 0);
	CHECK(outfile_copy("tests/golden/data/corpora/a_u16.idx", scratch("s.idx"), &e) == 0);
	d = dataset_open_with(scratch("s"), &o, &e);
	CHECK(d != NULL);
	last = dataset_num_sequences(d) - 1;
	CHECK(truncate(scratch("s.bin"), (off_t)dataset_bin_bytes(d) - 2) == 0);
	CHECK(dataset_tokens(d, 0, 0, 1, ids, &e) == 0);
	CHECK(dataset_tokens(d, last, 0,
		  dataset_length(d, last) < 64 ? dataset_length(d, last) : 64, ids, &e) < 0);
	CHECK(strstr(e.msg, "s.bin: cannot read") && strstr(e.msg, "the file ends there"));
	dataset_close(d);
}

int
main(void)
{
	uint64_t seed = check_seed();

	/* Commits sync, which is fast on a file system in memory. */
	snprintf(
	    dir, sizeof dir, "%s/mikoshi-prop-XXXXXX", io_is_dir("/dev/shm") ? "/dev/shm" : "/tmp");
	CHECK(mkdtemp(dir) != NULL);
	flips(seed);
	pieces(seed);
	shrinks();
	io_remove_tree(dir, &e);
	return check_done();
}
