/*
 * traffic.h - what replicas exchange: gradients, reduced by bucket, and weights, gathered by bucket
 *
 * Reductions begin as the backward pass leaves the layers of a bucket, from the last bucket to the
 * first; gathers begin as buckets are updated, from the first to the last, and a forward pass waits
 * for a bucket when it comes to its layers. Both run on a stream of their own, or on the compute
 * stream when they are not to overlap: the calls and their order are the same. With sharded
 * gradients every backward pass reduces; with sharded weights the buckets of layers are gathered
 * where a pass needs them, each while the one before it is used. Source: spec/engine.md 2 and 3.
 */
#ifndef TRAIN_ENGINE_TRAFFIC_H
#define TRAIN_ENGINE_TRAFFIC_H

#include "train/engine/engine.h"

/* The communicators and streams of e are open. */
struct traffic *traffic_open(struct engine *e, bool overlap_grads, bool overlap_weights);
void traffic_close(struct traffic *t);

/* Whether a pass would wait, gather or reduce: it must not be recorded then. */
bool traffic_forward_busy(const struct step *s);
bool traffic_backward_busy(const struct step *s);

/* Layers are numbered as in struct param; a pass names each before it queues work of it. */
void traffic_forward_enter(struct step *s, int layer);
void traffic_backward_begin(struct step *s);
void traffic_backward_enter(struct step *s, int layer);
/* The backward pass has queued all of the layer, and of those after it. */
void traffic_backward_leave(struct step *s, int layer);
/* All reductions of the step are queued before what comes next on the compute stream. Own parts
 * hold sums over the replicas then. */
void traffic_reduced(struct engine *e);
/* Nothing reads or writes weights but the compute stream: before an update. */
void traffic_settle(struct engine *e);
/* The own part of a bucket has changed; buckets come in order. */
void traffic_updated(struct engine *e, int bucket);

#endif
