/*
 * logits.h - the logits of a position over the vocabulary, as the head leaves them
 *
 * A model with a cap makes softcap tanh(x / softcap) of each. That keeps their order, and tanh may
 * round two different ones to the same number, so the largest is sought among those that are
 * stored, and an infinite one is an error though the cap would hide it.
 */
#ifndef TRAIN_RUN_LOGITS_H
#define TRAIN_RUN_LOGITS_H

#include "lib/base/dtype.h"

struct logits {
	const void *data; /* [count] */
	enum dtype type;
	int64_t count;
	double softcap; /* 0: none */
};

/* Of all, before the cap. */
int64_t logits_count_nonfinite(const struct logits *l);
/* `count` of them from `first` on, after the cap. */
void logits_double(const struct logits *l, int64_t first, int64_t count, double *out);

#endif
