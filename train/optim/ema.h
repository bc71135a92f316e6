/*
 * ema.h - an exponential moving average of the master weights, in host memory
 *
 * Each rank averages what its optimizer owns. The host does so beside the next step's passes; an
 * update waits until the masters have been read.
 */
#ifndef TRAIN_OPTIM_EMA_H
#define TRAIN_OPTIM_EMA_H

#include "train/engine/engine.h"

struct ema *ema_new(struct engine *e); /* NULL where the plan has no average */
void ema_free(struct ema *m);

/* Nothing where no average is kept. */

/* The average begins with the masters as they are. Waits for it. */
void ema_start(struct engine *e);
/* After an update: the average keeps this share of itself and takes the rest from the masters. */
void ema_step(struct engine *e, double decay);
/* Call before masters change: waits until they have been read. */
void ema_settle(struct engine *e);

#endif
