/*
 * svg.c - charts as SVG text
 *
 * A chart is a drawing without scale, in which a second one of 8000 by 2400 units holds the curves
 * and is stretched to the width; strokes keep theirs. So one chart serves a
 * telephone and a wall, and its text stays as large as the text of the page. Figures depend on
 * nothing but their arguments and are rounded to units, so that equal runs give equal bytes.
 */
#include "lib/base/svg.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { UNIT = 10, WIDE = SVG_COLUMNS * UNIT, HIGH = SVG_HEIGHT * UNIT };
enum { TOP = 8, BOTTOM = 26 };
enum { BAR_ROW = 46, BAR_TEXT = 14, BAR_HIGH = 18 };

/* --- axes ------------------------------------------------------------------------------------- */

/* The largest of 1, 2 and 5 times a power of ten that is not above v; up: the smallest that is not
 * below. */
static double
round_to(double v, bool up)
{
	static const double nice[] = { 1, 2, 5, 10 };
	double power = pow(10, floor(log10(v))), best = up ? 10 : 1;

	for (int i = 0; i < 4; i++) {
		bool fits =
		    up ? nice[i] * power >= v * (1 - 1e-9) : nice[i] * power <= v * (1 + 1e-9);

		if (fits && (up ? nice[i] < best : nice[i] > best))
			best = nice[i];
	}
	return best * power;
}

/* Between ticks, of which there are at most `most`. */
static double
step_of(double span, int most)
{
	return round_to(span / (most - 1), true);
}

struct svg_axis
svg_axis(double min, double max, bool zero)
{
	struct svg_axis a = { min, max, !zero && min > 0 && max > 100 * min };
	double step;

	if (a.log) {
		a.min = round_to(min, false);
		a.max = round_to(max, true);
		return a;
	}
	if (zero)
		a.min = fmin(min, 0);
	if (!(a.max > a.min))
		a.max = a.min + (a.min != 0 ? fabs(a.min) : 1);
	step = step_of(a.max - a.min, 6);
	a.min = floor(a.min / step + 1e-9) * step;
	a.max = ceil(a.max / step - 1e-9) * step;
	return a;
}

/* The place of a value, 0 to 1 inside the axis. */
static double
place_of(const struct svg_axis *a, double v)
{
	if (a->log)
		return log(v / a->min) / log(a->max / a->min);
	return (v - a->min) / (a->max - a->min);
}

/* Powers of ten, every second or third of them where there are many; with room, their 2 and 5
 * times. */
static int
log_ticks(const struct svg_axis *a, int most, double at[SVG_TICKS])
{
	static const double between[] = { 1, 2, 5 };
	int first = (int)floor(log10(a->min) + 1e-9), last = (int)ceil(log10(a->max) - 1e-9);
	int parts = 3 * (last - first) + 1 <= most ? 3 : 1, stride = 1, count = 0;

	while ((last - first) / stride + 1 > most)
		stride++;
	for (int k = first; k <= last; k += stride)
		for (int i = 0; i < parts; i++) {
			double v = between[i] * pow(10, k);

			if (v >= a->min * (1 - 1e-9) && v <= a->max * (1 + 1e-9) && count < most)
				at[count++] = v;
		}
	return count;
}

int
svg_ticks(const struct svg_axis *a, int most, double at[SVG_TICKS])
{
	double step = step_of(a->max - a->min, most), first = ceil(a->min / step - 1e-9);
	int count = 0;

	if (a->log)
		return log_ticks(a, most, at);
	for (; count < most && (first + count) * step <= a->max + step * 1e-9; count++)
		at[count] = (first + count) * step;
	return count;
}

/* Digits of whole numbers are in groups of three. */
static void
add_grouped(double v, struct str *out)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%.0f", v);

	for (int i = 0; i < n; i++) {
		str_addc(out, text[i]);
		if ((n - i) % 3 == 1 && n - i > 1 && text[i] != '-')
			str_addc(out, ',');
	}
}

