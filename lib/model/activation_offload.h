/*
 * activation_offload.h - which saved activations lie in host memory between a forward pass and its
 * backward pass
 *
 * What the backward pass needs is saved in units: a layer, or the input of layers that are
 * recomputed together. Some units of a chunk leave the device after the forward pass and come back
 * for the backward pass. They are spread over the chunk, so that each has the time of several
 * layers to be copied in. The first stays, since messages of other stages are received into it at
 * any time. On the device they take turns in a few places, so that addresses do not depend on the
 * step. Where each forward pass is followed by its backward pass, the units that were in the places
 * last are still there, and are not copied.
 */
#ifndef MODEL_ACTIVATION_OFFLOAD_H
#define MODEL_ACTIVATION_OFFLOAD_H

#include <stdint.h>

struct activation_offload_plan {
	int64_t layers; /* of a unit */
	int64_t units;  /* of the largest chunk of a stage */
	int64_t moved;  /* of them, those that leave their slots */
	int64_t copied; /* the first of these, which go to the host */
	int places;     /* on the device */
};

/* For chunks of num_layers, of which `together` are recomputed together (0 or 1: none are). layers:
 * how many of them shall leave; all but the first unit at most. slots: passes in flight. */
struct activation_offload_plan activation_offload_plan(
    int64_t layers, int64_t num_layers, int64_t together, int slots);
/* How many of the first units leave. */
int64_t activation_offload_before(const struct activation_offload_plan *p, int64_t unit);
/* The number of a layer's unit among those that leave, counted in its chunk; -1: it stays. */
int activation_offload_number(const struct activation_offload_plan *p, int64_t layer);

#endif
