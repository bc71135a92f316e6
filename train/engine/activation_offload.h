/*
 * activation_offload.h - saved activations that lie in host memory between a forward pass and its
 * backward pass
 *
 * lib/model/activation_offload.h says which, memory_offloaded where. A unit is copied to the host
 * when its forward pass is over, and back into its place when the backward pass has left the unit
 * that had it before. Both directions have streams of their own; the compute stream waits only for
 * a place that is still being copied. Passes stop between segments for this, so the segments can be
 * recorded.
 */
#ifndef TRAIN_ENGINE_ACTIVATION_OFFLOAD_H
#define TRAIN_ENGINE_ACTIVATION_OFFLOAD_H

#include "train/engine/engine.h"

struct activation_offload *activation_offload_open(
    struct engine *e); /* NULL where nothing leaves the device */
void activation_offload_close(struct activation_offload *x);

/* The following do nothing where nothing leaves. */

/* A pass is about to begin: asks for what it needs first. True where it has to go by segments. */
bool activation_offload_begin(struct step *s, bool backward);
/* Before and after a segment. */
void activation_offload_enter(
    struct step *s, const struct pass_items *of, const struct segment *segment);
void activation_offload_leave(
    struct step *s, const struct pass_items *of, const struct segment *segment);

#endif
