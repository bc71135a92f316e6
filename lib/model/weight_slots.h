/*
 * weight_slots.h - which buckets of layers are gathered where weights are sharded
 *
 * Buckets of layers take turns in the slots of gathered weights (bucket.h). One stays in its slot
 * until another takes it: the last ones of a forward pass are there for the backward pass, the
 * first ones for the next micro batch, and those that an update gathers for the first of all. The
 * engine gathers by these functions (train/engine/dp_comm.c), and the plan counts by them.
 */
#ifndef MODEL_WEIGHT_SLOTS_H
#define MODEL_WEIGHT_SLOTS_H

#include "lib/model/pass_items.h"

struct weight_slots {
	int bucket[BUCKET_TURNS]; /* in each slot; -1: none */
};

/* Empties all: weights have changed, or are about to. */
void weight_slots_clear(struct weight_slots *w);
/* Puts a bucket into its slot. True when it must be gathered: it is one of layers and was not
 * there; *before is then the one that was, or -1. */
bool weight_slots_take(struct weight_slots *w, const struct shards *s, int bucket, int *before);
/* Whether a bucket that was updated, one after another in their order, is gathered at once: those
 * that are not of layers, and the first one of each slot, which it takes. */
bool weight_slots_updated(struct weight_slots *w, const struct shards *s, int bucket);

/* What a pass does with a bucket: it is used now, or comes next and is gathered while the one
 * before it is used. */
struct weight_need {
	void (*need)(void *ctx, int bucket, bool used);
	void *ctx;
};
/* The buckets that a segment of a pass needs, in order, and of each kind of layers' the one that
 * the pass needs next, unless its slot has one of these. */
void weight_slots_enter(const struct memory_plan *m, const struct pass_items *of,
    const struct segment *now, const struct weight_need *n);

/* How often a stage gathers each bucket in a step of training that follows another one, with
 * sharded weights: count has num_buckets numbers. In time that does not grow with the micro
 * batches. */
void weight_slots_count(const struct memory_plan *m, const struct layout *l, int stage,
    int num_microbatches, int64_t *count);

#endif
