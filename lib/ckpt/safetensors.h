/*
 * safetensors.h - the safetensors file: memory-mapped reader, streaming writer
 *
 * The reader enforces every rule of the format (header size, UTF-8, duplicate names, dtype, shape
 * and offsets that agree, no holes, no overlaps, no trailing bytes) and says which one is broken.
 * Tensor bytes belong to the map and are not aligned. Source: the format text of
 * huggingface/safetensors; rules in its README.
 */
#ifndef CKPT_SAFETENSORS_H
#define CKPT_SAFETENSORS_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"

enum { SAFETENSORS_DIMS = 8 };

struct safetensors_entry {
	const char *name;
	enum dtype dtype; /* DTYPE_NONE: a legal type that we only copy (F4, C64, ...) */
	const char *dtype_name;
	int ndim;
	int64_t shape[SAFETENSORS_DIMS];
	const void *data; /* borrowed until close */
	uint64_t offset;  /* of the data, from the start of the file */
	uint64_t bytes;
};

struct safetensors;
struct torch_tensor;

struct safetensors *safetensors_open(const char *path, struct err *e);
int safetensors_count(const struct safetensors *s);
const struct safetensors_entry *safetensors_at(
    const struct safetensors *s, int i); /* in the order of the body */
const struct safetensors_entry *safetensors_find(
    const struct safetensors *s, const char *name); /* or NULL */
/* An entry as a view (torchzip.h), of no type where it has more dimensions than one has. */
void safetensors_view(const struct safetensors_entry *t, struct torch_tensor *out);
void safetensors_close(struct safetensors *s);

/*
 * Writer: declare every tensor, then write their bytes in the declared order, then commit. The
 * header carries
 * __metadata__ {"format": "pt"}, is padded to 8 bytes, and tensors keep the declared order: declare
 * larger element sizes first so that all are aligned. The file appears only at commit (temporary
 * name, fsync, rename).
 */
struct safetensors_writer;

struct safetensors_writer *safetensors_writer_new(const char *path, struct err *e);
/* The same past the file cache, see outfile_open_direct. */
struct safetensors_writer *safetensors_writer_direct(const char *path, struct err *e);
void safetensors_declare(
    struct safetensors_writer *w, const char *name, enum dtype t, int ndim, const int64_t *shape);
/* Appends bytes of the current tensor; may be called several times per tensor. The first call
 * writes the header. */
int safetensors_write(struct safetensors_writer *w, const void *bytes, size_t len, struct err *e);
/* Offset in the file of declared tensor i; valid after the first write. */
uint64_t safetensors_offset(const struct safetensors_writer *w, int i);
int safetensors_commit(struct safetensors_writer *w, struct err *e); /* frees w in every case */
void safetensors_abort(struct safetensors_writer *w);

#endif
