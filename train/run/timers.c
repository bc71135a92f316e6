/*
 * timers.c - the times of all ranks in one gather per log step, and their report
 *
 * Words and columns are those of Megatron-LM's core/timers.py, so that scripts which read them keep
 * working. A timer that no rank has used is left out; a minimum is over the ranks that have used
 * it.
 */
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "train/report/meter.h"
#include "train/run/timers.h"
#include "train/watch/straggler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a rank reports: milliseconds of a step by span and those in which it computed, then the
 * readings of its device's meters. */
enum { WORK = SPAN_COUNT, WATTS, CELSIUS, MEGAHERTZ, ROW };

struct timers {
	const struct train_options *o;
	const struct engine *e;
	double sum[SPAN_COUNT], work;
	int64_t steps, samples;
};

struct timers *
timers_new(const struct train_options *o, const struct engine *e)
{
	struct timers *t;

	if (o->timing_log_level == 0 && !o->log_straggler)
		return NULL;
	t = mem_zalloc(1, sizeof *t);
	t->o = o;
	t->e = e;
	return t;
}

void
timers_free(struct timers *t)
{
	free(t);
}

/* The time in which a rank computed: its passes, sums and update, less the waits within them. */
static double
work(const double seconds[SPAN_COUNT])
{
	static const enum span parts[] = { SPAN_FORWARD_BACKWARD, SPAN_GRADS, SPAN_OPTIMIZER };
	double sum = 0;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		sum += seconds[parts[i]];
	for (int w = WAIT_DATA; w < WAIT_COUNT; w++)
		sum -= timing_waited(seconds, w);
	return sum;
}

void
timers_step(struct timers *t, const struct spans *spent, int64_t samples)
{
	if (!t)
		return;
	for (int s = 0; s < SPAN_COUNT; s++)
		t->sum[s] += spent->elapsed[s];
	t->work += work(spent->computed);
	t->steps++;
	t->samples += samples;
}

/* The rows of all ranks, [size][ROW]; the caller frees. */
static double *
gather(const struct timers *t, struct comm *world)
{
	double mine[ROW], *all = mem_alloc((size_t)world->size, sizeof mine);
	struct tensor in = tensor_1d(mine, DTYPE_F64, ROW),
		      out = tensor_1d(all, DTYPE_F64, ROW * world->size);
	struct meter m;

	for (int s = 0; s < SPAN_COUNT; s++)
		mine[s] = t->sum[s] * 1e3 / (double)t->steps;
	mine[WORK] = t->work * 1e3 / (double)t->steps;
	meter_read(t->e, &m);
	mine[WATTS] = m.watts;
	mine[CELSIUS] = m.celsius;
	mine[MEGAHERTZ] = m.megahertz;
	world->ops->all_gather(COMM_HERE(world), NULL, &(struct comm_gather){ out, in });
	return all;
}

/* The most of one timer, and the least over the ranks that used it; false when none did. */
static bool
extremes(const double *all, int ranks, int span, double *least, double *most)
{
	*least = INFINITY;
	*most = 0;
	for (int r = 0; r < ranks; r++) {
		double ms = all[r * ROW + span];

		if (ms > 0)
			*least = fmin(*least, ms);
		*most = fmax(*most, ms);
	}
	return *most > 0;
}

/* All timers of the level that any rank has used, as text with names to the column of Megatron-LM,
 * and the most of each as points if they are asked for. */
static void
log_timers(
    const struct timers *t, const double *all, int ranks, struct metrics *m, int64_t iteration)
{
	static const char *const heads[] = { [TIMING_MAX] = "max time across ranks (ms):",
		[TIMING_MINMAX] = "(min, max) time across ranks (ms):",
		[TIMING_ALL] = "times across ranks (ms):" };
	static const char dots[] = "................................................";
	int form = t->o->timing_log_option;
	struct str text = { 0 };
	double least, most;

	for (int s = 0; s < SPAN_COUNT; s++) {
		const char *name = span_kinds[s].name;
		size_t len = strlen(name) + 1;

		if (span_kinds[s].level > t->o->timing_log_level ||
		    !extremes(all, ranks, s, &least, &most))
			continue;
		if (t->o->log_timers_to_tensorboard)
			metrics_timer(m, iteration, name, most * 1e-3);
		if (!text.len)
			str_adds(&text, heads[form]);
		if (form == TIMING_ALL) {
			str_addf(&text, "\n  %s:", name);
			for (int r = 0; r < ranks; r++)
				if (all[r * ROW + s] > 0)
					str_addf(
					    &text, "\n     rank %2d: %.2f", r, all[r * ROW + s]);
			continue;
		}
		str_addf(&text, "\n    %s %s: ", name, len < sizeof dots ? dots + len : "");
		if (form == TIMING_MAX)
			str_addf(&text, "%.2f", most);
		else
			str_addf(&text, "(%.2f, %.2f)", least, most);
	}
	if (text.len)
		metrics_text(text.buf);
	str_release(&text);
}

/* A rank without measurable time has no throughput either. */
static void
log_straggler(const struct timers *t, const double *all, int ranks, struct metrics *m)
{
	struct straggler *of = mem_alloc((size_t)ranks, sizeof *of);
	double tflop = metrics_tflops(m, (double)t->steps, t->samples);
	struct str text = { 0 };

	for (int r = 0; r < ranks; r++) {
		const double *row = all + r * ROW;

		of[r] = (struct straggler){ .work = row[WORK],
			.batch = timing_waited(row, WAIT_BATCH),
			.watts = row[WATTS],
			.celsius = row[CELSIUS],
			.megahertz = row[MEGAHERTZ],
			.tflops = row[WORK] > 0 ? tflop / (row[WORK] * 1e-3) : 0 };
	}
	metrics_stamp(&text);
	straggler_text(of, ranks, (int)t->o->straggler_minmax_count, &text);
	metrics_text(text.buf);
	str_release(&text);
	free(of);
}

void
timers_log(struct timers *t, struct comm *world, struct metrics *m, int64_t iteration)
{
	double *all;

	if (!t || t->steps == 0)
		return;
	all = gather(t, world);
	if (m) {
		log_timers(t, all, world->size, m, iteration);
		if (t->o->log_straggler)
			log_straggler(t, all, world->size, m);
	}
	memset(t->sum, 0, sizeof t->sum);
	t->work = 0;
	t->steps = t->samples = 0;
	free(all);
}
