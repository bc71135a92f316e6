/*
 * ways.h - the ways to share a step's work over ranks that obey all rules
 *
 * Sizes of the tensor, context, expert and pipeline axes, the form of context ranks, sequence
 * parallelism, instances of what is sharded, and the micro batch; what is typed holds for all.
 * Tensor ranks stay in a node unless their number was given. Of instances there are one and, where
 * gradients may be sharded, as many as hosts: with a sharded optimizer alone one sends less.
 */
#ifndef PLAN_WAYS_H
#define PLAN_WAYS_H

#include "plan/candidate.h"

struct way {
	int tensor, context, data, pipeline;
	int expert_ranks, expert_slices; /* 0: not said */
	int instances;                   /* of what is sharded */
	int outer_sharding;              /* enum outer_sharding */
	int micro_batch, num_microbatches;
	bool rows; /* sequence parallelism */
	enum context_form form;
};

/* Calls `each` with all of them, micro batches ascending. What a rule forbids is counted in
 * refusals, of which the last stays 0. */
void ways_each(const struct search_input *in, struct refusal refusals[SEARCH_REFUSALS],
    void (*each)(void *ctx, const struct way *w), void *ctx);
/* The sizes of a way, without a split. */
void way_layout(const struct way *w, struct layout *l);
/* The shape that was given, with what a way says of it. The tensor ranks of a host communicate
 * beside GEMMs, in 16 bits and where messages are this program's: its copy engines take nothing
 * from these, as NCCL does between hosts. */
void way_shape(const struct search_input *in, const struct way *w, struct train_shape *s);

#endif
