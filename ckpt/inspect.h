/* inspect.h - mckpt ls and info: what is in a checkpoint */
#ifndef CKPT_INSPECT_H
#define CKPT_INSPECT_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdio.h>

/* The TSV head of ls lines. */
void ls_head(FILE *out);
/*
 * One line an iteration of a SAVE directory, in order: directory iteration tensors parameters bytes
 * dtype optimizer latest. An iteration that does not open adds its reason to problems. json: an
 * object a line instead.
 */
int  ls_save(const char *save, bool json, FILE *out, struct str *problems, struct err *e);
/* "key TAB value" lines of a checkpoint, or one JSON object. */
int  info_checkpoint(const char *dir, bool json, FILE *out, struct err *e);
/* A line a tensor: tensor dtype shape elements bytes pieces. */
int  info_tensors(const char *dir, bool json, FILE *out, struct err *e);

#endif
