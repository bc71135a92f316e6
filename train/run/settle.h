/* settle.h - what a run does, decided while no other run changes its --save */
#ifndef TRAIN_RUN_SETTLE_H
#define TRAIN_RUN_SETTLE_H

#include "train/comm.h"
#include "train/config/train_config.h"

/* Collective, after train_parse and agree_lists: train_configure, compared between the ranks. A run
 * that will save claims --save then (c->lock, on rank 0), and decides again where it starts if
 * --load or --save is not as it was before the claim. -1 on all ranks, with the reason on rank
 * 0. */
int settle(struct train_config *c, struct comm *world, struct err *e);

#endif
