/*
 * fit_print.c - mplan fit: reads rows, fits, leaves rows out, prints
 *
 * The error of a row is taken four times: by the constants that the fit starts from, by those
 * fitted to all rows, by those fitted without the rows of its model in its source, and by those
 * fitted without its source. The last two are what a run that nobody has measured may expect.
 */
#include "plan/fit_print.h"
#include "lib/base/cli.h"
#include "lib/base/target.h"
#include "plan/allocated.h"
#include "plan/fit.h"
#include "plan/options.h"

#include <stdlib.h>
#include <string.h>

enum constants_of { BEFORE, AFTER, NO_MODEL, NO_SOURCE, ERRORS };

struct fitted_rows {
	struct measured_rows rows;
	double *error[ERRORS]; /* of a row, time / measured - 1; NAN: no other rows are there */
	bool *use;
	struct fitted start, all;
};

/* --- rows ------------------------------------------------------------------------------------- */

/* The number of a device's row. */
static int
row_number(const char *gpu)
{
	int i = 0;

	while (strcmp(hardware_names[i], gpu) != 0)
		i++;
	return i;
}

/* The device of a row with the constants that the fit starts from, in its cluster if it has one,
 * and with what its program is known to do. */
static void
start_from(const struct opt_parse *p, const struct hardware *typed, struct measured_row *r)
{
	static const struct {
		const char *option;
		size_t off;
	} of_row[] = {
		{ "gpus-per-node", offsetof(struct hardware, gpus_per_node) },
		{ "network-bandwidth", offsetof(struct hardware, network_bandwidth) },
		{ "message-us", offsetof(struct hardware, message_us) },
		{ "gradient-fusion", offsetof(struct hardware, gradient_fusion) },
		{ "loss-fusion", offsetof(struct hardware, loss_fusion) },
		{ "gradient-bytes", offsetof(struct hardware, gradient_bytes) },
		{ "memory-passes", offsetof(struct hardware, memory_passes) },
	};
	struct hardware hw;

	hardware_resolve(p, row_number(r->gpu), typed, &hw);
	for (size_t i = 0; r->hw.name && i < sizeof of_row / sizeof *of_row; i++)
		if (!opt_given(p, of_row[i].option))
			memcpy((char *)&hw + of_row[i].off, (const char *)&r->hw + of_row[i].off,
			    sizeof(double));
	r->hw = hw;
}

static int
read_rows(const struct opt_parse *p, const struct fit_options *o, int argc, char **argv,
    struct fitted_rows *j, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct str left = { 0 };
	const struct rows_wanted wanted = { &o->rows,
		opt_given(p, "gpu") ? hardware_names[cfg->gpu] : NULL, &left };
	int rc = 0;

	for (int i = 0; i < argc && rc == 0; i++)
		rc = rows_read(&j->rows, argv[i], &wanted, e);
	if (rc == 0 && !j->rows.count)
		rc = err_set(e, "%s: %d rows, none of which is wanted and can be priced", argv[0],
		    j->rows.left);
	for (int i = 0; i < j->rows.count; i++)
		start_from(p, &cfg->hw, &j->rows.item[i]);
	if (p->level > 0)
		cli_notes(&left);
	str_release(&left);
	return rc;
}

/* --- errors ----------------------------------------------------------------------------------- */

static bool
same_group(const struct measured_row *a, const struct measured_row *b, enum constants_of by)
{
	return !strcmp(a->source, b->source) && (by == NO_SOURCE || !strcmp(a->model, b->model));
}

static double
error_of(const struct measured_row *r, const struct fitted *f)
{
	return fit_seconds(r, f) / r->seconds - 1;
}

/* Each group of rows by the constants that all others give. */
static void
leave_out(struct fitted_rows *j, enum constants_of by)
{
	int n = j->rows.count;

	for (int i = 0; i < n; i++)
		j->error[by][i] = NAN;
	for (int i = 0; i < n; i++) {
		const struct measured_row *of = &j->rows.item[i];
		struct fitted f;
		int used = 0, first = 0;

		while (!same_group(&j->rows.item[first], of, by))
			first++;
		for (int k = 0; k < n; k++)
			used += j->use[k] = !same_group(&j->rows.item[k], of, by);
		if (first < i || !used)
			continue;
		fit_rows(&j->rows, j->use, &j->start, &j->all, &f);
		for (int k = 0; k < n; k++)
			if (!j->use[k])
				j->error[by][k] = error_of(&j->rows.item[k], &f);
	}
}

