/* import.h - mckpt import: a Hugging Face directory becomes a checkpoint */
#ifndef CKPT_IMPORT_H
#define CKPT_IMPORT_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/format/dtype.h"

#include <stdbool.h>

struct import_options {
	const char *src, *save;
	enum dtype dtype;               /* of the tensors; DTYPE_NONE: as in the files */
	bool force;
};

/* Writes save/iter_0000000 and the tracker. One tensor is in memory at a time. */
int import_hf(const struct import_options *o, struct str *notes, struct err *e);

/* A SAVE directory that may be written: none of ours there, unless force. */
int save_is_free(const char *save, bool force, struct err *e);

#endif
