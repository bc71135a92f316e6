/*
 * hashes.h - a hash of each tensor of a rank, to tell whether what should be equal is
 *
 * Of the gradients of a micro batch that runs twice: a backward pass that is watched leaves the
 * hash of the loss, and those of the gradients bucket by bucket, as each is complete and before it
 * is reduced or added to. Of the weights, which replicas have in common. Hashes are made on the
 * device, without a copy of what they are of.
 */
#ifndef TRAIN_ENGINE_HASHES_H
#define TRAIN_ENGINE_HASHES_H

#include "train/engine/engine.h"

struct hashes;

/* NULL when the plan has no room for any: nothing else here is called then but what says so. */
struct hashes *hashes_new(const struct engine *e);
void hashes_free(struct hashes *h);

/* The next backward pass of a first micro batch is watched, and is run 0 or 1 of two. */
void hashes_expect(struct engine *e, int run);
/* A backward pass begins: whether it is watched, and must not be recorded. Without hashes false. */
bool hashes_watches(const struct step *s);
/* As traffic_backward_leave, before it. Without hashes nothing. */
void hashes_backward_leave(const struct step *s, int layer);
/* What differs between the runs, after both: the first in the order of the backward pass. The
 * device has passed all of it. False when nothing does, and where two runs have not ended since the
 * last call. */
bool hashes_differ(struct engine *e, char name[128]);

/* Of every weight that this rank holds, by shard: room for as many. Waits for the device, and for
 * gathers under way; weights are not sharded. */
void hashes_of_weights(struct engine *e, int64_t *out);

#endif
