/*
 * dataset.c - reading PREFIX.idx and PREFIX.bin
 *
 * The 34 bytes of the header leave every array unaligned, so elements are loaded with memcpy. All
 * checks of the index are made once, on opening; the accessors trust it.
 */
#include "lib/format/dataset.h"
#include "lib/base/hash.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 34, FORGET = 2 << 20 };

static const char magic[9] = "MMIDIDX\0";
static const char old_magic[8] = "TNTIDX\0";

/* Type codes of the index; 6 and 7 are the floating types, which hold no tokens. */
static const enum dtype type_of_code[] = {
	DTYPE_NONE, DTYPE_U8, DTYPE_I8, DTYPE_I16, DTYPE_I32, DTYPE_I64, DTYPE_F64, DTYPE_F32, DTYPE_U16,
};

struct dataset {
	char *prefix, *idx_path, *bin_path;
	struct map idx, bin;
	enum dtype type;
	int64_t sequences, documents, tokens;
	const unsigned char *length;            /* i32[sequences] */
	const unsigned char *offset;            /* i64[sequences], bytes into the .bin */
	const unsigned char *document;          /* i64[documents + 1] */
	bool modes;
};

/* Element i of an unaligned array of 32-bit integers. */
static int32_t
load32(const unsigned char *p, int64_t i)
{
	int32_t v;

	memcpy(&v, p + 4 * i, 4);
	return v;
}

/* Element i of an unaligned array of 64-bit integers. */
static int64_t
load64(const unsigned char *p, int64_t i)
{
	int64_t v;

	memcpy(&v, p + 8 * i, 8);
	return v;
}

/* Magic, version and type. */
static int
check_head(struct dataset *d, struct err *e)
{
	const unsigned char *p = d->idx.base;
	uint64_t size = d->idx.size;
	unsigned type;

	if (size >= sizeof old_magic && !memcmp(p, old_magic, sizeof old_magic))
		return err_at(e, d->idx_path, 0,
		    "the obsolete TNTIDX layout, which nothing trains from since 2023");
	if (size < sizeof magic || memcmp(p, magic, sizeof magic))
		return err_at(
		    e, d->idx_path, 0, "not a dataset index: it does not begin with MMIDIDX");
	if (size < HEADER_BYTES)
		return err_at(e, d->idx_path, 0,
		    "the file ends inside its header: %llu bytes of %d", (unsigned long long)size,
		    HEADER_BYTES);
	if (load64(p + 9, 0) != 1)
		return err_at(e, d->idx_path, 0, "version %llu; only version 1 is known",
		    (unsigned long long)load64(p + 9, 0));
	type = p[17];
	if (type == 0 || type >= sizeof type_of_code / sizeof *type_of_code)
		return err_at(e, d->idx_path, 0, "unknown token type code %u", type);
	d->type = type_of_code[type];
	if (dtype_is_float(d->type))
		return err_at(e, d->idx_path, 0, "token type code %u is %s; tokens are integers",
		    type, dtype_torch_name(d->type));
	return 0;
}

/* The counts against the size of the file; sets the array pointers. */
static int
check_arrays(struct dataset *d, struct err *e)
{
	const unsigned char *p = d->idx.base;
	uint64_t n = (uint64_t)load64(p + 18, 0), docs = (uint64_t)load64(p + 26, 0),
		 body = d->idx.size - HEADER_BYTES, need;

	if (docs == 0)
		return err_at(
		    e, d->idx_path, 0, "the document index is empty; it must hold at least its 0");
	/* After these two bounds nothing below can overflow. */
	if (n > body / 12 || docs > body / 8 || n * 12 + docs * 8 > body)
		return err_at(e, d->idx_path, 0,
		    "the file ends inside its arrays: %llu sequences and %llu document boundaries "
		    "do not "
		    "fit %llu bytes",
		    (unsigned long long)n, (unsigned long long)docs,
		    (unsigned long long)d->idx.size);
	need = n * 12 + docs * 8;
	d->modes = n > 0 && body - need == n;
	if (body != need && !d->modes)
		return err_at(e, d->idx_path, 0,
		    "%llu bytes follow the arrays; only %llu modes could",
		    (unsigned long long)(body - need), (unsigned long long)n);
	d->sequences = (int64_t)n;
	d->documents = (int64_t)docs - 1;
	d->length = p + HEADER_BYTES;
	d->offset = d->length + 4 * n;
	d->document = d->offset + 8 * n;
	return 0;
}

