/*
 * report_html.c - the page of a report: one file, without scripts, fonts and links
 *
 * Colours are variables that change with the reader's scheme. Those of text have a contrast of at
 * least 4.5 to what is below them in both, and the hues differ in lightness as well, for readers
 * who tell colours apart badly.
 */
#include "lib/base/cli.h"
#include "lib/base/svg.h"
#include "lib/base/target.h"
#include "lib/base/utf8.h"
#include "plan/report.h"
#include "plan/report_figures.h"

#include <stdlib.h>

#define HEAD "<!DOCTYPE html>\n<!-- made by mplan report -->\n"

const struct target_kind report_file = { "a report", HEAD, sizeof HEAD - 1 };

static const char style[] =
    ":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--text:#1a2230;--soft:#566072;"
    "--line:#dfe3ea;--bad:#c01c28;--h0:#1d63c4;--h1:#c9540c;--h2:#0f8a66;--h3:#9b2a86;"
    "--h4:#8a6d00;--h5:#5a48d0;--h6:#d0406a;--h7:#46525f}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#10141b;--card:#181e28;--text:#e8ecf2;"
    "--soft:#a3adbd;--line:#2c3543;--bad:#ff7b84;--h0:#74aeff;--h1:#ff9d5c;--h2:#52d3a8;"
    "--h3:#ee8ddb;--h4:#e0c453;--h5:#a99cff;--h6:#ff86a6;--h7:#aebac8}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--text);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}\n"
    "main{max-width:1240px;margin:0 auto;padding:28px 20px 48px}\n"
    "h1{font-size:26px;line-height:1.25;margin:0 0 2px;letter-spacing:-.01em;"
    "overflow-wrap:anywhere}\n"
    "h2{font-size:16px;margin:0}\n"
    "p{margin:0}\n"
    ".soft{color:var(--soft);font-size:13px}\n"
    ".grid,.cards{display:grid;gap:16px;margin-top:16px}\n"
    ".cards{grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr))}\n"
    ".grid{grid-template-columns:repeat(2,minmax(0,1fr))}\n"
    ".wide,figure:last-of-type:nth-of-type(even){grid-column:1/-1}\n"
    "figure,section{margin:0;min-width:0;background:var(--card);border:1px solid var(--line);"
    "border-radius:10px;padding:16px 18px}\n"
    "figure svg.steps{display:block;margin:10px 16px 0 54px;width:calc(100% - 70px)}\n"
    "figure svg.bars{display:block;margin:10px 16px 0 4px;width:calc(100% - 20px)}\n"
    ".key{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;margin:6px 0 0;padding:0;"
    "font-size:13px;color:var(--soft)}\n"
    ".key i,.card h2 i{display:inline-block;width:11px;height:11px;border-radius:3px;"
    "margin-right:6px;background:var(--c)}\n"
    ".card h2{overflow-wrap:anywhere}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(104px,1fr));gap:12px 14px;"
    "margin:12px 0 0}\n"
    "dt{font-size:12px;color:var(--soft)}\n"
    "dd{margin:0;font-size:18px;font-weight:600;font-variant-numeric:tabular-nums}\n"
    "dd small{font-size:12px;font-weight:400;color:var(--soft)}\n"
    "details{margin-top:8px;font-size:13px}\n"
    "summary{cursor:pointer;color:var(--soft)}\n"
    ".scroll{overflow-x:auto;margin-top:8px}\n"
    "table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:3px 12px 3px 0;text-align:right;border-bottom:1px solid var(--line);"
    "white-space:nowrap}\n"
    "th{font-weight:600;color:var(--soft)}\n"
    "th:first-child,td:first-child,.words td,.words th{text-align:left}\n"
    ".words td{white-space:normal;overflow-wrap:anywhere}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:8px 0 0;padding:12px 14px;"
    "background:var(--bg);border-radius:8px;"
    "font:13px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n"
    "svg text{font-size:12px;fill:var(--soft)}\n"
    "svg text.name{fill:var(--text)}\n"
    "svg path{fill:none;stroke:var(--c);stroke-width:1.8;vector-effect:non-scaling-stroke;"
    "stroke-linejoin:round;stroke-linecap:round}\n"
    "svg path.raw{stroke-width:1;opacity:.3}\n"
    "svg path.earlier{stroke-width:1;opacity:.45;stroke-dasharray:2 3}\n"
    "svg path.plan{stroke-width:1.6;stroke-dasharray:7 5}\n"
    "svg path.dots{stroke-width:7}\n"
    "svg path.nan{stroke:var(--bad);stroke-width:8}\n"
    "svg path.area{fill:var(--c);fill-opacity:.78;stroke:none}\n"
    ".part{fill:var(--c);fill-opacity:.85}\n"
    "svg line.grid{stroke:var(--line);stroke-width:1}\n"
    ".limit{stroke:var(--bad);stroke-width:2}\n"
    ".mark{stroke-width:1.4;stroke-dasharray:3 3;stroke:var(--soft)}\n"
    ".mark.rewind{stroke:var(--bad)}\n"
    ".mark.save{stroke-dasharray:1 6;opacity:.7}\n"
    ".band{fill:var(--text);fill-opacity:0}\n"
    ".band:hover{fill-opacity:.08}\n"
    ".h0{--c:var(--h0)}.h1{--c:var(--h1)}.h2{--c:var(--h2)}.h3{--c:var(--h3)}"
    ".h4{--c:var(--h4)}.h5{--c:var(--h5)}.h6{--c:var(--h6)}.h7{--c:var(--h7)}\n"
    "@media(max-width:900px){.grid{grid-template-columns:minmax(0,1fr)}}\n"
    "@media(max-width:560px){main{padding:18px 10px 32px}figure,section{padding:14px 12px}"
    "h1{font-size:22px}}\n"
    "@media print{body{background:#fff}figure,section{break-inside:avoid}}\n";

