/*
 * stash.h - saved activations that lie in host memory between a forward pass and its backward pass
 *
 * lib/model/stash.h says which, memory_stash where. A unit is copied to the host when its forward
 * pass is over, and back into its place when the backward pass has left the unit that had it
 * before. Both directions have streams of their own; the compute stream waits only for a place that
 * is still being copied. Passes stop between segments for this, so the segments can be recorded.
 */
#ifndef TRAIN_ENGINE_STASH_H
#define TRAIN_ENGINE_STASH_H

#include "train/engine/engine.h"

struct stash *stash_open(struct engine *e); /* NULL where nothing leaves the device */
void stash_close(struct stash *x);

/* The following do nothing where nothing leaves. */

/* A pass is about to begin: asks for what it needs first. True where it has to go by segments. */
bool stash_begin(struct step *s, bool backward);
/* Before and after a segment. */
void stash_enter(struct step *s, const struct pass_items *of, const struct segment *segment);
void stash_leave(struct step *s, const struct pass_items *of, const struct segment *segment);

#endif
