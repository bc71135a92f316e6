/*
 * report_chart.c - a chart of some runs with its table, made from curves
 *
 * The caller adds curves and marks to a sheet; the axes follow from their values. Rows of the table
 * and what a pointer on the chart shows are the same figures: the last one of each curve in a part
 * of the steps.
 */
#include "plan/report_chart.h"

#include <stdlib.h>

enum { TABLE_ROWS = 20, POINTER_PARTS = 60 };

void
sheet_begin(struct sheet *s, const struct report_page *page)
{
	*s = (struct sheet){ .page = page,
		.first = INFINITY,
		.last = -INFINITY,
		.low = INFINITY,
		.high = -INFINITY };
	for (int i = 0; i < page->num_runs; i++) {
		const struct report_steps *t = &page->run[i].steps;

		s->first = fmin(s->first, t->column[REPORT_ITERATION][0]);
		s->last = fmax(s->last, t->column[REPORT_ITERATION][t->count - 1]);
	}
	if (s->first == 1)
		s->first = 0;
	if (s->last <= s->first)
		s->last = s->first + 1;
}

void
sheet_release(struct sheet *s)
{
	for (int i = 0; i < s->num_owned; i++)
		free(s->owned[i]);
	free(s->owned);
	free(s->curve);
	free(s->mark);
	free(s->tabled);
	mem_pool_release(&s->pool);
}

double *
sheet_array(struct sheet *s, size_t n)
{
	double *array = mem_alloc(n ? n : 1, sizeof *array);

	if (s->num_owned % 64 == 0)
		s->owned = mem_realloc(s->owned, (size_t)s->num_owned + 64, sizeof *s->owned);
	return s->owned[s->num_owned++] = array;
}

const char *
sheet_text(struct sheet *s, const char *first, const char *second)
{
	struct str text = { 0 };
	const char *kept;

	str_adds(&text, first);
	str_adds(&text, second);
	kept = mem_pool_strndup(&s->pool, text.buf, text.len);
	str_release(&text);
	return kept;
}

/* Ranges grow by what is drawn. */
static void
widen(struct sheet *s, const double *y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (isfinite(y[i])) {
			s->low = fmin(s->low, y[i]);
			s->high = fmax(s->high, y[i]);
		}
}

void
sheet_curve(struct sheet *s, const struct svg_curve *c, bool tabled)
{
	if (s->num_curves % 64 == 0) {
		s->curve = mem_realloc(s->curve, (size_t)s->num_curves + 64, sizeof *s->curve);
		s->tabled = mem_realloc(s->tabled, (size_t)s->num_curves + 64, sizeof *s->tabled);
	}
	s->tabled[s->num_curves] = tabled;
	s->curve[s->num_curves++] = *c;
	widen(s, c->y, c->count);
	if (c->base)
		widen(s, c->base, c->count);
}

void
sheet_level(struct sheet *s, int hue, const char *name, double value)
{
	double *x = sheet_array(s, 2), *y = sheet_array(s, 2);

	if (!isfinite(value))
		return;
	x[0] = s->first;
	x[1] = s->last;
	y[0] = y[1] = value;
	sheet_curve(s, &(struct svg_curve){ SVG_LINE, hue, "plan", name, x, y, NULL, 2 }, true);
}

static void
add_mark(struct sheet *s, const struct svg_mark *m)
{
	if (s->num_marks % 64 == 0)
		s->mark = mem_realloc(s->mark, (size_t)s->num_marks + 64, sizeof *s->mark);
	s->mark[s->num_marks++] = *m;
}

/* The events of a run; of those of a kind that lie closely side by side the first, so that a run
 * with thousands has a hundred marks at most. */
static void
add_events(struct sheet *s, const struct report_run *r, bool saves)
{
	static const char *const kind[] = { [REPORT_RESUME] = "resume",
		[REPORT_REWIND] = "rewind",
		[REPORT_STOP] = "resume",
		[REPORT_PAUSE] = "resume",
		[REPORT_SAVE] = "save" };
	const char *label = s->page->num_runs > 1 ? sheet_text(s, r->label, ": ") : "";
	double last[] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY };

	for (int k = 0; k < r->num_events; k++) {
		const struct report_event *v = &r->event[k];

		if ((v->kind == REPORT_SAVE && !saves) || v->iteration < s->first ||
		    v->iteration > s->last ||
		    fabs(v->iteration - last[v->kind]) < (s->last - s->first) / 100)
			continue;
		last[v->kind] = v->iteration;
		add_mark(s,
		    &(struct svg_mark){
			v->iteration, v->iteration, kind[v->kind], sheet_text(s, label, v->text) });
	}
}

