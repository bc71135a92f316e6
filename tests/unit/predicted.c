/*
 * predicted.c - steps that were measured beside what the time model says of them
 *
 * tests/bench/results_predicted.tsv names rows of results.tsv and the options of their runs. The
 * test prints the error of each, in the rate of a GPU, and their mean, which must stay below a
 * limit. It also fits the constants that mplan fit knows to them, from round numbers, leaving out
 * the rows of each model in turn: what it prints then is what mplan time says of the constants of
 * this program.
 */
#include "lib/model/work.h"
#include "plan/fit.h"
#include "plan/options.h"
#include "plan/time_plan.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 256, SHAPES_MAX = 32, LINE = 8192, FIELDS = 6 };

/* Of the mean error, of the largest, and of that of models left out, in percent. */
static const double mean_limit = 2.5, row_limit = 8, left_limit = 6;

/* Options by name. */
struct shapes {
	int count;
	char name[SHAPES_MAX][64], options[SHAPES_MAX][1024];
};

/* A row of predicted.tsv. */
struct row {
	const char *commit, *workload, *ranks, *unit, *shape, *options;
};

static int
split(char *line, char *field[FIELDS])
{
	int n = 0;

	for (char *next = line; next && n < FIELDS; line = next) {
		next = strpbrk(line, "\t\n");
		if (next)
			*next++ = '\0';
		field[n++] = line;
	}
	return n;
}

/* The figure of a row of results.tsv; 0 where there is none. */
static double
measured(const struct row *r)
{
	static char line[LINE];
	FILE *f = fopen("tests/bench/results.tsv", "r");
	double figure = 0;
	char *field[FIELDS];

	if (!f)
		return 0;
	while (figure == 0 && fgets(line, sizeof line, f))
		if (split(line, field) >= 5 && !strcmp(field[1], r->commit) &&
		    !strcmp(field[3], r->workload))
			figure = strtod(field[4], NULL);
	fclose(f);
	return figure;
}

/* The plan of a row on an H200. */
static bool
plan_of(const struct row *r, const char *shape, struct run_plan *plan, struct hardware *hw)
{
	char text[LINE], *word[WORDS_MAX], **argv = word;
	struct plan_config cfg = { 0 };
	struct str notes = { 0 };
	struct err e = { "" };
	struct opt_parse p;
	int n = 0, rc;

	snprintf(
	    text, sizeof text, "--world-size %s --gpu h200 %s %s", r->ranks, shape, r->options);
	for (char *w = strtok(text, " "); w && n < WORDS_MAX - 1; w = strtok(NULL, " "))
		word[n++] = w;
	word[n] = NULL;
	opt_begin(&p, plan_time_opts, &cfg);
	rc = opt_argv(&p, &n, &argv, &e);
	if (rc == 0)
		rc = run_resolve(&p, &cfg.run, cfg.world_size, 0, plan, &notes, &e);
	hardware_resolve(&p, cfg.gpu, &cfg.hw, hw);
	plan->shape.hopper = HOPPER_YES;
	CHECK_STR(e.msg, "");
	str_release(&notes);
	opt_release(&p);
	return rc == 0;
}

/* The seconds of a step of the row. */
static double
seconds_of(const struct row *r, const struct run_plan *plan)
{
	double figure = measured(r), ranks = strtod(r->ranks, NULL);
	double tokens = (double)plan->global_batch_size * (double)plan->shape.seq_length;
	double flops = model_flops(&plan->model, plan->global_batch_size, plan->shape.seq_length,
	    layout_vocab(&plan->layout, &plan->model));

	if (!strcmp(r->unit, "ms"))
		return figure / 1e3;
	return (!strcmp(r->unit, "tflops") ? flops / 1e12 : tokens) / ranks / figure;
}

static void
add_measured(struct measured_rows *rows, const struct row *r, const char *shape)
{
	struct measured_row *row = mem_zalloc(1, sizeof *row);

	if (plan_of(r, shape, &row->plan, &row->hw) && !row->plan.shape.offloaded_layers) {
		row->seconds = seconds_of(r, &row->plan);
		snprintf(row->model, sizeof row->model, "%s", r->shape);
		rows_add(rows, row);
	}
	free(row);
}

