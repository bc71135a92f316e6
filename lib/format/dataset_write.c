/*
 * dataset_write.c - writing PREFIX.bin and PREFIX.idx in one pass and constant memory
 *
 * The index begins with counts and lengths that are known only at the end, so lengths and document
 * boundaries go to two unnamed temporary files beside the target until commit copies them into
 * place.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/format/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 8192 };                          /* values moved at a time */

struct dataset_writer {
	struct outfile bin;
	FILE *lengths, *documents;              /* i32 and i64 values; no name, gone when closed */
	char *idx_path;
	enum dtype type;
	int64_t min, max;                       /* what the type can hold */
	int64_t sequences, boundaries;
	bool keep;                              /* the temporary files are another run's, too */
};

/* Code, least and greatest value of the types that hold tokens. */
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
 * The row of a type. Types come from dataset_dtype_for or from an open dataset, so another one is a
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

/* A file without a name in the directory of the target, so that it fills that disk and not /tmp. */
static FILE *
spill_open(const char *prefix, struct err *e)
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
		err_sys(e, "create a temporary file beside", prefix);
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

/* The reason of a failed write, which errno still holds. */
static int
write_failed(const struct dataset_writer *w, struct err *e)
{
	return err_sys(e, "write", w->bin.path);
}

/* Opens the temporary files; nothing appears under the final names before commit. */
struct dataset_writer *
dataset_writer_new(const char *prefix, enum dtype t, struct err *e)
{
	struct dataset_writer *w = mem_zalloc(1, sizeof *w);
	size_t n = strlen(prefix);
	int k = kind_of(t);
	char *bin;

	w->type = t;
	w->min = kinds[k].min;
	w->max = kinds[k].max;
	w->idx_path = mem_alloc(n + 5, 1);
	memcpy(w->idx_path, prefix, n);
	memcpy(w->idx_path + n, ".idx", 5);
	bin = mem_strdup(w->idx_path);
	memcpy(bin + n, ".bin", 5);
	if (outfile_open(&w->bin, bin, e) < 0 || !(w->lengths = spill_open(prefix, e)) ||
	    !(w->documents = spill_open(prefix, e))) {
		dataset_abort(w);
		w = NULL;
	}
	free(bin);
	return w;
}

/*
 * At most CHUNK tokens, each checked against the range of the type: an id cut to 16 bits would
 * train on other text without a word.
 */
static int
write_ids(struct dataset_writer *w, const int64_t *ids, size_t count, struct err *e)
{
	size_t width = dtype_size(w->type);
	unsigned char buf[8 * CHUNK];

	for (size_t i = 0; i < count; i++) {
		if (ids[i] < w->min || ids[i] > w->max)
			return err_at(e, w->bin.path, 0,
			    "token id %lld does not fit %s (%lld to %lld)", (long long)ids[i],
			    dtype_torch_name(w->type), (long long)w->min, (long long)w->max);
		memcpy(buf + i * width, &ids[i], width);        /* little-endian: the low bytes come first */
	}
	return fwrite(buf, width, count, w->bin.f) == count ? 0 : write_failed(w, e);
}

/* The format has 32 bits for a length, so a longer sequence cannot be written. */
static int
add_length(struct dataset_writer *w, int64_t count, struct err *e)
{
	int32_t len = (int32_t)count;

	if (count > INT32_MAX)
		return err_at(e, w->bin.path, 0,
		    "a sequence of %lld tokens is longer than 2147483647", (long long)count);
	w->sequences++;
	return fwrite(&len, sizeof len, 1, w->lengths) == 1 ? 0 : write_failed(w, e);
}

/* Converted piece by piece, so that long sequences need no second buffer. */
int
dataset_add_sequence(struct dataset_writer *w, const int64_t *ids, int64_t count, struct err *e)
{
	for (int64_t at = 0; at < count; at += CHUNK)
		if (write_ids(w, ids + at, (size_t)(count - at < CHUNK ? count - at : CHUNK), e) <
		    0)
			return -1;
	return add_length(w, count, e);
}

