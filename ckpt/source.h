/* source.h - named tensors of a checkpoint or of a Hugging Face directory, seen through one small
 * reader */
#ifndef CKPT_SOURCE_H
#define CKPT_SOURCE_H

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/hfdir.h"

struct source {
	struct ckpt *ckpt; /* one of the two */
	struct hfdir *hf;
};

struct source_tensor {
	const char *name, *dtype_name;
	enum dtype dtype; /* DTYPE_NONE: can only be copied */
	int ndim;
	int64_t shape[SAFETENSORS_DIMS];
	int64_t elements;
	uint64_t bytes;
};

int source_open(struct source *s, const char *path, struct err *e); /* source_close in every case */
void source_close(struct source *s);
int source_count(const struct source *s);
void source_at(const struct source *s, int i, struct source_tensor *out); /* sorted by name */
/* Elements [first, first + count) of tensor i in row-major order and its own dtype, dense into
 * dst. */
int source_read(
    const struct source *s, int i, int64_t first, int64_t count, void *dst, struct err *e);

#endif
