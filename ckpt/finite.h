/*
 * finite.h - parameters that hold NaN or infinity
 *
 * One line per tensor: "DIR: tensor 'x': 3 of 1024 elements are not finite". Only parameters are
 * checked: a resumed run notices bad optimizer state at its first step.
 */
#ifndef CKPT_FINITE_H
#define CKPT_FINITE_H

#include "lib/ckpt/source.h"

/* Adds the line of a parameter with `bad` elements that are not finite, or nothing if that is 0.
 * Returns the number of lines added. */
int finite_report(struct str *problems, const struct source *s, const struct param *p, int64_t bad);
/* Reads every parameter of a source without problems. Adds lines and returns their number; -1 with
 * a reason when one cannot be read. */
int finite_check(struct source *s, struct str *problems, struct err *e);

#endif
