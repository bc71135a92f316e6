/*
 * report_bars.c - the charts of a report that add up: the time of a step and the memory of a rank,
 * each beside the plan
 *
 * What a run has measured is the time in which ranks only waited for communication, for batches, or
 * for other stages; the rest counts as computation. The plan has the same classes.
 */
#include "lib/base/utf8.h"
#include "plan/report_chart.h"
#include "plan/report_figures.h"

#include <stdlib.h>
#include <string.h>

enum time_part { COMPUTE, TENSOR, CONTEXT, PIPELINE, DATA, BATCHES, OTHER, PARTS };
static const char *const part_names[PARTS] = { "computation", "tensor and expert ranks",
	"context ranks", "pipeline", "data ranks", "waiting for batches", "other" };

/* Of memtable's columns, in the order of the bars. */
static const enum memtable_column held[] = { MEMTABLE_WEIGHTS, MEMTABLE_GRADIENTS,
	MEMTABLE_OPTIMIZER, MEMTABLE_CONSTANTS, MEMTABLE_SAVED, MEMTABLE_SCRATCH,
	MEMTABLE_WORKSPACE };
enum { USED = sizeof held / sizeof *held, HELD };
static const char *const held_names[HELD] = { "weights", "gradients", "optimizer", "constants",
	"activations", "scratch", "workspace", "in use" };
static const double gib = 1 << 30;

/* --- bars ------------------------------------------------------------------------------------- */

/* A row of a chart of bars: its name and its parts. */
enum { ROW_PARTS = 8 };
_Static_assert((int)PARTS <= ROW_PARTS && (int)HELD <= ROW_PARTS, "a row holds either");
struct row {
	const char *name;
	double part[ROW_PARTS];
	double limit;
};

struct rows {
	struct row *item; /* owned */
	int count, parts;
	const char *const *names; /* of the parts */
	const char *unit, *limit;
	const char *id, *title, *note;
	struct mem_pool pool;
};

/* Appends as much of a name as has room above a bar on a narrow screen: 24 columns, of which a wide
 * character takes two. */
static void
add_cut(const char *name, struct str *out)
{
	enum { ROOM = 24 };
	int used = 0;

	for (size_t n = strlen(name); n > 0;) {
		uint32_t cp = 0;
		int bytes = utf8_decode((const unsigned char *)name, n, &cp);

		used += cp < 0x1100 ? 1 : 2;
		if (bytes == 0 || used > ROOM) {
			str_adds(out, "\xe2\x80\xa6");
			return;
		}
		str_add(out, name, (size_t)bytes);
		name += bytes;
		n -= (size_t)bytes;
	}
}

static struct row *
add_row(struct rows *t, const char *label, const char *what)
{
	struct str name = { 0 };
	struct row *r;

	t->item = mem_realloc(t->item, (size_t)t->count + 1, sizeof *t->item);
	r = &t->item[t->count++];
	*r = (struct row){ .limit = NAN };
	add_cut(label, &name);
	str_addf(&name, "%s%s", *label ? ", " : "", what);
	r->name = mem_pool_strndup(&t->pool, name.buf, name.len);
	str_release(&name);
	return r;
}

static double
row_sum(const struct row *r)
{
	double sum = 0;

	for (int i = 0; i < ROW_PARTS; i++)
		sum += r->part[i];
	return sum;
}

static bool
part_used(const struct rows *t, int part)
{
	for (int i = 0; i < t->count; i++)
		if (t->item[i].part[part] > 0)
			return true;
	return false;
}

/* "weights: 1.25 GiB, 20 %" */
static const char *
part_text(struct rows *t, const struct row *r, int part)
{
	struct str text = { 0 };
	const char *kept;

	str_addf(&text, "%s\n%s: ", r->name, t->names[part]);
	svg_number(r->part[part], &text);
	str_addf(&text, " %s, %.1f %%", t->unit, 100 * r->part[part] / row_sum(r));
	kept = mem_pool_strndup(&t->pool, text.buf, text.len);
	str_release(&text);
	return kept;
}

