/* begin.h - what a run continues from: at its start, and when it goes back before a spike */
#ifndef TRAIN_RUN_BEGIN_H
#define TRAIN_RUN_BEGIN_H

#include "train/run/iteration.h"

/* Weights, optimizer and progress: from a checkpoint or from the seed. Collective; fails on all
 * ranks, also when any was asked to stop meanwhile, with the reason on rank 0 and the status in
 * r->failure. */
int begin_run(struct run *r, struct err *err);
/* Collective, after ITERATION_SPIKE: loads the newest checkpoint from before the history of
 * r->spike and marks the history's steps to be passed over. Without such a checkpoint the step is
 * repeated and its update taken. Returns the exit status. */
int rewind_run(struct run *r);

#endif
