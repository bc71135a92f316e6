/*
 * averaged.h - a weighted sum of checkpoints as a source (derived.h)
 *
 * Every parameter is the sum of weight times parameter over the sources, in fp64 in their order,
 * rounded once. So the average of equal checkpoints is their bytes, where fp32 sums change some of
 * them. fp32 masters are summed where all sources have them, else the weights that are stored
 * beside them. Iteration, samples and schedule are the last source's.
 */
#ifndef CKPT_AVERAGED_H
#define CKPT_AVERAGED_H

#include "ckpt/derived.h"

struct average_rule {
	const double *weight;     /* [sources] */
	enum dtype dtype;         /* of the result; DTYPE_NONE: the widest of the sources' */
	int64_t output_iteration; /* -1: the last source's */
};

/* derived_job.rule is a struct average_rule. */
extern const struct derived_kind derived_averaged;

/* In the order of average_styles. */
enum average_style {
	AVERAGE_LINEAR,
	AVERAGE_MINUS_SQRT,
	AVERAGE_LINEAR_REVERSE,
	AVERAGE_MINUS_SQRT_REVERSE,
	AVERAGE_EMA
};
extern const char *const average_styles[]; /* ended by NULL */

/*
 * The weights of n checkpoints in rising order. With D_i = 1 - i/n (linear) or 1 - sqrt(i/n)
 * (minus-sqrt): w_(n-1) = D_(n-1), w_i = D_i - D_(i+1) for 0 < i < n - 1, and w_0 is 1 less the
 * others, which makes the first the largest; reverse turns them round. ema: proportional to
 * decay^(n-1-i). Source: Tian 2025, arXiv:2507.17634; Megatron-LM
 * tools/checkpoint/weighted_merge.py.
 */
void average_weights(enum average_style style, double decay, int n, double *weight);

#endif
