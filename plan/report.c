/*
 * report.c - reads the metrics file of a run
 *
 * A line is of a step unless a member says what else it is: "split" of an evaluation, "corpus",
 * "layer", "rewind_to", "resumed_on_ranks" or "stopped_by". Lines of other kinds are passed over,
 * as newer versions may have some. A killed run leaves a line without an end, and a disk that fills
 * up one in the middle: such lines are counted and cost nothing else.
 */
#include "plan/report.h"
#include "lib/base/io.h"
#include "lib/base/json.h"

#include <stdlib.h>
#include <string.h>

/* The members, and what they are multiplied by to be seconds. */
static const struct {
	const char *name;
	double factor;
} columns[REPORT_COLUMNS] = {
	[REPORT_ITERATION] = { "iteration", 1 },
	[REPORT_SAMPLES] = { "consumed_samples", 1 },
	[REPORT_LOSS] = { "lm_loss", 1 },
	[REPORT_GRAD_NORM] = { "grad_norm", 1 },
	[REPORT_LR] = { "lr", 1 },
	[REPORT_TOKENS] = { "tokens_per_second", 1 },
	[REPORT_TFLOPS] = { "tflops_per_rank", 1 },
	[REPORT_SECONDS] = { "seconds", 1 },
	[REPORT_WAIT] = { "data_wait_seconds", 1 },
	[REPORT_DATA] = { "exposed_data_comm_ms", 1e-3 },
	[REPORT_TENSOR] = { "exposed_tensor_comm_ms", 1e-3 },
	[REPORT_CONTEXT] = { "exposed_context_comm_ms", 1e-3 },
	[REPORT_PIPELINE] = { "exposed_pipeline_comm_ms", 1e-3 },
	[REPORT_EXPERT_LOAD] = { "max_expert_load", 1 },
	[REPORT_RANK_LOAD] = { "max_rank_load", 1 },
	[REPORT_USED_BYTES] = { "used_bytes", 1 },
	[REPORT_TIME] = { "time", 1 },
};

/* --- lists ------------------------------------------------------------------------------------ */

static void
steps_add(struct report_steps *s, const double row[REPORT_COLUMNS])
{
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 1024;
		for (int i = 0; i < REPORT_COLUMNS; i++)
			s->column[i] = mem_realloc(s->column[i], s->cap, sizeof **s->column);
	}
	for (int i = 0; i < REPORT_COLUMNS; i++)
		s->column[i][s->count] = row[i];
	s->count++;
}

/* Steps from this iteration on are taken again: moves them to the others, in their order. */
static void
steps_retake(struct report_run *r, double iteration)
{
	struct report_steps *s = &r->steps;
	size_t from = s->count;

	while (from > 0 && s->column[REPORT_ITERATION][from - 1] >= iteration)
		from--;
	for (size_t i = from; i < s->count; i++) {
		double row[REPORT_COLUMNS];

		for (int k = 0; k < REPORT_COLUMNS; k++)
			row[k] = s->column[k][i];
		steps_add(&r->earlier, row);
	}
	s->count = from;
}

/* The points of these steps do not count any more. */
static void
points_retake(struct report_run *r, double iteration)
{
	int kept = 0;

	for (int i = 0; i < r->num_points; i++)
		if (r->point[i].iteration < iteration)
			r->point[kept++] = r->point[i];
	r->num_points = kept;
}

/* A point at the same place, of the same name, is replaced: a run may evaluate twice there. */
static void
point_add(struct report_run *r, const struct report_point *new)
{
	int i = r->num_points;

	while (i > 0 && r->point[i - 1].iteration >= new->iteration) {
		struct report_point *old = &r->point[--i];

		if (old->iteration == new->iteration && old->kind == new->kind &&
		    !strcmp(old->name, new->name)) {
			*old = *new;
			return;
		}
	}
	if (r->num_points % 64 == 0)
		r->point = mem_realloc(r->point, (size_t)r->num_points + 64, sizeof *r->point);
	r->point[r->num_points++] = *new;
}

void
report_event(struct report_run *r, enum report_event_kind kind, double iteration, const char *text)
{
	if (r->num_events % 64 == 0)
		r->event = mem_realloc(r->event, (size_t)r->num_events + 64, sizeof *r->event);
	r->event[r->num_events++] = (struct report_event){ kind, iteration,
		mem_pool_strndup(&r->pool, text, strlen(text)) };
}

/* --- lines ------------------------------------------------------------------------------------ */

/* NAN for a member that is missing or null, or larger than any axis could hold; false for one of
 * another type. */
static bool
number(const struct json_value *v, const char *key, double *out)
{
	const struct json_value *m = json_get(v, key);

	*out = NAN;
	if (!m || m->type == JSON_NULL)
		return true;
	if (m->type != JSON_INT && m->type != JSON_FLOAT)
		return false;
	*out = json_number(m);
	if (fabs(*out) > 1e100)
		*out = NAN;
	else if (fabs(*out) < 1e-100)
		*out = 0;
	return true;
}

