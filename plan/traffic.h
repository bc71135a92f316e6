/*
 * traffic.h - the bytes that a placement of ranks sends inside hosts and between them
 *
 * Ranks fill hosts in their order. Of the exchanges of a step (lib/model/operations.h) each rank
 * sends a part to the ranks of its host and a part to others; a ring of several hosts adds up
 * inside each first. Source: docs/planning.md 2.3.
 */
#ifndef PLAN_TRAFFIC_H
#define PLAN_TRAFFIC_H

#include "lib/model/options.h"
#include "plan/price.h"

/* Of one kind of exchange: the ranks that take part, those of them on a host, and what a rank sends
 * in a step, in the mean over the stages. */
struct traffic {
	double ranks, inside;
	double inside_bytes, between_bytes;
};

/* By class of operation; those that are no exchanges are 0. */
void traffic_of(
    const struct run_plan *plan, const struct hardware *hw, struct traffic out[OPERATION_CLASSES]);
/* A table of it. */
void traffic_print(const struct traffic of[OPERATION_CLASSES], FILE *f);

#endif