/* Lengths are not negative and offsets are their running sum. */
static int
check_sequences(struct dataset *d, struct err *e)
{
	uint64_t width = dtype_size(d->type), at = 0;

	for (int64_t i = 0; i < d->sequences; i++) {
		int32_t len = load32(d->length, i);

		if (len < 0)
			return err_at(e, d->idx_path, 0, "sequence %lld has the negative length %d",
			    (long long)i, (int)len);
		if ((uint64_t)load64(d->offset, i) != at)
			return err_at(e, d->idx_path, 0,
			    "sequence %lld starts at byte %lld, but the lengths before it add up "
			    "to %llu",
			    (long long)i, (long long)load64(d->offset, i), (unsigned long long)at);
		if (at > (uint64_t)INT64_MAX - (uint64_t)len * width)
			return err_at(
			    e, d->idx_path, 0, "the lengths add up to more than 63 bits of bytes");
		at += (uint64_t)len * width;
		if (i % FORGET == 0)
			map_forget(&d->idx);
	}
	d->tokens = (int64_t)(at / width);
	return 0;
}

/* The document index begins with 0, never decreases and ends with the number of sequences. */
static int
check_documents(const struct dataset *d, struct err *e)
{
	int64_t last = 0;

	if (load64(d->document, 0) != 0)
		return err_at(e, d->idx_path, 0, "the document index begins with %lld, not 0",
		    (long long)load64(d->document, 0));
	for (int64_t i = 1; i <= d->documents; i++) {
		int64_t v = load64(d->document, i);

		if (v < last)
			return err_at(e, d->idx_path, 0,
			    "the document index decreases from %lld to %lld at entry %lld",
			    (long long)last, (long long)v, (long long)i);
		last = v;
		if (i % FORGET == 0)
			map_forget(&d->idx);
	}
	if (last != d->sequences)
		return err_at(e, d->idx_path, 0,
		    "the document index ends with %lld, not with the %lld sequences",
		    (long long)last, (long long)d->sequences);
	return 0;
}

/* The .bin holds exactly the tokens that the lengths promise. */
static int
check_bin(const struct dataset *d, struct err *e)
{
	uint64_t want = (uint64_t)d->tokens * dtype_size(d->type);

	if (d->bin.size == want)
		return 0;
	return err_at(e, d->bin_path, 0,
	    "%llu bytes, but the index wants %llu (%lld tokens of %s): %s",
	    (unsigned long long)d->bin.size, (unsigned long long)want, (long long)d->tokens,
	    dtype_torch_name(d->type),
	    d->bin.size < want ? "truncated, or of another dataset"
			       : "it goes on after the last sequence, or is of another dataset");
}

/* PREFIX followed by a suffix; free() it. */
static char *
join(const char *prefix, const char *suffix)
{
	size_t n = strlen(prefix), m = strlen(suffix);
	char *path = mem_alloc(n + m + 1, 1);

	memcpy(path, prefix, n);
	memcpy(path + n, suffix, m + 1);
	return path;
}

/* The checks go from what the next one relies on to what relies on it. */
struct dataset *
dataset_open(const char *prefix, struct err *e)
{
	struct dataset *d = mem_zalloc(1, sizeof *d);

	d->prefix = mem_strdup(prefix);
	d->idx_path = join(prefix, ".idx");
	d->bin_path = join(prefix, ".bin");
	if (map_open(&d->idx, d->idx_path, e) < 0 || map_open(&d->bin, d->bin_path, e) < 0 ||
	    check_head(d, e) < 0 || check_arrays(d, e) < 0 || check_sequences(d, e) < 0 ||
	    check_documents(d, e) < 0 || check_bin(d, e) < 0) {
		dataset_close(d);
		return NULL;
	}
	map_forget(&d->idx);
	return d;
}

