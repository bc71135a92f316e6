/* days.c - what a whole run takes */
#include "plan/days.h"

#include <math.h>

/* What a save of a run holds it up where the copy to host memory fits beside a step, seconds:
 * results.tsv, 8531604. */
static const double held_up = 0.005;

/* Bytes of a rank's part of a checkpoint: fp32 weights and what the optimizer keeps of each. */
static double
saved_bytes(const struct run_plan *plan, double params)
{
	return 4 * params * (1 + optim_num_states(plan->shape.rule)) /
	    (double)layout_world(&plan->layout);
}

/* Fills in what was not typed. A save is read when it is written, and before it can be read none
 * begins. */
static void
saves(const struct days_options *o, const struct run_plan *plan, double params,
    const struct hardware *hw, double step_seconds, struct failures *f)
{
	double bytes = saved_bytes(plan, params),
	       copy = bytes / (hw->host_bandwidth * 1e9 * hw->host_efficiency);

	f->rate = o->failure_rate / 3600 * (double)layout_world(&plan->layout);
	f->restart = o->restart_seconds;
	f->hold = o->save_seconds < 0 ? held_up + fmax(copy - step_seconds, 0) : o->save_seconds;
	f->readable = o->save_readable_seconds < 0 ? bytes / (o->storage_bandwidth * 1e9)
						   : o->save_readable_seconds;
	f->readable = fmax(f->readable, f->hold);
}

/* Seconds of evaluation for each step. A forward pass is a third of a step. */
static double
evaluation(const struct days_options *o, const struct run_plan *plan, double step_seconds)
{
	double batch = (double)plan->eval_batch_size / (double)plan->global_batch_size;

	return (double)o->eval_iters * batch * step_seconds / 3 / (double)o->eval_interval;
}

/* Whole steps between saves: what was typed, or what loses least, and no fewer than until the save
 * before can be read. */
static double
interval_steps(const struct days_options *o, const struct failures *f, double seconds)
{
	double best = goodput_interval(f) / seconds;

	if (o->save_interval)
		return (double)o->save_interval;
	return fmax(fmax(nearbyint(best), ceil((f->readable - f->hold) / seconds)), 1);
}

void
days_of(const struct days_options *o, const struct run_plan *plan, double params,
    const struct hardware *hw, double step_seconds, struct run_days *out)
{
	double tokens = (double)plan->global_batch_size * (double)plan->shape.seq_length;
	double evaluated = evaluation(o, plan, step_seconds), each = step_seconds + evaluated, kept;
	struct goodput g;

	*out = (struct run_days){ .steps = ceil(o->train_tokens / tokens) };
	saves(o, plan, params, hw, step_seconds, &out->failures);
	out->save_interval = interval_steps(o, &out->failures, each);
	goodput_of(&out->failures, out->save_interval * each, &g);
	kept = out->steps * each / g.steps;
	out->seconds = kept + out->failures.restart;
	out->num_failures = out->failures.rate * out->seconds;
	out->of_steps = out->steps * step_seconds / out->seconds;
	out->of_evaluation = out->steps * evaluated / out->seconds;
	out->of_saves = g.saves * kept / out->seconds;
	out->of_lost = g.lost * kept / out->seconds;
	out->of_starts = (g.starts * kept + out->failures.restart) / out->seconds;
}

/* --- the rows --------------------------------------------------------------------------------- */

static void
print(const char *name, double value, FILE *f)
{
	if (isinf(value))
		fprintf(f, "%s\t-\t-\n", name);
	else
		fprintf(f, "%s\t%.6g\t-\n", name, value);
}

static void
print_days(const char *name, const struct run_days *d, double share, FILE *f)
{
	fprintf(f, "%s_days\t%.6g\t%.4f\n", name, share * d->seconds / 86400, share);
}

void
days_print(const struct run_days *d, const struct days_options *o, const struct hardware *hw,
    int64_t ranks, FILE *f)
{
	double hours = d->seconds / 3600 * (double)ranks;

	print("train_steps", d->steps, f);
	print_days("run", d, 1, f);
	print_days("steps", d, d->of_steps, f);
	print_days("saves", d, d->of_saves, f);
	print_days("evaluation", d, d->of_evaluation, f);
	print_days("starts", d, d->of_starts, f);
	print_days("lost_steps", d, d->of_lost, f);
	print("failures", d->num_failures, f);
	print("save_interval_steps", d->save_interval, f);
	print("save_holds_up", d->failures.hold, f);
	print("save_readable_after", d->failures.readable, f);
	print("restart_takes", d->failures.restart, f);
	print("device_hours", hours, f);
	if (hw->watts > 0)
		print("kilowatt_hours", hours * hw->watts / 1000, f);
	if (o->price > 0)
		print("price", hours * o->price, f);
}
