/* pinned.h - host memory that is copied to and from the device */
#ifndef TRAIN_ENGINE_PINNED_H
#define TRAIN_ENGINE_PINNED_H

#include "train/engine/engine.h"

/*
 * Zeroed host memory, pinned where the device pins, `part` bytes at a time: no copy may cross the
 * end of a part, and other calls get their turn between parts. From any thread. NULL: the host has
 * no more; freed by pinned_free with the same sizes, which ignores NULL.
 */
void *pinned_alloc(const struct engine *e, size_t bytes, size_t part);
void pinned_free(const struct engine *e, void *p, size_t bytes, size_t part);

#endif
