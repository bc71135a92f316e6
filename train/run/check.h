/* check.h - which operation was the first to write something that is not finite */
#ifndef TRAIN_RUN_CHECK_H
#define TRAIN_RUN_CHECK_H

#include "train/engine/engine.h"

/*
 * Collective. Repeats `pass`, checks every operation's outputs, and appends the place of the first
 * bad one over all ranks to `out` on rank 0: rank, micro batch, layer, operation, output, how many.
 * Nothing is appended when all was finite this time. The pass must not change what it reads; a
 * training step does not before its update.
 */
void check_find(struct engine *e, void (*pass)(void *ctx), void *ctx, struct str *out);

#endif
