/*
 * context.h - what the ways to share a sequence have in common: rows, and what a way is
 */
#ifndef TRAIN_LAYERS_CONTEXT_H
#define TRAIN_LAYERS_CONTEXT_H

#include "train/layers/layer.h"

/* A way: attention as the functions of these names say (layer.h), of more than one context rank. */
struct context_kind {
	void (*begin)(struct step *s, const struct attention *a);
	void (*fwd)(struct step *s, const struct attention *a);
	void (*begin_bwd)(struct step *s, const struct attention_grad *g);
	void (*give_dout)(struct step *s, const struct attention_grad *g); /* NULL: nothing to do */
	void (*bwd)(struct step *s, const struct attention_grad *g);
	void (*end)(struct step *s, const struct attention_grad *g);
	bool keys_first; /* dk and dv are there after bwd, and dq after end */
	int arrays;      /* most of an exchange */
};
extern const struct context_kind context_gather, context_heads;

/* The positions of this rank before a stretch of it. */
int64_t context_before(const struct engine *e, int stretch);
/* Of rows that this rank holds, those of a stretch of it; none of none. */
struct tensor context_stretch(const struct engine *e, const struct tensor *t, int stretch);
/* Of rows that are all positions in order, those of a stretch. */
struct tensor context_positions(
    const struct engine *e, const struct tensor *t, const struct stretch *s);

/* The stretches of a rank of the group. */
void context_stretches(const struct engine *e, int rank, struct stretch out[STRETCHES]);

#endif
