/*
 * dataset_write.c - writing PREFIX.bin and PREFIX.idx in one pass and constant memory
 *
 * The index begins with counts and lengths that are known only at the end, so lengths and document
 * boundaries go to two unnamed temporary files in the target's directory until commit copies them
 * into place.
 */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/dataset_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BIN_BUFFER = 256 * 1024, STRIDE = 4 << 20 };

/* The code, the least and the greatest value of the types that hold tokens. */
static const struct {
	enum dtype type;
	unsigned char code;
	int64_t min, max;
} kinds[] = {
	{ DTYPE_U8, 1, 0, UINT8_MAX },
	{ DTYPE_I8, 2, INT8_MIN, INT8_MAX },
	{ DTYPE_I16, 3, INT16_MIN, INT16_MAX },
	{ DTYPE_I32, 4, INT32_MIN, INT32_MAX },
	{ DTYPE_I64, 5, INT64_MIN, INT64_MAX },
	{ DTYPE_U16, 8, 0, UINT16_MAX },
};

/*
 * The row of a type. Types come from dataset_dtype_for or from an open dataset, so any other is a
 * bug.
 */
static int
kind_of(enum dtype t)
{
	for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
		if (kinds[i].type == t)
			return i;
	BUG("tokens of type %s", dtype_name(t));
}

/* mkstemp, because not every file system supports O_TMPFILE. */
FILE *
dataset_spill(const char *prefix, struct err *e)
{
	static const char tail[] = ".XXXXXX";
	size_t n = strlen(prefix);
	char *path = mem_alloc(n + sizeof tail, 1);
	FILE *f = NULL;
	int fd;

	memcpy(path, prefix, n);
	memcpy(path + n, tail, sizeof tail);
	fd = mkstemp(path);
	if (fd < 0) {
		err_sys(e, "create a temporary file for", prefix);
	} else {
		unlink(path);
		f = fdopen(fd, "wb+");
		if (!f) {
			err_sys(e, "open", path);
			close(fd);
		}
	}
	free(path);
	return f;
}

/* The reason of a failed write, from errno. */
static int
write_failed(const struct dataset_writer *w, struct err *e)
{
	return err_sys(e, "write", w->prefix);
}

/* A writer without files; dataset_abort frees it. */
struct dataset_writer *
dataset_writer_bare(const char *prefix, enum dtype t)
{
	struct dataset_writer *w = mem_zalloc(1, sizeof *w);
	int k = kind_of(t);

	w->type = t;
	w->min = kinds[k].min;
	w->max = kinds[k].max;
	w->prefix = mem_strdup(prefix);
	return w;
}

/* Only for an index: no .bin is opened, written or replaced. */
struct dataset_writer *
dataset_writer_index(const char *prefix, enum dtype t, struct err *e)
{
	struct dataset_writer *w = dataset_writer_bare(prefix, t);

	if ((w->lengths = dataset_spill(prefix, e)) && (w->documents = dataset_spill(prefix, e)))
		return w;
	dataset_abort(w);
	return NULL;
}

/* Opens the .bin and what goes along with it. */
static int
open_bin(struct dataset_writer *w, struct err *e)
{
	char *bin = dataset_path(w->prefix, ".bin");
	FILE *sums = dataset_spill(w->prefix, e);
	int rc = sums ? sums_begin(&w->sums, sums, -1, 0, e) : -1;

	if (rc == 0)
		rc = outfile_open(&w->bin, bin, e);
	free(bin);
	return rc;
}

/* Opens the temporary files; nothing appears under the final names before commit. */
struct dataset_writer *
dataset_writer_new(const char *prefix, enum dtype t, struct err *e)
{
	struct dataset_writer *w = dataset_writer_index(prefix, t, e);

	if (w && open_bin(w, e) < 0) {
		dataset_abort(w);
		w = NULL;
	}
	if (w) {
		/* Tokens come in runs of some kilobytes and are most of what is written: few large
		 * writes take half the time of many small ones. A refusal leaves stdio's own
		 * buffer. */
		w->buffer = mem_alloc(BIN_BUFFER, 1);
		(void)setvbuf(w->bin.f, w->buffer, _IOFBF, BIN_BUFFER);
	}
	return w;
}

