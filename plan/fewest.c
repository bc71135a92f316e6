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

#include <string.h>

enum { MOST_RANKS = 131072 };

/* What a whole run takes with so many ranks, whose steps take so long. */
static void
days_with(const struct search_input *in, const struct days_options *o, double seconds,
    struct run_days *out)
{
	struct run_plan plan = { .model = in->model,
		.layout = { 1, 1, in->world_size, 1 },
		.shape = in->shape,
		.global_batch_size = in->global_batch_size,
		.eval_batch_size = in->global_batch_size };

	days_of(o, &plan, &in->hw, seconds, out);
}

/* The same by the best plan of a search. */
static void
best_days(const struct search *s, const struct search_input *in, const struct days_options *o,
    struct run_days *out)
{
	days_with(in, o, s->item[0].time.total, out);
}

/* The seconds of a step that are few enough. */
static double
most_seconds(const struct search_input *in, const struct days_options *o)
{
	enum { HALVES = 12 };
	struct run_days d;
	double low = 0, high;

	days_with(in, o, 1, &d);
	high = o->target_days * 86400 / d.steps;
	for (int i = 0; i < HALVES; i++) {
		double middle = (low + high) / 2;

		days_with(in, o, middle, &d);
		if (d.seconds <= o->target_days * 86400)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* Ranks below which even the fastest arithmetic of a device does not do. */
static int64_t
least_ranks(const struct search_input *in, const struct days_options *o)
{
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
	    floor(sample * o->train_tokens / (double)in->shape.seq_length / rate /
		(o->target_days * 86400)));
}

/* The next number of ranks: of whole hosts, where there are several. */
static int64_t
next_ranks(const struct hardware *hw, int64_t at_least)
{
	int64_t host = (int64_t)hw->gpus_per_node;

	return at_least <= host ? at_least : (at_least + host - 1) / host * host;
}

/* Prepares the search with so many ranks; nothing else of it depends on them. */
static int
search_with(const struct opt_parse *p, int64_t ranks, struct search_input *in, struct err *e)
{
	struct plan_config cfg = *(const struct plan_config *)p->cfg;
	struct opt_parse with = *p;
	struct found *found[] = { in->found[0], in->found[1] };
	int rc;

	cfg.world_size = ranks;
	with.cfg = &cfg;
	rc = search_for(&with, in, e);
	memcpy(in->found, found, sizeof found);
	return rc;
}

/* Whether the best plan with so many ranks is fast enough; s and *d are what was found. Most
 * numbers of ranks are too few by all plans, which a search within the time says sooner. */
static bool
try_ranks(const struct days_options *o, struct search *s, struct search_input *in,
    struct run_days *d, struct err *e)
{
	if (!search_within(in, most_seconds(in, o)) || search_run(s, in, e) < 0)
		return false;
	best_days(s, in, o, d);
	return d->seconds <= o->target_days * 86400;
}

/* Of the largest numbers of ranks the first that has a plan, and what it takes. */
static int
say_none(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, int64_t most, struct err *e)
{
	enum { TRIES = 16 };
	int64_t node = (int64_t)in->hw.gpus_per_node,
		ranks = most > node ? most / node * node : most, host = most > node ? node : 1;

	for (int i = 0; i < TRIES && ranks > 0; i++, ranks -= host) {
		struct run_days d;

		if (search_with(p, ranks, in, e) < 0)
			return -1;
		if (search_run(s, in, e) == 0) {
			best_days(s, in, o, &d);
			return err_set(e,
			    "--target-days %g: no number of ranks up to %lld does; %lld take %.4g "
			    "days",
			    o->target_days, (long long)most, (long long)ranks, d.seconds / 86400);
		}
		search_release(s);
	}
	return -1;
}

/* The fewest from those on that no plan can do with less. */
static int
find_fewest(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	int64_t most = cfg->world_size ? cfg->world_size : MOST_RANKS, ranks;
	struct run_days d;

	for (ranks = next_ranks(&in->hw, least_ranks(in, o)); ranks <= most;) {
		if (search_with(p, ranks, in, e) < 0)
			return -1;
		if (try_ranks(o, s, in, &d, e))
			return 0;
		search_release(s);
		ranks = next_ranks(&in->hw, ranks + 1);
	}
	return say_none(p, o, s, in, most, e);
}

int
fewest_run(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, struct err *e)
{
	int rc;

	if (search_with(p, 1, in, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		in->found[i] = found_new(&in->model);
	rc = find_fewest(p, o, s, in, e);
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
	struct run_days d;
	double hours;

	best_days(s, in, o, &d);
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
