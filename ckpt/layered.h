/*
 * layered.h - layers of a model in another order, left out or repeated, as sources (derived.h)
 *
 * Every tensor is a copy, with the states of the update rule and the average where these are kept,
 * and what the model says of each layer follows the layer. With zero_new a layer whose number has
 * appeared before adds nothing to the residual stream: the projection of its attention and the down
 * projections of its MLP, experts and shared expert, with their biases, are 0, so that the model
 * computes what it did (Wu 2024, arXiv:2401.02415). Where branches end in a norm, its weight is 0
 * instead: before a norm over zeros gradients would be divided by the root of its epsilon.
 */
#ifndef CKPT_LAYERED_H
#define CKPT_LAYERED_H

#include "ckpt/derived.h"

struct layered_rule {
	/* "0:24,8:32": half-open ranges of numbers, or numbers, in the new order; NULL: all */
	const char *layers;
	bool drop; /* these are left out, in place of all others */
	bool zero_new;
	bool average; /* the average becomes the weights */
};

/* derived_job.rule is a struct layered_rule. The first keeps all that a run continues from, the
 * second the average, the third nothing but weights. */
extern const struct derived_kind derived_layered, derived_stripped, derived_extracted;

#endif