static void
take_errors(struct fitted_rows *j)
{
	int n = j->rows.count;

	for (int i = 0; i < ERRORS; i++)
		j->error[i] = mem_alloc((size_t)n, sizeof *j->error[i]);
	j->use = mem_alloc((size_t)n, sizeof *j->use);
	memset(j->use, true, (size_t)n * sizeof *j->use);
	fit_of(&j->rows.item[0].hw, &j->start);
	fit_prepare(&j->rows, &j->start);
	fit_rows(&j->rows, j->use, &j->start, NULL, &j->all);
	for (int i = 0; i < n; i++) {
		j->error[BEFORE][i] = error_of(&j->rows.item[i], &j->start);
		j->error[AFTER][i] = error_of(&j->rows.item[i], &j->all);
	}
	leave_out(j, NO_MODEL);
	leave_out(j, NO_SOURCE);
}

/* Mean of |error| in percent over the rows of a source, or of all for NULL. */
static double
mean(const struct fitted_rows *j, enum constants_of by, const char *source, int *count)
{
	double sum = 0;

	*count = 0;
	for (int i = 0; i < j->rows.count; i++)
		if ((!source || !strcmp(j->rows.item[i].source, source)) &&
		    !isnan(j->error[by][i])) {
			sum += fabs(j->error[by][i]);
			++*count;
		}
	return *count ? 100 * sum / *count : NAN;
}

/* --- printing --------------------------------------------------------------------------------- */

static void
print_percent(double x, const char *end, FILE *f)
{
	if (isnan(x))
		fprintf(f, "-%s", end);
	else
		fprintf(f, "%.2f%s", x, end);
}

static void
print_errors(const struct fitted_rows *j, const char *source, FILE *f)
{
	int count, rows;

	(void)mean(j, BEFORE, source, &rows);
	fprintf(f, "error\t%s\t%d\t", source ? source : "all", rows);
	for (int by = 0; by < ERRORS; by++)
		print_percent(mean(j, (enum constants_of)by, source, &count),
		    by + 1 < ERRORS ? "\t" : "\n", f);
}

static void
print_each(const struct fitted_rows *j, FILE *f)
{
	for (int i = 0; i < j->rows.count; i++) {
		fprintf(f, "row\t%s\t%.5g\t", j->rows.item[i].id, j->rows.item[i].seconds);
		for (int by = 0; by < ERRORS; by++)
			print_percent(100 * j->error[by][i], by + 1 < ERRORS ? "\t" : "\n", f);
	}
}

/* What allocators had at their peaks beside what the rows' programs are said to allocate: of each
 * row, and of dense ones and of those with experts the mean and the largest error. */
static void
print_allocated(const struct fitted_rows *j, bool each, FILE *f)
{
	double sum[2] = { 0 }, most[2] = { 0 };
	int count[2] = { 0 };

	for (int i = 0; i < j->rows.count; i++) {
		const struct measured_row *r = &j->rows.item[i];
		bool experts = r->plan.model.num_experts > 0;
		double error;

		if (r->gib <= 0)
			continue;
		error = 100 * (allocated_bytes(&r->plan, &r->hw) / (r->gib * 1073741824.0) - 1);
		sum[experts] += fabs(error);
		most[experts] = fmax(most[experts], fabs(error));
		count[experts]++;
		if (each)
			fprintf(f, "allocated\t%s\t%.5g\t%.2f\t-\t-\t-\n", r->id, r->gib, error);
	}
	for (int i = 0; i < 2; i++)
		if (count[i])
			fprintf(f, "memory\t%s\t%d\t%.2f\t%.2f\t-\t-\n", i ? "experts" : "dense",
			    count[i], sum[i] / count[i], most[i]);
}

