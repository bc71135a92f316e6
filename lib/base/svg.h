/*
 * svg.h - charts as SVG text: axes, curves, marks and bars
 *
 * Nothing here reads or writes files. A chart fills the width that its page gives it: places across
 * are shares of the width, places down are pixels, and text is never scaled. Labels lie outside of
 * it: the page leaves about 60 pixels to the left and half a label to the right. Colours are the
 * page's: everything drawn has a class, and "h0" to "h7" are the hues of its curves and bars.
 */
#ifndef BASE_SVG_H
#define BASE_SVG_H

#include "lib/base/str.h"

#include <stdbool.h>

enum {
	SVG_COLUMNS = 800,          /* of pixels, of which a curve keeps four points each */
	SVG_KEPT = 5 * SVG_COLUMNS, /* the most that svg_decimate keeps */
	SVG_TICKS = 24,
	SVG_HUES = 8,
	SVG_HEIGHT = 240 /* pixels between the highest and the lowest value */
};

struct svg_axis {
	double min, max;
	bool log;
};

/* An axis of values from min to max, which are at most 1e100: linear from 0 on if asked, by decades
 * where all are positive and the largest is more than 100 times the smallest, otherwise linear. Its
 * ends are ticks. */
struct svg_axis svg_axis(double min, double max, bool zero);
/* Ticks inside the axis, at most `most` (2 to SVG_TICKS): multiples of 1, 2 or 5 times a power of
 * ten; on a logarithmic axis powers of ten, and where there are few 2 and 5 times these. Returns
 * how many. */
int svg_ticks(const struct svg_axis *a, int most, double at[SVG_TICKS]);
/* Appends a value as labels have it, three digits unless it needs more: 0.002, 3e-5, 1,500, 20k,
 * 1.25M; a dash for what is not finite. */
void svg_number(double v, struct str *out);

/*
 * The points that a curve of n points needs: of each column of pixels the first, the lowest, the
 * highest and the last, so that one point among many is seen; and the first that is not a number,
 * where the curve is broken. x does not fall. Returns how many indices are in keep [SVG_KEPT]; all
 * of up to twice as many points as columns are kept.
 */
size_t svg_decimate(
    const struct svg_axis *axis, const double *x, const double *y, size_t n, size_t *keep);

enum svg_form { SVG_LINE, SVG_DOTS, SVG_AREA };

/* y may hold NAN: the line is broken there. base: the lower edge of an area. Not owned. */
struct svg_curve {
	enum svg_form form;
	int hue;
	const char *kind; /* more classes, or "" */
	const char *name; /* what a pointer on it shows */
	const double *x, *y, *base;
	size_t count;
};

/* A line across the chart, and what a pointer on it shows. x is its end where it is wide. */
struct svg_mark {
	double from, to;
	const char *kind, *text;
};

struct svg_chart {
	const char *title; /* for those who do not see it */
	const char *unit;  /* before the first label across, such as "step " */
	struct svg_axis x, y;
	const struct svg_curve *curve;
	int num_curves;
	const struct svg_mark *mark;
	int num_marks;
};

void svg_chart(const struct svg_chart *c, struct str *out);

/* Rows of parts that add up, from 0 on. limit: a line at this value, NAN: none. */
struct svg_part {
	double value;
	int hue;
	const char *text;
};
struct svg_bar {
	const char *name;
	const struct svg_part *part;
	int num_parts;
	double limit;
	const char *limit_text;
};
struct svg_bars {
	const char *title;
	struct svg_axis x;
	const struct svg_bar *bar;
	int num_bars;
};

void svg_bars(const struct svg_bars *b, struct str *out);

/* Appends text with the characters that markup has a use for replaced; control characters, which
 * markup cannot hold, are left out. */
void svg_text(const char *text, struct str *out);

#endif
