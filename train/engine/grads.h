/*
 * grads.h - main gradients: what is left of their sums at the end of a step, and their measure
 *
 * Source: spec/training.md 4.1, 4.4, 8.
 */
#ifndef TRAIN_ENGINE_GRADS_H
#define TRAIN_ENGINE_GRADS_H

#include "train/engine/engine.h"

/* What this rank owns of run i of its shards; a count of 0 when nothing. */
struct part grads_run(const struct engine *e, int i);
/* Collective over tensor, kv and embedding groups. Afterwards the own parts of the main gradients
 * hold the sum over all micro batches of the step, not divided by anything: the number of tokens is
 * known only with the step's totals. What is not own is of no use. */
void grads_reduce(struct engine *e);

/* This rank's share of the squared norm, into SCALAR_NORM: over all ranks every logical element is
 * counted once. It is finite when every gradient is. */
void grads_measure(struct engine *e);
/* Name of the first parameter that is not finite on any rank, or whose gradient is not, empty when
 * there is none: `of` is BUF_WEIGHTS or BUF_GRADS. First is by the order in which a step comes to
 * them: from the embedding on, of gradients from the head on. */
void grads_first_bad(struct engine *e, enum buffer of, char name[96]);

#endif
