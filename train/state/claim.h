/* claim.h - --save is one run's */
#ifndef TRAIN_STATE_CLAIM_H
#define TRAIN_STATE_CLAIM_H

#include "lib/base/lock.h"
#include "train/run/config.h"

/* Makes the --save directory, takes its lock and clears it of what dead runs left half written.
 * NULL with the reason when it cannot be written or another run holds it; lock_release gives it
 * back. */
struct lock *claim_save(struct train_config *c, struct err *err);
/* Checkpoints of a claimed --save that are later than the one that the run goes on from are no part
 * of it, and would be written over: they get other names, which a note tells. -1 with a reason. */
int claim_set_aside(const struct train_config *c, int64_t iteration, struct err *err);

#endif
