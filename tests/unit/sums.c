/* sums.c - PREFIX.sum: what writers leave is what the blocks have, every damage is found, and a
 * fingerprint tells datasets apart as far as both know */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/dataset_repair.h"
#include "lib/data/sums.h"
#include "tests/check.h"
#include "tests/one_document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static char dir[] = "/tmp/mikoshi-sums-XXXXXX";
static char prefix[64], room[SUMS_BLOCK];

/* A path in the scratch directory, valid until the second call after it. */
static const char *
scratch(const char *name)
{
	static char path[2][256];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
	return path[turn];
}

/* Documents of so many tokens of u16, whose values depend on their place alone. */
static void
add_tokens(struct dataset_writer *w, int64_t first, int64_t end, int32_t each)
{
	uint16_t *t = mem_alloc((size_t)each, sizeof *t);

	for (int64_t at = first; at < end; at += each) {
		int32_t n = end - at < each ? (int32_t)(end - at) : each;

		for (int32_t i = 0; i < n; i++)
			t[i] = (uint16_t)((uint64_t)(at + i) * 2654435761u >> 7);
		CHECK(add_document(w, t, &n, 1, &e) == 0);
	}
	free(t);
}

static void
make(const char *name, int64_t tokens, int32_t each)
{
	struct dataset_writer *w = dataset_writer_new(name, DTYPE_U16, &e);

	add_tokens(w, 0, tokens, each);
	CHECK(dataset_commit(w, &e) == 0);
}

/* Opens a dataset with its sums; both are the caller's. */
static struct dataset *
open_both(const char *name, struct sums **s)
{
	struct dataset *d = dataset_open(name, &e);

	CHECK(d != NULL);
	CHECK(sums_open(s, d, dataset_index_hash(d), &e) == 1);
	return d;
}

/* All sums are those of the file, computed apart from the writer. */
static void
check_all(const char *name)
{
	struct sums *s;
	struct dataset *d = open_both(name, &s);
	char *path = dataset_path(name, ".bin"), *bytes;
	size_t len;

	CHECK(io_read_file(path, 0, &bytes, &len, &e) == 0);
	for (size_t at = 0; s && at < len; at += SUMS_BLOCK) {
		size_t n = len - at < SUMS_BLOCK ? len - at : SUMS_BLOCK;

		CHECK(
		    sums_compare(s, (int64_t)(at / SUMS_BLOCK), hash_xxh3(bytes + at, n), &e) == 0);
		CHECK(sums_check(s, d, (int64_t)(at / SUMS_BLOCK), room, &e) == 0);
	}
	free(bytes);
	free(path);
	sums_close(s);
	dataset_close(d);
}

/* Sizes around those of a block, in portions that do not divide it. */
static void
test_writers(void)
{
	static const int64_t tokens[] = { 0, 1, SUMS_BLOCK / 2 - 1, SUMS_BLOCK / 2,
		SUMS_BLOCK / 2 + 1, 3 * SUMS_BLOCK / 2 + 7 };

	for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
		struct dataset_options read = { .no_mmap_bin = true };
		struct dataset *d;

		make(prefix, tokens[i], 100003);
		check_all(prefix);
		for (int k = 0; k < 3; k++) { /* mapped, read, converted */
			struct dataset_writer *w =
			    dataset_writer_new(scratch("copy"), k == 2 ? DTYPE_I32 : DTYPE_U16, &e);

			d = dataset_open_with(
			    prefix, k == 1 ? &read : &(struct dataset_options){ 0 }, &e);
			for (int turn = 0; turn < 2; turn++)
				CHECK(dataset_add_documents(
					  w, d, 0, dataset_num_documents(d), &e) == 0);
			CHECK(dataset_commit(w, &e) == 0);
			dataset_close(d);
			check_all(scratch("copy"));
		}
	}
}

/* Writes as one that was stopped when it opened its parts, and that wakes up now, would; the
 * writer of the same parts is told nothing of it. */
static void
wake_another(void)
{
	struct dataset_writer *w = dataset_writer_resume(scratch("r"), DTYPE_U16, NULL, NULL, &e);
	struct dataset_mark mark;

	CHECK(w != NULL);
	add_tokens(w, 7, 5000, 100);
	CHECK(dataset_sync(w, &mark, &e) == 0);
	dataset_abort(w);
}

