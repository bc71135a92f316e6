/*
 * data_ranks.h - checking that ranks which hold the same weights hold the same bits
 *
 * Ranks of a data group compute the same update, or gather it from each other. Neither repairs a
 * bit that flips in the memory of one of them, nor does the loss show it.
 */
#ifndef TRAIN_RUN_DATA_RANKS_H
#define TRAIN_RUN_DATA_RANKS_H

#include "train/engine/engine.h"

/* Collective over the world, with the same result on all ranks. When not all agree, `odd` names the
 * first tensor in which this rank is the odd one among its data ranks, or is empty. Waits for the
 * device. */
bool data_ranks_agree(struct engine *e, char odd[128]);
/* True when value `self` of n differs from the one that more than half of them have. */
bool data_ranks_odd(const int64_t *value, int n, int self);

#endif
