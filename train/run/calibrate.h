/* calibrate.h - what the machine reaches in this run's own operations, as a file for mplan */
#ifndef TRAIN_RUN_CALIBRATE_H
#define TRAIN_RUN_CALIBRATE_H

#include "train/config/train_config.h"
#include "train/engine/engine.h"

/* --calibrate: for so many seconds every rank computes the GEMMs and the attention of its stage,
 * moves bytes through its memory and to it, and exchanges sums with others; rank 0 writes the rates
 * as options of mplan. The run itself is not begun. Collective; returns 0, or -1 on rank 0 with the
 * reason. */
int calibrate(struct engine *e, const struct train_config *c, struct err *err);

#endif
