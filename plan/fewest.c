/*
 * fewest.c - searches with more and more ranks, until a plan is fast enough
 *
 * They begin with the ranks that would do if all arithmetic ran at the best rate. None is passed
 * over: which numbers divide well decides more than how many ranks there are.
 */
#include "plan/fewest.h"
#include "lib/model/work.h"
#include "plan/options.h"
#include "plan/seek.h"

enum { MOST_RANKS = 131072 };

/* A run that is to end in time: the search with some number of ranks, and its model's parameters,
 * which take as long to count as a number of ranks to refuse. */
struct target {
	const struct days_options *days;
	const struct search_input *in;
	double params;
};

/* What a whole run takes with so many ranks, whose steps take so long. */
static void
days_with(const struct target *t, double seconds, struct run_days *out)
{
	const struct search_input *in = t->in;
	struct run_plan plan = { .model = in->model,
		.layout = { 1, 1, in->world_size, 1 },
		.shape = in->shape,
		.global_batch_size = in->global_batch_size,
		.eval_batch_size = in->global_batch_size };

	days_of(t->days, &plan, t->params, &in->hw, seconds, out);
}

/* The same by the best plan of a search. */
static void
best_days(const struct search *s, const struct target *t, struct run_days *out)
{
	days_with(t, s->item[0].time.total, out);
}

/* The seconds of a step that are few enough. */
static double
most_seconds(const struct target *t)
{
	enum { HALVES = 12 };
	struct run_days d;
	double wanted = t->days->target_days * 86400, low = 0, high;

	days_with(t, 1, &d);
	high = wanted / d.steps;
	for (int i = 0; i < HALVES; i++) {
		double middle = (low + high) / 2;

		days_with(t, middle, &d);
		if (d.seconds <= wanted)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* Ranks below which even the fastest arithmetic of a device does not do. */
static int64_t
least_ranks(const struct target *t)
{
	const struct search_input *in = t->in;
	/* Attention of wide heads runs up to so much above its rate (docs/planning.md 2.2). */
	static const double above = 1.25;
	const struct hardware *hw = &in->hw;
	double sample = model_flops(&in->model, 1, in->shape.seq_length, in->model.vocab_size),
	       rate = hardware_peak(hw, in->shape.dtype) *
	    fmax(hw->gemm_efficiency, above * hw->attention_efficiency);

	if (in->shape.fp8.format != FP8_NONE)
		rate = fmax(rate,
		    hardware_peak(hw, DTYPE_F8_E4M3) * hw->gemm_efficiency * hw->fp8_efficiency);
	return (int64_t)fmax(1,
	    floor(sample * t->days->train_tokens / (double)in->shape.seq_length / rate /
		(t->days->target_days * 86400)));
}

/* The next number of ranks: of whole hosts, where there are several. */
static int64_t
next_ranks(const struct hardware *hw, int64_t at_least)
{
	int64_t host = (int64_t)hw->gpus_per_node;

	return at_least <= host ? at_least : (at_least + host - 1) / host * host;
}

/* Whether the best plan with so many ranks is fast enough; s is what was found. Most
 * numbers of ranks are too few by all plans, which a search within the time says sooner. */
static bool
try_ranks(const struct target *t, struct search *s, struct search_input *in, struct err *e)
{
	struct run_days d;

	if (!search_within(in, most_seconds(t)) || search_run(s, in, e) < 0)
		return false;
	best_days(s, t, &d);
	return d.seconds <= t->days->target_days * 86400;
}

/* Of the largest numbers of ranks the first that has a plan, and what it takes. */
static int
say_none(
    const struct target *t, struct search *s, struct search_input *in, int64_t most, struct err *e)
{
	enum { TRIES = 16 };
	int64_t node = (int64_t)in->hw.gpus_per_node,
		ranks = most > node ? most / node * node : most, host = most > node ? node : 1;

	for (int i = 0; i < TRIES && ranks > 0; i++, ranks -= host) {
		struct run_days d;

		in->world_size = ranks;
		if (search_run(s, in, e) == 0) {
			best_days(s, t, &d);
			return err_set(e,
			    "--target-days %g: no number of ranks up to %lld does; %lld take %.4g "
			    "days",
			    t->days->target_days, (long long)most, (long long)ranks,
			    d.seconds / 86400);
		}
		search_release(s);
	}
	return -1;
}

/* The fewest from those on that no plan can do with less. */
static int
find_fewest(
    const struct target *t, struct search *s, struct search_input *in, int64_t most, struct err *e)
{
	for (int64_t ranks = next_ranks(&in->hw, least_ranks(t)); ranks <= most;
	     ranks = next_ranks(&in->hw, ranks + 1)) {
		in->world_size = ranks;
		if (try_ranks(t, s, in, e))
			return 0;
		search_release(s);
	}
	return say_none(t, s, in, most, e);
}

static struct target
target_of(const struct search_input *in, const struct days_options *o)
{
	return (struct target){ o, in, (double)model_num_parameters(&in->model) };
}

/* Of the search nothing else depends on the number of ranks. */
int
fewest_run(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, struct err *e)
{
	int64_t most = ((const struct plan_config *)p->cfg)->world_size;
	struct target t;
	int rc;

	if (search_for(p, in, e) < 0)
		return -1;
	t = target_of(in, o);
	for (int i = 0; i < 2; i++)
		in->found[i] = found_new(&in->model);
	rc = find_fewest(&t, s, in, most ? most : MOST_RANKS, e);
	for (int i = 0; i < 2; i++) {
		found_free(in->found[i]);
		in->found[i] = NULL;
	}
	return rc;
}

void
fewest_say(const struct search *s, const struct search_input *in, const struct days_options *o,
    struct str *out)
{
	struct target t = target_of(in, o);
	struct run_days d;
	double hours;

	best_days(s, &t, &d);
	hours = d.seconds / 3600 * (double)in->world_size;
	str_addf(out,
	    "%lld ranks train %.4g tokens in %.4g days, of which %.1f %% are steps that count: "
	    "%.4g device-hours",
	    (long long)in->world_size, o->train_tokens, d.seconds / 86400, 100 * d.of_steps, hours);
	if (in->hw.watts > 0)
		str_addf(out, ", %.4g kWh", hours * in->hw.watts / 1000);
	if (o->price > 0)
		str_addf(out, ", price %.4g", hours * o->price);
	str_adds(out, "\n");
}
