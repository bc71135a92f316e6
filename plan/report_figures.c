/*
 * report_figures.c - the charts of a report: loss, perplexity, learning rate, norm of gradients,
 * speed, utilisation, time of a step, memory, batch, epochs and load of experts
 *
 * Each chart takes what the lines have: a chart without figures is left out and named at the foot
 * of the page.
 */
#include "plan/report_figures.h"
#include "plan/report_chart.h"

#include <stdlib.h>
#include <string.h>

/* --- figures of a run ------------------------------------------------------------------------- */

/* A hundredth of the steps, at least one. */
static double
half_life(const struct report_run *r)
{
	const double *x = r->steps.column[REPORT_ITERATION];

	return fmax((x[r->steps.count - 1] - x[0] + 1) / 100, 1);
}

void
figures_smooth(const struct report_run *r, enum report_column column, double *out)
{
	report_smooth(r->steps.column[REPORT_ITERATION], r->steps.column[column], r->steps.count,
	    half_life(r), out);
}

double
figures_peak(const struct report_run *r, const struct report_device *d)
{
	return hardware_peak(&d->hw, r->plan.run.shape.dtype);
}

/* A step that was passed over has no loss either, but computed no tokens. */
static bool
is_gap(const struct report_steps *s, size_t i)
{
	return isnan(s->column[REPORT_LOSS][i]) && s->column[REPORT_TOKENS][i] > 0;
}

size_t
figures_gaps(const struct report_run *r)
{
	const struct report_steps *of[] = { &r->steps, &r->earlier };
	size_t gaps = 0;

	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < of[k]->count; i++)
			gaps += is_gap(of[k], i);
	return gaps;
}

/* True when a step of any run has the figure. */
static bool
known(const struct report_page *p, enum report_column column)
{
	for (int i = 0; i < p->num_runs; i++)
		for (size_t k = 0; k < p->run[i].steps.count; k++)
			if (!isnan(p->run[i].steps.column[column][k]))
				return true;
	return false;
}

static bool
planned(const struct report_run *r)
{
	return !r->plan.why_not;
}

/* --- frames ----------------------------------------------------------------------------------- */

/* keyed: of a single run the curves are listed. */
struct figure {
	const char *id, *title, *note;
	bool wide, zero, keyed;
};

/* An item of the key. */
static void
put_key(int hue, const char *name, struct str *out)
{
	str_addf(out, "<li><i class=\"h%d\"></i>", hue % SVG_HUES);
	svg_text(name, out);
	str_adds(out, "</li>");
}

static void
begin_figure(const struct sheet *s, const struct figure *f, struct str *out)
{
	const struct report_page *p = s->page;

	str_addf(out,
	    "<figure id=\"%s\"%s>\n<h2>%s</h2>\n<p class=\"soft\">%s</p>\n<ul class=\"key\">",
	    f->id, f->wide ? " class=\"wide\"" : "", f->title, f->note);
	for (int i = 0; p->num_runs > 1 && i < p->num_runs; i++)
		put_key(i, p->run[i].label, out);
	for (int i = 0; p->num_runs == 1 && f->keyed && i < s->num_curves; i++)
		put_key(s->curve[i].hue, s->curve[i].name, out);
	str_adds(out, "</ul>\n");
}

static void
end_figure(struct sheet *s, const struct figure *f, struct str *out)
{
	begin_figure(s, f, out);
	sheet_chart(s, f->title, f->zero, out);
	str_adds(out, "<details><summary>Table</summary><div class=\"scroll\">\n");
	sheet_table(s, out);
	str_adds(out, "</div></details>\n</figure>\n");
	sheet_release(s);
}

/* The name of a curve: that of the run where there are several, and what it shows. */
static const char *
curve_name(struct sheet *s, const struct report_run *r, const char *what)
{
	if (s->page->num_runs == 1)
		return what;
	return *what ? sheet_text(s, sheet_text(s, r->label, ", "), what) : r->label;
}

