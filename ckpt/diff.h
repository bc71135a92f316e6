/* diff.h - mckpt diff: two models of any format, tensor by tensor */
#ifndef CKPT_DIFF_H
#define CKPT_DIFF_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdio.h>

struct diff_options {
	const char *a, *b;
	double tolerance; /* bound of ||a - b|| / ||b||; negative: bytes and dtypes must be equal */
	const char *only, *ignore; /* shell patterns of names; NULL: all, none */
};

/*
 * Prints one line per tensor: tensor verdict dtype_a dtype_b elements max_abs relative_l2. The
 * verdict is equal, close (values within the tolerance), differs, shape, only-a or only-b. Returns
 * 0 if all tensors are equal or close, 1 if not, or -1. A tensor that its own model does not have,
 * or has otherwise, is a line of warnings; without patterns it is a difference, too. NaN equals
 * nothing but its own bytes.
 */
int diff_sources(const struct diff_options *o, FILE *out, struct str *warnings, struct err *e);

#endif
