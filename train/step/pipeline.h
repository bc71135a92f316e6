/*
 * pipeline.h - the micro batches of a step through the stages
 *
 * pipeline_run executes the schedule's list of this stage (lib/model/schedule.h). Losses accumulate
 * in the scalars of the last stage, gradients in the main gradients.
 */
#ifndef TRAIN_STEP_PIPELINE_H
#define TRAIN_STEP_PIPELINE_H

#include "train/step/replay.h"

struct pipeline {
	struct engine *e;
	int num_microbatches;
	bool training;
	/* Runs only the first micro batch, in the same way as in a whole step: its gradients are
	 * not reduced over the data ranks at the end. */
	bool rehearsal;
	uint32_t iteration;
	int64_t first_sample; /* of the step, in the run */
	/* Fills the host arrays of micro batch m of this data rank; called in the order of the
	 * schedule. */
	void (*load)(void *ctx, int microbatch, struct batch *out);
	void *ctx;
	/* as struct step's; for a single micro batch */
	int64_t kept;
	void *logits;
	int64_t first_logits;
	struct replay *replay; /* may be NULL */
	/* host, pipeline_loss_bytes for each micro batch, as struct step's; or NULL */
	void *losses;
};

/* The first sample of micro batch m of data rank j in the step that starts at sample C0: C0 + m (b
 * D) + j b. */
int64_t pipeline_first_sample(
    const struct run_plan *plan, int64_t step, int microbatch, int data_rank);
size_t pipeline_loss_bytes(const struct engine *e);
void pipeline_run(const struct pipeline *p);

#endif
