/*
 * grads.h - main gradients: what is left of their sums at the end of a step, and their measure,
 * and that of the weights
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
/* This rank's share of the zeros in the gradients, into SCALAR_ZEROS, counted in the same way; what
 * only fills a tensor up is left out, so that the number does not depend on the layout. */
void grads_count_zeros(struct engine *e);
/* The share of the squared norm of the weights that updates go to, into SCALAR_PARAMS. */
void grads_measure_params(struct engine *e);
/* Name of the first parameter that is not finite on any rank, or whose gradient is not, empty when
 * there is none: `of` is BUF_WEIGHTS or BUF_GRADS. First is by the order in which a step comes to
 * them: from the embedding on, of gradients from the head on. */
void grads_first_bad(struct engine *e, enum buffer of, char name[96]);

#endif
