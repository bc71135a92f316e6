/*
 * report_chart.h - a chart of some runs over their steps, with its table
 */
#ifndef PLAN_REPORT_CHART_H
#define PLAN_REPORT_CHART_H

#include "lib/base/svg.h"
#include "plan/report.h"

struct sheet {
	const struct report_page *page;
	double first, last, low, high; /* steps, and values that are drawn */
	struct svg_curve *curve;
	bool *tabled; /* by curve: it has a column in the table */
	int num_curves;
	struct svg_mark *mark;
	int num_marks;
	double **owned; /* arrays of the curves */
	int num_owned;
	struct mem_pool pool; /* texts */
};

/* The steps of all runs of the page. sheet_release frees it. */
void sheet_begin(struct sheet *s, const struct report_page *page);
void sheet_release(struct sheet *s);
/* An array that lives as long as the sheet, and two texts in one. */
double *sheet_array(struct sheet *s, size_t n);
const char *sheet_text(struct sheet *s, const char *first, const char *second);
/* Arrays and texts must live as long as the sheet. */
void sheet_curve(struct sheet *s, const struct svg_curve *c, bool tabled);
/* A value that holds for all steps, as a plan has it; nothing for NAN. */
void sheet_level(struct sheet *s, int hue, const char *name, double value);
/* Marks of what happened, and of checkpoints. */
void sheet_events(struct sheet *s, bool saves);
/* After all curves. zero: the axis begins at 0. Marks of single values that are lost go to the
 * upper edge. */
void sheet_chart(struct sheet *s, const char *title, bool zero, struct str *out);
void sheet_table(const struct sheet *s, struct str *out);

#endif