/* A part at a time, so that its bytes are still in the processor's cache when they are written. */
int
dataset_put(struct dataset_writer *w, const void *bytes, size_t len)
{
	const char *p = bytes;

	for (size_t n; len > 0; p += n, len -= n) {
		n = len < BIN_BUFFER ? len : BIN_BUFFER;
		sums_add(&w->sums, p, n);
		if (fwrite(p, 1, n, w->bin.f) != n)
			return -1;
	}
	return 0;
}

int
dataset_put_from(struct dataset_writer *w, int fd, uint64_t at, uint64_t bytes)
{
	char *room = mem_alloc(BIN_BUFFER, 1);
	int rc = 0;

	for (uint64_t n; bytes > 0 && rc == 0; at += n, bytes -= n) {
		n = bytes < BIN_BUFFER ? bytes : BIN_BUFFER;
		rc = io_pread_all(fd, room, (size_t)n, (int64_t)at);
		if (rc == 0)
			rc = dataset_put(w, room, (size_t)n);
	}
	free(room);
	return rc;
}

/*
 * At most DATASET_CHUNK tokens, each checked against the range of the type: an id truncated to 16
 * bits would silently train on other text.
 */
int
dataset_write_ids(struct dataset_writer *w, const int64_t *ids, size_t count, struct err *e)
{
	size_t width = dtype_size(w->type);
	unsigned char buf[8 * DATASET_CHUNK];

	for (size_t i = 0; i < count; i++) {
		if (ids[i] < w->min || ids[i] > w->max)
			return err_at(e, w->bin.path, 0,
			    "token id %lld does not fit %s (%lld to %lld)", (long long)ids[i],
			    dtype_torch_name(w->type), (long long)w->min, (long long)w->max);
		/* little-endian: the low bytes come first */
		memcpy(buf + i * width, &ids[i], width);
	}
	return dataset_put(w, buf, width * count) == 0 ? 0 : write_failed(w, e);
}

/* More sequences than the maps of training can number would be refused on opening. */
int
dataset_write_lengths(struct dataset_writer *w, const void *lengths, int64_t count, struct err *e)
{
	if (count > DATASET_MAX_SEQUENCES - w->sequences)
		return err_at(e, w->prefix, 0,
		    "more than %d sequences: the index maps of training number at most that many; "
		    "write several datasets and blend them",
		    DATASET_MAX_SEQUENCES);
	w->sequences += count;
	return fwrite(lengths, 4, (size_t)count, w->lengths) == (size_t)count ? 0
									      : write_failed(w, e);
}

/* Documents have the same bound as sequences; only empty documents could exceed it first. */
int
dataset_write_boundaries(
    struct dataset_writer *w, const int64_t *ends, int64_t count, struct err *e)
{
	if (count > DATASET_MAX_SEQUENCES - w->boundaries)
		return err_at(e, w->prefix, 0,
		    "more than %d documents: write several datasets and blend them",
		    DATASET_MAX_SEQUENCES);
	w->boundaries += count;
	return fwrite(ends, 8, (size_t)count, w->documents) == (size_t)count ? 0
									     : write_failed(w, e);
}

/* Writes the ends of documents, in pieces. `sequence` is the number of sequences before the
 * first. */
static int
add_ends(struct dataset_writer *w, const struct dataset_batch *b, int64_t sequence, struct err *e)
{
	int64_t end[DATASET_CHUNK];

	for (int64_t at = 0; at < b->documents; at += DATASET_CHUNK) {
		int64_t n = b->documents - at < DATASET_CHUNK ? b->documents - at : DATASET_CHUNK;

		for (int64_t i = 0; i < n; i++)
			end[i] = sequence += b->per_document[at + i];
		if (dataset_write_boundaries(w, end, n, e) < 0)
			return -1;
	}
	if (sequence != w->sequences)
		BUG("documents of %lld sequences, not %lld", (long long)sequence,
		    (long long)w->sequences);
	return 0;
}