static void
print_table(const struct fitted_rows *j, bool each, FILE *f)
{
	fputs("what\tname\trows\tbefore\tafter\twithout_model\twithout_source\n", f);
	print_errors(j, NULL, f);
	for (int i = 0; i < j->rows.count; i++) {
		bool first = true;

		for (int k = 0; k < i; k++)
			first &= strcmp(j->rows.item[k].source, j->rows.item[i].source) != 0;
		if (first)
			print_errors(j, j->rows.item[i].source, f);
	}
	for (int i = 0; i < FIT_CONSTANTS; i++)
		fprintf(f, "constant\t%s\t%s\t%.4g\t%.4g\t-\t-\n", fit_constants[i].option,
		    j->all.known[i] ? "fitted" : "kept", j->start.value[i], j->all.value[i]);
	if (each)
		print_each(j, f);
	print_allocated(j, each, f);
}

static bool
is_constant(const char *option)
{
	for (int i = 0; i < FIT_CONSTANTS; i++)
		if (!strcmp(fit_constants[i].option, option))
			return true;
	return false;
}

/* Whether all rows have the first one's figure. */
static bool
is_common(const struct measured_rows *rows, size_t off)
{
	for (int i = 1; i < rows->count; i++)
		if (memcmp((const char *)&rows->item[i].hw + off,
			(const char *)&rows->item[0].hw + off, sizeof(double)) != 0)
			return false;
	return true;
}

/* Figures that the fit did not choose, where they are not the device's own and are those of all
 * rows. */
static void
add_given(const struct measured_rows *rows, struct str *out)
{
	const struct measured_row *r = &rows->item[0];
	struct hardware own;
	const char *option;
	size_t off;

	hardware_row(row_number(r->gpu), &own);
	for (int i = 0; hardware_figure(i, &option, &off); i++) {
		double has = *(const double *)((const char *)&r->hw + off),
		       had = *(const double *)((const char *)&own + off);

		if (has != had && is_common(rows, off) && !is_constant(option) &&
		    strcmp(option, "gpus-per-node") != 0 &&
		    strcmp(option, "network-bandwidth") != 0 &&
		    strcmp(option, "profile-error") != 0)
			str_addf(out, "%s %g # as given\n", option, has);
	}
}

static const char first_words[] = "# constants that mplan fit found";

static const struct target_kind fit_file = { "constants of mplan fit", first_words,
	sizeof first_words - 1 };

static void
write_constants(const struct fitted_rows *j, struct str *out)
{
	int count;
	double left = mean(j, NO_MODEL, NULL, &count), after = mean(j, AFTER, NULL, &count);

	str_addf(out, "%s in %d steps: mean error %.1f %%\n", first_words, j->rows.count, after);
	for (int i = 0; i < FIT_CONSTANTS; i++)
		str_addf(out, "%s %.4g # %s\n", fit_constants[i].option, j->all.value[i],
		    j->all.known[i] ? "fitted" : "kept: the steps do not determine it");
	add_given(&j->rows, out);
	if (!isnan(left))
		str_addf(out, "profile-error %.2g # models left out\n", left);
}

int
fit_run(
    const struct opt_parse *p, const struct fit_options *o, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct fitted_rows j = { .use = NULL };
	struct str text = { 0 };
	int rc = 0;

	if (!argc) {
		err_set(e, "operands needed: metrics files of mtrain, or tables of measured steps");
		return CLI_USAGE;
	}
	if (hardware_check_stack(&cfg->hw, e) < 0)
		return CLI_USAGE;
	if (o->output && target_check_kind(o->output, &fit_file, o->force, e) < 0)
		return CLI_FAILED;
	rc = read_rows(p, o, argc, argv, &j, e);
	if (rc == 0) {
		take_errors(&j);
		print_table(&j, o->each, stdout);
		write_constants(&j, &text);
		if (o->output)
			rc = target_write(o->output, o->force, text.buf, text.len, e);
	}
	for (int i = 0; i < ERRORS; i++)
		free(j.error[i]);
	free(j.use);
	rows_release(&j.rows);
	str_release(&text);
	return rc;
}