/* --- the cards -------------------------------------------------------------------------------- */

/* A term with its figure; nothing for NAN. */
static void
fact(const char *name, double v, const char *unit, struct str *out)
{
	if (isnan(v))
		return;
	str_addf(out, "<div><dt>%s</dt><dd>", name);
	svg_number(v, out);
	if (*unit)
		str_addf(out, " <small>%s</small>", unit);
	str_adds(out, "</dd></div>\n");
}

static double
last_of(const struct report_run *r, enum report_column column)
{
	return r->steps.column[column][r->steps.count - 1];
}

/* The smoothed loss at the end. */
static double
final_loss(const struct report_run *r)
{
	double *mean = mem_alloc(r->steps.count, sizeof *mean), loss = NAN;

	figures_smooth(r, REPORT_LOSS, mean);
	for (size_t i = r->steps.count; i-- > 0 && isnan(loss);)
		loss = mean[i];
	free(mean);
	return loss;
}

/* The lowest and the last loss of the first validation set that there is. */
static void
validation(const struct report_run *r, double *best, double *last)
{
	const char *name = NULL;

	*best = *last = NAN;
	for (int i = 0; i < r->num_points; i++) {
		const struct report_point *p = &r->point[i];

		if (p->kind != REPORT_EVALUATION || isnan(p->value) || !strcmp(p->name, "test") ||
		    (name && strcmp(name, p->name)))
			continue;
		name = p->name;
		*last = p->value;
		*best = fmin(isnan(*best) ? INFINITY : *best, p->value);
	}
}

