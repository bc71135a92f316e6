/* iteration.h - a run: one step of it, one evaluation */
#ifndef TRAIN_RUN_ITERATION_H
#define TRAIN_RUN_ITERATION_H

#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "train/data/audit.h"
#include "train/data/corpus_log.h"
#include "train/data/prefetch.h"
#include "train/data/task_requests.h"
#include "train/engine/timing.h"
#include "train/report/meter.h"
#include "train/report/metrics.h"
#include "train/run/profile.h"
#include "train/run/routers.h"
#include "train/run/timers.h"
#include "train/state/save.h"
#include "train/step/replay.h"
#include "train/watch/watchdog.h"

/* What the ranks add up after the passes of a step or an evaluation: sums of loss and squared norm,
 * zeros of gradients, tokens that the loss counts, joules since the last one; and the number of
 * ranks that have a batch that cannot be used, have computed a micro batch twice with different
 * results, were asked to stop, were told that they will be (and save now), are out of time, have
 * done their part of a save, have lost the lock of --save, or have found a dataset changed. */
enum total {
	TOTAL_LOSS,
	TOTAL_ZLOSS,
	TOTAL_NORM,
	TOTAL_ZEROS,
	TOTAL_TOKENS,
	TOTAL_JOULES,
	TOTAL_BAD_DATA,
	TOTAL_DIFFERENT,
	TOTAL_STOP,
	TOTAL_SAVE,
	TOTAL_LATE,
	TOTAL_WRITTEN,
	TOTAL_LOST,
	TOTAL_CHANGED,
	TOTAL_LATER, /* sums of the losses of each layer that predicts later tokens */
	TOTAL_COUNT = TOTAL_LATER + MODEL_MTP_MAX
};

/* Where the time of a run goes beside its steps: seconds until the first, seconds that saves and
 * evaluations hold it up and that going back takes; steps that were taken, and those of them that a
 * rewind has lost. */
struct run_parts {
	double start, saves, evaluation, back;
	int64_t taken, lost;
};

struct run {
	struct train_config *c;
	struct engine *e;
	struct watchdog *watchdog; /* NULL: a rank that is alone */
	struct data *data;         /* NULL, as prefetch: tasks alone are evaluated */
	struct prefetch *prefetch;
	struct audit *audit;     /* NULL: mock data, or none */
	struct replay *replay;   /* NULL: each pass is queued afresh */
	struct metrics *metrics; /* on rank 0, else NULL */
	struct saver *saver;     /* NULL without --save */
	struct hooks *hooks;     /* on rank 0, where they are asked for; else NULL */
	struct lock *lock;       /* of --save, on rank 0, else NULL */
	struct profile *profile; /* NULL on ranks that are not profiled */
	struct corpus_log *corpora;
	struct sample_losses *sample_losses; /* NULL: not asked for */
	struct task_requests *tasks;         /* NULL: not asked for */
	struct routers *routers;             /* NULL: the model has no experts */
	struct timers *timers;               /* NULL: not asked for */
	struct energy *energy;               /* NULL: not asked for, or no meter */
	double *scores;         /* of the last update, which the host may still use; NULL: none */
	uint64_t planned_bytes; /* of memory, all that this rank takes */
	double attainable;      /* FLOP/s of all ranks; 0: not asked for, NAN: not known */
	struct progress at;
	int64_t empty;       /* steps since the loop began whose batch had no token that counts */
	int64_t began;       /* iteration at which this process began */
	struct spike spike;  /* the last one that was found */
	int failure;         /* exit status of a start that failed */
	bool told;           /* that mpirun leaves too little time for a stop */
	int64_t saved_at;    /* iteration of the last save that was begun, or of the start */
	double step_seconds; /* of the last step that was taken */
	double started;      /* seconds, when the loop began */
	struct run_parts parts;
	/* of the current pass */
	int set;
	int64_t first_sample;
	double tokens; /* the weight of those that the loss counts */
	/* what multiplies the weights of the tokens that each layer after the head predicts */
	double later_factor[MODEL_MTP_MAX];
	/* what is wrong with a batch of this rank; empty: nothing */
	struct err bad_data;
	/* of a step under --verify-interval: the first micro batch, which runs again if it has
	 * tokens; the weight of those that its loss counts; what differed on this rank */
	struct batch first;
	double first_tokens;
	char different[128];
	double scalar[SCALAR_COUNT]; /* of this rank, as they were read last */
	double total[TOTAL_COUNT];   /* of the last step or evaluation, the same on all ranks */
	/* a lap is a step, from one reading of the scalars to the next */
	struct stopwatch watch;
	struct spans spent; /* since the last step */
};

/* How an iteration ended, the same on all ranks. */
enum iteration_end {
	ITERATION_DONE,
	ITERATION_BAD_DATA,
	ITERATION_SPIKE, /* see r->spike */
	ITERATION_DIFFERENT,
	ITERATION_NOT_FINITE,
	ITERATION_WEIGHTS_DIFFER,
	ITERATION_DATA_CHANGED
};

/* Whether a step has to know how many of its tokens count before its passes. */
bool iteration_counts_first(const struct run *r);
/* Collective: the next training step, its figures reported. Unless it is ITERATION_DONE, or
 * the weights have been found to differ after it, weights, moments and progress are as before it.
 */
enum iteration_end iteration_train(struct run *r);
/* Collective: evaluates all sets of a split, each always with the same batches from its start.
 * Nothing of the run changes. */
enum iteration_end iteration_evaluate(struct run *r, enum split which);
/* Collective: waits up to these seconds until the data have been compared with their checksums, and
 * reports what differs. Returns the exit status. */
int iteration_audit(struct run *r, double seconds);
/* Collective: finds and reports why an iteration failed. Returns the exit status. */
int iteration_failure(struct run *r, enum iteration_end end);

#endif