/* The steps from this one to the last one are taken again. */
static void
repeat_steps(struct report_run *r, double iteration)
{
	const struct report_steps *s = &r->steps;
	char text[128];

	snprintf(text, sizeof text, "resumed: steps %.0f to %.0f were taken again", iteration,
	    s->column[REPORT_ITERATION][s->count - 1]);
	report_event(r, REPORT_RESUME, iteration, text);
	steps_retake(r, iteration);
	points_retake(r, iteration);
}

static double
last_step(const struct report_run *r)
{
	const struct report_steps *s = &r->steps;

	return s->count ? s->column[REPORT_ITERATION][s->count - 1] : -1;
}

static bool
read_resume(struct report_run *r, const struct json_value *v, double iteration)
{
	double ranks;
	char text[128];

	if (!number(v, "resumed_on_ranks", &ranks) || isnan(ranks))
		return false;
	snprintf(text, sizeof text, "resumed after step %.0f, on %.0f rank%s", iteration, ranks,
	    ranks == 1 ? "" : "s");
	if (iteration < last_step(r))
		repeat_steps(r, iteration + 1);
	else
		report_event(r, REPORT_RESUME, iteration, text);
	return true;
}

/* Iterations do not fall unless the run was resumed, which older versions did not say, or went back
 * because of a spike, which a line of its own has said already. */
static bool
read_step(struct report_run *r, const struct json_value *v)
{
	double row[REPORT_COLUMNS];

	for (int i = 0; i < REPORT_COLUMNS; i++) {
		if (!number(v, columns[i].name, &row[i]))
			return false;
		row[i] *= columns[i].factor;
	}
	if (row[REPORT_ITERATION] <= last_step(r))
		repeat_steps(r, row[REPORT_ITERATION]);
	if (!isnan(row[REPORT_SECONDS]))
		r->seconds += row[REPORT_SECONDS];
	steps_add(&r->steps, row);
	return true;
}

static bool
read_rewind(struct report_run *r, const struct json_value *v, double iteration)
{
	double to, loss;
	char text[160];

	if (!number(v, "rewind_to", &to) || !number(v, "lm_loss", &loss) || isnan(to))
		return false;
	snprintf(text, sizeof text, "rewind: a loss of %.4g at step %.0f, back to step %.0f", loss,
	    iteration, to);
	report_event(r, REPORT_REWIND, iteration, text);
	steps_retake(r, to + 1);
	points_retake(r, to + 1);
	return true;
}

/* The name of a line's text member; false for another type. */
static bool
name_of(struct report_run *r, const struct json_value *m, const char **out)
{
	if (!m || m->type != JSON_STRING)
		return false;
	*out = mem_pool_strndup(&r->pool, m->string, m->len);
	return true;
}

static bool
read_stop(struct report_run *r, const struct json_value *v, double iteration)
{
	const char *why;
	struct str text = { 0 };

	if (!name_of(r, json_get(v, "stopped_by"), &why))
		return false;
	str_addf(&text, "stopped after step %.0f by %s", iteration, why);
	report_event(r, REPORT_STOP, iteration, text.buf);
	str_release(&text);
	return true;
}

static bool
read_evaluation(struct report_run *r, const struct json_value *v, struct report_point *p)
{
	const struct json_value *set = json_get(v, "set");
	struct str name = { 0 };
	const char *split, *which = NULL;
	bool right = name_of(r, json_get(v, "split"), &split) &&
	    (!set || name_of(r, set, &which)) && number(v, "lm_loss", &p->value) &&
	    number(v, "ppl", &p->second);

	if (!right)
		return false;
	str_adds(&name, !strcmp(split, "valid") ? "validation" : split);
	if (which)
		str_addf(&name, " %s", which);
	p->name = mem_pool_strndup(&r->pool, name.buf, name.len);
	str_release(&name);
	p->kind = REPORT_EVALUATION;
	point_add(r, p);
	return true;
}

/* Loads of experts, of which the busiest and the idlest are kept. */
static bool
read_layer(struct report_run *r, const struct json_value *v, struct report_point *p)
{
	const struct json_value *load = json_get(v, "expert_load");
	double layer;
	char name[32];

	if (!number(v, "layer", &layer) || !load || load->type != JSON_ARRAY || load->len == 0)
		return false;
	for (size_t i = 0; i < load->len; i++) {
		const struct json_value *one = &load->item[i];

		if (one->type != JSON_INT && one->type != JSON_FLOAT)
			return false;
		p->value = i ? fmax(p->value, json_number(one)) : json_number(one);
		p->second = i ? fmin(p->second, json_number(one)) : json_number(one);
	}
	snprintf(name, sizeof name, "layer %.0f", layer);
	p->name = mem_pool_strndup(&r->pool, name, strlen(name));
	p->kind = REPORT_LAYER;
	point_add(r, p);
	return true;
}