static void
put_card(const struct report_page *p, int i, struct str *out)
{
	const struct report_run *r = &p->run[i];
	const struct report_steps *s = &r->steps;
	double best, last, tflops = report_median(s->column[REPORT_TFLOPS], s->count);

	validation(r, &best, &last);
	str_addf(out, "<section class=\"card\"><h2><i class=\"h%d\"></i>", i % SVG_HUES);
	svg_text(r->label, out);
	str_adds(out, "</h2><dl>\n");
	fact("steps", last_of(r, REPORT_ITERATION), "", out);
	if (!r->plan.why_not)
		fact("tokens", last_of(r, REPORT_SAMPLES) * (double)r->plan.run.shape.seq_length,
		    "", out);
	else
		fact("samples", last_of(r, REPORT_SAMPLES), "", out);
	fact("loss at the end", final_loss(r), "", out);
	fact("validation", last, "loss", out);
	fact("best validation", best, "loss", out);
	fact("perplexity", isnan(last) ? NAN : exp(fmin(20, last)), "", out);
	fact("tokens/s", report_median(s->column[REPORT_TOKENS], s->count), "", out);
	fact("TFLOP/s a rank", tflops, "", out);
	if (!r->plan.why_not && p->device->given)
		fact("utilisation", 100 * tflops * 1e12 / figures_peak(r, p->device), "%", out);
	if (!r->plan.why_not) {
		fact("ranks", (double)r->plan.world, "", out);
		fact("parameters", (double)model_num_parameters(&r->plan.run.model), "", out);
	}
	str_adds(out, "<div><dt>time in steps</dt><dd>");
	report_duration(r->seconds, " <small>", "</small>", out);
	str_adds(out, "</dd></div>\n");
	str_adds(out, "</dl></section>\n");
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Of one run: what happened, checkpoints apart. */
static int
put_events(const struct report_page *p, int i, struct str *out)
{
	enum { LISTED = 100 };
	const struct report_run *r = &p->run[i];
	int count = 0;

	for (int k = 0; k < r->num_events; k++) {
		if (r->event[k].kind == REPORT_SAVE || count++ >= LISTED)
			continue;
		str_addf(out, "<tr><td>%.0f</td><td>", r->event[k].iteration);
		svg_text(r->label, out);
		str_adds(out, "</td><td>");
		svg_text(r->event[k].text, out);
		str_adds(out, "</td></tr>\n");
	}
	if (count > LISTED)
		str_addf(out, "<tr><td></td><td></td><td>and %d more</td></tr>\n", count - LISTED);
	return count;
}

static void
put_all_events(const struct report_page *p, struct str *out)
{
	struct str rows = { 0 };
	int count = 0;

	for (int i = 0; i < p->num_runs; i++) {
		size_t gaps = figures_gaps(&p->run[i]);

		count += put_events(p, i, &rows);
		if (!gaps)
			continue;
		count++;
		str_adds(&rows, "<tr><td></td><td>");
		svg_text(p->run[i].label, &rows);
		str_addf(&rows, "</td><td>%zu %s a loss that is not a number</td></tr>\n", gaps,
		    gaps == 1 ? "step has" : "steps have");
	}
	if (count) {
		str_adds(out,
		    "<section class=\"wide\" id=\"events\"><h2>Events</h2><div "
		    "class=\"scroll\"><table class=\"words\"><thead><tr><th>step</th>"
		    "<th>run</th><th>what happened</th></tr></thead><tbody>\n");
		str_add(out, rows.buf, rows.len);
		str_adds(out, "</tbody></table></div></section>\n");
	}
	str_release(&rows);
}

/* The value of an option in a text of options; NULL: it is not there, "": a switch. *len: its
 * bytes. */
static const char *
value_in(const char *options, const char *name, size_t n, size_t *len)
{
	for (const char *at = options; at && *at; at = strchr(at, '\n'), at += at != NULL) {
		size_t line = strcspn(at, "\n");

		if (line < n || strncmp(at, name, n) || (line > n && at[n] != ' '))
			continue;
		*len = line > n ? line - n - 1 : 0;
		return at + n + (line > n);
	}
	*len = 0;
	return NULL;
}

/* Places of files and lengths of runs say nothing about a comparison. */
static bool
is_place(const char *name, size_t n)
{
	static const char *const places[] = { "save", "load", "metrics-file", "tensorboard-dir",
		"data-cache-path" };

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (strlen(places[i]) == n && !strncmp(places[i], name, n))
			return true;
	return false;
}

static bool
differs(const struct report_page *p, const char *name, size_t n)
{
	size_t len, other;
	const char *first = value_in(p->run[0].plan.options, name, n, &len);

	for (int i = 1; i < p->num_runs; i++) {
		const char *value = value_in(p->run[i].plan.options, name, n, &other);

		if (!value != !first || len != other || (value && strncmp(value, first, len)))
			return true;
	}
	return false;
}

static void
put_option(const struct report_page *p, const char *name, size_t n, struct str *out)
{
	str_addf(out, "<tr><td>%.*s</td>", (int)n, name);
	for (int i = 0; i < p->num_runs; i++) {
		size_t len;
		const char *value = value_in(p->run[i].plan.options, name, n, &len);
		char *text = mem_strndup(value ? value : "", len);

		str_adds(out, "<td>");
		svg_text(!value ? "\xe2\x80\x93" : len ? text : "given", out);
		str_adds(out, "</td>");
		free(text);
	}
	str_adds(out, "</tr>\n");
}

/* An option is listed where the first run that has it has it. */
static bool
listed_before(const struct report_page *p, int run, const char *name, size_t n)
{
	size_t len;

	for (int i = 0; i < run; i++)
		if (value_in(p->run[i].plan.options, name, n, &len))
			return true;
	return false;
}

/* Options that differ, or of a single run all. */
static void
put_options(const struct report_page *p, struct str *out)
{
	for (int i = 0; i < p->num_runs; i++)
		if (!p->run[i].plan.options)
			return;
	str_addf(out,
	    "<section class=\"wide\" id=\"options\"><h2>%s</h2>%s<div class=\"scroll\">"
	    "<table class=\"words\"><thead><tr><th>option</th>",
	    p->num_runs > 1 ? "Options that differ" : "Options",
	    p->num_runs > 1 ? "" : "<details><summary>all that were in effect</summary>");
	for (int i = 0; i < p->num_runs; i++) {
		str_adds(out, "<th>");
		svg_text(p->run[i].label, out);
		str_adds(out, "</th>");
	}
	str_adds(out, "</tr></thead><tbody>\n");
	for (int i = 0; i < p->num_runs; i++)
		for (const char *at = p->run[i].plan.options; *at;) {
			size_t n = strcspn(at, " \n"), line = strcspn(at, "\n");

			if (n && !listed_before(p, i, at, n) &&
			    (p->num_runs == 1 || (!is_place(at, n) && differs(p, at, n))))
				put_option(p, at, n, out);
			at += line + (at[line] == '\n');
		}
	str_addf(out, "</tbody></table></div>%s</section>\n", p->num_runs > 1 ? "" : "</details>");
}

static void
put_samples(const struct report_page *p, struct str *out)
{
	if (p->num_samples == 0)
		return;
	str_adds(out, "<section class=\"wide\" id=\"samples\"><h2>Samples</h2>\n");
	for (int i = 0; i < p->num_samples; i++) {
		if (p->num_runs > 1) {
			str_addf(out, "<ul class=\"key\"><li><i class=\"h%d\"></i>", i % SVG_HUES);
			svg_text(i < p->num_runs ? p->run[i].label : "", out);
			str_adds(out, "</li></ul>");
		}
		str_adds(out, "<pre>");
		svg_text(p->sample[i], out);
		str_adds(out, "</pre>\n");
	}
	str_adds(out, "</section>\n");
}

/* What is missing, and why; how many lines were passed over. */
static void
put_notes(const struct report_page *p, const struct str *missing, struct str *out)
{
	str_adds(out, "<section class=\"wide soft\" id=\"notes\">\n");
	for (int i = 0; i < p->num_runs; i++) {
		const struct report_run *r = &p->run[i];

		str_adds(out, "<p>");
		svg_text(r->label, out);
		str_adds(out, ": ");
		svg_text(r->path, out);
		if (r->broken)
			str_addf(out, "; %lld broken %s passed over", (long long)r->broken,
			    r->broken == 1 ? "line was" : "lines were");
		if (r->plan.why_not) {
			str_adds(out, "; no plan: ");
			svg_text(r->plan.why_not, out);
		} else {
			str_adds(out, "; options and plan: ");
			svg_text(r->plan.path, out);
		}
		str_adds(out, "</p>\n");
	}
	if (missing->len)
		str_addf(out, "<p>Not drawn: %s.</p>\n", missing->buf);
	str_addf(out, "<p>Made by mplan report of %s.</p>\n</section>\n", cli_release());
}

/* --- the page --------------------------------------------------------------------------------- */

static void
put_head(const struct report_page *p, struct str *out)
{
	str_adds(out,
	    HEAD "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
		 "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		 "<title>");
	svg_text(p->title, out);
	str_addf(
	    out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", style);
	svg_text(p->title, out);
	str_adds(out, "</h1>\n<p class=\"soft\">");
	str_addf(out, "%d %s", p->num_runs, p->num_runs == 1 ? "run" : "runs");
	if (p->device->given)
		str_addf(out, " against the plan for %s", p->device->hw.name);
	str_adds(out, "</p>\n</header>\n<div class=\"cards\">\n");
	for (int i = 0; i < p->num_runs; i++)
		put_card(p, i, out);
	str_adds(out, "</div>\n");
}

void
report_html(const struct report_page *p, struct str *out)
{
	struct str missing = { 0 };

	put_head(p, out);
	str_adds(out, "<div class=\"grid\">\n");
	figures_all(p, out, &missing);
	put_all_events(p, out);
	put_options(p, out);
	put_samples(p, out);
	put_notes(p, &missing, out);
	str_adds(out, "</div>\n</main>\n</body>\n</html>\n");
	str_release(&missing);
}
