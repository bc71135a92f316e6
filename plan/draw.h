/*
 * draw.h - when each stage of a pipeline does which pass
 *
 * Passes take as long as their floating-point operations, and messages no time: what is seen is the
 * bubble that the order of passes and the split of the layers leave. Source: docs/planning.md 4.
 */
#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H

#include "lib/model/options.h"
#include "lib/model/passes.h"

/* The order in which a stage takes its passes: that of the trainer, or all forward passes before
 * all backward passes (Huang 2019, arXiv:1811.06965), for comparison. */
enum draw_order { DRAW_1F1B, DRAW_GPIPE };
extern const char *const draw_orders[]; /* their names */

struct draw_options {
	int order;
	int64_t width; /* columns of the drawing */
	bool passes;   /* one line per pass instead of a drawing */
};

/* What happens in a step; released by timeline_release. */
struct timeline {
	struct passes passes;
	double total; /* the end of the last pass; in the unit of start and end */
	double busy;  /* share of it that the stages compute, on average */
};

/* -1 where a stage cannot take its passes in that order, or there are too many to draw. */
int timeline_make(
    struct timeline *t, const struct run_plan *plan, enum draw_order order, struct err *e);
void timeline_release(struct timeline *t);
/* One row per stage, or with o->passes one line per pass; then the share of the time that is
 * computed. */
void timeline_print(const struct timeline *t, const struct draw_options *o, FILE *f);

#endif
