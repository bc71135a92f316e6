/*
 * report_make.c - from metrics files and options to a page
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "plan/report.h"

#include <stdlib.h>
#include <string.h>

/* A text of somebody else as well-formed UTF-8, in the run's pool. */
static const char *
keep(struct report_run *r, const char *text, size_t n)
{
	struct str whole = { 0 };
	const char *kept;

	utf8_repair(text, n, &whole);
	kept = mem_pool_strndup(&r->pool, whole.len ? whole.buf : "", whole.len);
	str_release(&whole);
	return kept;
}

/* "runs/a/metrics.jsonl" is called a, and "runs/a.jsonl" too. */
static const char *
default_label(struct report_run *r)
{
	char *parent = io_parent(r->path);
	const char *file = strrchr(r->path, '/'), *dir = strrchr(parent, '/'), *label;

	file = file ? file + 1 : r->path;
	dir = dir ? dir + 1 : parent;
	if (!strncmp(file, "metrics.", 8) && strcmp(dir, ".") && strcmp(dir, "..") && *dir)
		label = keep(r, dir, strlen(dir));
	else
		label = keep(r, file, strcspn(file, "."));
	free(parent);
	return *label ? label : r->path;
}

/* A file that was given twice, or two of the same name, get numbers. */
static void
number_label(struct report_run *run, int i)
{
	struct str label = { 0 };
	int same = 0;

	for (int k = 0; k < i; k++)
		same += !strcmp(run[k].label, run[i].label);
	if (same == 0)
		return;
	str_addf(&label, "%s (%d)", run[i].label, same + 1);
	run[i].label = mem_pool_strndup(&run[i].pool, label.buf, label.len);
	str_release(&label);
}

static int
read_run(struct report_run *run, int i, const struct report_options *o,
    const struct report_device *d, struct err *e)
{
	struct report_run *r = &run[i];

	r->label = i < o->label.count ? keep(r, o->label.item[i], strlen(o->label.item[i]))
				      : default_label(r);
	number_label(run, i);
	return report_plan(r, i < o->checkpoint.count ? o->checkpoint.item[i] : NULL, d, e);
}

/* What a reader of the page has to know is said at once, too. */
static void
note_run(const struct report_run *r, struct str *notes)
{
	if (r->broken)
		str_addf(notes, "%s: %lld broken %s passed over\n", r->path, (long long)r->broken,
		    r->broken == 1 ? "line was" : "lines were");
	if (r->plan.why_not)
		str_addf(notes, "%s: no plan: %s\n", r->path, r->plan.why_not);
}

static int
check_counts(const struct report_options *o, int runs, struct err *e)
{
	const struct {
		const char *name;
		int count;
	} list[] = { { "label", o->label.count }, { "checkpoint", o->checkpoint.count },
		{ "samples", o->samples.count } };

	if (runs == 0) {
		err_set(e,
		    "operands needed: metrics files, which mtrain --metrics-file writes, "
		    "before options that take lists");
		return CLI_USAGE;
	}
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i].count > runs) {
			err_set(e, "--%s: %d given for %d %s", list[i].name, list[i].count, runs,
			    runs == 1 ? "metrics file" : "metrics files");
			return CLI_USAGE;
		}
	return 0;
}

/* The labels, joined. */
static void
join_labels(const struct report_run *run, int n, struct str *out)
{
	for (int i = 0; i < n; i++)
		str_addf(out, "%s%s", !i ? "" : i + 1 < n ? ", " : " and ", run[i].label);
}

static int
read_samples(
    struct report_run *run, const struct report_options *o, const char **sample, struct err *e)
{
	for (int i = 0; i < o->samples.count; i++) {
		char *text;
		size_t len;

		if (io_read_file(o->samples.item[i], 1 << 20, &text, &len, e) < 0)
			return -1;
		sample[i] = keep(&run[i], text, len);
		free(text);
	}
	return 0;
}

int
report_make(const struct report_options *o, const struct report_device *d, int argc, char **argv,
    struct str *out, struct str *notes, struct err *e)
{
	struct report_run *run;
	const char **sample;
	struct str title = { 0 };
	int rc = check_counts(o, argc, e);

	if (rc != 0)
		return rc;
	run = mem_zalloc((size_t)argc, sizeof *run);
	sample = mem_zalloc((size_t)argc, sizeof *sample);
	for (int i = 0; i < argc && rc == 0; i++)
		rc = report_read(&run[i], argv[i], e) < 0 ? CLI_USAGE : read_run(run, i, o, d, e);
	if (rc == 0)
		rc = read_samples(run, o, sample, e);
	if (rc == 0) {
		join_labels(run, argc, &title);
		report_html(&(struct report_page){ o->title ? o->title : title.buf, run, argc, d,
				sample, o->samples.count },
		    out);
	}
	for (int i = 0; i < argc; i++) {
		if (rc == 0)
			note_run(&run[i], notes);
		report_release(&run[i]);
	}
	str_release(&title);
	free(sample);
	free(run);
	return rc;
}
