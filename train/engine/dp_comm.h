/*
 * dp_comm.h - communication of the data ranks: gradients reduced and weights gathered by bucket
 *
 * Reductions begin when the backward pass has left the layers of a bucket, from the last bucket to
 * the first; gathers begin when buckets are updated, from the first to the last, and a forward pass
 * waits for a bucket when it reaches its layers. Both run on their own streams, or on the compute
 * stream without overlap, with the same calls in the same order. With sharded gradients every
 * backward pass reduces; with sharded weights the buckets of layers are gathered when a pass needs
 * them, each while the previous one is used. All of this comes between the segments of passes
 * (lib/model/pass_items.h). Source: docs/parallelism.md 5.1 and 5.3.
 */
#ifndef TRAIN_ENGINE_DP_COMM_H
#define TRAIN_ENGINE_DP_COMM_H

#include "train/engine/engine.h"

/* The communicators and streams of e must be open. */
struct dp_comm *dp_comm_open(struct engine *e, bool overlap_grads, bool overlap_weights);
void dp_comm_close(struct dp_comm *t);

/* Call before a pass is queued. True when it waits, gathers or reduces: then it must be queued by
 * segments, with the next two calls around each of them. */
bool dp_comm_begin(struct step *s, bool backward);
/* Before the work of a segment of a pass is queued. */
void dp_comm_enter(struct step *s, const struct pass_items *of, const struct segment *now);
/* All work of a segment, up to this item, and so of the layers that use its buckets, is queued. */
void dp_comm_leave(struct step *s, const struct pass_item *m);
/* The compute stream waits for all reductions of the step; then the own parts hold sums over the
 * data ranks. */
void dp_comm_reduced(struct engine *e);
/* Call before an update: then only the compute stream uses weights. */
void dp_comm_settle(struct engine *e);
/* The own part of a bucket has been updated; call in the order of buckets. */
void dp_comm_updated(struct engine *e, int bucket);

#endif
