/* rails.h - the rate at which each rank sends to another host, measured before the first step */
#ifndef TRAIN_RUN_RAILS_H
#define TRAIN_RUN_RAILS_H

#include "lib/model/rails.h"
#include "train/engine/engine.h"

/*
 * Collective over the world, once the engine is open and before its memory holds anything of a
 * pass. Where there are several hosts, each rank that goes to others exchanges up to 64 MiB three
 * times with its neighbours on the rail, by the run's own communicator and all at once, in about a
 * second at most. The caller releases.
 */
struct rails rails_measure(const struct engine *e);
/* On rank 0: one line, and what is worth a warning. */
void rails_say(const struct rails *r);
void rails_release(struct rails *r);

#endif