/* The bytes of the mask as a batch of their own. */
static int
add_mask(struct dataset_writer *w, const struct dataset_batch *b, struct err *e)
{
	struct dataset_batch mask = *b;

	mask.tokens = b->mask;
	mask.stored = b->mask_stored;
	mask.stored_bytes = b->mask_stored_bytes;
	return dataset_add_batch(w->mask, &mask, e);
}

/* Three writes, for any number of documents. */
int
dataset_add_batch(struct dataset_writer *w, const struct dataset_batch *b, struct err *e)
{
	int64_t before = w->sequences;
	size_t count = 0, bytes, held;

	if (w->mask && add_mask(w, b, e) < 0)
		return -1;

	for (int64_t i = 0; i < b->sequences; i++) {
		if (b->lengths[i] < 0)
			BUG("negative length");
		count += (size_t)b->lengths[i];
	}
	if (b->sequences && dataset_write_lengths(w, b->lengths, b->sequences, e) < 0)
		return -1;
	bytes = count * dtype_size(w->type);
	held = bytes - b->stored_bytes;
	if (dataset_put_from(w, b->stored, 0, b->stored_bytes) < 0 ||
	    dataset_put(w, b->tokens, held) < 0)
		return write_failed(w, e);
	/* so that the final sync has little left to wait for */
	w->unwritten += bytes;
	if (w->unwritten >= STRIDE) {
		io_start_writing(fileno(w->bin.f), (int64_t)w->unwritten);
		w->unwritten = 0;
	}
	return add_ends(w, b, before, e);
}

/* To the beginning of a temporary file. rewind(3) would forget that a write or a read has failed.
 */
static int
to_begin(FILE *spill)
{
	return ferror(spill) || fseeko(spill, 0, SEEK_SET) != 0 ? -1 : 0;
}

static int
copy_spill(FILE *spill, FILE *out)
{
	char buf[65536];
	size_t n;

	if (to_begin(spill) < 0)
		return -1;
	while ((n = fread(buf, 1, sizeof buf, spill)) > 0)
		fwrite(buf, 1, n, out);
	return ferror(spill) ? -1 : 0;
}

/*
 * The byte offsets are the running sum of the lengths, computed in a second pass, so that only one
 * of the two arrays must be spilled.
 */
static int
write_offsets(FILE *lengths, int64_t width, FILE *out)
{
	int32_t len[DATASET_CHUNK];
	int64_t offset[DATASET_CHUNK], at = 0;
	size_t n;

	if (to_begin(lengths) < 0)
		return -1;
	while ((n = fread(len, sizeof *len, DATASET_CHUNK, lengths)) > 0) {
		for (size_t i = 0; i < n; i++) {
			offset[i] = at;
			at += len[i] * width;
		}
		fwrite(offset, sizeof *offset, n, out);
	}
	return ferror(lengths) ? -1 : 0;
}

/* Writes the whole index under its temporary name and flushes it, so that a full disk shows before
 * any rename. */
static int
write_index(struct dataset_writer *w, struct outfile *idx, const char *path, struct err *e)
{
	static const char magic[9] = "MMIDIDX\0";
	uint64_t version = 1, sequences = (uint64_t)w->sequences,
		 boundaries = (uint64_t)w->boundaries + 1, zero = 0;

	if (outfile_open(idx, path, e) < 0)
		return -1;
	fwrite(magic, 1, sizeof magic, idx->f);
	fwrite(&version, 8, 1, idx->f);
	fputc(kinds[kind_of(w->type)].code, idx->f);
	fwrite(&sequences, 8, 1, idx->f);
	fwrite(&boundaries, 8, 1, idx->f);
	if (copy_spill(w->lengths, idx->f) < 0 ||
	    write_offsets(w->lengths, (int64_t)dtype_size(w->type), idx->f) < 0 ||
	    fwrite(&zero, 8, 1, idx->f) != 1 || copy_spill(w->documents, idx->f) < 0 ||
	    (w->modes && copy_spill(w->modes, idx->f) < 0))
		return err_at(e, path, 0, "its temporary file could not be read back");
	if (fflush(idx->f) != 0 || ferror(idx->f))
		return err_sys(e, "write", path);
	return 0;
}

