/* verify.h - mckpt verify: every sum, every shape, and the model that they must make */
#ifndef CKPT_VERIFY_H
#define CKPT_VERIFY_H

#include "lib/base/str.h"

#include <stdio.h>

/*
 * Verifies a checkpoint of ours or a Hugging Face directory. Prints one line about what is whole to
 * out, or adds a line a problem. Returns the number of problems.
 */
int verify_dir(const char *dir, FILE *out, struct str *problems);

#endif
