/*
 * passes.h - when the passes of a pipeline start and end
 *
 * Each stage has its passes in an order of its own. One starts when the one before it on its stage
 * and the one whose result it reads have ended; messages take no time.
 */
#ifndef MODEL_PASSES_H
#define MODEL_PASSES_H

#include <stdbool.h>

struct timed_pass {
	bool backward;
	int microbatch, chunk;
	double start, end;
};

/* What a micro batch costs a virtual stage, in any unit of time. */
struct pass_cost {
	double forward, backward;
};

struct passes {
	int num_stages, num_chunks, num_microbatches;
	int num_passes;          /* of a stage */
	struct timed_pass *pass; /* [num_stages][num_passes], in the stage's order */
	double *end;             /* see passes_end */
};

/* Allocates the passes, whose order the caller fills in; released by passes_release. */
void passes_init(
    struct passes *p, int num_stages, int num_chunks, int num_microbatches, int num_passes);
void passes_release(struct passes *p);
/* Fills in all times. cost is by virtual stage, chunk x num_stages + stage. A circular wait is a
 * BUG. */
void passes_time(struct passes *p, const struct pass_cost *cost);
/* The time at which a pass ends. */
double passes_end(const struct passes *p, int virtual_stage, int microbatch, bool backward);
/* The virtual stage whose result a pass reads; -1: none, at the ends of the pipeline. */
int passes_source(const struct passes *p, int virtual_stage, bool backward);

#endif
