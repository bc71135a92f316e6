/*
 * timers.h - times of the parts of a step over all ranks, at log steps
 *
 * The log line is followed by what Megatron-LM prints there: each timer's time of a step, by
 * --timing-log-option the maximum, the minimum and the maximum, or that of every rank; and with
 * --log-straggler the ranks that compute longest and shortest, where time without a core does not
 * count. The times are the device's (train/engine/timing.h); a step's update is read with the next
 * step.
 */
#ifndef TRAIN_RUN_TIMERS_H
#define TRAIN_RUN_TIMERS_H

#include "train/comm.h"
#include "train/report/metrics.h"

struct timers;

/* NULL when the options ask for none. The options and the engine outlive it. */
struct timers *timers_new(const struct train_options *o, const struct engine *e);
void timers_free(struct timers *t);
/* Adds a step: its samples, and the seconds that it spent on each kind. t may be NULL. */
void timers_step(struct timers *t, const struct spans *spent, int64_t samples);
/* Collective over world: reports the steps since the last call through m, which is NULL on all
 * ranks but one. t may be NULL, on all ranks alike. */
void timers_log(struct timers *t, struct comm *world, struct metrics *m, int64_t iteration);

#endif
