/*
 * profile.h - where the time of a step goes: by operation against its roofline, and as a trace
 *
 * Steps [first, last) of the run are observed on one rank. An operation's time runs from the end of
 * the one before to its own end on the compute stream, so the times of a step add up to the step,
 * waiting included. The attainable rates are measured by the same operations on the same device,
 * after the last observed step.
 */
#ifndef TRAIN_RUN_PROFILE_H
#define TRAIN_RUN_PROFILE_H

#include "train/engine/engine.h"

struct profile;

struct profile_config {
	const char *prefix;  /* PREFIX.tsv and PREFIX.json are written */
	int64_t first, last; /* steps, counted as iterations: first <= iteration - 1 < last */
};

struct profile *profile_new(struct engine *e, const struct profile_config *c);
void profile_free(struct profile *p);
/* Around each step; `iteration` is the number of finished steps. */
void profile_step_begin(struct profile *p, int64_t iteration);
/* Writes both files when this was the last step to observe. */
int profile_step_end(struct profile *p, int64_t iteration, struct err *err);

#endif