/* Lengths first, then all tokens in one write. */
int
dataset_add_raw(struct dataset_writer *w, const void *tokens, const int32_t *lengths,
    int64_t sequences, struct err *e)
{
	size_t width = dtype_size(w->type), count = 0;

	for (int64_t i = 0; i < sequences; i++) {
		if (lengths[i] < 0)
			BUG("negative length");
		count += (size_t)lengths[i];
		if (add_length(w, lengths[i], e) < 0)
			return -1;
	}
	if (count && fwrite(tokens, width, count, w->bin.f) != count)
		return write_failed(w, e);
	return 0;
}

/* A document ends at the number of sequences so far. */
int
dataset_end_document(struct dataset_writer *w, struct err *e)
{
	w->boundaries++;
	return fwrite(&w->sequences, sizeof w->sequences, 1, w->documents) == 1
	    ? 0
	    : write_failed(w, e);
}

/* Errors are not looked at here: both streams keep them, and write_index asks at the end. */
static void
copy_spill(FILE *spill, FILE *out)
{
	char buf[65536];
	size_t n;

	rewind(spill);
	while ((n = fread(buf, 1, sizeof buf, spill)) > 0)
		fwrite(buf, 1, n, out);
}

/*
 * The byte offsets: the running sum of the lengths, made from them in a second pass, so that only
 * one of the two arrays has to be spilled.
 */
static void
write_offsets(FILE *lengths, int64_t width, FILE *out)
{
	int32_t len[CHUNK];
	int64_t at = 0;
	size_t n;

	rewind(lengths);
	while ((n = fread(len, sizeof *len, CHUNK, lengths)) > 0)
		for (size_t i = 0; i < n; i++) {
			fwrite(&at, sizeof at, 1, out);
			at += len[i] * width;
		}
}

/* The whole index under its temporary name, flushed, so that a full disk shows before anything is
 * renamed. */
static int
write_index(struct dataset_writer *w, struct outfile *idx, struct err *e)
{
	static const char magic[9] = "MMIDIDX\0";
	uint64_t version = 1, sequences = (uint64_t)w->sequences,
		 boundaries = (uint64_t)w->boundaries + 1, zero = 0;

	if (outfile_open(idx, w->idx_path, e) < 0)
		return -1;
	fwrite(magic, 1, sizeof magic, idx->f);
	fwrite(&version, 8, 1, idx->f);
	fputc(kinds[kind_of(w->type)].code, idx->f);
	fwrite(&sequences, 8, 1, idx->f);
	fwrite(&boundaries, 8, 1, idx->f);
	copy_spill(w->lengths, idx->f);
	write_offsets(w->lengths, (int64_t)dtype_size(w->type), idx->f);
	fwrite(&zero, 8, 1, idx->f);
	copy_spill(w->documents, idx->f);
	if (ferror(w->lengths) || ferror(w->documents))
		return err_at(
		    e, w->idx_path, 0, "a temporary file beside it could not be read back");
	if (fflush(idx->f) != 0 || ferror(idx->f))
		return err_sys(e, "write", w->idx_path);
	return 0;
}

/* Puts both files under their names, the index last. */
static int
publish(struct dataset_writer *w, struct outfile *idx, struct err *e)
{
	/* An index of an older dataset must not stand beside the new tokens, not even for a moment.
	 */
	if (unlink(w->idx_path) < 0 && errno != ENOENT)
		return err_sys(e, "replace", w->idx_path);
	if (outfile_commit(&w->bin, e) < 0)
		return -1;
	if (outfile_commit(idx, e) < 0) {
		if (!w->keep)
			unlink(w->bin.path);
		return -1;
	}
	return 0;
}

/* Success or not, the temporary files are gone afterwards. */
int
dataset_commit(struct dataset_writer *w, struct err *e)
{
	struct outfile idx = { 0 };
	int rc;

	if (fflush(w->lengths) != 0 || fflush(w->documents) != 0 || fflush(w->bin.f) != 0)
		rc = write_failed(w, e);
	else
		rc = write_index(w, &idx, e) < 0 ? -1 : publish(w, &idx, e);
	outfile_abort(&idx);
	dataset_abort(w);
	return rc;
}

/* Removes the temporary .bin; the spilled files have no name to remove. */
void
dataset_abort(struct dataset_writer *w)
{
	if (!w)
		return;
	if (w->keep)
		outfile_leave(&w->bin);
	else
		outfile_abort(&w->bin);
	if (w->lengths)
		fclose(w->lengths);
	if (w->documents)
		fclose(w->documents);
	free(w->idx_path);
	free(w);
}

