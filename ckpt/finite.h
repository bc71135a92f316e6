/*
 * finite.h - parameters that hold NaN or infinity
 *
 * A line a tensor: "DIR: tensor 'x': 3 of 1024 elements are not finite". Parameters alone: what an
 * optimizer keeps is its own affair, and a run that resumes finds it at the first step.
 */
#ifndef CKPT_FINITE_H
#define CKPT_FINITE_H

#include "ckpt/hf.h"
#include "lib/ckpt/ckpt.h"

/* Adds the line of a tensor of `count` elements of which `bad` are not finite; nothing when none
 * is. Returns the lines added. */
int finite_report(
    struct str *problems, const char *dir, const char *name, int64_t bad, int64_t count);
/* Every parameter of an open checkpoint, or of an open model as its files have it. Adds the lines
 * and returns their number; a tensor that cannot be read is a line too. A chunk, or a parameter, is
 * in memory at a time. */
int finite_checkpoint(struct ckpt *c, struct str *problems);
int finite_model(const struct hf_model *m, struct str *problems);

#endif
