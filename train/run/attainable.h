/* attainable.h - the rate that the machine itself reaches at this run's own shape */
#ifndef TRAIN_RUN_ATTAINABLE_H
#define TRAIN_RUN_ATTAINABLE_H

#include "train/engine/engine.h"

/* FLOP/s of all ranks together, sustained for a second while every rank computes the largest GEMM
 * of its stage's layers in the run's type. NAN where a device has no memory left for it.
 * Collective; rank 0 notes the result. The run itself is not changed. */
double attainable_measure(struct engine *e);

#endif
