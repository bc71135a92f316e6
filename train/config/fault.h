/*
 * fault.h - the places where tests break a run on purpose
 *
 * A training run calls these at fixed places. mtrain is linked with fault_none.c, where they do
 * nothing; the tests link the same objects with tests/faulty/fault.c in its place, where the
 * environment variable MIKOSHI_FAULT says what breaks.
 */
#ifndef TRAIN_CONFIG_FAULT_H
#define TRAIN_CONFIG_FAULT_H

#include "lib/base/err.h"

#include <stdint.h>

struct engine;
struct fault;

/* The fault that was asked for in a run of this many ranks, NULL for none, freed by fault_free; -1
 * when it cannot be parsed. */
int fault_read(struct fault **out, int64_t world_size, struct err *e);
/* Ends what fault_join began, once the groups of the engine are closed. NULL is fine, here and
 * below. */
void fault_free(struct fault *f);
/* The engine of this rank is open; it outlives all calls but fault_free. */
void fault_join(struct fault *f, struct engine *e);
/* The passes of a step, counted from 1, come next. */
void fault_step(struct fault *f, int64_t step);
/* The update of the step is queued. */
void fault_updated(struct fault *f);

#endif
