/*
 * observe.h - observes the operations that the engine calls
 *
 * Everything mtrain computes goes through one table, so one more table that tells an observer of
 * each call is enough to time operations (profile.c) or to look at what they write (check.c), on
 * every backend and without a word in the layers. Waits for other ranks and for batches are told as
 * operations without outputs (timing.h). Without an observer nothing is slowed down.
 */
#ifndef TRAIN_ENGINE_OBSERVE_H
#define TRAIN_ENGINE_OBSERVE_H

#include "train/engine/engine.h"

enum { OP_OUTPUTS = 4 };

/* One call of an operation. */
struct op_call {
	const char *name; /* the table's, products by what they are for; static */
	const struct tensor *out[OP_OUTPUTS]; /* what it writes, without gaps */
	const char *out_name[OP_OUTPUTS];
	double flops; /* of products and attention, causal attention counted half; else 0 */
	double bytes; /* that have to go through memory once */
};

struct observer {
	void (*before)(struct observer *, struct stream *);
	void (*after)(struct observer *, struct stream *, const struct op_call *);
	/* Where in the step the engine is: kept up to date by it. layer as in struct layer's
	 * index. */
	int64_t microbatch;
	int layer;
	bool backward;
};

/* From here to observe_end the compute stream's operations are told to o. */
void observe_begin(struct engine *e, struct observer *o);
void observe_end(struct engine *e);

#endif
