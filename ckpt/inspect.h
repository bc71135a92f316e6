/* inspect.h - mckpt ls and info: what is in a checkpoint */
#ifndef CKPT_INSPECT_H
#define CKPT_INSPECT_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * One line per iteration of each SAVE directory, in order, after a line of column names: directory
 * iteration tensors parameters bytes dtype optimizer latest. A directory or an iteration that does
 * not open adds its reason to problems. json: one object per line instead.
 */
void ls_saves(char *const *save, int count, bool json, FILE *out, struct str *problems);
/* "key TAB value" lines of a checkpoint, or one JSON object. */
int info_model(const char *dir, bool json, FILE *out, struct err *e);
/* One line per tensor: tensor dtype shape elements bytes pieces. */
int info_tensors(const char *dir, bool json, FILE *out, struct err *e);

#endif