/* Also closes what a failed opening left half done. */
void
dataset_close(struct dataset *d)
{
	if (!d)
		return;
	map_close(&d->idx);
	map_close(&d->bin);
	free(d->prefix);
	free(d->idx_path);
	free(d->bin_path);
	free(d);
}

/* As it was given on opening; lives as long as d. */
const char *
dataset_prefix(const struct dataset *d)
{
	return d->prefix;
}

/* Of the tokens in the file; all accessors hand them out as int64 whatever this is. */
enum dtype
dataset_dtype(const struct dataset *d)
{
	return d->type;
}

/* What sampling counts by: Megatron-LM's "documents" of its index maps are sequences. */
int64_t
dataset_num_sequences(const struct dataset *d)
{
	return d->sequences;
}

/* The entries less one: the last entry is the end of the last document. */
int64_t
dataset_num_documents(const struct dataset *d)
{
	return d->documents;
}

/* The sum of the lengths. */
int64_t
dataset_num_tokens(const struct dataset *d)
{
	return d->tokens;
}

/*
 * sequence is not checked: this is called once a step of every walk, and indices come from maps
 * that were.
 */
int64_t
dataset_length(const struct dataset *d, int64_t sequence)
{
	return load32(d->length, sequence);
}

/* Entry `document` of the document index. */
int64_t
dataset_document_start(const struct dataset *d, int64_t document)
{
	return load64(d->document, document);
}

/* The tokens' pages stay. */
void
dataset_forget(const struct dataset *d)
{
	map_forget(&d->idx);
}

/* A byte a sequence behind the arrays, written for multimodal data; nothing here reads it. */
bool
dataset_has_modes(const struct dataset *d)
{
	return d->modes;
}

/* One stored token, sign and width as its type says. */
static int64_t
load_token(const unsigned char *p, enum dtype t)
{
	int64_t i64;
	int32_t i32;
	int16_t i16;
	uint16_t u16;

	switch (t) {
	case DTYPE_U16:
		memcpy(&u16, p, 2);
		return u16;
	case DTYPE_I32:
		memcpy(&i32, p, 4);
		return i32;
	case DTYPE_U8:
		return *p;
	case DTYPE_I8:
		return (int8_t)*p;
	case DTYPE_I16:
		memcpy(&i16, p, 2);
		return i16;
	default:
		memcpy(&i64, p, 8);
		return i64;
	}
}

/* Copies, because the tokens are unaligned and of any width. */
void
dataset_tokens(
    const struct dataset *d, int64_t sequence, int64_t first, int64_t count, int64_t *out)
{
	int64_t width = (int64_t)dtype_size(d->type);
	const unsigned char *p;

	if (first < 0 || count < 0 || first + count > dataset_length(d, sequence))
		BUG("tokens [%lld, +%lld) outside sequence %lld", (long long)first,
		    (long long)count, (long long)sequence);
	if (count == 0)
		return;
	p = d->bin.base + load64(d->offset, sequence) + first * width;
	for (int64_t i = 0; i < count; i++)
		out[i] = load_token(p + i * width, d->type);
}

/* For tools that copy tokens as they are; NULL and 0 bytes for a corpus without tokens. */
const void *
dataset_bin(const struct dataset *d, uint64_t *bytes)
{
	*bytes = d->bin.size;
	return d->bin.base;
}

/* The tokens enter by their size alone: reading all of them at every start would take too long. */
void
dataset_fingerprint(const struct dataset *d, char out[64])
{
	snprintf(out, 64, "%016llx-%llu", (unsigned long long)hash_xxh3(d->idx.base, d->idx.size),
	    (unsigned long long)d->bin.size);
}

/* 65500 and not 65536: the bound of the preprocessor, which readers have to guess when they know
 * only the vocabulary. */
enum dtype
dataset_dtype_for(int64_t vocab_size)
{
	return vocab_size < 65500 ? DTYPE_U16 : DTYPE_I32;
}