/* With at most `digits` digits after the point, and no zeros at the end. */
static void
add_short(double v, int digits, struct str *out)
{
	char text[64];
	size_t n = (size_t)snprintf(text, sizeof text, "%.*f", digits, v);

	while (strchr(text, '.') && (text[n - 1] == '0' || text[n - 1] == '.')) {
		bool point = text[n - 1] == '.';

		text[--n] = '\0';
		if (point)
			break;
	}
	str_adds(out, text);
}

void
svg_number(double v, struct str *out)
{
	static const char suffix[] = " kMGTPE";
	double size = fabs(v);
	int thousands = 0, power;

	if (!isfinite(v)) {
		str_adds(out, "\xe2\x80\x93");
	} else if (size == 0 || (size >= 0.001 && size < 1e4)) {
		if (size >= 1000)
			add_grouped(v, out);
		else
			add_short(v, size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 5, out);
	} else if (size < 1 || size >= 1e21) {
		power = (int)floor(log10(size) + 1e-9);
		add_short(v / pow(10, power), 2, out);
		str_addf(out, "e%d", power);
	} else {
		for (; size >= 1000 && thousands < 6; thousands++)
			size /= 1000;
		add_short(v < 0 ? -size : size, size >= 100 ? 1 : 2, out);
		str_addc(out, suffix[thousands]);
	}
}

/* --- decimation ------------------------------------------------------------------------------- */

/* What a column of pixels keeps, as indices; SIZE_MAX: none. */
struct column {
	size_t first, low, high, last, gap;
};

static void
column_take(struct column *c, const double *y, size_t i)
{
	if (isnan(y[i])) {
		if (c->gap == SIZE_MAX)
			c->gap = i;
		return;
	}
	if (c->first == SIZE_MAX)
		c->first = c->low = c->high = i;
	c->last = i;
	if (y[i] < y[c->low])
		c->low = i;
	if (y[i] > y[c->high])
		c->high = i;
}

/* Appends the indices in order, each once. */
static size_t
column_put(const struct column *c, size_t *keep)
{
	const size_t from[] = { c->first, c->low, c->high, c->last, c->gap };
	size_t count = 0;

	for (size_t k = 0; k < sizeof from / sizeof *from; k++) {
		size_t at = count;

		if (from[k] == SIZE_MAX)
			continue;
		while (at > 0 && keep[at - 1] >= from[k])
			at--;
		if (at < count && keep[at] == from[k])
			continue;
		memmove(keep + at + 1, keep + at, (count - at) * sizeof *keep);
		keep[at] = from[k];
		count++;
	}
	return count;
}

static int
column_of(const struct svg_axis *axis, double x)
{
	double column = floor(place_of(axis, x) * SVG_COLUMNS);

	return column < 0 ? 0 : column >= SVG_COLUMNS ? SVG_COLUMNS - 1 : (int)column;
}

size_t
svg_decimate(const struct svg_axis *axis, const double *x, const double *y, size_t n, size_t *keep)
{
	static const struct column none = { SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	struct column c = none;
	size_t count = 0;

	if (n <= 2 * SVG_COLUMNS) {
		for (; count < n; count++)
			keep[count] = count;
		return count;
	}
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && column_of(axis, x[i]) != column_of(axis, x[i - 1])) {
			count += column_put(&c, keep + count);
			c = none;
		}
		column_take(&c, y, i);
	}
	return count + column_put(&c, keep + count);
}

/* --- curves ----------------------------------------------------------------------------------- */

