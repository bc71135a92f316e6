/* source.h - named tensors of a checkpoint or of a Hugging Face directory, seen through one small
 * reader */
#ifndef CKPT_SOURCE_H
#define CKPT_SOURCE_H

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/hfdir.h"

struct named {
	struct ckpt *ckpt; /* one of the two */
	struct hfdir *hf;
};

struct named_tensor {
	const char *name, *dtype_name;
	enum dtype dtype; /* DTYPE_NONE: can only be copied */
	int ndim;
	int64_t shape[SAFETENSORS_DIMS];
	int64_t elements;
	uint64_t bytes;
};

int named_open(struct named *s, const char *path, struct err *e); /* named_close in every case */
void named_close(struct named *s);
int named_count(const struct named *s);
void named_at(const struct named *s, int i, struct named_tensor *out); /* sorted by name */
/* Elements [first, first + count) of tensor i in row-major order and its own dtype, dense into
 * dst. */
int named_read(
    const struct named *s, int i, int64_t first, int64_t count, void *dst, struct err *e);

#endif