static void
put_bars(struct rows *t, const char *title, struct str *out)
{
	struct svg_bar *bar = mem_zalloc((size_t)t->count, sizeof *bar);
	struct svg_part *part = mem_zalloc((size_t)t->count * ROW_PARTS, sizeof *part);
	double most = 0;

	for (int i = 0; i < t->count; i++) {
		struct row *r = &t->item[i];

		bar[i] = (struct svg_bar){ r->name, part + (size_t)i * ROW_PARTS, t->parts,
			r->limit, t->limit };
		for (int k = 0; k < t->parts; k++)
			part[(size_t)i * ROW_PARTS + (size_t)k] =
			    (struct svg_part){ r->part[k], k, part_text(t, r, k) };
		most = fmax(most, fmax(row_sum(r), isnan(r->limit) ? 0 : r->limit));
	}
	svg_bars(
	    &(struct svg_bars){ title, { 0, svg_axis(0, most, true).max, false }, bar, t->count },
	    out);
	free(part);
	free(bar);
}

static void
put_table(const struct rows *t, struct str *out)
{
	str_addf(out, "<table><thead><tr><th>%s</th>", t->unit);
	for (int k = 0; k < t->parts; k++)
		if (part_used(t, k))
			str_addf(out, "<th>%s</th>", t->names[k]);
	str_adds(out, "<th>total</th></tr></thead><tbody>\n");
	for (int i = 0; i < t->count; i++) {
		str_adds(out, "<tr><td>");
		svg_text(t->item[i].name, out);
		for (int k = 0; k < t->parts; k++)
			if (part_used(t, k)) {
				str_adds(out, "</td><td>");
				svg_number(t->item[i].part[k], out);
			}
		str_adds(out, "</td><td>");
		svg_number(row_sum(&t->item[i]), out);
		str_adds(out, "</td></tr>\n");
	}
	str_adds(out, "</tbody></table>\n");
}

/* The whole figure; above: a chart over the steps, or NULL. Releases the rows. */
static void
put_rows(struct rows *t, struct sheet *above, struct str *out)
{
	str_addf(out,
	    "<figure id=\"%s\">\n<h2>%s, %s</h2>\n<p class=\"soft\">%s</p>\n<ul class=\"key\">",
	    t->id, t->title, t->unit, t->note);
	for (int k = 0; k < t->parts; k++)
		if (part_used(t, k))
			str_addf(out, "<li><i class=\"h%d\"></i>%s</li>", k, t->names[k]);
	str_adds(out, "</ul>\n");
	if (above)
		sheet_chart(above, t->title, true, out);
	put_bars(t, t->title, out);
	str_adds(out, "<details><summary>Table</summary><div class=\"scroll\">\n");
	put_table(t, out);
	if (above)
		sheet_table(above, out);
	str_adds(out, "</div></details>\n</figure>\n");
	free(t->item);
	mem_pool_release(&t->pool);
}

/* Values in another unit. */
static void
scale_rows(struct rows *t, double factor, const char *unit)
{
	t->unit = unit;
	for (int i = 0; i < t->count; i++) {
		for (int k = 0; k < ROW_PARTS; k++)
			t->item[i].part[k] *= factor;
		t->item[i].limit *= factor;
	}
}

/* --- time ------------------------------------------------------------------------------------- */

/* The mean of a column over some steps; 0 without any. */
static double
mean_of(const struct report_run *r, enum report_column column, size_t from, size_t to)
{
	double sum = 0;
	size_t count = 0;

	for (size_t i = from; i < to; i++)
		if (!isnan(r->steps.column[column][i])) {
			sum += r->steps.column[column][i];
			count++;
		}
	return count ? sum / (double)count : 0;
}

/* Seconds of a step on average. */
static void
measured(const struct report_run *r, size_t from, size_t to, double part[PARTS])
{
	part[TENSOR] = mean_of(r, REPORT_TENSOR, from, to);
	part[CONTEXT] = mean_of(r, REPORT_CONTEXT, from, to);
	part[PIPELINE] = mean_of(r, REPORT_PIPELINE, from, to);
	part[DATA] = mean_of(r, REPORT_DATA, from, to);
	part[BATCHES] = mean_of(r, REPORT_WAIT, from, to);
	part[COMPUTE] = mean_of(r, REPORT_SECONDS, from, to) - part[TENSOR] - part[CONTEXT] -
	    part[PIPELINE] - part[DATA] - part[BATCHES];
	part[COMPUTE] = fmax(part[COMPUTE], 0);
	part[OTHER] = 0;
}

