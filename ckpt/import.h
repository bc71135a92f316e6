/* import.h - mckpt import: a Hugging Face directory becomes a checkpoint */
#ifndef CKPT_IMPORT_H
#define CKPT_IMPORT_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>

struct import_options {
	const char *src, *save;
	enum dtype dtype; /* dtype of the tensors; DTYPE_NONE: as in the files */
	bool force;
	bool allow_nonfinite; /* NaN and infinity are noted, not refused */
};

/* Writes save/iter_0000000 and the tracker. One tensor is in memory at a time. notes gets one line
 * for each tensor with values that are not finite after conversion. */
int import_hf(const struct import_options *o, struct str *notes, struct err *e);

/* Checks that a SAVE directory may be written: it holds no checkpoint, unless force. */
int save_is_free(const char *save, bool force, struct err *e);

#endif
