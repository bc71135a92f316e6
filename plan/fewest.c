/*
 * fewest.c - searches with more and more ranks, until a plan is fast enough
 *
 * They begin with the ranks that would do if all arithmetic ran at the best rate. None is passed
 * over: which numbers divide well decides more than how many ranks there are.
 */
#include "plan/fewest.h"
#include "lib/model/work.h"
#include "plan/options.h"

#include <string.h>

enum { MOST_RANKS = 131072 };

/* What a whole run takes by the best plan of a search. */
static void
best_days(const struct search *s, const struct search_input *in, const struct days_options *o,
    struct run_days *out)
{
	const struct candidate *best = &s->item[0];
	struct run_plan plan = { .model = in->model,
		.layout = best->layout,
		.shape = best->shape,
		.global_batch_size = in->global_batch_size,
		.eval_batch_size = in->global_batch_size };

	days_of(o, &plan, &in->hw, best->time.total, out);
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

/* Prepares the search with so many ranks. */
static int
search_with(const struct opt_parse *p, int64_t ranks, struct search_input *in, struct err *e)
{
	struct plan_config cfg = *(const struct plan_config *)p->cfg;
	struct opt_parse with = *p;

	cfg.world_size = ranks;
	with.cfg = &cfg;
	return search_for(&with, in, e);
}

/* The fastest plan of the searches so far. */
struct tried {
	double days;
	int64_t ranks; /* 0: none has found any */
};

/* Whether the best plan with so many ranks is fast enough. */
static bool
try_ranks(const struct days_options *o, struct search *s, struct search_input *in, struct tried *t,
    struct err *e)
{
	struct run_days d;

	if (search_run(s, in, e) < 0)
		return false;
	best_days(s, in, o, &d);
	if (!t->ranks || d.seconds / 86400 < t->days)
		*t = (struct tried){ d.seconds / 86400, in->world_size };
	return d.seconds / 86400 <= o->target_days;
}

static int
say_none(const struct tried *t, const struct days_options *o, int64_t most, struct err *e)
{
	if (t->ranks)
		return err_set(e,
		    "--target-days %g: no number of ranks up to %lld does; of those tried %lld "
		    "are the fastest, with %.4g days",
		    o->target_days, (long long)most, (long long)t->ranks, t->days);
	return e->msg[0] ? -1
			 : err_set(e, "--target-days %g: needs more than %lld ranks",
			       o->target_days, (long long)most);
}

int
fewest_run(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	int64_t most = cfg->world_size ? cfg->world_size : MOST_RANKS, ranks;
	struct tried t = { 0 };

	if (search_with(p, 1, in, e) < 0)
		return -1;
	for (ranks = next_ranks(&in->hw, least_ranks(in, o)); ranks <= most;) {
		if (search_with(p, ranks, in, e) < 0)
			return -1;
		if (try_ranks(o, s, in, &t, e))
			return 0;
		search_release(s);
		ranks = next_ranks(&in->hw, ranks + 1);
	}
	return say_none(&t, o, most, e);
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
