/*
 * verify.c - checking that a dataset is sound
 *
 * Opening checks everything about the index: magic, version, type, counts against the sizes of both
 * files, offsets against lengths, documents in order. What remains are the tokens, which only a
 * vocabulary can check, and damage that leaves a legal dataset, which only checksums find. One pass
 * over the .bin checks both.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20, CHUNK = 8192 }; /* bytes read and tokens checked at a time */

/* Consecutive tokens of the .bin, from number `first` on. */
struct stored {
	const char *bytes;
	int64_t first, count;
};

/* Checks tokens against the vocabulary and reports the first bad id with its place. One unsigned
 * comparison also finds negative ids; without a branch, to keep up with the disk. */
static int
check_ids(const struct dataset *d, int64_t vocab_size, const struct stored *t, struct err *e)
{
	int64_t ids[CHUNK], width = (int64_t)dtype_size(dataset_dtype(d));

	for (int64_t at = 0; at < t->count; at += CHUNK) {
		int64_t n = t->count - at < CHUNK ? t->count - at : CHUNK, i = 0, token, s;
		int bad = 0;

		dataset_widen(dataset_dtype(d), t->bytes + at * width, n, ids);
		for (int64_t k = 0; k < n; k++)
			bad |= (uint64_t)ids[k] >= (uint64_t)vocab_size;
		if (!bad)
			continue;
		while (ids[i] >= 0 && ids[i] < vocab_size)
			i++;
		token = t->first + at + i;
		s = dataset_sequence_at(d, token);
		return err_set(e,
		    "%s.bin: token %lld of sequence %lld is %lld: with a vocabulary of %lld it "
		    "must be at most %lld",
		    dataset_prefix(d), (long long)(token - dataset_sequence_start(d, s)),
		    (long long)s, (long long)ids[i], (long long)vocab_size,
		    (long long)vocab_size - 1);
	}
	return 0;
}

/* One pass over the .bin: the checksum, and the ids when there is a vocabulary. */
static int
scan(const struct dataset *d, int64_t vocab_size, struct shard_meter *m, uint64_t *sum,
    struct err *e)
{
	uint64_t total = dataset_bin_bytes(d);
	size_t width = dtype_size(dataset_dtype(d));
	struct hash_stream *h = hash_stream_new();
	char *room = mem_alloc(BLOCK, 1);
	int rc = 0;

	for (uint64_t at = 0; at < total && rc == 0; at += BLOCK) {
		size_t n = total - at < BLOCK ? (size_t)(total - at) : BLOCK;
		const char *stored = dataset_bytes(d, at, n, room, e);

		rc = stored ? 0 : -1;
		if (stored)
			hash_stream_add(h, stored, n);
		if (stored && vocab_size > 0)
			rc = check_ids(d, vocab_size,
			    &(struct stored){ stored, (int64_t)(at / width), (int64_t)(n / width) },
			    e);
		shard_tell(m, n);
	}
	free(room);
	*sum = hash_stream_free(h);
	return rc;
}

/* Compares with the recorded checksums; the first time, records them. */
static int
check_sums(const char *prefix, const struct checksums *is, const char **what, struct err *e)
{
	struct checksums was;
	char now[17], then[17];
	int there = checksums_read(prefix, &was, e);

	*what = there ? ", checksums agree" : ", checksums written";
	if (there < 0)
		return -1;
	if (there == 0)
		return checksums_write(prefix, is, e);
	if (is->idx == was.idx && is->bin == was.bin)
		return 0;
	return err_set(e,
	    "%s.%s: XXH3-64 %s, but %s.xxh has %s: it is damaged, or was rewritten since; if it is "
	    "right, remove %s.xxh",
	    prefix, is->idx != was.idx ? "idx" : "bin",
	    hash_text(is->idx != was.idx ? is->idx : is->bin, now), prefix,
	    hash_text(is->idx != was.idx ? was.idx : was.bin, then), prefix);
}

/* A tokenizer on the command line must be the one in the notes, if there are notes. */
static int
check_tokenizer(const struct verify_config *c, const char *prefix, struct err *e)
{
	const char *hash = tokenizer_hash(c->tokenizer);
	struct notes n;
	int rc = notes_read(prefix, &n, e) < 0 ? -1 : 0;

	if (rc == 0 && n.type && strcmp(n.hash, hash))
		rc = err_set(e,
		    "%s.json: made with a %s with hash %s, but the one given has hash %s", prefix,
		    n.type, n.hash, hash);
	notes_release(&n);
	return rc;
}

/* Prints one line when it is sound; otherwise -1 with the first fault, and prints nothing. */
int
shard_verify(const struct verify_config *c, const char *prefix, FILE *out, struct err *e)
{
	int64_t vocab_size = c->tokenizer ? tokenizer_vocab_size(c->tokenizer) : c->vocab_size;
	struct dataset *d = shard_open(prefix, e);
	struct shard_meter m = { .tell = c->progress };
	const char *sums = "";
	struct checksums is;
	int rc = 0;

	if (!d)
		return -1;
	m.total = dataset_bin_bytes(d);
	if (c->tokenizer)
		rc = check_tokenizer(c, prefix, e);
	if (rc == 0 && (vocab_size > 0 || c->xxh))
		rc = scan(d, vocab_size, &m, &is.bin, e);
	if (rc == 0 && c->xxh) {
		is.idx = dataset_index_hash(d);
		rc = check_sums(prefix, &is, &sums, e);
	}
	if (rc == 0)
		fprintf(out, "%s: ok, %lld documents, %lld sequences, %lld tokens of %s%s\n",
		    prefix, (long long)dataset_num_documents(d),
		    (long long)dataset_num_sequences(d), (long long)dataset_num_tokens(d),
		    dtype_torch_name(dataset_dtype(d)), sums);
	dataset_close(d);
	return rc;
}
