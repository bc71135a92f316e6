/*
 * replay.h - passes recorded once and launched as one
 *
 * A pass of a micro batch queues some hundred operations with the same arguments in every step. A
 * device that can record what is queued launches them at once afterwards, which matters where the
 * operations are short. What is replayed is what was recorded, so the bits are the same.
 */
#ifndef TRAIN_ENGINE_REPLAY_H
#define TRAIN_ENGINE_REPLAY_H

#include "train/engine/engine.h"

struct replay;

/* NULL where nothing is to be gained: the backend cannot record, or passes communicate or draw
 * dropout. */
struct replay *replay_new(const struct engine *e);
void replay_free(struct replay *r);
/*
 * Does what pass(s) does: by calling it, or by launching what it queued before with the same
 * places, training, accumulate and loss scale. `which` tells passes apart, 0 or 1. r may be NULL.
 */
void replay_pass(struct replay *r, int which, struct step *s, void (*pass)(struct step *));

#endif
