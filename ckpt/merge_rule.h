/*
 * merge_rule.h - by which rule models are merged, and with which numbers
 *
 * With delta_i = A_i - B in fp64, of operands A_i with weights w_i and a base B:
 *
 *   linear           sum w_i A_i, divided by sum w_i                         arXiv:2203.05482
 *   slerp            (sin((1-t) phi) A_1 + sin(t phi) A_2) / sin phi of each tensor
 *   task_arithmetic  B + lambda sum w_i delta_i                              arXiv:2212.04089
 *   ties             the largest of each delta, those of the elected sign    arXiv:2306.01708
 *   dare_linear      a random part of each delta, rescaled                   arXiv:2311.03099
 *   dare_ties        the same, then the vote of ties
 *
 * Under MERGE_MERGEKIT as mergekit 0.1.4 computes it, under MERGE_PAPER as the papers have it; the
 * manual lists where they differ.
 */
#ifndef CKPT_MERGE_RULE_H
#define CKPT_MERGE_RULE_H

#include "lib/base/dtype.h"
#include "lib/token/tokenizer.h"

enum merge_method {
	MERGE_LINEAR,
	MERGE_SLERP,
	MERGE_TASK_ARITHMETIC,
	MERGE_TIES,
	MERGE_DARE_LINEAR,
	MERGE_DARE_TIES
};
extern const char *const merge_methods[]; /* ended by NULL */
enum merge_semantics { MERGE_MERGEKIT, MERGE_PAPER };
extern const char *const merge_semantics[];

/* Of a choice that depends on the method. */
enum merge_choice { MERGE_DEFAULT, MERGE_TRUE, MERGE_FALSE };

struct merge_rule {
	enum merge_method method;
	enum merge_semantics semantics;
	/* by the number of the source: weights and densities of operands */
	const double *weight, *density;
	int base; /* the number of the source; -1: none */
	int own;  /* whose vocabulary the result has where they differ; -1: all have one */
	/* the tokenizers of that source and of all others; NULL without own */
	const struct tokenizer_spec *own_tokenizer, *other_tokenizer;
	double t, lambda;
	enum merge_choice normalize, rescale;
	uint64_t seed;
	enum dtype dtype; /* of the result; DTYPE_NONE: the widest of the sources' */
};

#endif
