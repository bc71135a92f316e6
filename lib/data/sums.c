/*
 * sums.c - PREFIX.sum: reading it, and the fingerprint of a dataset
 *
 *   0          8   magic "mksums\r\n"
 *   8          8   version, 1
 *   16         8   bytes of a block, 1048576
 *   24         8   bytes of the .bin
 *   32         8   n, its blocks
 *   40         8   XXH3-64 of the .idx
 *   48         8n  XXH3-64 of each block
 *   48+8n      8   XXH3-64 of all bytes before it
 *
 * Sums are loaded with memcpy from the map: a terabyte has 8 MB of them.
 */
#include "lib/base/hash.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/sums.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct sums {
	struct map map; /* empty when the bytes are borrowed */
	char *path;
	int64_t count;
	uint64_t bin_bytes, index, own;
	const unsigned char *sum; /* u64[count] */
};

int64_t
sums_count(uint64_t bin_bytes)
{
	return (int64_t)(bin_bytes / SUMS_BLOCK + (bin_bytes % SUMS_BLOCK != 0));
}

/* Fields in their order, each relying on those before it: the count is compared with the size
 * before it is multiplied. */
static int
check(const char *path, const unsigned char *p, uint64_t size, struct err *e)
{
	uint64_t version, block, bytes, count;

	if (size < sizeof sums_magic || memcmp(p, sums_magic, sizeof sums_magic) != 0)
		return err_at(e, path, 0, "not the checksums of a dataset: no magic 'mksums'");
	if (size < SUMS_HEADER + 8)
		return err_at(e, path, 0, "the file ends inside its header: %llu bytes of %d",
		    (unsigned long long)size, SUMS_HEADER + 8);
	version = (uint64_t)load64(p + 8, 0);
	block = (uint64_t)load64(p + 16, 0);
	bytes = (uint64_t)load64(p + 24, 0);
	count = (uint64_t)load64(p + 32, 0);
	if (version != SUMS_VERSION)
		return err_at(e, path, 0, "version %llu; only version %d is known",
		    (unsigned long long)version, SUMS_VERSION);
	if (block != SUMS_BLOCK)
		return err_at(e, path, 0, "blocks of %llu bytes; only %d is known",
		    (unsigned long long)block, SUMS_BLOCK);
	if (count > size / 8 || size != SUMS_HEADER + 8 * count + 8)
		return err_at(e, path, 0,
		    "%llu bytes, not the size of a file of %llu checksums: it is truncated or "
		    "damaged",
		    (unsigned long long)size, (unsigned long long)count);
	if (count != (uint64_t)sums_count(bytes))
		return err_at(e, path, 0, "%llu checksums for a .bin of %llu bytes",
		    (unsigned long long)count, (unsigned long long)bytes);
	if (hash_xxh3(p, (size_t)size - 8) != (uint64_t)load64(p + size - 8, 0))
		return err_at(e, path, 0, "its own checksum is wrong: the file is damaged");
	return 0;
}

struct sums *
sums_parse(const char *path, const void *bytes, uint64_t size, struct err *e)
{
	const unsigned char *p = bytes;
	struct sums *s;

	if (check(path, p, size, e) < 0)
		return NULL;
	s = mem_zalloc(1, sizeof *s);
	s->path = mem_strdup(path);
	s->bin_bytes = (uint64_t)load64(p + 24, 0);
	s->count = load64(p + 32, 0);
	s->index = (uint64_t)load64(p + 40, 0);
	s->sum = p + SUMS_HEADER;
	s->own = (uint64_t)load64(p + size - 8, 0);
	return s;
}

/* 1, 0 or -1 as sums_open, with the file of any dataset. */
static int
load(struct sums **s, const char *prefix, struct err *e)
{
	char *path = dataset_path(prefix, ".sum");
	struct map map = { 0 };
	int rc = io_there(path, e);

	*s = NULL;
	if (rc > 0) {
		rc = map_open(&map, path, e) < 0 ? -1 : 1;
		if (rc == 1)
			*s = sums_parse(path, map.base, map.size, e);
		if (*s)
			(*s)->map = map;
		else
			map_close(&map);
		rc = *s ? 1 : -1;
	}
	free(path);
	return rc;
}

/* A size that differs cannot be told from a wrong file by the index alone: an index without
 * sequences fits any. */
int
sums_open(struct sums **s, const struct dataset *d, uint64_t index, struct err *e)
{
	int rc = load(s, dataset_prefix(d), e);

	if (rc < 1 || ((*s)->index == index && (*s)->bin_bytes == dataset_bin_bytes(d)))
		return rc;
	err_set(e,
	    "%s: belongs to another index than %s.idx: the dataset was replaced or damaged; if it "
	    "is right, remove %s and make it anew with mshard verify --seal",
	    (*s)->path, dataset_prefix(d), (*s)->path);
	sums_close(*s);
	*s = NULL;
	return -1;
}

void
sums_close(struct sums *s)
{
	if (!s)
		return;
	map_close(&s->map);
	free(s->path);
	free(s);
}

/* Bytes of a block: the last one may have fewer. */
static size_t
block_bytes(uint64_t bin_bytes, int64_t block)
{
	uint64_t left = bin_bytes - (uint64_t)block * SUMS_BLOCK;

	return left < SUMS_BLOCK ? (size_t)left : SUMS_BLOCK;
}

