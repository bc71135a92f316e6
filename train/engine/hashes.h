/*
 * hashes.h - hashes of a rank's tensors, to verify that tensors which should be equal are
 *
 * For the gradients of a micro batch that runs twice: a watched backward pass stores the hash of
 * the loss, and those of the gradients bucket by bucket, when each is complete and before it is
 * reduced or accumulated. For the weights, which all data ranks share. Hashes are computed on the
 * device, without copies.
 */
#ifndef TRAIN_ENGINE_HASHES_H
#define TRAIN_ENGINE_HASHES_H

#include "train/engine/engine.h"

struct hashes;

/* NULL when the plan has no hashes; then only functions that allow it may be called. */
struct hashes *hashes_new(const struct engine *e);
void hashes_free(struct hashes *h);

/* The next backward pass of a first micro batch is watched, as run 0 or 1 of two. */
void hashes_expect(struct engine *e, int run);
/* A backward pass begins. True when it is watched, and so must not be recorded; false without
 * hashes.
 */
bool hashes_watches(const struct step *s);
/* The backward pass has queued all work of the layer and of those after it. Does nothing without
 * hashes. */
void hashes_backward_leave(const struct step *s, int layer);
/* The first difference between the two runs, in the order of the backward pass. The device must
 * have finished both. False when there is none, or when two runs have not ended since the last
 * call. */
bool hashes_differ(struct engine *e, char name[128]);

/* The hashes of all weights of this rank, one per shard. Waits for the device and for pending
 * gathers; weights must not be sharded. */
void hashes_of_weights(struct engine *e, int64_t *out);

#endif
