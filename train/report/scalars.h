/*
 * scalars.h - the scalars of a run, for TensorBoard and for W&B
 *
 * --tensorboard-dir and --wandb-project get the same tags, steps and values, and the options as
 * texts. TensorBoard alone gets most of them by samples too, as from Megatron-LM.
 */
#ifndef TRAIN_REPORT_SCALARS_H
#define TRAIN_REPORT_SCALARS_H

#include "train/config/config.h"

struct scalars;

/* Where a run stands. */
struct scalars_at {
	int64_t iteration, consumed_samples;
};

/* *out: NULL where neither is asked for. The options are written at this iteration. A run that
 * resumes stays W&B's run. -1 with a reason. */
int scalars_open(
    struct scalars **out, const struct train_config *c, int64_t iteration, struct err *e);
/* A point by steps; it may be lost, which scalars_close reports. */
void scalars_add(struct scalars *s, const char *tag, int64_t iteration, double value);
/* And by samples, under another tag. */
void scalars_add_both(struct scalars *s, const char *tag, struct scalars_at at, double value);
/* W&B's summary is what the run's figures are now. */
void scalars_summary(struct scalars *s);
/* Hands what was added to the system. */
void scalars_flush(struct scalars *s);
/* status: the run's. -1 when anything was lost. s may be NULL. */
int scalars_close(struct scalars *s, int status, struct err *e);

#endif
