/* ceiling.h - the rate that the machine itself reaches at this run's own shape */
#ifndef TRAIN_RUN_CEILING_H
#define TRAIN_RUN_CEILING_H

#include "train/engine/engine.h"

/* FLOP/s of all ranks together in the largest product of a layer, each rank its stage's own, in the
 * run's type, on all of them at once, kept up for a second. NAN where a device has no memory left
 * for it. Collective; rank 0 notes the result. Changes nothing of the run. */
double ceiling_measure(struct engine *e);

#endif
