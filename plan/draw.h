/* draw.h - a step of a pipeline as text */
#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H

#include "plan/timeline.h"

struct draw_options {
	int64_t width; /* columns of the drawing */
	bool passes;   /* one line per pass instead of a drawing */
};

/* One row per stage, or with o->passes one line per pass; then the share of the time that is
 * computed. */
void draw(const struct timeline *t, const struct draw_options *o, FILE *f);

#endif