/* False for a line that is broken. */
static bool
read_value(struct report_run *r, const struct json_value *v)
{
	struct report_point p = { 0 };

	if (v->type != JSON_OBJECT || !number(v, "iteration", &p.iteration) ||
	    !(p.iteration >= 0 && p.iteration < 1e15))
		return false;
	if (json_get(v, "split"))
		return read_evaluation(r, v, &p);
	if (json_get(v, "rewind_to"))
		return read_rewind(r, v, p.iteration);
	if (json_get(v, "resumed_on_ranks"))
		return read_resume(r, v, p.iteration);
	if (json_get(v, "stopped_by"))
		return read_stop(r, v, p.iteration);
	if (json_get(v, "layer"))
		return read_layer(r, v, &p);
	if (json_get(v, "corpus")) {
		if (!name_of(r, json_get(v, "corpus"), &p.name) ||
		    !number(v, "lm_loss", &p.value) || !number(v, "epochs", &p.second))
			return false;
		p.kind = REPORT_CORPUS;
		point_add(r, &p);
		return true;
	}
	return !json_get(v, "lm_loss") || read_step(r, v);
}

static void
read_line(struct report_run *r, const char *line, size_t len)
{
	struct err why;
	struct json *j;

	if (len == 0)
		return;
	j = json_parse(line, len, r->path, &why);
	if (!j || !read_value(r, json_root(j)))
		r->broken++;
	json_free(j);
}

/* Marks the time that no step took, where it is long: a run that stood still until it was resumed,
 * or a slow save or evaluation. At least a minute, and as long as twenty steps. */
static void
mark_pauses(struct report_run *r)
{
	const struct report_steps *s = &r->steps;
	const double *time = s->column[REPORT_TIME], *seconds = s->column[REPORT_SECONDS];
	double least = fmax(60, 20 * report_median(seconds, s->count));

	for (size_t i = 1; i < s->count; i++) {
		double pause = time[i] - time[i - 1] - seconds[i];
		struct str text = { 0 };

		if (!(pause >= least))
			continue;
		report_duration(pause, " ", "", &text);
		str_addf(&text, " without a step before step %.0f", s->column[REPORT_ITERATION][i]);
		report_event(r, REPORT_PAUSE, s->column[REPORT_ITERATION][i], text.buf);
		str_release(&text);
	}
}

int
report_read(struct report_run *r, const char *path, struct err *e)
{
	char *text;
	size_t len;

	memset(r, 0, sizeof *r);
	r->path = path;
	if (io_read_file(!strcmp(path, "-") ? "/dev/stdin" : path, 0, &text, &len, e) < 0)
		return -1;
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;

		read_line(r, text + at, n);
		at += n + 1;
	}
	free(text);
	if (r->steps.count == 0)
		return err_set(e,
		    "%s: holds no line of a step: --metrics-file of mtrain writes "
		    "them",
		    path);
	mark_pauses(r);
	return 0;
}

void
report_release(struct report_run *r)
{
	for (int i = 0; i < REPORT_COLUMNS; i++) {
		free(r->steps.column[i]);
		free(r->earlier.column[i]);
	}
	free(r->point);
	free(r->event);
	free(r->plan.options);
	mem_pool_release(&r->pool);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

void
report_smooth(const double *x, const double *y, size_t n, double half, double *out)
{
	double sum = 0, weight = 0, before = n ? x[0] : 0;

	for (size_t i = 0; i < n; i++) {
		double keep = exp2(-(x[i] - before) / half);

		out[i] = NAN;
		if (isnan(y[i]))
			continue;
		/* The first point has the weight that one step has. */
		if (weight == 0 || x[i] == before)
			keep = exp2(-1 / half);
		sum = keep * sum + (1 - keep) * y[i];
		weight = keep * weight + (1 - keep);
		out[i] = sum / weight;
		before = x[i];
	}
}

void
report_duration(double seconds, const char *before, const char *after, struct str *out)
{
	static const struct {
		double below, unit;
		const char *name;
		int digits;
	} of[] = { { 120, 1, "s", 1 }, { 7200, 60, "min", 0 }, { 72 * 3600, 3600, "hours", 1 },
		{ INFINITY, 86400, "days", 1 } };
	int i = 0;

	while (seconds >= of[i].below)
		i++;
	str_addf(out, "%.*f%s%s%s", of[i].digits, seconds / of[i].unit, before, of[i].name, after);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
report_median(const double *y, size_t n)
{
	double *sorted = mem_alloc(n + 1, sizeof *sorted), median = NAN;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (!isnan(y[i]))
			sorted[count++] = y[i];
	qsort(sorted, count, sizeof *sorted, by_value);
	if (count)
		median = sorted[count / 2];
	free(sorted);
	return median;
}
