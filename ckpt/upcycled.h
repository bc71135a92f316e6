/*
 * upcycled.h - a dense model as a source of a model with experts (derived.h)
 *
 * Every expert of a layer is a copy of its MLP. With a ratio above 0, that share of the channels of
 * each expert is replaced: the same channels of gate, up and down, drawn for each expert alone, get
 * normal numbers with the mean and the standard deviation of what those channels had in their
 * matrix. The router is normal noise. All numbers depend on the seed and their place alone. Where
 * experts are copies and the weights of a token's experts sum to 1, the model computes what the
 * dense one did. Source: Komatsuzaki 2022, arXiv:2212.05055; Nakamura 2025, arXiv:2502.19261,
 * section 3.
 */
#ifndef CKPT_UPCYCLED_H
#define CKPT_UPCYCLED_H

#include "ckpt/derived.h"

struct upcycle_rule {
	int64_t num_experts, topk;
	double ratio;      /* of channels that are replaced, 0 to 1 */
	double router_std; /* of the router's numbers; below 0: the model's own of new weights */
	uint64_t seed;
};

/* Of one source; derived_job.rule is a struct upcycle_rule. */
extern const struct derived_kind derived_upcycled;

#endif
