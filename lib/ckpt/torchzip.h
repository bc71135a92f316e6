/*
 * torchzip.h - a file of torch.save: a zip of one pickle and the storages that its tensors view
 *
 *   FOLDER/data.pkl    the pickle; FOLDER is any name
 *   FOLDER/data/KEY    the bytes of storage KEY
 *   FOLDER/byteorder   "little", in newer files
 *
 * The file is in memory, mostly as a map, and may be a slice of a larger one, as the chunks of
 * torch_dist are. Nothing is executed: a tensor is known by the names of torch's functions that
 * would rebuild it. Source: torch/serialization.py, torch/_utils.py.
 */
#ifndef CKPT_TORCHZIP_H
#define CKPT_TORCHZIP_H

#include "lib/base/dtype.h"
#include "lib/base/map.h"
#include "lib/base/slice.h"
#include "lib/ckpt/pickle.h"

struct torchzip;

/* bytes are borrowed until torchzip_close. NULL with "NAME: why". */
struct torchzip *torchzip_open(const void *bytes, uint64_t size, const char *name, struct err *e);
void torchzip_close(struct torchzip *z); /* NULL is ignored */
const struct pickle_value *torchzip_root(const struct torchzip *z);
/* Whether it has checksums: torch can be told to write none. */
bool torchzip_has_sums(const struct torchzip *z);
/* Compares the pickle with its checksum. */
int torchzip_check_root(const struct torchzip *z, struct err *e);
/* Compares every record with its checksum; the reason names the first that differs. file: as for
 * zip_check. 0 when there are none. */
int torchzip_verify(const struct torchzip *z, const struct map *file, struct err *e);

/* A view of a storage. */
struct torch_tensor {
	enum dtype dtype;
	int ndim; /* 0: a scalar */
	int64_t shape[SLICE_DIMS];
	int64_t stride[SLICE_DIMS]; /* in elements, none negative */
	const unsigned char *data;  /* element 0; borrowed, not aligned; any when there is none */
	struct zip_record *storage; /* of the zip; NULL: it has no checksum */
};

/* Whether a value stands for a tensor; it may still break a rule. */
bool torch_is_tensor(const struct pickle_value *v);
/* 0, or -1 with the rule that v breaks: its type, its shape, or that it lies inside its storage.
 * v is a value of z. */
int torchzip_tensor(const struct torchzip *z, const struct pickle_value *v,
    struct torch_tensor *out, struct err *e);
int64_t torch_tensor_elements(const struct torch_tensor *t);
/* Sets the strides of a row-major tensor of its shape, and whether they are that. */
void torch_tensor_set_dense(struct torch_tensor *t);
bool torch_tensor_is_dense(const struct torch_tensor *t);
/* Compares the whole storage of a tensor with its checksum; once, however many tensors share it.
 * The reason names the record and, where it is mapped, the file. */
int torch_tensor_check(const struct torch_tensor *t, struct err *e);
/* Copies a box of as many dimensions, row-major and dense. A scalar has one element, whatever the
 * box. */
void torch_tensor_read(const struct torch_tensor *t, const struct slice *slice, void *dst);
/* The type that a value such as torch.bfloat16 names, or DTYPE_NONE. */
enum dtype torch_dtype(const struct pickle_value *v);

#endif
