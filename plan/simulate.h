/*
 * simulate.h - the actions of all stages of a pipeline as events on one axis of time
 *
 * The lists are those that the trainer runs (lib/model/schedule.h). A pass begins when its stage is
 * free and its messages are there. Without overlap an exchange holds its stage up until all its
 * messages have passed; each begins when both sides have come to it. With overlap messages pass
 * beside the passes, those of a kind and stage one after the other, and a pass waits for what it
 * reads and for the stage output that it writes; between two GPUs of a host a message goes before
 * the other side has come to it, as long as the one before it has been taken. One pipeline stands
 * for all replicas, so that the time does not depend on their number. Source: docs/planning.md 4.
 */
#ifndef PLAN_SIMULATE_H
#define PLAN_SIMULATE_H

#include "lib/model/schedule.h"

/* What takes how long, in seconds. */
struct simulation {
	const struct schedule_shape *shape;
	/* a pass of a virtual stage */
	double (*pass)(const void *ctx, int virtual_stage, int microbatch, bool backward);
	/* a message from a stage to the next, the first after the last, or back */
	double (*message)(const void *ctx, int stage);
	/* with overlap: whether such a message lands in memory of its receiver, which has room for
	 * one, each way; NULL: none does */
	bool (*lands)(const void *ctx, int stage);
	const void *ctx;
};

struct sim_event {
	struct action action;
	double start, end; /* of an exchange without overlap: from where its stage waits on */
};

/* Whether an event is a pass; the others are exchanges. */
bool simulated_pass(const struct sim_event *v);

/* The events of a stage, in the order of its list. */
struct sim_stage {
	struct sim_event *event;
	int count;
	double passes;   /* seconds */
	double messages; /* seconds that messages hold it up while they pass */
};

struct simulated {
	int num_stages;
	struct sim_stage *stage;
	double total; /* the end of the last event */
};

/* All events; released by simulated_release. */
void simulate(const struct simulation *s, struct simulated *out);
void simulated_release(struct simulated *x);
/* The total alone. Many micro batches are not all simulated: once all stages take turns, each
 * group adds as much as the one before it. */
double simulate_total(const struct simulation *s);
/* No pipeline ends sooner: a stage's passes, and before and after them those by which the first
 * micro batch reaches it and the last one's gradients return. */
double simulate_bound(const struct simulation *s);

#endif