void
svg_text(const char *text, struct str *out)
{
	for (; *text; text++)
		switch (*text) {
		case '&': str_adds(out, "&amp;"); break;
		case '<': str_adds(out, "&lt;"); break;
		case '>': str_adds(out, "&gt;"); break;
		case '"': str_adds(out, "&quot;"); break;
		default:
			if ((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t')
				str_addc(out, *text);
		}
}

/* What a pointer on an element shows, and its end. */
static void
end_with_title(const char *element, const char *text, struct str *out)
{
	if (text) {
		str_adds(out, "><title>");
		svg_text(text, out);
		str_addf(out, "</title></%s>\n", element);
	} else {
		str_adds(out, "/>\n");
	}
}

/* Where a path stands, in units. */
struct pen {
	const struct svg_chart *chart;
	long x, y;
	bool down, columns;
	struct str *out;
};

static long
across(const struct pen *p, double x)
{
	if (p->columns)
		return column_of(&p->chart->x, x) * UNIT + UNIT / 2;
	return lround(place_of(&p->chart->x, x) * WIDE);
}

/* What lies outside the axis is drawn at its end: infinity at the upper one. */
static long
down(const struct pen *p, double y)
{
	double place = p->chart->y.log && y <= 0 ? 0 : place_of(&p->chart->y, y);

	return lround((1 - fmin(fmax(place, 0), 1)) * HIGH);
}

/* Draws to a point, in as few bytes as a path takes; NAN lifts the pen. */
static void
pen_to(struct pen *p, double xv, double yv)
{
	long x, y;

	if (isnan(yv)) {
		p->down = false;
		return;
	}
	x = across(p, xv);
	y = down(p, yv);
	if (!p->down)
		str_addf(p->out, "M%ld %ld", x, y);
	else if (x == p->x)
		str_addf(p->out, "v%ld", y - p->y);
	else if (y == p->y)
		str_addf(p->out, "h%ld", x - p->x);
	else
		str_addf(p->out, "l%ld%s%ld", x - p->x, y < p->y ? "" : " ", y - p->y);
	p->x = x;
	p->y = y;
	p->down = true;
}

/* A dot is a line of no length with round ends. */
static void
put_dots(struct pen *p, const struct svg_curve *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (!isnan(c->y[i]))
			str_addf(p->out, "M%ld %ldh0", across(p, c->x[i]), down(p, c->y[i]));
}

static void
put_line(struct pen *p, const struct svg_curve *c)
{
	size_t keep[SVG_KEPT], n = svg_decimate(&p->chart->x, c->x, c->y, c->count, keep), dots = 0;

	p->columns = c->count > 2 * SVG_COLUMNS;
	for (size_t k = 0; k < n; k++) {
		size_t i = keep[k];

		pen_to(p, c->x[i], c->y[i]);
		/* A point between two gaps has no line that shows it. */
		if (!isnan(c->y[i]) && (k == 0 || isnan(c->y[keep[k - 1]])) &&
		    (k + 1 == n || isnan(c->y[keep[k + 1]])) && dots++ < SVG_COLUMNS)
			str_adds(p->out, "h0");
	}
}

static void
put_area(struct pen *p, const struct svg_curve *c)
{
	for (size_t i = 0; i < c->count; i++)
		pen_to(p, c->x[i], c->y[i]);
	for (size_t i = c->count; i-- > 0;)
		pen_to(p, c->x[i], c->base[i]);
	if (p->down)
		str_addc(p->out, 'z');
}

static void
put_curve(const struct svg_chart *chart, const struct svg_curve *c, struct str *out)
{
	static const char *const form[] = { "line", "dots", "area" };
	struct pen p = { .chart = chart, .out = out };
	size_t before;

	str_addf(out, "<path class=\"%s h%d %s\" d=\"", form[c->form], c->hue % SVG_HUES, c->kind);
	before = out->len;
	if (c->form == SVG_DOTS)
		put_dots(&p, c);
	else if (c->form == SVG_AREA)
		put_area(&p, c);
	else
		put_line(&p, c);
	if (out->len == before)
		str_adds(out, "M0 0");
	str_addc(out, '"');
	end_with_title("path", c->name, out);
}

/* --- the chart -------------------------------------------------------------------------------- */

/* The page leaves room for labels outside of the drawing, to the left of a chart above all. */
static void
begin(const char *title, const char *kind, int height, struct str *out)
{
	str_addf(out,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart %s\" role=\"img\" "
	    "width=\"100%%\" height=\"%d\" overflow=\"visible\" aria-label=\"",
	    kind, TOP + height + BOTTOM);
	svg_text(title, out);
	str_addf(out, "\">\n<g transform=\"translate(0 %d)\">\n", TOP);
}

/* Ticks of the axis across, at the foot of a space of this height; the first comes after a word
 * that says what they are. */
static void
put_across(const struct svg_axis *a, const char *first, int height, struct str *out)
{
	double at[SVG_TICKS];
	int n = svg_ticks(a, 6, at);

	for (int i = 0; i < n; i++) {
		double place = 100 * place_of(a, at[i]);

		str_addf(out,
		    "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%d\"/>"
		    "<text x=\"%.2f%%\" y=\"%d\" text-anchor=\"middle\">",
		    place, place, height, place, height + 18);
		str_adds(out, i == 0 ? first : "");
		svg_number(at[i], out);
		str_adds(out, "</text>\n");
	}
}

static void
put_upwards(const struct svg_axis *a, struct str *out)
{
	double at[SVG_TICKS];
	int n = svg_ticks(a, 7, at);

	for (int i = 0; i < n; i++) {
		double y = (1 - place_of(a, at[i])) * SVG_HEIGHT;

		str_addf(out,
		    "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
		    "<text x=\"-8\" y=\"%.1f\" text-anchor=\"end\">",
		    y, y, y + 4);
		svg_number(at[i], out);
		str_adds(out, "</text>\n");
	}
}

static void
put_mark(const struct svg_chart *c, const struct svg_mark *m, struct str *out)
{
	double from = 100 * place_of(&c->x, m->from), to = 100 * place_of(&c->x, m->to);

	if (to > from) {
		str_addf(out,
		    "<rect class=\"%s\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"0\" height=\"%d\"",
		    m->kind, from, to - from, SVG_HEIGHT);
		end_with_title("rect", m->text, out);
	} else {
		str_addf(out,
		    "<line class=\"mark %s\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%d\"",
		    m->kind, from, from, SVG_HEIGHT);
		end_with_title("line", m->text, out);
	}
}

void
svg_chart(const struct svg_chart *c, struct str *out)
{
	begin(c->title, "steps", SVG_HEIGHT, out);
	put_upwards(&c->y, out);
	put_across(&c->x, c->unit, SVG_HEIGHT, out);
	str_addf(out,
	    "<svg viewBox=\"0 0 %d %d\" overflow=\"visible\" preserveAspectRatio=\"none\" "
	    "width=\"100%%\" "
	    "height=\"%d\">\n",
	    WIDE, HIGH, SVG_HEIGHT);
	for (int i = 0; i < c->num_curves; i++)
		put_curve(c, &c->curve[i], out);
	str_adds(out, "</svg>\n");
	for (int i = 0; i < c->num_marks; i++)
		put_mark(c, &c->mark[i], out);
	str_adds(out, "</g>\n</svg>\n");
}

/* --- bars ------------------------------------------------------------------------------------- */

static void
put_bar(const struct svg_bars *b, const struct svg_bar *bar, int top, struct str *out)
{
	double sum = 0;

	str_addf(out, "<text class=\"name\" x=\"0\" y=\"%d\">", top + BAR_TEXT - 2);
	svg_text(bar->name, out);
	str_adds(out, "</text>\n");
	for (int i = 0; i < bar->num_parts; i++) {
		double width = 100 * bar->part[i].value / b->x.max;

		if (!(width > 0))
			continue;
		str_addf(out,
		    "<rect class=\"part h%d\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%d\" height=\"%d\"",
		    bar->part[i].hue % SVG_HUES, 100 * sum / b->x.max, width, top + BAR_TEXT + 4,
		    BAR_HIGH);
		end_with_title("rect", bar->part[i].text, out);
		sum += bar->part[i].value;
	}
	if (!isnan(bar->limit)) {
		double place = 100 * bar->limit / b->x.max;

		str_addf(out,
		    "<line class=\"limit\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%d\" y2=\"%d\"", place,
		    place, top + BAR_TEXT, top + BAR_TEXT + 8 + BAR_HIGH);
		end_with_title("line", bar->limit_text, out);
	}
}

void
svg_bars(const struct svg_bars *b, struct str *out)
{
	int height = b->num_bars * BAR_ROW;

	begin(b->title, "bars", height, out);
	put_across(&b->x, "", height, out);
	for (int i = 0; i < b->num_bars; i++)
		put_bar(b, &b->bar[i], i * BAR_ROW, out);
	str_adds(out, "</g>\n</svg>\n");
}
