/* diff.h - mckpt diff: two checkpoints, or two Hugging Face directories, tensor by tensor */
#ifndef CKPT_DIFF_H
#define CKPT_DIFF_H

#include "lib/base/err.h"

#include <stdio.h>

struct diff_options {
	const char *a, *b;
	double tolerance; /* bound of ||a - b|| / ||b||; negative: bytes and dtypes must be equal */
	const char *only, *ignore; /* shell patterns of names; NULL: all, none */
};

/*
 * Prints one line per tensor: tensor verdict dtype_a dtype_b elements max_abs relative_l2. The
 * verdict is equal, close (values within the tolerance), differs, shape, only-a or only-b. Returns
 * 0 if all tensors are equal or close, 1 if not, or -1. Reads a bounded number of elements at a
 * time. NaN equals nothing but its own bytes.
 */
int diff_sources(const struct diff_options *o, FILE *out, struct err *e);

#endif
