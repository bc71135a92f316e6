/*
 * usage.h - the memory that a stage uses over a step
 *
 * What is allocated does not change; what is in use of it does, by the slots, tails and batches of
 * passes whose gradients are still to come. Source: docs/planning.md 4.
 */
#ifndef PLAN_USAGE_H
#define PLAN_USAGE_H

#include "lib/model/options.h"
#include "plan/simulate.h"

/* From time[i] on bytes[i] are in use. */
struct usage {
	double *time, *bytes; /* owned */
	int count;
	double most, allocated;
};

/* Of each stage, freed by usage_free. */
struct usage *usage_of(const struct run_plan *plan, const struct simulated *x);
void usage_free(struct usage *u, int num_stages);

#endif
