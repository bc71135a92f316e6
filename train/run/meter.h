/* meter.h - what the devices of a run spend, and how they are */
#ifndef TRAIN_RUN_METER_H
#define TRAIN_RUN_METER_H

#include "train/engine/engine.h"

/* What the rank's device says now; NAN where it does not know. */
void meter_read(const struct engine *e, struct meter *out);

struct energy;

/* Of --log-energy, from now on. Collective; NULL where a device of the run has no meter of energy,
 * which is noted. e outlives it. */
struct energy *energy_new(const struct engine *e);
void energy_free(struct energy *g);
/* Joules that this rank's device has taken since the last call, or since the beginning, without
 * what it took between energy_pause and energy_resume. 0 of NULL. */
double energy_lap(struct energy *g);
/* What comes between them belongs to no lap. A pause that is not ended is none. */
void energy_pause(struct energy *g);
void energy_resume(struct energy *g);

#endif
