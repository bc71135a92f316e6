/* reshard.h - mckpt reshard: rewrites a checkpoint's pieces as a run with another layout would */
#ifndef CKPT_RESHARD_H
#define CKPT_RESHARD_H

#include "lib/base/opt.h"
#include "lib/model/split.h"

#include <stdbool.h>

struct reshard_options {
	const char *src, *save;
	struct layout layout; /* sizes; the split follows from the options */
	struct split_options split;
	bool no_optim, force;
	const struct opt_parse *given; /* for the provenance; NULL: none is recorded */
};

/*
 * Writes save/iter_* of the same iteration and the tracker, as copy_source does. Tensors keep their
 * dtype and bytes. notes gets what the source notes.
 */
int reshard(const struct reshard_options *o, struct str *notes, struct err *e);

#endif
