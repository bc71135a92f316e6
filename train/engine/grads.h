/*
 * grads.h - main gradients: reduce over the ranks that share a parameter, measure
 *
 * Order at the end of a step: sums over tensor ranks that hold the same key/value group, over first
 * and last stage for a tied table, then over data ranks (reduce-scatter of the flat buffer for the
 * distributed optimizer, else all-reduce). One bucket; overlapped buckets will cut the same flat
 * buffer. Source: spec/training.md 4.1, 4.4, 8.
 */
#ifndef TRAIN_ENGINE_GRADS_H
#define TRAIN_ENGINE_GRADS_H

#include "train/engine/engine.h"

/* Run i of this rank's own part of the flat buffer, in order: what an update treats alike. False
 * after the last. */
bool grads_run(const struct engine *e, int i, struct shard_run *out);

void grads_reduce(struct engine *e);

/* This rank's share of the squared norm, into SCALAR_NORM: over all ranks every logical element is
 * counted once. It is finite when every gradient is. */
void grads_measure(struct engine *e);
/* Name of the first parameter that is not finite on any rank, or whose gradient is not, empty when
 * there is none: `of` is BUF_WEIGHTS or BUF_GRADS. First is by the order in which a step comes to
 * them: from the embedding on, of gradients from the head on. */
void grads_first_bad(struct engine *e, enum buffer of, char name[96]);

#endif