/* Interrupted at each mark and continued, with bytes after the mark that are cut off. woken: others
 * take the names of the parts before each mark, and before the end. */
static void
test_resume(bool woken)
{
	static const int64_t stops[] = { 0, 5, SUMS_BLOCK / 2, SUMS_BLOCK / 2 + 9, SUMS_BLOCK,
		SUMS_BLOCK + 77 };
	struct dataset_mark mark, *from = NULL;
	int64_t at = 0;

	for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
		struct dataset_writer *w =
		    dataset_writer_resume(scratch("r"), DTYPE_U16, from, NULL, &e);

		CHECK(w != NULL);
		add_tokens(w, at, stops[i], 100003);
		at = stops[i];
		if (woken)
			wake_another();
		CHECK(dataset_sync(w, &mark, &e) == 0);
		from = &mark;
		add_tokens(w, at, at + SUMS_BLOCK, 99991);
		if (i + 1 < sizeof stops / sizeof *stops) {
			dataset_abort(w);
			continue;
		}
		if (woken)
			wake_another();
		CHECK(dataset_commit(w, &e) == 0);
	}
	check_all(scratch("r"));
	CHECK(io_exists(scratch("r.sums.part")));
	CHECK(dataset_drop_parts(scratch("r"), NULL, &e) == 0);
	CHECK(!io_exists(scratch("r.sums.part")));
}

/* A writer that has lost its lock opens no parts, which are another's. */
static void
test_lost(void)
{
	const struct lock_terms how = { 0 };
	struct lock *lock = dataset_claim(scratch("lost"), &how, &e);

	CHECK(lock && outfile_write(scratch("lost.lock"), "another's", 9, &e) == 0);
	CHECK(!dataset_writer_resume(scratch("lost"), DTYPE_U16, NULL, lock, &e));
	CHECK(strstr(e.msg, "/lost.lock' no longer belongs to this run"));
	CHECK(!io_exists(scratch("lost.bin.part")));
	lock_release(lock);
	CHECK(unlink(scratch("lost.lock")) == 0);
}

/* One damage of a file of sums, the bytes written over it and the reason. */
static const struct {
	size_t at, len;
	uint64_t value;
	const char *reason;
} damages[] = {
	{ 0, 1, 'M', "not the checksums of a dataset: no magic 'mksums'" },
	{ 8, 8, 2, "version 2; only version 1 is known" },
	{ 16, 8, 4096, "blocks of 4096 bytes; only 1048576 is known" },
	{ 24, 8, 1, "2 checksums for a .bin of 1 bytes" },
	{ 24, 8, UINT64_MAX, "2 checksums for a .bin of 18446744073709551615 bytes" },
	{ 32, 8, 3, "72 bytes, not the size of a file of 3 checksums: it is truncated or damaged" },
	{ 32, 8, UINT64_MAX / 8 + 1,
	    "72 bytes, not the size of a file of 2305843009213693952 checksums: it is truncated or "
	    "damaged" },
	{ 24, 1, 3, "its own checksum is wrong: the file is damaged" },
	{ 40, 1, 0, "its own checksum is wrong: the file is damaged" },
	{ 50, 1, 0, "its own checksum is wrong: the file is damaged" },
	{ 71, 1, 0, "its own checksum is wrong: the file is damaged" },
};

static void
test_damage(void)
{
	char *bytes, copy[72], want[256];
	struct sums *s;
	size_t len;

	make(prefix, SUMS_BLOCK / 2 + 5, 1000);
	CHECK(io_read_file(scratch("x.sum"), 0, &bytes, &len, &e) == 0 && len == sizeof copy);
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		memcpy(copy, bytes, sizeof copy);
		memcpy(copy + damages[i].at, &damages[i].value, damages[i].len);
		if (damages[i].len == 1 && damages[i].at)
			copy[damages[i].at] = (char)(bytes[damages[i].at] ^ (i + 1));
		CHECK(!sums_parse("x", copy, sizeof copy, &e));
		snprintf(want, sizeof want, "x: %s", damages[i].reason);
		CHECK_STR(e.msg, want);
	}
	for (size_t n = 0; n < len; n++)
		CHECK(!sums_parse("x", bytes, n, &e));
	s = sums_parse("x", bytes, len, &e);
	CHECK(s != NULL);
	sums_close(s);
	free(bytes);
}