static void
add(struct sheet *s, int run, const char *kind, const char *what, const double *y, bool tabled)
{
	const struct report_run *r = &s->page->run[run];

	sheet_curve(s,
	    &(struct svg_curve){ .form = SVG_LINE,
		.hue = run,
		.kind = kind,
		.name = curve_name(s, r, what),
		.x = r->steps.column[REPORT_ITERATION],
		.y = y,
		.count = r->steps.count },
	    tabled);
}

/* Every step pale, and the smoothed mean. */
static void
add_noisy(struct sheet *s, enum report_column column, const char *what)
{
	for (int i = 0; i < s->page->num_runs; i++)
		add(s, i, "raw", what, s->page->run[i].steps.column[column], false);
	for (int i = 0; i < s->page->num_runs; i++) {
		const struct report_run *r = &s->page->run[i];
		double *mean = sheet_array(s, r->steps.count);

		figures_smooth(r, column, mean);
		add(s, i, "mean", what, mean, true);
	}
}

/* --- loss ------------------------------------------------------------------------------------- */

/* Steps that were taken again, the first time; a stretch ends where steps do not follow. */
static void
add_earlier(struct sheet *s, int run)
{
	const struct report_run *r = &s->page->run[run];
	const double *x = r->earlier.column[REPORT_ITERATION];
	size_t n = r->earlier.count, from = 0;

	for (size_t i = 1; i <= n; i++)
		if (i == n || x[i] <= x[i - 1]) {
			sheet_curve(s,
			    &(struct svg_curve){ .form = SVG_LINE,
				.hue = run,
				.kind = "earlier",
				.name = curve_name(s, r, "steps that were taken again"),
				.x = x + from,
				.y = r->earlier.column[REPORT_LOSS] + from,
				.count = i - from },
			    false);
			from = i;
		}
}

/* Dots at the upper edge. */
static void
add_gaps(struct sheet *s, int run)
{
	const struct report_run *r = &s->page->run[run];
	size_t gaps = figures_gaps(r), count = 0;
	double *x = sheet_array(s, gaps), *y = sheet_array(s, gaps);
	const struct report_steps *of[] = { &r->steps, &r->earlier };
	double apart = (s->last - s->first) / SVG_COLUMNS;

	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < of[k]->count; i++) {
			double at = of[k]->column[REPORT_ITERATION][i];

			if (!is_gap(of[k], i) || (count && fabs(at - x[count - 1]) < apart))
				continue;
			x[count] = at;
			y[count++] = INFINITY;
		}
	if (count)
		sheet_curve(s,
		    &(struct svg_curve){ SVG_DOTS, run, "nan",
			curve_name(s, r, "the loss is not a number"), x, y, NULL, count },
		    false);
}

/* The points of one name as dots, and the line through them. second: the perplexity. */
static void
add_points(struct sheet *s, int run, const char *name, bool second)
{
	const struct report_run *r = &s->page->run[run];
	double *x = sheet_array(s, (size_t)r->num_points),
	       *y = sheet_array(s, (size_t)r->num_points);
	struct svg_curve c = { .form = SVG_DOTS, .hue = run, .kind = "", .x = x, .y = y };

	for (int i = 0; i < r->num_points; i++) {
		const struct report_point *p = &r->point[i];

		if (p->kind != REPORT_EVALUATION || strcmp(p->name, name) != 0)
			continue;
		x[c.count] = p->iteration;
		y[c.count++] = second ? p->second : p->value;
	}
	c.name = curve_name(s, r, name);
	sheet_curve(s, &c, true);
}

/* Each set of evaluations once, in the order of their first points. */
static bool
is_first(const struct report_run *r, int i)
{
	if (r->point[i].kind != REPORT_EVALUATION)
		return false;
	for (int k = 0; k < i; k++)
		if (r->point[k].kind == REPORT_EVALUATION &&
		    !strcmp(r->point[k].name, r->point[i].name))
			return false;
	return true;
}

static void
add_evaluations(struct sheet *s, bool second)
{
	for (int run = 0; run < s->page->num_runs; run++)
		for (int i = 0; i < s->page->run[run].num_points; i++)
			if (is_first(&s->page->run[run], i))
				add_points(s, run, s->page->run[run].point[i].name, second);
}

