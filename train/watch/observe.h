/*
 * observe.h - observes the operations that the engine calls
 *
 * Everything mtrain computes goes through one table, so a table that wraps it and reports each call
 * to an observer is enough to time operations (profile.c) or to check their outputs (check.c), on
 * every backend and without code in the layers. Waits for other ranks and for batches are reported
 * as operations without outputs (timing.h). Without an observer there is no cost.
 */
#ifndef TRAIN_WATCH_OBSERVE_H
#define TRAIN_WATCH_OBSERVE_H

#include "train/ops.h"

struct observer {
	void (*before)(struct observer *, struct stream *);
	void (*after)(struct observer *, struct stream *, const struct op_call *);
	/* The position in the step, updated by the engine. layer as in struct layer's index. */
	int64_t microbatch;
	int layer;
	bool backward;
};

/* From here to observe_end the operations of the stream are reported to o, if they are called
 * through the table that is returned. */
const struct ops *observe_begin(struct stream *s, struct observer *o);
/* Returns the stream's own table. */
const struct ops *observe_end(struct stream *s);

#endif