/* The pages of a map are given back: a pass over all blocks would keep the whole file. */
static int
sum_of_block(const struct dataset *d, int64_t block, void *room, uint64_t *sum, struct err *e)
{
	size_t len = block_bytes(dataset_bin_bytes(d), block);
	const void *bytes = dataset_bytes(d, (uint64_t)block * SUMS_BLOCK, len, room, e);

	if (!bytes)
		return -1;
	*sum = hash_xxh3(bytes, len);
	if (bytes != room)
		map_forget_part(bytes, len);
	return 0;
}

int
sums_compare(const struct sums *s, int64_t block, uint64_t sum, struct err *e)
{
	uint64_t was = (uint64_t)load64(s->sum, block), at = (uint64_t)block * SUMS_BLOCK;
	char now[17], then[17];

	if (sum == was)
		return 0;
	return err_set(e,
	    "%.*s.bin: block %lld (bytes %llu to %llu) has XXH3-64 %s, but %s has %s: the file is "
	    "damaged, or was rewritten since; if it is right, remove %s",
	    (int)strlen(s->path) - 4, s->path, (long long)block, (unsigned long long)at,
	    (unsigned long long)(at + block_bytes(s->bin_bytes, block) - 1), hash_text(sum, now),
	    s->path, hash_text(was, then), s->path);
}

int
sums_check(const struct sums *s, const struct dataset *d, int64_t block, void *room, struct err *e)
{
	uint64_t sum;

	return sum_of_block(d, block, room, &sum, e) < 0 ? -1 : sums_compare(s, block, sum, e);
}

/* --- the fingerprint -------------------------------------------------------------------------- */

enum { SAMPLED = 4 };

/* Block number i of the sample: the first and the last block, and others that a counter draws,
 * keyed by the index; all of them where there are few. */
static int64_t
sampled(uint64_t index, int64_t count, int i)
{
	uint32_t counter[4] = { (uint32_t)i, 0, rng_stream("sample of blocks"), 0 }, word[4];

	if (count <= SAMPLED)
		return i;
	if (i == 0 || i == 1)
		return i ? count - 1 : 0;
	rng_philox(index, counter, word);
	return (int64_t)(((uint64_t)word[1] << 32 | word[0]) % (uint64_t)count);
}

/* The sample is the same on every rank and in every later run. */
int
sums_fingerprint(const struct dataset *d, uint64_t index, const struct sums *s,
    char out[SUMS_FINGERPRINT], struct err *e)
{
	int64_t count = sums_count(dataset_bin_bytes(d));
	int n = count < SAMPLED ? (int)count : SAMPLED, rc = 0;
	void *room = mem_alloc(SUMS_BLOCK, 1);
	uint64_t sum[SAMPLED] = { 0 };
	char own[17];
	size_t len;

	for (int i = 0; i < n && rc == 0; i++) {
		int64_t block = sampled(index, count, i);

		rc = sum_of_block(d, block, room, &sum[i], e);
		if (rc == 0 && s)
			rc = sums_compare(s, block, sum[i], e);
	}
	free(room);
	dataset_fingerprint(d, index, out);
	len = strlen(out);
	len += (size_t)snprintf(out + len, SUMS_FINGERPRINT - len, "-%08x",
	    (unsigned)(hash_xxh3(sum, sizeof sum) >> 32));
	if (s)
		snprintf(out + len, SUMS_FINGERPRINT - len, "-%s", hash_text(s->own, own));
	return rc;
}

/* Parts are only added at the end, so the shorter one is where the longer one begins. */
bool
sums_same(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;
	char next = n < m ? b[least] : a[least];

	return memcmp(a, b, least) == 0 && (next == '-' || next == '\0');
}

/* --- after a repair -----------------------------------------------------------------------------
 */

/* Writes PREFIX.sum anew from the sums of the whole blocks and the bytes after them. */
static int
renew(const struct sums *s, const char *prefix, int bin, uint64_t bin_bytes, struct lock *lock,
    struct err *e)
{
	char *idx = dataset_path(prefix, ".idx");
	FILE *kept = dataset_spill(prefix, e);
	struct sums_writer w = { 0 };
	struct outfile out = { 0 };
	struct map map = { 0 };
	int rc = kept ? map_open(&map, idx, e) : -1;

	if (rc == 0)
		fwrite(s->sum, 8, (size_t)(bin_bytes / SUMS_BLOCK), kept);
	if (rc == 0)
		rc = sums_begin(&w, kept, bin, bin_bytes, e);
	if (rc == 0)
		rc = sums_write(&w, &out, s->path, hash_xxh3(map.base, map.size), e);
	out.lock = lock; /* sums_write has opened it without one */
	if (rc == 0)
		rc = outfile_commit(&out, e);
	outfile_abort(&out);
	sums_abort(&w);
	map_close(&map);
	if (kept)
		fclose(kept);
	free(idx);
	return rc;
}

/* The sums of whole blocks are those of before, so that damage of before is still found. */
int
sums_cut(const char *prefix, uint64_t bin_bytes, struct lock *lock, struct err *e)
{
	char *path = dataset_path(prefix, ".sum"), *bin = dataset_path(prefix, ".bin");
	struct err ignored;
	struct sums *s;
	int found = load(&s, prefix, &ignored), fd = -1, rc = 0;

	if (found == 1 && s->bin_bytes >= bin_bytes) {
		fd = open(bin, O_RDONLY | O_CLOEXEC);
		rc = fd < 0 ? err_sys(e, "open", bin) : renew(s, prefix, fd, bin_bytes, lock, e);
	} else if (found != 0) {
		rc = lock_unlink(lock, path, e);
	}
	if (fd >= 0)
		close(fd);
	sums_close(s);
	free(path);
	free(bin);
	return rc;
}
