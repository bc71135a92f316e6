/*
 * report.h - what a run has told in its metrics file, and the plan that it had
 *
 * report_read takes the JSON Lines of mtrain's --metrics-file; report_plan the options that its
 * last checkpoint holds; report_html draws both. A run that was resumed may have taken steps twice:
 * the later ones count, and the earlier ones are kept beside them.
 */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "lib/model/hardware.h"
#include "plan/memtable.h"
#include "plan/time.h"

/* The members of a step's line that are read. */
enum report_column {
	REPORT_ITERATION,
	REPORT_SAMPLES,
	REPORT_LOSS,
	REPORT_GRAD_NORM,
	REPORT_LR,
	REPORT_TOKENS,
	REPORT_TFLOPS,
	REPORT_SECONDS,
	REPORT_WAIT,
	REPORT_DATA,
	REPORT_TENSOR,
	REPORT_CONTEXT,
	REPORT_PIPELINE,
	REPORT_EXPERT_LOAD,
	REPORT_RANK_LOAD,
	REPORT_USED_BYTES,
	REPORT_TIME,
	REPORT_COLUMNS
};

/* NAN where a line lacks the member. Steps do not fall, except those that were taken again. */
struct report_steps {
	double *column[REPORT_COLUMNS]; /* owned */
	size_t count, cap;
};

/* A figure of an evaluation, a corpus or a layer: name is "valid", that of the corpus, "layer 3".
 * second: the perplexity; the epochs; the load of the idlest expert. */
enum report_kind { REPORT_EVALUATION, REPORT_CORPUS, REPORT_LAYER };
struct report_point {
	enum report_kind kind;
	const char *name;
	double iteration, value, second;
};

enum report_event_kind { REPORT_RESUME, REPORT_REWIND, REPORT_STOP, REPORT_PAUSE, REPORT_SAVE };
struct report_event {
	enum report_event_kind kind;
	double iteration;
	const char *text;
};

/* What the options of the last checkpoint say. */
struct report_plan {
	const char *path;    /* of the options; NULL: none were found */
	const char *why_not; /* nothing was planned; NULL: a plan is there */
	char *options;       /* the text; owned */
	struct run_plan run;
	int64_t world;
	double flops;                     /* of a step of all ranks */
	uint64_t bytes[MEMTABLE_COLUMNS]; /* of the fullest rank */
	struct step_time time;            /* where a device was given */
};

struct report_run {
	const char *label, *path;
	struct report_steps steps, earlier; /* earlier: those that were repeated later */
	struct report_point *point;         /* by iteration; owned */
	int num_points;
	struct report_event *event; /* owned */
	int num_events;
	int64_t broken; /* lines that are not JSON, or whose members have other types */
	double seconds; /* of all steps, earlier ones too */
	struct report_plan plan;
	struct mem_pool pool; /* owns the strings */
};

struct report_device {
	bool given;
	struct hardware hw;
};

/* -1 when the file cannot be read or holds no step. Lines that are broken are counted. */
int report_read(struct report_run *r, const char *path, struct err *e);
/* The plan of the checkpoint in `save`, or in NULL's case of the directory that the metrics file
 * lies in or one in it, whose options name the file. -1 when a `save` that was given cannot be
 * read; what else is missing is in why_not. */
int report_plan(
    struct report_run *r, const char *save, const struct report_device *d, struct err *e);
void report_release(struct report_run *r);
void report_event(
    struct report_run *r, enum report_event_kind kind, double iteration, const char *text);

/* Appends seconds in the unit that people would say, with what comes before the unit and after
 * it. */
void report_duration(double seconds, const char *before, const char *after, struct str *out);
/* The mean of y, in which a point counts half as much as one `half` later; it begins without a
 * bias. NAN stays NAN and does not count. */
void report_smooth(const double *x, const double *y, size_t n, double half, double *out);
/* The middle one of those that are numbers; NAN without any. */
double report_median(const double *y, size_t n);

/* Options of the verb; lists have an item per run, in their order. */
struct report_options {
	const char *title;
	struct opt_list label, checkpoint, samples;
};

/* Reads the runs of these metrics files and appends their page. Lines that were passed over, and
 * plans that were not found, go to `notes`. */
int report_make(const struct report_options *o, const struct report_device *d, int argc,
    char **argv, struct str *out, struct str *notes, struct err *e);

struct report_page {
	const char *title;
	const struct report_run *run;
	int num_runs;
	const struct report_device *device;
	const char *const *sample; /* texts, one per run from the first on */
	int num_samples;
};

/* The whole page. */
void report_html(const struct report_page *p, struct str *out);

/* How a page is recognised when it is replaced. */
extern const struct target_kind report_file;

#endif