static void
as_planned(const struct step_time *t, double part[PARTS])
{
	part[COMPUTE] = t->compute + t->memory;
	part[TENSOR] = t->tp + t->ep;
	part[CONTEXT] = t->cp;
	part[PIPELINE] = t->bubble;
	part[DATA] = t->dp;
	part[OTHER] = t->other;
}

/* The parts of a single run over its steps, one above the other: means of up to 200 stretches. */
static void
add_areas(struct sheet *s)
{
	enum { BINS = 200 };
	const struct report_run *r = &s->page->run[0];
	size_t first = r->steps.count > 1, left = r->steps.count - first;
	size_t n = left < BINS ? left : BINS;
	double *x = sheet_array(s, n), *edge[PARTS + 1], part[PARTS], most = 0;

	for (int k = 0; k <= PARTS; k++)
		edge[k] = sheet_array(s, n);
	for (size_t i = 0; i < n; i++) {
		size_t from = first + left * i / n, to = first + left * (i + 1) / n;

		measured(r, from, to, part);
		x[i] = mean_of(r, REPORT_ITERATION, from, to);
		edge[0][i] = 0;
		for (int k = 0; k < PARTS; k++)
			edge[k + 1][i] = edge[k][i] + 1e3 * part[k];
	}
	for (int k = 0; k < PARTS; k++, most = 0) {
		for (size_t i = 0; i < n; i++)
			most = fmax(most, edge[k + 1][i] - edge[k][i]);
		if (most > 0)
			sheet_curve(s,
			    &(struct svg_curve){
				SVG_AREA, k, "", part_names[k], x, edge[k + 1], edge[k], n },
			    true);
	}
}

void
figures_time(const struct report_page *p, struct str *out)
{
	struct rows t = { .parts = PARTS,
		.names = part_names,
		.id = "time",
		.title = "Time of a step",
		.note = "By what a rank waits for; exchanges that computation hides do not count. "
			"Bars: "
			"means over the steps." };
	struct sheet areas;

	for (int i = 0; i < p->num_runs; i++) {
		const struct report_run *r = &p->run[i];
		const char *label = p->num_runs > 1 ? r->label : "";

		/* The first step starts everything. */
		measured(
		    r, r->steps.count > 1, r->steps.count, add_row(&t, label, "measured")->part);
		if (!r->plan.why_not && p->device->given)
			as_planned(&r->plan.time, add_row(&t, label, "plan")->part);
	}
	scale_rows(&t, 1e3, "ms");
	sheet_begin(&areas, p);
	if (p->num_runs == 1)
		add_areas(&areas);
	put_rows(&t, areas.num_curves ? &areas : NULL, out);
	sheet_release(&areas);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The most bytes that a step saw in use; NAN where no line has them. */
static double
most_used(const struct report_run *r)
{
	double most = NAN;

	for (size_t i = 0; i < r->steps.count; i++)
		most = fmax(most, r->steps.column[REPORT_USED_BYTES][i]);
	return most;
}

bool
figures_memory(const struct report_page *p, struct str *out)
{
	struct rows t = { .parts = HELD,
		.names = held_names,
		.limit = "memory of the device",
		.id = "memory",
		.title = "Memory of a rank",
		.note = "What the fullest rank allocates by the plan, and what was in use on "
			"rank 0 where that was logged." };
	double most = 0;

	for (int i = 0; i < p->num_runs; i++) {
		const struct report_run *r = &p->run[i];
		struct row *row;

		if (r->plan.why_not)
			continue;
		row = add_row(&t, p->num_runs > 1 ? r->label : "", "plan");
		for (int k = 0; k < USED; k++)
			row->part[k] = (double)r->plan.bytes[held[k]] / gib;
		/* A host has no libraries that take memory of a device. */
		if (!p->device->given || p->device->hw.num_sms < 1)
			row->part[USED - 1] = 0;
		else
			row->limit = p->device->hw.memory_gb;
		if (!isnan(most_used(r)))
			add_row(&t, p->num_runs > 1 ? r->label : "", "in use")->part[USED] =
			    most_used(r) / gib;
	}
	if (t.count == 0)
		return false;
	for (int i = 0; i < t.count; i++)
		most = fmax(most, row_sum(&t.item[i]));
	scale_rows(&t, most < 0.5 ? 1024 : 1, most < 0.5 ? "MiB" : "GiB");
	put_rows(&t, NULL, out);
	return true;
}
