/*
 * safetensors_write.c - the writer: the header first, then the bytes as they come
 *
 * The header comes first and holds every offset, so tensors are declared before the first byte is
 * written; after that bytes pass through, and memory does not grow with the tensors. The file gets
 * its name when it is committed. Metadata is {"format": "pt"}, without which transformers refuses
 * to load.
 */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { SYNC_BYTES = 32 << 20 }; /* written between two calls of outfile_begin_sync */

/* A tensor as the header describes it. */
struct declared {
	char *name;
	enum dtype dtype;
	int ndim;
	int64_t shape[SAFETENSORS_DIMS];
	uint64_t begin, end; /* in the body */
};

struct safetensors_writer {
	struct outfile out;
	struct declared *tensor;
	int count, cap;
	bool has_header;
	uint64_t body;           /* where the tensors begin */
	uint64_t bytes, written; /* of the body */
	uint64_t begun;          /* of these, how many the disk has been told to write */
};

/* Creates the file under its temporary name. */
static struct safetensors_writer *
create(const char *path, int (*open)(struct outfile *, const char *, struct err *), struct err *e)
{
	struct safetensors_writer *w = mem_zalloc(1, sizeof *w);

	if (open(&w->out, path, e) < 0) {
		free(w);
		return NULL;
	}
	return w;
}

struct safetensors_writer *
safetensors_writer_new(const char *path, struct err *e)
{
	return create(path, outfile_open, e);
}

struct safetensors_writer *
safetensors_writer_direct(const char *path, struct err *e)
{
	return create(path, outfile_open_direct, e);
}

/* A shape whose bytes overflow cannot come from existing data, so it is a bug of the caller. */
void
safetensors_declare(
    struct safetensors_writer *w, const char *name, enum dtype t, int ndim, const int64_t *shape)
{
	struct declared *d;
	uint64_t bytes = dtype_size(t);

	if (w->has_header || ndim < 0 || ndim > SAFETENSORS_DIMS)
		BUG("tensor '%s' of %d dimensions declared %s", name, ndim,
		    w->has_header ? "late" : "");
	if (w->count == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		w->tensor = mem_realloc(w->tensor, (size_t)w->cap, sizeof *w->tensor);
	}
	d = &w->tensor[w->count++];
	*d = (struct declared){
		.name = mem_strdup(name), .dtype = t, .ndim = ndim, .begin = w->bytes
	};
	for (int i = 0; i < ndim; i++) {
		d->shape[i] = shape[i];
		if (shape[i] < 0 || mem_mul(bytes, (uint64_t)shape[i], &bytes) < 0)
			BUG("tensor '%s' has an impossible shape", name);
	}
	w->bytes += bytes;
	d->end = w->bytes;
}

/* By bytes, for finding duplicates. */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names must make a legal header: UTF-8, and none twice. */
static int
check_names(const struct safetensors_writer *w, struct err *e)
{
	const char **name = mem_alloc((size_t)w->count, sizeof *name);
	int rc = 0;

	for (int i = 0; i < w->count && rc == 0; i++) {
		size_t n = strlen(w->tensor[i].name);

		name[i] = w->tensor[i].name;
		if (utf8_check((const unsigned char *)name[i], n) < n ||
		    !strcmp(name[i], "__metadata__"))
			rc = err_at(
			    e, w->out.path, 0, "'%s' cannot be the name of a tensor", name[i]);
	}
	if (rc == 0)
		qsort(name, (size_t)w->count, sizeof *name, compare_names);
	for (int i = 1; i < w->count && rc == 0; i++)
		if (!strcmp(name[i - 1], name[i]))
			rc = err_at(e, w->out.path, 0, "tensor '%s' declared twice", name[i]);
	free(name);
	return rc;
}

/* Writes the header length and the header, padded so that the body begins at a multiple of 8. */
static int
write_header(struct safetensors_writer *w, struct err *e)
{
	struct str s = { 0 };
	unsigned char n[8];
	int rc = 0;

	if (check_names(w, e) < 0)
		return -1;
	str_adds(&s, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (const struct declared *d = w->tensor; d < w->tensor + w->count; d++) {
		str_addc(&s, ',');
		str_add_json(&s, d->name, strlen(d->name));
		str_addf(&s, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(d->dtype));
		for (int i = 0; i < d->ndim; i++)
			str_addf(&s, "%s%lld", i ? "," : "", (long long)d->shape[i]);
		str_addf(&s, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)d->begin,
		    (unsigned long long)d->end);
	}
	str_addc(&s, '}');
	while (s.len % 8)
		str_addc(&s, ' ');
	for (int i = 0; i < 8; i++)
		n[i] = (unsigned char)((uint64_t)s.len >> (8 * i));
	if (fwrite(n, 1, 8, w->out.f) != 8 || fwrite(s.buf, 1, s.len, w->out.f) != s.len)
		rc = err_sys(e, "write", w->out.path);
	w->has_header = true;
	w->body = 8 + s.len;
	str_release(&s);
	return rc;
}

/* Bytes are one stream over all tensors: the declared order leaves no gaps, so no tensor boundary
 * matters here. */
int
safetensors_write(struct safetensors_writer *w, const void *bytes, size_t len, struct err *e)
{
	if (!w->has_header && write_header(w, e) < 0)
		return -1;
	if (len > w->bytes - w->written)
		BUG("%s: more bytes than declared", w->out.path);
	w->written += len;
	if (len && fwrite(bytes, 1, len, w->out.f) != len)
		return err_sys(e, "write", w->out.path);
	if (w->written - w->begun >= SYNC_BYTES) {
		outfile_begin_sync(&w->out, w->body + w->begun, w->written - w->begun);
		w->begun = w->written;
	}
	return 0;
}

/* The header must have been written: its length decides where the body begins. */
uint64_t
safetensors_offset(const struct safetensors_writer *w, int i)
{
	return w->body + w->tensor[i].begin;
}

/* Frees everything but the file, which commit or abort has already closed. */
static void
writer_free(struct safetensors_writer *w)
{
	for (int i = 0; i < w->count; i++)
		free(w->tensor[i].name);
	free(w->tensor);
	free(w);
}

/* A writer whose tensors are all empty, or that has none, writes its header here. */
int
safetensors_commit(struct safetensors_writer *w, struct err *e)
{
	int rc = w->has_header ? 0 : write_header(w, e);

	if (rc == 0 && w->written != w->bytes)
		BUG("%s: fewer bytes than declared", w->out.path);
	if (rc == 0)
		rc = outfile_commit(&w->out, e);
	else
		outfile_abort(&w->out);
	writer_free(w);
	return rc;
}

/* Removes the temporary file; nothing appears under the name. NULL is ignored. */
void
safetensors_abort(struct safetensors_writer *w)
{
	if (!w)
		return;
	outfile_abort(&w->out);
	writer_free(w);
}
