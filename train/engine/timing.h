/*
 * timing.h - how a rank's compute stream spends its time
 *
 * A span lies between two timers of the compute stream, so its time is the device's, including all
 * waits. Spans may be nested, but not inside one of the same kind. They are read once per step,
 * when the device has passed them. Waits for other ranks are reported to the stream's observer as
 * separate operations, so that a profile does not attribute them to the next operation.
 */
#ifndef TRAIN_ENGINE_TIMING_H
#define TRAIN_ENGINE_TIMING_H

#include "train/engine/engine.h"

enum span {
	SPAN_STEP, /* from one reading of the scalars to the next; the run's clock tells */
	SPAN_FORWARD_BACKWARD,
	SPAN_FORWARD,
	SPAN_BACKWARD,
	SPAN_BATCH,
	SPAN_RECV_FORWARD,
	SPAN_SEND_FORWARD,
	SPAN_RECV_BACKWARD,
	SPAN_SEND_BACKWARD,
	SPAN_SEND_FORWARD_RECV_BACKWARD,
	SPAN_SEND_BACKWARD_RECV_FORWARD,
	SPAN_EXCHANGE, /* any other exchange */
	SPAN_TENSOR,
	SPAN_CONTEXT,
	SPAN_GRADS, /* sums of gradients, including waits */
	SPAN_TENSOR_GRADS,
	SPAN_EMBEDDING_GRADS,
	SPAN_REDUCE,
	SPAN_GATHER,
	SPAN_RETURN,             /* of weights that the host updates */
	SPAN_ACTIVATION_OFFLOAD, /* of saved activations on their way to the host or back */
	SPAN_CLIP,               /* the norm of the gradients */
	SPAN_TOTALS,             /* the totals of all ranks, with all that they wait for */
	SPAN_OPTIMIZER,
	SPAN_BETWEEN, /* what the host does while nothing is queued */
	SPAN_COUNT
};

/* The kind of wait of a span; WAIT_NONE: computation, or the nested spans have it. */
enum span_wait {
	WAIT_NONE,
	WAIT_DATA,
	WAIT_TENSOR,
	WAIT_CONTEXT,
	WAIT_PIPELINE,
	WAIT_BATCH,
	WAIT_ACTIVATION_OFFLOAD,
	WAIT_COUNT
};

struct span_kind {
	const char *name; /* Megatron-LM's, if it has such a timer */
	int level;        /* least --timing-log-level that logs it */
	enum span_wait wait;
};
extern const struct span_kind span_kinds[SPAN_COUNT];

/* Of a step, in seconds: what passed in each kind, and how much of it the device computed. */
struct spans {
	double elapsed[SPAN_COUNT], computed[SPAN_COUNT];
};

struct timing *timing_new(void);
void timing_free(struct timing *t);
/* Turns timing on or off; it is off at first. */
void timing_watch(struct engine *e, bool on);
void timing_begin(struct engine *e, enum span s);
/* Nothing where the span is not open. */
void timing_end(struct engine *e, enum span s);
/* Adds the seconds of every kind since the last call. The device must have finished its queue; open
 * spans are lost. */
void timing_read(struct engine *e, struct spans *sum);

/* The part of these seconds spent in waits of one kind. */
double timing_waited(const double seconds[SPAN_COUNT], enum span_wait w);

#endif
