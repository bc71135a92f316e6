/*
 * straggler.h - which ranks the others wait for
 *
 * What a rank has computed, without what it waited for others, tells the slow one from those that
 * it holds up: their steps take equally long.
 */
#ifndef TRAIN_RUN_STRAGGLER_H
#define TRAIN_RUN_STRAGGLER_H

#include "lib/base/str.h"

/* Of a step, by rank. */
struct straggler {
	int ranks;
	const double *work, *batch; /* milliseconds computed, and waited for batches */
	double tflop;               /* the share of a rank in the work of the model */
	int count;                  /* how many of the slowest and fastest are listed */
};

/* Appends the lines of Megatron-LM's --log-straggler, without a newline at their end: the least and
 * most of each figure with its rank; then, where count is above 1 and below ranks, the slowest and
 * the fastest in order. */
void straggler_text(const struct straggler *s, struct str *out);

#endif
