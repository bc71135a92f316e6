/*
 * draw.h - a step of a plan as a picture: its passes, its memory over time, or its ranks
 *
 * Text for a terminal; SVG for a page; the JSON that Chrome's tracing and Perfetto read, with the
 * passes, messages and memory of all stages on one axis of time.
 */
#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H

#include "plan/timeline.h"
#include "plan/usage.h"

enum draw_view { DRAW_TIMELINE, DRAW_MEMORY, DRAW_RANKS };
enum draw_format { DRAW_TEXT, DRAW_SVG, DRAW_TRACE };
extern const char *const draw_views[], *const draw_formats[]; /* their names */

struct draw_options {
	int view, format;
	int64_t width; /* columns of text */
	bool passes;   /* one line per pass instead of a drawing */
};

struct drawing {
	const struct draw_options *o;
	const struct run_plan *plan;
	const struct hardware *hw;
	const struct timeline *t;
	const struct usage *usage; /* of each stage */
};

/* Whether there is such a drawing; -1 with the reason. */
int draw_check(const struct draw_options *o, struct err *e);
void draw(const struct drawing *d, struct str *out);
/* The formats that are not text. */
void draw_svg(const struct drawing *d, struct str *out);
void draw_trace(const struct drawing *d, struct str *out);

#endif
