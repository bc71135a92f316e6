/* claim.h - --save is one run's */
#ifndef TRAIN_STATE_CLAIM_H
#define TRAIN_STATE_CLAIM_H

#include "lib/base/lock.h"
#include "train/run/config.h"

/* Makes the --save directory, takes its lock and clears it of what dead runs left half written.
 * NULL with the reason when it cannot be written or another run holds it; lock_release gives it
 * back. */
struct lock *claim_save(struct train_config *c, struct err *err);

#endif