static void
put_loss(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "loss",
		.title = "Loss",
		.note =
		    "Pale: every step. Line: its mean, with a half-life of 1 % of the steps. Dots: "
		    "evaluations. Red: not a number.",
		.wide = true };
	struct sheet s;

	sheet_begin(&s, p);
	for (int i = 0; i < p->num_runs; i++)
		add_earlier(&s, i);
	add_noisy(&s, REPORT_LOSS, "training");
	add_evaluations(&s, false);
	for (int i = 0; i < p->num_runs; i++)
		add_gaps(&s, i);
	sheet_events(&s, true);
	end_figure(&s, &f, out);
}

/* From a tenth of the steps on, where runs differ by less than in their first steps: the axis is
 * that of means and evaluations, and what lies outside of it is at its edge. */
static void
put_later_loss(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "later",
		.title = "Loss after a tenth of the steps",
		.note = "Every step, mean and evaluations, on the scale of the latter two." };
	struct sheet s;
	double low, high, first;

	sheet_begin(&s, p);
	first = s.first + floor((s.last - s.first) / 10);
	add_noisy(&s, REPORT_LOSS, "training");
	add_evaluations(&s, false);
	low = INFINITY;
	high = -INFINITY;
	for (int i = 0; i < s.num_curves; i++) {
		struct svg_curve *c = &s.curve[i];

		for (; c->count && c->x[0] < first; c->count--, c->x++, c->y++)
			continue;
		for (size_t k = 0; s.tabled[i] && k < c->count; k++)
			if (!isnan(c->y[k])) {
				low = fmin(low, c->y[k]);
				high = fmax(high, c->y[k]);
			}
	}
	s.first = first;
	s.low = low;
	s.high = high;
	end_figure(&s, &f, out);
}

/* Of the mean loss; cut off at 20 nats, as in the log. */
static void
put_perplexity(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "perplexity",
		.title = "Perplexity",
		.note = "The exponential of the mean loss. Dots: evaluations." };
	struct sheet s;

	sheet_begin(&s, p);
	for (int i = 0; i < p->num_runs; i++) {
		double *y = sheet_array(&s, p->run[i].steps.count);

		figures_smooth(&p->run[i], REPORT_LOSS, y);
		for (size_t k = 0; k < p->run[i].steps.count; k++)
			y[k] = isnan(y[k]) ? NAN : exp(fmin(20, y[k]));
		add(&s, i, "mean", "training", y, true);
	}
	add_evaluations(&s, true);
	end_figure(&s, &f, out);
}

/* --- plain curves ----------------------------------------------------------------------------- */

static void
put_rate(const struct report_page *p, struct str *out)
{
	static const struct figure f = {
		.id = "lr", .title = "Learning rate", .note = "Of each step.", .zero = true
	};
	struct sheet s;

	sheet_begin(&s, p);
	for (int i = 0; i < p->num_runs; i++)
		add(&s, i, "mean", "learning rate", p->run[i].steps.column[REPORT_LR], true);
	end_figure(&s, &f, out);
}

static void
put_norm(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "grad-norm",
		.title = "Norm of the gradients",
		.note = "Before they are clipped. Pale: every step. Line: mean." };
	struct sheet s;

	sheet_begin(&s, p);
	add_noisy(&s, REPORT_GRAD_NORM, "norm");
	sheet_events(&s, false);
	end_figure(&s, &f, out);
}

static void
put_speed(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "speed",
		.title = "Tokens per second",
		.note = "Of all ranks. Pale: every step. Line: mean. Dashes: as planned.",
		.zero = true };
	struct sheet s;

	sheet_begin(&s, p);
	add_noisy(&s, REPORT_TOKENS, "tokens/s");
	for (int i = 0; i < p->num_runs; i++) {
		const struct report_plan *q = &p->run[i].plan;

		if (planned(&p->run[i]) && p->device->given)
			sheet_level(&s, i, curve_name(&s, &p->run[i], "plan"),
			    (double)(q->run.global_batch_size * q->run.shape.seq_length) /
				q->time.total);
	}
	end_figure(&s, &f, out);
}

