/* verify.h - mckpt verify: checks every checksum, every shape, and that they make a model */
#ifndef CKPT_VERIFY_H
#define CKPT_VERIFY_H

#include "lib/ckpt/source.h"

#include <stdio.h>

/*
 * Verifies a model of any format. Prints one line to out if all is well, or adds one line per
 * problem. Returns the number of problems.
 */
int verify_dir(const char *dir, FILE *out, struct str *problems);

#endif
