/* run.h - a whole run after its options */
#ifndef TRAIN_RUN_RUN_H
#define TRAIN_RUN_RUN_H

#include "train/comm.h"
#include "train/config/train_config.h"
#include "train/watch/watchdog.h"

/* Trains, evaluates or infers, and tells the watchdog, which may be NULL, of the first step.
 * Returns the exit status. */
int train_run(struct train_config *c, struct comm *world, struct watchdog *watchdog);
/* How long ranks may wait for each other. */
void train_limits(const struct train_options *o, struct watchdog_config *c);
/* The ranks that --dry-run plans for, in a world of so many. */
int64_t train_planned_ranks(const struct train_config *c, int world_size);
/* --dry-run: the memory of every rank, TSV on standard output. Returns the exit status. */
int train_dry_run(struct train_config *c, int64_t world_size);
/* -1 when more than one process was launched but this world has one; the reason names the
 * launcher's variable. */
int train_check_launch(int world_size, struct err *e);

#endif
