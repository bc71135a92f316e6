/* loop.h - the step loop: train, evaluate, save, stop */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H

#include "train/metrics.h"
#include "train/prefetch.h"
#include "train/profile.h"
#include "train/replay.h"
#include "train/save.h"

struct run {
	struct train_config *c;
	struct engine *e;
	struct data *data;
	struct prefetch *prefetch;
	struct replay *replay;          /* NULL: passes are queued anew each time */
	struct metrics *metrics;        /* on rank 0, else NULL */
	struct saver *saver;            /* NULL without --save */
	struct profile *profile;        /* NULL on ranks that are not profiled */
	struct corpus_log *corpora;
	struct progress at;
	/* of the pass that runs now */
	int set;
	int64_t first_sample, tokens;
	double last_total;              /* clock at the reading of the last step's scalars; 0: other work came between */
	bool written;                   /* every rank has done its part of a save in the background */
};

/* Trains to the end or to a request to stop. Returns the exit status. */
int loop_train(struct run *r);
/* Evaluates a split at the run's state and reports it; nothing when the split is absent. */
void loop_evaluate(struct run *r, enum split which);

#endif
