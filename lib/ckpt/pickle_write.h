/*
 * pickle_write.h - Python values as a pickle of protocol 2, the one that torch.save writes
 *
 * Each function appends one value to a text; between an opening and its end lie the values of a
 * container. Nothing is memoised, so equal values are written again. Tensors are torch's: what
 * names their storage is the number of a file's entry (torchzip_write.h), and torch.load accepts
 * them with weights_only. Source: Python's pickletools; docs/checkpoints.md 1.
 */
#ifndef CKPT_PICKLE_WRITE_H
#define CKPT_PICKLE_WRITE_H

#include "lib/base/dtype.h"
#include "lib/base/slice.h"
#include "lib/base/str.h"

void pickle_begin(struct str *out);
void pickle_end(struct str *out);

void pickle_put_none(struct str *out);
void pickle_put_bool(struct str *out, bool x);
void pickle_put_int(struct str *out, int64_t x);
void pickle_put_double(struct str *out, double x);
void pickle_put_text(struct str *out, const char *s); /* UTF-8 */
/* The torch type: torch.float32 for F32. */
void pickle_put_dtype(struct str *out, enum dtype t);
/* torch.Size of n sizes. */
void pickle_put_size(struct str *out, int n, const int64_t *size);

void pickle_open_tuple(struct str *out);
void pickle_close_tuple(struct str *out);
void pickle_open_list(struct str *out);
void pickle_close_list(struct str *out);
/* Keys and values in turn. */
void pickle_open_dict(struct str *out);
void pickle_close_dict(struct str *out);
/* An object of a class without arguments, whose members follow as keys and values. */
void pickle_open_object(struct str *out, const char *module, const char *name);
void pickle_close_object(struct str *out);

/* The same with a tuple as its state, whose items follow. */
void pickle_open_state(struct str *out, const char *module, const char *name);
void pickle_close_state(struct str *out);
/* What a function returns, whose arguments follow. */
void pickle_open_call(struct str *out, const char *module, const char *name);
void pickle_close_call(struct str *out);

/* A dense tensor of floats that is all of storage `key`. */
void pickle_put_tensor(struct str *out, enum dtype t, int ndim, const int64_t *shape, int64_t key);

#endif
