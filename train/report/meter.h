/* meter.h - the energy that the devices of a run use, and their power, temperature and clock */
#ifndef TRAIN_REPORT_METER_H
#define TRAIN_REPORT_METER_H

#include "train/engine/engine.h"

/* Reads the meters of the rank's device; NAN where it has none. */
void meter_read(const struct engine *e, struct meter *out);

struct energy;

/* Begins to measure for --log-energy. Collective; NULL where a device of the run has no energy
 * meter, which is noted. e outlives it. */
struct energy *energy_new(const struct engine *e);
void energy_free(struct energy *g);
/* Joules that this rank's device has used since the last call, or since the beginning, without what
 * it used between energy_pause and energy_resume. 0 for NULL. */
double energy_lap(struct energy *g);
/* What is used between them belongs to no lap. A pause that is not ended has no effect. */
void energy_pause(struct energy *g);
void energy_resume(struct energy *g);

#endif