/* Shares of the peak where the device is known, otherwise TFLOP/s. */
static void
put_use(const struct report_page *p, struct str *out)
{
	static const struct figure share = { .id = "utilisation",
		.title = "Utilisation of the device, %",
		.note = "Floating-point operations of the model over the peak of its precision. "
			"Dashes: as "
			"planned.",
		.zero = true };
	static const struct figure rate = { .id = "utilisation",
		.title = "TFLOP/s of a rank",
		.note = "Floating-point operations of the model. With --gpu as a share of the "
			"peak, beside "
			"the plan.",
		.zero = true };
	bool shares = p->device->given;
	struct sheet s;

	for (int i = 0; i < p->num_runs; i++)
		shares = shares && planned(&p->run[i]);
	sheet_begin(&s, p);
	for (int i = 0; i < p->num_runs; i++) {
		const struct report_run *r = &p->run[i];
		double *y = sheet_array(&s, r->steps.count),
		       unit = shares ? 1e14 / figures_peak(r, p->device) : 1;

		figures_smooth(r, REPORT_TFLOPS, y);
		for (size_t k = 0; k < r->steps.count; k++)
			y[k] *= unit;
		add(&s, i, "mean", shares ? "% of the peak" : "TFLOP/s", y, true);
		if (shares)
			sheet_level(&s, i, curve_name(&s, r, "plan"),
			    100 * r->plan.flops / (double)r->plan.world / r->plan.time.total /
				figures_peak(r, p->device));
	}
	end_figure(&s, shares ? &share : &rate, out);
}

/* The samples of each step, from those consumed; the first line of a resumed file has no step
 * before it. */
static void
put_batch(const struct report_page *p, struct str *out)
{
	static const struct figure f = {
		.id = "batch", .title = "Batch", .note = "Samples of a step.", .zero = true
	};
	struct sheet s;

	sheet_begin(&s, p);
	for (int i = 0; i < p->num_runs; i++) {
		const struct report_steps *t = &p->run[i].steps;
		const double *at = t->column[REPORT_ITERATION], *sum = t->column[REPORT_SAMPLES];
		double *y = sheet_array(&s, t->count);

		y[0] = at[0] == 1 ? sum[0] : NAN;
		for (size_t k = 1; k < t->count; k++)
			y[k] = at[k] == at[k - 1] + 1 ? sum[k] - sum[k - 1] : NAN;
		add(&s, i, "mean", "samples", y, true);
	}
	end_figure(&s, &f, out);
}

/* --- corpora and experts ---------------------------------------------------------------------- */

/* The points of a kind and a name, as a line; of many of them about a hundred, and the last. */
static void
add_series(struct sheet *s, int run, const struct report_point *of, int hue)
{
	const struct report_run *r = &s->page->run[run];
	double *x = sheet_array(s, (size_t)r->num_points),
	       *y = sheet_array(s, (size_t)r->num_points);
	struct svg_curve c = { .form = SVG_LINE, .hue = hue, .kind = "mean", .x = x, .y = y };
	double apart = (s->last - s->first) / 100;

	for (int i = 0; i < r->num_points; i++) {
		const struct report_point *p = &r->point[i];

		if (p->kind != of->kind || strcmp(p->name, of->name) != 0)
			continue;
		if (c.count && p != of && p->iteration - x[c.count - 1] < apart)
			continue;
		x[c.count] = p->iteration;
		y[c.count++] = p->second;
	}
	c.name = curve_name(s, r, of->name);
	sheet_curve(s, &c, true);
}

/* The last point of a corpus, which has its most epochs. */
static bool
is_last(const struct report_run *r, int i, enum report_kind kind)
{
	if (r->point[i].kind != kind)
		return false;
	for (int k = i + 1; k < r->num_points; k++)
		if (r->point[k].kind == kind && !strcmp(r->point[k].name, r->point[i].name))
			return false;
	return true;
}

