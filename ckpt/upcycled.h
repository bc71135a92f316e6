/*
 * upcycled.h - a dense model as a source of a model with experts
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

#include "lib/ckpt/source.h"

struct upcycle_rule {
	int64_t num_experts, topk;
	double ratio;      /* of channels that are replaced, 0 to 1 */
	double router_std; /* of the router's numbers */
	uint64_t seed;
};

/*
 * Reads from `dense`, which has no problem and is the caller's until the result is closed. The
 * optimizer's state is not part of it. NULL with the reason when the model cannot have experts.
 */
struct source *upcycled_open(struct source *dense, const struct upcycle_rule *rule, struct err *e);

#endif
