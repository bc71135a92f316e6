/*
 * dataset.c - reading PREFIX.idx and PREFIX.bin
 *
 * The 34 bytes of the header leave every array unaligned, so elements are loaded with memcpy. The
 * index is checked once, on opening; the accessors trust it. Tokens come from a map or, where a
 * file system handles maps badly, through pread, whose short reads are errors.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/data/dataset_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

char *
dataset_path(const char *prefix, const char *suffix)
{
	size_t n = strlen(prefix), m = strlen(suffix);
	char *path = mem_alloc(n + m + 1, 1);

	memcpy(path, prefix, n);
	memcpy(path + n, suffix, m + 1);
	return path;
}

/* A map costs no descriptor, so thousands of datasets may be open at once. */
int
dataset_open_files(struct dataset *d, const char *prefix, bool no_mmap_bin, struct err *e)
{
	d->prefix = mem_strdup(prefix);
	d->idx_path = dataset_path(prefix, ".idx");
	d->bin_path = dataset_path(prefix, ".bin");
	d->bin_fd = -1;
	if (map_open(&d->idx, d->idx_path, e) < 0)
		return dataset_is_unfinished(prefix)
		    ? err_at(e, d->idx_path, 0,
			  "its replacement was cut short; mshard repair --in-place finishes it")
		    : -1;
	if (no_mmap_bin) {
		struct stat st;

		d->bin_fd = io_open_regular(d->bin_path, &st, e);
		if (d->bin_fd < 0)
			return -1;
		d->bin_bytes = (uint64_t)st.st_size;
		d->bin_modified = st.st_mtim;
		return 0;
	}
	if (map_open(&d->bin, d->bin_path, e) < 0)
		return -1;
	d->bin_bytes = d->bin.size;
	d->bin_modified = d->bin.modified;
	return 0;
}

/* The index maps of training number sequences in 32 bits, so more of them would fail there,
 * late. */
static int
check_count(const struct dataset *d, struct err *e)
{
	if (d->sequences <= DATASET_MAX_SEQUENCES && d->documents <= DATASET_MAX_SEQUENCES)
		return 0;
	return err_at(e, d->idx_path, 0,
	    "%lld sequences and %lld documents: index maps number at most %d; mshard split divides "
	    "it",
	    (long long)d->sequences, (long long)d->documents, DATASET_MAX_SEQUENCES);
}

/* Each check relies on those before it. */
struct dataset *
dataset_open_with(const char *prefix, const struct dataset_options *o, struct err *e)
{
	struct dataset *d = mem_zalloc(1, sizeof *d);

	if (dataset_open_files(d, prefix, o->no_mmap_bin, e) < 0 || dataset_check_head(d, e) < 0 ||
	    dataset_check_arrays(d, e) < 0 || (!o->any_count && check_count(d, e) < 0) ||
	    dataset_check_sequences(d, e) < 0 || dataset_check_documents(d, e) < 0 ||
	    dataset_check_bin(d, e) < 0) {
		dataset_close(d);
		return NULL;
	}
	map_forget(&d->idx);
	if (o->mask && dataset_open_mask(d, o, e) < 0) {
		dataset_close(d);
		return NULL;
	}
	return d;
}

/* The tokens are mapped, and the counts are limited to what training can use. */
struct dataset *
dataset_open(const char *prefix, struct err *e)
{
	return dataset_open_with(prefix, &(struct dataset_options){ 0 }, e);
}

/* The struct itself belongs to the caller. */
void
dataset_close_files(struct dataset *d)
{
	map_close(&d->idx);
	map_close(&d->bin);
	if (d->bin_fd >= 0)
		close(d->bin_fd);
	free(d->prefix);
	free(d->idx_path);
	free(d->bin_path);
}

/* Also closes a dataset that failed to open. */
void
dataset_close(struct dataset *d)
{
	if (!d)
		return;
	dataset_close(d->mask);
	dataset_close_files(d);
	free(d);
}

/* As given on opening; valid as long as d. */
const char *
dataset_prefix(const struct dataset *d)
{
	return d->prefix;
}

/* The type of the tokens in the file; all accessors return them as int64. */
enum dtype
dataset_dtype(const struct dataset *d)
{
	return d->type;
}

/* The unit of sampling: the "documents" of Megatron-LM's index maps are sequences. */
int64_t
dataset_num_sequences(const struct dataset *d)
{
	return d->sequences;
}

/* One less than the entries: the last entry is the end of the last document. */
int64_t
dataset_num_documents(const struct dataset *d)
{
	return d->documents;
}

/* The sum of all lengths. */
int64_t
dataset_num_tokens(const struct dataset *d)
{
	return d->tokens;
}

/*
 * sequence is not checked: every step of every walk calls this, and indices come from checked maps.
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

/* The pages of the tokens stay. */
void
dataset_forget(const struct dataset *d)
{
	map_forget(&d->idx);
}

/* One byte per sequence after the arrays, written for multimodal data; it is not interpreted
 * here. */
bool
dataset_has_modes(const struct dataset *d)
{
	return d->modes;
}

/* The files of these names may have been replaced by now. */
void
dataset_files(const struct dataset *d, struct dataset_file *bin, struct dataset_file *idx)
{
	*bin = (struct dataset_file){ d->bin_bytes, d->bin_modified };
	*idx = (struct dataset_file){ d->idx.size, d->idx.modified };
}

/* The end of the last sequence is the end of the .bin. */
int64_t
dataset_sequence_start(const struct dataset *d, int64_t sequence)
{
	return sequence == d->sequences
	    ? d->tokens
	    : load64(d->offset, sequence) / (int64_t)dtype_size(d->type);
}

