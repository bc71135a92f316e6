/*
 * replay.h - passes that are recorded once and launched as a whole
 *
 * A pass of a micro batch queues some hundred operations with the same arguments in every step. A
 * device that can record them launches them all together afterwards, which saves time when the
 * operations are short. The replayed operations are those recorded, so the bits are the same.
 */
#ifndef TRAIN_STEP_REPLAY_H
#define TRAIN_STEP_REPLAY_H

#include "train/engine/engine.h"

struct replay;

/* NULL where passes are not replayed: the backend cannot record, they draw dropout, or ranks
 * communicate in them. */
struct replay *replay_new(const struct engine *e);
/* The engine must be open, and its device have finished. */
void replay_free(struct replay *r);
/* Has the effect of step_segment: calls it, or launches what it queued before with the same places,
 * training, accumulate, loss scale and logits. Passes of one r keep keys at no position that their
 * arguments have: those over one position of each sample, or all of a run that keeps none. r may be
 * NULL. */
void replay_segment(
    struct replay *r, struct step *s, const struct pass_items *of, const struct segment *segment);

#endif
