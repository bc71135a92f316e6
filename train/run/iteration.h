/* iteration.h - one step of a run, one evaluation */
#ifndef TRAIN_RUN_ITERATION_H
#define TRAIN_RUN_ITERATION_H

#include "train/run/loop.h"

/* How an iteration ended; the same on all ranks. */
enum iteration_end { ITERATION_DONE, ITERATION_BAD_DATA, ITERATION_NOT_FINITE };

/* Collective: the next training step, its figures reported. Unless it is ITERATION_DONE, weights,
 * moments and progress are as before it. */
enum iteration_end iteration_train(struct run *r);
/* Collective: evaluates all sets of a split, each always with the same batches from its start.
 * Nothing of the run changes. */
enum iteration_end iteration_evaluate(struct run *r, enum split which);
/* Collective: looks for the reason why an iteration has not been done, and says it. Returns the
 * exit status. */
int iteration_failure(struct run *r, enum iteration_end end);

#endif
