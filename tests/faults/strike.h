/*
 * strike.h - the ways to inject a fault
 *
 * Each draws the parameters that the class leaves open, does the disturbed run, and describes the
 * draw in `what`; contract as in struct fault_class.
 */
#ifndef FAULTS_STRIKE_H
#define FAULTS_STRIKE_H

#include "tests/faults/trial.h"

/* The shim acts at the Nth call of a rank. */
int strike_call(struct trial *t, struct err *e);
/* A signal at a time. */
int strike_time(struct trial *t, struct err *e);
/* The directory is a disk too small for all checkpoints; needs the right to mount. */
int strike_small_disk(struct trial *t, struct err *e);
/* A file of the latest checkpoint, of an older one, or the tracker, was changed in some way. */
int strike_flip(struct trial *t, struct err *e);
int strike_cut(struct trial *t, struct err *e);
int strike_zeroes(struct trial *t, struct err *e);
int strike_removal(struct trial *t, struct err *e);
/* Two ranks have different options. */
int strike_disagreement(struct trial *t, struct err *e);
/* A second run with the same directory, while the first one stands still. */
int strike_second_run(struct trial *t, struct err *e);

#endif