/* PREFIX followed by a suffix. */
static char *
with_suffix(const char *prefix, const char *suffix)
{
	struct str s = { 0 };

	str_adds(&s, prefix);
	str_adds(&s, suffix);
	return str_detach(&s);
}

/* Opens one of the named temporary files and keeps the first bytes of it. */
static int
open_part(struct outfile *o, const char *prefix, const char *suffix, int64_t keep, struct err *e)
{
	char *path = with_suffix(prefix, suffix);
	int rc = outfile_resume(o, path, keep, e);

	free(path);
	return rc;
}

/* A commit that was cut short between its two renames has left the tokens under their name: they go
 * back, since without the index they are no dataset. */
static int
take_back(const char *prefix, struct err *e)
{
	char *bin = with_suffix(prefix, ".bin"), *part = with_suffix(prefix, ".bin.part"), *idx = with_suffix(prefix, ".idx");
	int rc = 0;

	if (!io_exists(part) && io_exists(bin) && !io_exists(idx) && rename(bin, part) < 0)
		rc = err_sys(e, "rename", bin);
	free(bin);
	free(part);
	free(idx);
	return rc;
}

/* Counts come from a file: each is checked before it is multiplied. */
struct dataset_writer *
dataset_writer_resume(const char *prefix, enum dtype t, const struct dataset_mark *from, struct err *e)
{
	struct dataset_mark none = { 0 };
	struct dataset_writer *w;
	struct outfile lengths = { 0 }, documents = { 0 };
	int k = kind_of(t);

	if (from && (from->sequences > INT64_MAX / 16 || from->documents > INT64_MAX / 16)) {
		err_set(e, "%s: more sequences than can be", prefix);
		return NULL;
	}
	if (from && take_back(prefix, e) < 0)
		return NULL;
	from = from ? from : &none;
	w = mem_zalloc(1, sizeof *w);
	w->type = t;
	w->keep = true;
	w->min = kinds[k].min;
	w->max = kinds[k].max;
	w->idx_path = with_suffix(prefix, ".idx");
	w->sequences = from->sequences;
	w->boundaries = from->documents;
	if (open_part(&w->bin, prefix, ".bin", from->bin_bytes, e) < 0 ||
	    open_part(&lengths, prefix, ".lengths", 4 * from->sequences, e) < 0 ||
	    open_part(&documents, prefix, ".documents", 8 * from->documents, e) < 0) {
		outfile_leave(&lengths);
		dataset_abort(w);
		return NULL;
	}
	w->lengths = lengths.f;
	w->documents = documents.f;
	return w;
}

/* One of the two streams beside the tokens. */
static int
sync_spill(const struct dataset_writer *w, FILE *f, struct err *e)
{
	return ferror(f) || fflush(f) != 0 || fdatasync(fileno(f)) < 0 ? write_failed(w, e) : 0;
}

/* Three syncs; the caller decides how often they are worth it. */
int
dataset_sync(struct dataset_writer *w, struct dataset_mark *mark, struct err *e)
{
	mark->sequences = w->sequences;
	mark->documents = w->boundaries;
	return outfile_sync(&w->bin, &mark->bin_bytes, e) < 0 || sync_spill(w, w->lengths, e) < 0 ||
		sync_spill(w, w->documents, e) < 0
	    ? -1
	    : 0;
}

/* The index is renamed last, and the tokens lose their temporary name before that. */
bool
dataset_was_committed(const char *prefix)
{
	char *part = with_suffix(prefix, ".bin.part"), *idx = with_suffix(prefix, ".idx");
	bool yes = !io_exists(part) && io_exists(idx);

	free(part);
	free(idx);
	return yes;
}

/* After a commit, or when nobody will go on. */
void
dataset_drop_parts(const char *prefix)
{
	static const char *const suffix[] = { ".bin.part", ".lengths.part", ".documents.part" };

	for (int i = 0; i < 3; i++) {
		char *path = with_suffix(prefix, suffix[i]);

		unlink(path);
		free(path);
	}
}
