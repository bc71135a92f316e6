/* claim.h - one run per --save directory */
#ifndef TRAIN_STATE_CLAIM_H
#define TRAIN_STATE_CLAIM_H

#include "lib/base/lock.h"
#include "train/config/train_config.h"

/* Makes the --save directory and claims it, see ckpt_claim. NULL with the reason when it cannot be
 * written or another run holds it; lock_release releases it. */
struct lock *claim_save(const struct train_config *c, struct err *err);
/* --break-lock and --ckpt-step are for one start only, but a checkpoint's options serve later
 * starts too: clears them. */
void claim_forget(struct train_config *c);
/* Renames, with a note, the checkpoints of a claimed --save that are later than the one that the
 * run continues from: they are not part of the run and would be overwritten. -1 with a reason. */
int claim_set_aside(const struct train_config *c, int64_t iteration, struct err *err);

#endif
