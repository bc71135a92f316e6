/*
 * observe.h - observes the operations that the engine calls
 *
 * Everything mtrain computes goes through one table, so a table that wraps it and reports each call
 * to an observer is enough to time operations (profile.c) or to check their outputs (check.c), on
 * every backend and without code in the layers. Waits for other ranks and for batches are reported
 * as operations without outputs (timing.h). Without an observer there is no cost.
 */
#ifndef TRAIN_ENGINE_OBSERVE_H
#define TRAIN_ENGINE_OBSERVE_H

#include "train/engine/engine.h"

struct observer {
	void (*before)(struct observer *, struct stream *);
	void (*after)(struct observer *, struct stream *, const struct op_call *);
	/* The position in the step, updated by the engine. layer as in struct layer's index. */
	int64_t microbatch;
	int layer;
	bool backward;
};

/* From here to observe_end the compute stream's operations are reported to o. */
void observe_begin(struct engine *e, struct observer *o);
void observe_end(struct engine *e);

#endif
