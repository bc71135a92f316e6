/*
 * context.h - the ways to share the attention of a sequence, and what they have in common: rows
 */
#ifndef TRAIN_LAYERS_CONTEXT_H
#define TRAIN_LAYERS_CONTEXT_H

#include "train/layers/layer.h"

/*
 * fwd, bwd and max do what the operations of attention do, for rows that are the positions of this
 * rank, but `first`, which has those that context_form asks for. lse and delta have their sizes, in
 * an order of their own. Collective over the context ranks. begin comes before fwd, as soon as k
 * and v are there; before bwd come begin_bwd and then give_dout, as soon as dout is there; after it
 * dq is there, and after end, which comes last, dk and dv. max comes between these, and takes the
 * scores of this rank's positions or heads. What ranks send may run beside all that is queued
 * between two of the calls.
 */
struct context_kind {
	void (*begin)(struct step *s, const struct attention *a);
	void (*fwd)(struct step *s, const struct attention *a);
	void (*begin_bwd)(struct step *s, const struct attention *a);
	void (*give_dout)(struct step *s, const struct attention_grad *g);
	void (*bwd)(struct step *s, const struct attention_grad *g);
	void (*max)(struct step *s, const struct attention_max *m);
	void (*end)(struct step *s, const struct attention_grad *g);
	bool keys_first; /* dk and dv are there after bwd, and dq after end */
	int arrays;      /* most of an exchange */
};
extern const struct context_kind context_gather, context_heads;
/* That of the plan; one context rank has operations alone. */
const struct context_kind *context_kind_of(const struct run_plan *plan);
/* For a kind that has nothing to do in a call. */
void context_nothing(struct step *s, const struct attention_grad *g);

/* The positions of this rank before a stretch of it. */
int64_t context_before(const struct engine *e, int position_range);
/* Of rows that this rank holds, those of a stretch of it; none of none. */
struct tensor context_range(const struct engine *e, const struct tensor *t, int position_range);
/* Of rows that are all positions in order, those of a stretch. */
struct tensor context_positions(
    const struct engine *e, const struct tensor *t, const struct position_range *s);

/* The stretches of a rank of the group. */
void context_ranges(const struct engine *e, int rank, struct position_range out[POSITION_RANGES]);

#endif