/* Round numbers that say nothing of these rows, in place of what they chose. */
static struct fitted
round_numbers(const struct hardware *hw)
{
	struct hardware h = *hw;
	struct fitted f;

	h.gemm_efficiency = 0.75;
	h.fp8_efficiency = 1;
	h.attention_efficiency = h.layer_overlap = h.dp_overlap = 0.5;
	h.memory_efficiency = h.link_efficiency = 0.8;
	h.kernel_us = h.host_us = 5;
	h.step_ms = 1;
	fit_of(&h, &f);
	return f;
}

/* The mean error of the rows of each model by the constants that the others give, percent. */
static double
left_out(struct measured_rows *rows)
{
	struct fitted start = round_numbers(&rows->item[0].hw), all, f;
	bool use[256];
	double sum = 0;

	CHECK(rows->count <= 256);
	fit_prepare(rows, &start);
	memset(use, true, sizeof use);
	fit_rows(rows, use, &start, NULL, &all);
	for (int i = 0; i < rows->count; i++) {
		const char *model = rows->item[i].model;

		if (i > 0 && !strcmp(rows->item[i - 1].model, model)) {
			sum += fabs(fit_seconds(&rows->item[i], &f) / rows->item[i].seconds - 1);
			continue;
		}
		for (int k = 0; k < rows->count; k++)
			use[k] = strcmp(rows->item[k].model, model) != 0;
		fit_rows(rows, use, &start, &all, &f);
		sum += fabs(fit_seconds(&rows->item[i], &f) / rows->item[i].seconds - 1);
	}
	return 100 * sum / rows->count;
}

/* The rate of a GPU by the model over that measured, less 1. */
static double
error_of(const struct row *r, const char *shape)
{
	struct run_plan plan;
	struct hardware hw;
	struct step_time t;

	CHECK(measured(r) > 0);
	if (!plan_of(r, shape, &plan, &hw))
		return INFINITY;
	time_plan(&plan, &hw, &t);
	return seconds_of(r, &plan) / t.total - 1;
}

static const char *
options_of(const struct shapes *s, const char *name)
{
	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->name[i], name))
			return s->options[i];
	return NULL;
}

static void
add_shape(struct shapes *s, char *const field[])
{
	CHECK(s->count < SHAPES_MAX);
	snprintf(s->name[s->count], sizeof s->name[0], "%s", field[1]);
	snprintf(s->options[s->count++], sizeof s->options[0], "%s", field[2]);
}

static void
test_rows(FILE *f)
{
	static struct shapes shapes;
	static char line[LINE];
	struct measured_rows rows = { 0 };
	double sum = 0, left;
	int n = 0;

	while (fgets(line, sizeof line, f)) {
		char *field[FIELDS];
		const char *shape;
		struct row r;
		double error;

		if (*line == '#' || split(line, field) < 3)
			continue;
		if (!strcmp(field[0], "shape")) {
			add_shape(&shapes, field);
			continue;
		}
		r = (struct row){ field[0], field[1], field[2], field[3], field[4], field[5] };
		shape = options_of(&shapes, r.shape);
		CHECK(shape);
		if (!shape)
			continue;
		error = 100 * error_of(&r, shape);
		printf("%+5.1f %%  %s  %.100s\n", error, r.commit, r.workload);
		CHECK(fabs(error) < row_limit);
		sum += fabs(error);
		n++;
		add_measured(&rows, &r, shape);
	}
	CHECK(n >= 40);
	printf("mean error of %d rows: %.2f %%\n", n, sum / n);
	CHECK(sum / n < mean_limit);
	left = left_out(&rows);
	printf("models left out of a fit: %.2f %%\n", left);
	CHECK(left < left_limit && fabs(left - rows.item[0].hw.profile_error) < 0.5);
	rows_release(&rows);
}

int
main(void)
{
	FILE *f = fopen("tests/bench/results_predicted.tsv", "r");

	CHECK(f);
	if (f) {
		test_rows(f);
		fclose(f);
	}
	return check_done();
}
