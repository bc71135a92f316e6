/* choose.h - a token out of logits */
#ifndef TRAIN_RUN_CHOOSE_H
#define TRAIN_RUN_CHOOSE_H

#include "train/run/logits.h"

/* How tokens are drawn; the draw of a position depends on seed, prompt and position alone. */
struct sampling {
	double temperature; /* 0: the likeliest token, the first of equals */
	int64_t top_k;      /* 0: all */
	double top_p;
	uint64_t seed;
	uint32_t prompt; /* its number */
};

/* The token at a position, one of the first v, by temperature, top-k and top-p; -1 when any of the
 * logits is not finite. Without temperature they are compared as they are stored. */
int64_t choose(const struct sampling *s, const struct logits *l, int64_t v, int64_t position);
/* The natural logarithm of a token's probability, by all logits as they are. */
double choose_logprob(const struct logits *l, int64_t id);

#endif
