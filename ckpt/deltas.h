/*
 * deltas.h - models of a merge that are read together, and what is kept of their deltas from a base
 *
 * The largest of each delta (ties) or a random part of it (dare). What these need of a whole
 * tensor, thresholds and norms, is found by passes over it, in which each delta is looked at by one
 * thread in the order of its elements.
 */
#ifndef CKPT_DELTAS_H
#define CKPT_DELTAS_H

#include "ckpt/derived.h"
#include "ckpt/merge_rule.h"

/* What is kept of an operand's delta of a tensor. */
struct trim {
	/* ties: larger magnitudes are kept, and those that are equal up to element `last` of
	 * parameter `in`, by their numbers */
	uint32_t bits;
	int64_t in, last;
	double factor; /* of what is kept */
};

struct deltas {
	struct derived *d;         /* whose rule is a struct merge_rule */
	struct derived_term *term; /* [sources], room for those of a box */
	struct trim *trim;         /* [sources] */
	bool global;               /* the thresholds are those of all tensors, and known */
};

void deltas_init(struct deltas *m, struct derived *d);
void deltas_release(struct deltas *m);
/* A box of a parameter of a source, whose table may have other rows than the result's. */
struct derived_term deltas_term(const struct derived *d, int i, const struct source_part *p);
/* Finds what is kept of a parameter of the result, and the factors. */
int deltas_prepare(struct deltas *m, const struct param *p, struct err *e);
/* Reads a box of all models, in their order. */
int deltas_read(struct deltas *m, const struct source_part *p, struct err *e);
/* What is kept of A_i - B in a stretch of the box that was read last, without the factor; elsewhere
 * 0. May be called by several threads. */
void deltas_kept(const struct deltas *m, int i, const struct derived_stretch *s, double *x);

#endif
