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
#include "lib/base/outfile.h"
#include "lib/data/sums.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8192 }; /* tokens checked at a time; bytes are read by blocks of PREFIX.sum */

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

/* What a pass over the .bin looks at. */
struct scan {
	int64_t vocab_size;       /* 0: ids are not checked */
	const struct sums *sums;  /* NULL: there are none */
	struct sums_writer *made; /* NULL: none are made */
	struct hash_stream *whole;
	struct shard_meter meter;
};

/* One block of the .bin. */
static int
scan_block(struct scan *x, const struct dataset *d, const struct stored *t, struct err *e)
{
	size_t width = dtype_size(dataset_dtype(d)), bytes = (size_t)t->count * width;
	int64_t block = t->first * (int64_t)width / SUMS_BLOCK;

	if (x->whole)
		hash_stream_add(x->whole, t->bytes, bytes);
	if (x->made)
		sums_add(x->made, t->bytes, bytes);
	if (x->sums && sums_compare(x->sums, block, hash_xxh3(t->bytes, bytes), e) < 0)
		return -1;
	return x->vocab_size > 0 ? check_ids(d, x->vocab_size, t, e) : 0;
}

/* One pass over the .bin, whose blocks are whole numbers of tokens. */
static int
scan(struct scan *x, const struct dataset *d, struct err *e)
{
	uint64_t total = dataset_bin_bytes(d);
	int64_t width = (int64_t)dtype_size(dataset_dtype(d));
	char *room = mem_alloc(SUMS_BLOCK, 1);
	int rc = 0;

	for (uint64_t at = 0; at < total && rc == 0; at += SUMS_BLOCK) {
		size_t n = total - at < SUMS_BLOCK ? (size_t)(total - at) : SUMS_BLOCK;
		struct stored t = { dataset_bytes(d, at, n, room, e), (int64_t)at / width,
			(int64_t)n / width };

		rc = t.bytes ? scan_block(x, d, &t, e) : -1;
		shard_tell(&x->meter, n);
	}
	free(room);
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

/* The pass, and what compares the whole files. */
static int
check_bytes(const struct verify_config *c, struct scan *x, const struct dataset *d, uint64_t index,
    struct str *said, struct err *e)
{
	struct checksums is = { .idx = index };
	const char *what = "";
	int rc;

	x->whole = c->xxh ? hash_stream_new() : NULL;
	rc = x->sums || x->made || x->whole || x->vocab_size > 0 ? scan(x, d, e) : 0;
	if (x->sums)
		str_adds(said, ", sums agree");
	if (!x->whole)
		return rc;
	is.bin = hash_stream_free(x->whole);
	if (rc == 0)
		rc = check_sums(dataset_prefix(d), &is, &what, e);
	str_adds(said, what);
	return rc;
}

/* Makes the sums in the same pass; they are written when everything else is right. */
static int
seal(const struct verify_config *c, struct scan *x, const struct dataset *d, uint64_t index,
    struct str *said, struct err *e)
{
	FILE *file = dataset_spill(dataset_prefix(d), e);
	struct sums_writer w = { 0 };
	struct outfile out = { 0 };
	struct str path = { 0 };
	int rc = file ? sums_begin(&w, file, -1, 0, e) : -1;

	str_addf(&path, "%s.sum", dataset_prefix(d));
	x->made = &w;
	if (rc == 0)
		rc = check_bytes(c, x, d, index, said, e);
	if (rc == 0)
		rc = sums_write(&w, &out, path.buf, index, e);
	if (rc == 0)
		rc = outfile_commit(&out, e);
	outfile_abort(&out);
	sums_abort(&w);
	if (file)
		fclose(file);
	str_release(&path);
	str_adds(said, ", sums written");
	return rc;
}

/* Everything about the tokens that the config asks for, and their checksums if they have any. said:
 * the end of the line that is printed. */
static int
check_tokens(
    const struct verify_config *c, const struct dataset *d, struct str *said, struct err *e)
{
	uint64_t index = dataset_index_hash(d);
	struct sums *sums;
	int rc = sums_open(&sums, d, index, e);
	struct scan x = { .vocab_size =
			      c->tokenizer ? tokenizer_vocab_size(c->tokenizer) : c->vocab_size,
		.sums = sums,
		.meter = { c->progress, 0, dataset_bin_bytes(d) } };

	if (rc >= 0)
		rc = c->seal && !sums ? seal(c, &x, d, index, said, e)
				      : check_bytes(c, &x, d, index, said, e);
	sums_close(sums);
	return rc;
}

/* Every byte of a mask, and its checksums if it has any. */
static int
check_mask(const struct dataset *mask, struct str *said, struct err *e)
{
	int64_t bytes = (int64_t)dataset_bin_bytes(mask), counted = 0;
	uint8_t *room = mem_alloc(SUMS_BLOCK, 1);
	struct sums *sums = NULL;
	int rc = sums_open(&sums, mask, dataset_index_hash(mask), e) < 0 ? -1 : 0;

	for (int64_t at = 0, n; at < bytes && rc == 0; at += n) {
		const uint8_t *p;

		n = bytes - at < SUMS_BLOCK ? bytes - at : SUMS_BLOCK;
		p = dataset_bytes(mask, (uint64_t)at, (size_t)n, room, e);
		rc = p ? dataset_mask_values(mask, p, at, n, e) : -1;
		if (rc == 0 && sums)
			rc = sums_compare(sums, at / SUMS_BLOCK, hash_xxh3(p, (size_t)n), e);
		for (int64_t i = 0; i < n && rc == 0; i++)
			counted += p[i];
	}
	sums_close(sums);
	free(room);
	str_addf(said, ", a mask counts %lld", (long long)counted);
	return rc;
}

/* Prints one line when it is sound; otherwise -1 with the first fault, and prints nothing. */
int
shard_verify(const struct verify_config *c, const char *prefix, FILE *out, struct err *e)
{
	struct dataset *d = shard_open(prefix, e);
	struct str said = { 0 };
	int rc = 0;

	if (!d)
		return -1;
	if (c->tokenizer)
		rc = check_tokenizer(c, prefix, e);
	if (rc == 0)
		rc = check_tokens(c, d, &said, e);
	if (rc == 0 && dataset_mask(d))
		rc = check_mask(dataset_mask(d), &said, e);
	if (rc == 0)
		fprintf(out, "%s: ok, %lld documents, %lld sequences, %lld tokens of %s%s\n",
		    prefix, (long long)dataset_num_documents(d),
		    (long long)dataset_num_sequences(d), (long long)dataset_num_tokens(d),
		    dtype_torch_name(dataset_dtype(d)), said.buf ? said.buf : "");
	str_release(&said);
	dataset_close(d);
	return rc;
}