/* The last of count items that begins at or before a position; start(count) is the end of all. */
static int64_t
thing_at(const struct dataset *d, int64_t (*start)(const struct dataset *, int64_t), int64_t count,
    int64_t place)
{
	int64_t low = 0, high = count;

	if (place < 0 || place >= start(d, count))
		return -1;
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;

		if (start(d, middle) <= place)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Empty sequences that begin at the same token come before the one that holds it. */
int64_t
dataset_sequence_at(const struct dataset *d, int64_t token)
{
	return thing_at(d, dataset_sequence_start, d->sequences, token);
}

/* The document in which a sequence is. */
int64_t
dataset_document_at(const struct dataset *d, int64_t sequence)
{
	return thing_at(d, dataset_document_start, d->documents, sequence);
}

/* Continuing after a short read would return stale memory. */
const void *
dataset_bytes(const struct dataset *d, uint64_t at, size_t bytes, void *room, struct err *e)
{
	if (bytes == 0 || at > d->bin_bytes || bytes > d->bin_bytes - at)
		BUG("bytes [%llu, +%zu) outside %s", (unsigned long long)at, bytes, d->bin_path);
	if (d->bin_fd < 0)
		return d->bin.base + at;
	if (io_pread_all(d->bin_fd, room, bytes, (int64_t)at) < 0) {
		err_at(e, d->bin_path, 0, "cannot read %zu bytes at byte %llu: %s", bytes,
		    (unsigned long long)at,
		    errno == EIO ? "the file ends there or cannot be read" : strerror(errno));
		return NULL;
	}
	return room;
}

/* One loop per type: tokens are unaligned, so each is loaded with memcpy. */
#define WIDEN(ctype) \
	for (int64_t i = 0; i < count; i++) { \
		ctype v; \
\
		memcpy(&v, p + i * (int64_t)sizeof v, sizeof v); \
		out[i] = v; \
	} \
	return

/* out may be the memory whose end holds the stored tokens: the next one to be read always lies
 * after the one to be written. */
void
dataset_widen(enum dtype t, const void *stored, int64_t count, int64_t *out)
{
	const unsigned char *p = stored;

	switch (t) {
	case DTYPE_U16: WIDEN(uint16_t);
	case DTYPE_I32: WIDEN(int32_t);
	case DTYPE_U8: WIDEN(uint8_t);
	case DTYPE_I8: WIDEN(int8_t);
	case DTYPE_I16: WIDEN(int16_t);
	default: WIDEN(int64_t);
	}
}

/* Tokens are read to the end of out and then widened from its beginning. */
int
dataset_tokens(const struct dataset *d, int64_t sequence, int64_t first, int64_t count,
    int64_t *out, struct err *e)
{
	int64_t width = (int64_t)dtype_size(d->type);
	const void *stored;

	if (first < 0 || count < 0 || first + count > dataset_length(d, sequence))
		BUG("tokens [%lld, +%lld) outside sequence %lld", (long long)first,
		    (long long)count, (long long)sequence);
	if (count == 0)
		return 0;
	stored = dataset_bytes(d, (uint64_t)(load64(d->offset, sequence) + first * width),
	    (size_t)(count * width), (char *)out + count * (8 - width), e);
	if (!stored)
		return -1;
	dataset_widen(d->type, stored, count, out);
	return 0;
}

/* Only advice, so the kernel's answer is ignored. */
void
dataset_will_need(const struct dataset *d, int64_t sequence, int64_t first, int64_t count)
{
	int64_t width = (int64_t)dtype_size(d->type),
		at = load64(d->offset, sequence) + first * width;

	if (count <= 0)
		return;
	if (d->bin_fd >= 0)
		(void)posix_fadvise(d->bin_fd, at, count * width, POSIX_FADV_WILLNEED);
	else
		map_will_need(d->bin.base + at, (uint64_t)(count * width));
}

/* The number of tokens times their width. */
uint64_t
dataset_bin_bytes(const struct dataset *d)
{
	return d->bin_bytes;
}

/* Reads the whole index, at memory speed. */
uint64_t
dataset_index_hash(const struct dataset *d)
{
	return hash_xxh3(d->idx.base, d->idx.size);
}

/* Of the tokens only the size enters. */
void
dataset_fingerprint(const struct dataset *d, uint64_t index, char out[64])
{
	char digits[17];

	snprintf(out, 64, "%s-%llu", hash_text(index, digits), (unsigned long long)d->bin_bytes);
}

/* 65500 instead of 65536: the preprocessor's bound, which readers must repeat when they know only
 * the vocabulary. */
enum dtype
dataset_dtype_for(int64_t vocab_size)
{
	return vocab_size < 65500 ? DTYPE_U16 : DTYPE_I32;
}

/* There is always one: I64 holds all ids. */
enum dtype
dataset_common_type(enum dtype a, enum dtype b)
{
	static const struct {
		enum dtype type;
		int64_t min, max;
	} row[] = {
		{ DTYPE_U8, 0, UINT8_MAX },
		{ DTYPE_I8, INT8_MIN, INT8_MAX },
		{ DTYPE_U16, 0, UINT16_MAX },
		{ DTYPE_I16, INT16_MIN, INT16_MAX },
		{ DTYPE_I32, INT32_MIN, INT32_MAX },
		{ DTYPE_I64, INT64_MIN, INT64_MAX },
	};
	int ra = 0, rb = 0, i = 0;

	while (row[ra].type != a)
		ra++;
	while (row[rb].type != b)
		rb++;
	while (row[i].min > row[ra].min || row[i].min > row[rb].min || row[i].max < row[ra].max ||
	    row[i].max < row[rb].max)
		i++;
	return row[i].type;
}
