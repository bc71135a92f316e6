/*
 * grads.h - main gradients: the sums that remain at the end of a step, their norm, and the norm of
 * the weights
 *
 * Source: docs/math.md 4.1, 4.4, docs/parallelism.md 5.
 */
#ifndef TRAIN_ENGINE_GRADS_H
#define TRAIN_ENGINE_GRADS_H

#include "train/engine/engine.h"

/* Collective over tensor, kv and embedding groups. Afterwards the own parts of the main gradients
 * hold the sum over all micro batches of the step, not yet divided, since the number of tokens is
 * known only with the step's totals. The other parts are undefined. */
void grads_reduce(struct engine *e);

/* This rank's share of the squared norm, into SCALAR_NORM: over all ranks every logical element is
 * counted once. Finite if every gradient is. */
void grads_measure(struct engine *e);
/* This rank's share of the zeros in the gradients, into SCALAR_ZEROS, counted in the same way and
 * without padding, so that the number does not depend on the layout. */
void grads_count_zeros(struct engine *e);
/* This rank's share of the squared norm of the updated weights, into SCALAR_PARAMS. */
void grads_measure_params(struct engine *e);
/* The name of the first parameter that is not finite on some rank (BUF_WEIGHTS), or whose gradient
 * is not (BUF_GRADS); empty when there is none. First in the order of a step: weights from the
 * embedding on, gradients from the head on. */
void grads_first_bad(struct engine *e, int of, char name[96]);

#endif