/* How many corpora have passed more epochs at the end. */
static int
before_in_order(const struct report_run *r, int i)
{
	int before = 0;

	for (int k = 0; k < r->num_points; k++)
		before += k != i && is_last(r, k, REPORT_CORPUS) &&
		    (r->point[k].second > r->point[i].second ||
			(r->point[k].second == r->point[i].second && k < i));
	return before;
}

/* Those of most epochs: a blend may have hundreds of corpora. */
static bool
put_epochs(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "epochs",
		.title = "Epochs by corpus",
		.note = "How often each corpus has been read; the eight of most epochs of a run.",
		.zero = true,
		.keyed = true };
	struct sheet s;

	sheet_begin(&s, p);
	for (int run = 0; run < p->num_runs; run++)
		for (int i = 0; i < p->run[run].num_points; i++) {
			int order;

			if (!is_last(&p->run[run], i, REPORT_CORPUS))
				continue;
			order = before_in_order(&p->run[run], i);
			if (order < SVG_HUES)
				add_series(
				    &s, run, &p->run[run].point[i], p->num_runs > 1 ? run : order);
		}
	if (s.num_curves)
		end_figure(&s, &f, out);
	else
		sheet_release(&s);
	return s.num_curves > 0;
}

/* Of each layer, as it was last. */
static void
put_layers(const struct report_page *p, struct str *out)
{
	str_adds(out,
	    "<table><thead><tr><th>layer</th><th>busiest</th><th>idlest</th></tr></thead>"
	    "<tbody>\n");
	for (int run = 0; run < p->num_runs; run++)
		for (int i = 0; i < p->run[run].num_points; i++) {
			const struct report_point *q = &p->run[run].point[i];

			if (!is_last(&p->run[run], i, REPORT_LAYER))
				continue;
			str_adds(out, "<tr><td>");
			if (p->num_runs > 1) {
				svg_text(p->run[run].label, out);
				str_adds(out, ", ");
			}
			svg_text(q->name, out);
			str_adds(out, "</td><td>");
			svg_number(q->value, out);
			str_adds(out, "</td><td>");
			svg_number(q->second, out);
			str_adds(out, "</td></tr>\n");
		}
	str_adds(out, "</tbody></table>\n");
}

static void
put_load(const struct report_page *p, struct str *out)
{
	static const struct figure f = { .id = "experts",
		.title = "Load of the busiest expert",
		.note = "Of any layer; 1 is the mean. Pale: every step. Line: mean.",
		.zero = true };
	struct sheet s;

	sheet_begin(&s, p);
	add_noisy(&s, REPORT_EXPERT_LOAD, "busiest expert");
	begin_figure(&s, &f, out);
	sheet_chart(&s, f.title, f.zero, out);
	str_adds(out, "<details><summary>Table</summary><div class=\"scroll\">\n");
	sheet_table(&s, out);
	put_layers(p, out);
	str_adds(out, "</div></details>\n</figure>\n");
	sheet_release(&s);
}

/* --- all -------------------------------------------------------------------------------------- */

/* The next of what is missing. */
static void
lacks(struct str *missing, const char *what)
{
	if (missing->len)
		str_adds(missing, "; ");
	str_adds(missing, what);
}

void
figures_all(const struct report_page *p, struct str *out, struct str *missing)
{
	bool memory;

	put_loss(p, out);
	put_later_loss(p, out);
	put_perplexity(p, out);
	put_norm(p, out);
	put_rate(p, out);
	put_speed(p, out);
	put_use(p, out);
	figures_time(p, out);
	memory = figures_memory(p, out);
	put_batch(p, out);
	if (!memory)
		lacks(missing, "memory, as no run has a plan");
	if (!put_epochs(p, out))
		lacks(missing,
		    "epochs by corpus, as no line names a corpus (data of one corpus, or "
		    "--mock-data)");
	if (known(p, REPORT_EXPERT_LOAD))
		put_load(p, out);
	else
		lacks(missing, "load of experts, as the models have none");
}
