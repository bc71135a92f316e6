/*
 * offload.h - updates by the host, of the buckets whose masters and states lie in its memory
 *
 * Their gradients stay on the device until the norm is known, then pass to the host piece by piece,
 * which updates one bucket after the other, in the order in which the next forward pass needs them,
 * and sends the weights back. A pass waits for a bucket when it comes to its layers.
 */
#ifndef TRAIN_ENGINE_OFFLOAD_H
#define TRAIN_ENGINE_OFFLOAD_H

#include "train/engine/engine.h"

struct offload *offload_new(struct engine *e); /* NULL where the device updates everything */
void offload_free(struct offload *x);

/* The following do nothing where the device updates everything. */

/* How the host updates a piece whose gradients have come to it. */
struct offload_update {
	void (*update)(struct engine *, const struct bucket_chunk *, const struct tensor *grads,
	    const void *ctx);
	const void *ctx; /* `size` bytes, of which update gets a copy */
	size_t size;
};
/* The gradients are final, and nothing that is queued after this uses the old weights. All buckets
 * of the update before have been waited for. */
void offload_begin(struct engine *e, const struct offload_update *how);
/* Whether the weights of a bucket have not been waited for since the update began. */
bool offload_pending(const struct engine *e, int bucket);
/* Waits until the host has updated a pending bucket; so does the compute stream for its weights. */
void offload_await(struct engine *e, int bucket);
/* Copies the own weights of what the host updates from the device, or to it, outside updates. */
void offload_copy_weights(struct engine *e, bool to_device);

#endif
