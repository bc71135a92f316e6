/* reshard.h - mckpt reshard: rewrites a checkpoint's pieces as a run with another layout would */
#ifndef CKPT_RESHARD_H
#define CKPT_RESHARD_H

#include "lib/base/err.h"
#include "lib/model/split.h"

#include <stdbool.h>

struct reshard_options {
	const char *src, *save;
	struct layout layout; /* sizes; the split follows from the options */
	struct split_options split;
	bool no_optim, force;
};

/*
 * Writes save/iter_* of the same iteration and the tracker. Rank r writes pieces-r: for each of
 * weight, exp_avg, exp_avg_sq the parts of its parameters that lie in its data rank's range of the
 * flat buffer, in model order. Tensors keep their dtype and bytes. One piece is in memory at a
 * time.
 */
int reshard(const struct reshard_options *o, struct err *e);

#endif
