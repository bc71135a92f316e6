/* load.h - a checkpoint into the engine */
#ifndef TRAIN_STATE_LOAD_H
#define TRAIN_STATE_LOAD_H

#include "train/state/save.h"

/*
 * Loads weights, and with START_RESUME optimizer state, progress, loss scale and schedule, from
 * c->weights_from: a checkpoint or (weights alone) a Hugging Face directory. Collective; fails on
 * all ranks, with the reason on rank 0, also when any of them was asked to stop (stop_agree).
 */
int load_checkpoint(struct engine *e, struct train_config *c, struct progress *p, struct err *err);

#endif
