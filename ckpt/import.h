/* import.h - mckpt import: a model of another format becomes a checkpoint */
#ifndef CKPT_IMPORT_H
#define CKPT_IMPORT_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct import_options {
	const char *src, *save;
	enum dtype dtype;   /* dtype of the weights; DTYPE_NONE: as in the files */
	int64_t vocab_size; /* of a source that has not recorded it; 0: not given */
	bool force;
	bool allow_nonfinite; /* NaN and infinity are noted, not refused */
};

/* Writes save/iter_* of the source's iteration, 0 where no run has been, and the tracker. notes
 * gets a line for everything that is ignored, and for each tensor with values that are not finite
 * after conversion. */
int import_source(const struct import_options *o, struct str *notes, struct err *e);

#endif