void
sheet_events(struct sheet *s, bool saves)
{
	for (int i = 0; i < s->page->num_runs; i++)
		add_events(s, &s->page->run[i], saves);
}

/* --- the table -------------------------------------------------------------------------------- */

/* A reader of a curve, from left to right. */
struct cursor {
	size_t at;
	double value;
};

/* The last value at or before x that lies beyond the places that were read. */
static double
read_until(struct cursor *at, const struct svg_curve *c, double x)
{
	at->value = NAN;
	for (; at->at < c->count && c->x[at->at] <= x; at->at++)
		if (!isnan(c->y[at->at]))
			at->value = c->base ? c->y[at->at] - c->base[at->at] : c->y[at->at];
	return at->value;
}

/* The end of part i of n of the steps. */
static double
end_of_part(const struct sheet *s, int i, int n)
{
	return i + 1 == n ? s->last : floor(s->first + (s->last - s->first) * (i + 1) / n);
}

static int
num_parts(const struct sheet *s, int most)
{
	double steps = s->last - s->first;

	return steps < most ? (int)fmax(steps, 1) : most;
}

/* A level has the same value in each part. */
static bool
is_level(const struct svg_curve *c)
{
	return c->kind[0] == 'p';
}

static double
value_in_part(struct cursor *at, const struct svg_curve *c, double end)
{
	return is_level(c) ? c->y[0] : read_until(at, c, end);
}

static void
put_row(const struct sheet *s, struct cursor *at, double end, struct str *out)
{
	str_adds(out, "<tr><td>");
	svg_number(end, out);
	for (int k = 0; k < s->num_curves; k++)
		if (s->tabled[k]) {
			str_adds(out, "</td><td>");
			svg_number(value_in_part(&at[k], &s->curve[k], end), out);
		}
	str_adds(out, "</td></tr>\n");
}

void
sheet_table(const struct sheet *s, struct str *out)
{
	struct cursor *at = mem_zalloc((size_t)s->num_curves + 1, sizeof *at);
	int n = num_parts(s, TABLE_ROWS);

	str_adds(out, "<table><thead><tr><th>step</th>");
	for (int k = 0; k < s->num_curves; k++)
		if (s->tabled[k]) {
			str_adds(out, "<th>");
			svg_text(s->curve[k].name, out);
			str_adds(out, "</th>");
		}
	str_adds(out, "</tr></thead><tbody>\n");
	for (int i = 0; i < n; i++)
		put_row(s, at, end_of_part(s, i, n), out);
	str_adds(out, "</tbody></table>\n");
	free(at);
}

/* --- the pointer ------------------------------------------------------------------------------ */

/* Bands that cover the chart from left to right. */
static void
add_bands(struct sheet *s)
{
	struct cursor *at = mem_zalloc((size_t)s->num_curves + 1, sizeof *at);
	int n = num_parts(s, POINTER_PARTS);
	double from = s->first;

	for (int i = 0; i < n; i++) {
		double end = end_of_part(s, i, n);
		struct str text = { 0 };

		str_adds(&text, "step ");
		svg_number(end, &text);
		for (int k = 0; k < s->num_curves; k++) {
			double v = s->tabled[k] ? value_in_part(&at[k], &s->curve[k], end) : NAN;

			if (isnan(v))
				continue;
			str_addf(&text, "\n%s: ", s->curve[k].name);
			svg_number(v, &text);
		}
		add_mark(s,
		    &(struct svg_mark){
			from, end, "band", mem_pool_strndup(&s->pool, text.buf, text.len) });
		str_release(&text);
		from = end;
	}
	free(at);
}

void
sheet_chart(struct sheet *s, const char *title, bool zero, struct str *out)
{
	struct svg_chart c = { .title = title, .unit = "step ", .x = { s->first, s->last, false } };
	struct svg_mark *events = s->mark;
	int num_events = s->num_marks;

	if (!(s->low <= s->high))
		s->low = s->high = 0;
	c.y = svg_axis(s->low, s->high, zero);
	/* Bands lie below the marks, which a pointer has to reach. */
	s->mark = NULL;
	s->num_marks = 0;
	add_bands(s);
	for (int i = 0; i < num_events; i++)
		add_mark(s, &events[i]);
	free(events);
	c.curve = s->curve;
	c.num_curves = s->num_curves;
	c.mark = s->mark;
	c.num_marks = s->num_marks;
	svg_chart(&c, out);
}
