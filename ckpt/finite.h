/*
 * finite.h - parameters that hold NaN or infinity
 *
 * One line per tensor: "DIR: tensor 'x': 3 of 1024 elements are not finite". Only parameters are
 * checked: a resumed run notices bad optimizer state at its first step.
 */
#ifndef CKPT_FINITE_H
#define CKPT_FINITE_H

#include "ckpt/hf.h"
#include "lib/ckpt/ckpt.h"

/* Adds the line of a tensor with `bad` of `count` elements not finite, or nothing if bad is 0.
 * Returns the number of lines added. */
int finite_report(
    struct str *problems, const char *dir, const char *name, int64_t bad, int64_t count);
/* Checks every parameter of an open checkpoint, or of an open model in its files' dtype. Adds lines
 * and returns their number; a tensor that cannot be read also gets a line. One chunk, or one
 * parameter, is in memory at a time. */
int finite_checkpoint(struct ckpt *c, struct str *problems);
int finite_model(const struct hf_model *m, struct str *problems);

#endif
