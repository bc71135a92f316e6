/*
 * replicas.h - whether ranks that hold the same weights hold the same bits
 *
 * Ranks of a data group compute the same update, or gather it from each other. A bit that flips in
 * the memory of one of them is not repaired by that, nor seen in a loss.
 */
#ifndef TRAIN_RUN_REPLICAS_H
#define TRAIN_RUN_REPLICAS_H

#include "train/engine/engine.h"

/* Collective over the world, and the same on all ranks. Where not all agree: `odd` is the first
 * tensor in which the replicas of this rank differ, if this rank's is odd, else empty. Waits for
 * the device. */
bool replicas_agree(struct engine *e, char odd[128]);
/* Whether value `self` of n is another than more than half of them have. */
bool replicas_odd(const int64_t *value, int n, int self);

#endif