/* The position in the .bin gives the tokens, since it holds nothing else. */
struct dataset_counts
dataset_writer_counts(const struct dataset_writer *w)
{
	off_t bytes = w->bin.f ? ftello(w->bin.f) : 0;

	return (struct dataset_counts){ w->boundaries, w->sequences,
		bytes / (off_t)dtype_size(w->type) };
}

void
dataset_writer_guard(struct dataset_writer *w, struct lock *lock, bool replace)
{
	w->lock = lock;
	w->fresh = !replace;
}

/* Replaces the text of an earlier call. */
void
dataset_writer_describe(struct dataset_writer *w, const char *json)
{
	free(w->notes);
	w->notes = mem_strdup(json);
}

/* Writes the index once everything before it is written. */
static int
finish_index(struct dataset_writer *w, struct outfile *idx, struct err *e)
{
	char *path = dataset_path(w->prefix, ".idx");
	int rc;

	if (fflush(w->lengths) != 0 || fflush(w->documents) != 0 ||
	    (w->modes && fflush(w->modes) != 0) || (w->bin.f && fflush(w->bin.f) != 0))
		rc = write_failed(w, e);
	else
		rc = write_index(w, idx, path, e);
	free(path);
	return rc;
}

/* A writer that another run can continue has such a mask. */
int
dataset_writer_add_mask(struct dataset_writer *w, struct lock *lock, struct err *e)
{
	char *prefix = dataset_path(w->prefix, "_mask");
	struct dataset_mark mark = { ftello(w->bin.f) / (int64_t)dtype_size(w->type), w->sequences,
		w->boundaries };

	w->mask = w->keep ? dataset_writer_resume(prefix, DTYPE_U8, &mark, lock, e)
			  : dataset_writer_new(prefix, DTYPE_U8, e);
	free(prefix);
	if (!w->mask)
		return -1;
	w->mask->lock = lock;
	return 0;
}

const char *
dataset_writer_mask_name(const struct dataset_writer *w)
{
	const char *slash = w->mask ? strrchr(w->mask->prefix, '/') : NULL;

	return !w->mask ? NULL : slash ? slash + 1 : w->mask->prefix;
}

/* The temporary files are gone afterwards in any case, except those of a writer that another run
 * can continue. */
int
dataset_commit(struct dataset_writer *w, struct err *e)
{
	struct outfile idx = { 0 }, mask = { 0 };
	int rc = w->mask ? finish_index(w->mask, &mask, e) : 0;

	if (rc == 0)
		rc = finish_index(w, &idx, e);
	if (rc == 0)
		rc = dataset_publish(w, &idx, w->mask ? &mask : NULL, e);
	outfile_abort(&idx);
	outfile_abort(&mask);
	dataset_abort(w);
	return rc;
}

/* Removes the temporary .bin; the spilled files are unnamed, or are kept with it. */
void
dataset_abort(struct dataset_writer *w)
{
	if (!w)
		return;
	dataset_abort(w->mask);
	if (w->keep)
		outfile_leave(&w->bin);
	else
		outfile_abort(&w->bin);
	if (w->lengths)
		fclose(w->lengths);
	if (w->documents)
		fclose(w->documents);
	if (w->modes)
		fclose(w->modes);
	sums_abort(&w->sums);
	if (w->sums.file)
		fclose(w->sums.file);
	free(w->buffer);
	free(w->prefix);
	free(w->notes);
	free(w);
}