/* Flips a bit of the .bin. */
static void
flip(int64_t at)
{
	int fd = open(scratch("x.bin"), O_RDWR);
	unsigned char b;

	CHECK(pread(fd, &b, 1, at) == 1);
	b ^= 4;
	CHECK(pwrite(fd, &b, 1, at) == 1);
	close(fd);
}

/* A bit in any block is found there and nowhere else; sums of another index are not used. */
static void
test_compare(void)
{
	char print[2][SUMS_FINGERPRINT], want[256];
	struct dataset *d;
	struct sums *s;

	make(prefix, 3 * (SUMS_BLOCK / 2) + 4, 1000);
	d = open_both(prefix, &s);
	CHECK(sums_fingerprint(d, dataset_index_hash(d), s, print[0], &e) == 0);
	CHECK(sums_fingerprint(d, dataset_index_hash(d), NULL, print[1], &e) == 0);
	CHECK(strlen(print[0]) == strlen(print[1]) + 17 && sums_same(print[0], print[1]));
	for (int64_t block = 0; block < 4; block++) {
		flip(block * SUMS_BLOCK + 3);
		for (int64_t k = 0; k < 4; k++)
			CHECK((sums_check(s, d, k, room, &e) == 0) == (k != block));
		CHECK(sums_fingerprint(d, dataset_index_hash(d), s, print[1], &e) < 0);
		snprintf(want, sizeof want, "%s.bin: block %d (bytes %d to %d) has XXH3-64 ",
		    prefix, (int)block, (int)block * SUMS_BLOCK,
		    block == 3 ? 3 * SUMS_BLOCK + 7 : ((int)block + 1) * SUMS_BLOCK - 1);
		CHECK(strncmp(e.msg, want, strlen(want)) == 0);
		CHECK(sums_fingerprint(d, dataset_index_hash(d), NULL, print[1], &e) == 0);
		CHECK(!sums_same(print[0], print[1]));
		flip(block * SUMS_BLOCK + 3);
	}
	sums_close(s);
	CHECK(sums_open(&s, d, dataset_index_hash(d) + 1, &e) < 0 && !s);
	CHECK(strstr(e.msg, "x.sum: belongs to another index than "));
	unlink(scratch("x.sum"));
	CHECK(sums_open(&s, d, dataset_index_hash(d), &e) == 0 && !s);
	dataset_close(d);
}

static void
test_same(void)
{
	static const struct {
		const char *a, *b;
		bool same;
	} row[] = { { "1-2", "1-2", true }, { "1-2", "1-2-3", true }, { "1-2-3-4", "1-2", true },
		{ "1-2", "1-23", false }, { "1-2-3", "1-2-4", false },
		{ "1-2-3-4", "1-2-4", false }, { "1-2-3-4", "1-2-3-5", false } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		CHECK(sums_same(row[i].a, row[i].b) == row[i].same);
		CHECK(sums_same(row[i].b, row[i].a) == row[i].same);
	}
}

/* A repair in place keeps the sums of the blocks that stay, so that it does not vouch for damage.
 */
static void
test_repair(void)
{
	struct str found = { 0 };
	struct dataset_repair *r;
	struct dataset *d;
	struct sums *s;

	make(prefix, 3 * (SUMS_BLOCK / 2), 1000);
	flip(SUMS_BLOCK + 3);
	CHECK(truncate(scratch("x.bin"), 2 * SUMS_BLOCK + 4321) == 0);
	r = dataset_repair_open(prefix, &found, &e);
	CHECK(r && dataset_repair_save(r, &(struct repair_target){ .replace = true }, &e) == 0);
	dataset_repair_close(r);
	d = open_both(prefix, &s);
	for (int64_t k = 0; k < 3; k++)
		CHECK((sums_check(s, d, k, room, &e) == 0) == (k != 1));
	sums_close(s);
	dataset_close(d);
	unlink(scratch("x.sum"));
	CHECK(sums_cut(prefix, 100, NULL, &e) == 0 && !io_exists(scratch("x.sum")));
	str_release(&found);
}

int
main(void)
{
	CHECK(mkdtemp(dir));
	snprintf(prefix, sizeof prefix, "%s/x", dir);
	test_writers();
	test_resume(false);
	test_resume(true);
	test_lost();
	test_damage();
	test_compare();
	test_same();
	test_repair();
	io_remove_tree(dir, NULL);
	return check_done();
}
