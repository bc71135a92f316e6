/* timeline.c - the passes and messages of a plan, simulated */
#include "plan/timeline.h"
#include "lib/base/mem.h"
#include "plan/time_plan.h"

#include <stdlib.h>
#include <string.h>

const char *const timeline_orders[] = { "1f1b", "gpipe", NULL };

/* What passes take at a skew of experts of 1, and each unit of it above that adds. */
struct costs {
	const struct timeline_options *o;
	struct pipeline_costs even, skewed;
	double skew;
	int num_stages;
};

/* --- deviations ------------------------------------------------------------------------------- */

/* A number of (0, 1] for each use, by splitmix64. */
static double
uniform(uint64_t x)
{
	x = (x + 1) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return ((double)((x ^ x >> 31) >> 11) + 1) / 9007199254740992.0;
}

/* Of a normal distribution, by Box and Muller; which: of two uses. */
static double
normal(const struct timeline_options *o, uint64_t pass, int which)
{
	uint64_t at = ((uint64_t)o->seed << 32) + 4 * pass + 2 * (uint64_t)which;

	return sqrt(-2 * log(uniform(at))) * cos(2 * acos(-1.0) * uniform(at + 1));
}

static double
pass_of(const void *ctx, int virtual_stage, int microbatch, bool backward)
{
	const struct costs *c = ctx;
	const struct timeline_options *o = c->o;
	const struct pass_cost *even = &c->even.pass[virtual_stage],
			       *skewed = &c->skewed.pass[virtual_stage];
	uint64_t pass =
	    ((uint64_t)microbatch * SPLIT_MAX + (uint64_t)virtual_stage) * 2 + (uint64_t)backward;
	double base = backward ? even->backward : even->forward,
	       rows = (backward ? skewed->backward : skewed->forward) - base, skew = c->skew,
	       factor = 1;

	if (o->expert_deviation > 0)
		skew = fmax(1, skew + o->expert_deviation * normal(o, pass, 0));
	if (o->pass_deviation > 0)
		factor = fmax(0, 1 + o->pass_deviation * normal(o, pass, 1));
	if (virtual_stage % c->num_stages == o->slow_stage)
		factor *= o->slow_factor;
	return factor * (base + (skew - 1) * rows);
}

static double
message_of(const void *ctx, int stage)
{
	return ((const struct costs *)ctx)->even.message[stage];
}

static bool
lands(const void *ctx, int stage)
{
	return ((const struct costs *)ctx)->even.lands[stage];
}

/* --- the plan --------------------------------------------------------------------------------- */

int
timeline_check(const struct timeline_options *o, const struct run_plan *plan, struct err *e)
{
	enum { PASSES_MAX = 1 << 22 };
	int64_t p = plan->layout.pipeline_model_parallel_size;
	int chunks = layout_chunks(&plan->layout);
	int64_t passes = 2 * plan->shape.num_microbatches * chunks * p;

	if (o->order == TIMELINE_GPIPE && chunks > 1)
		return err_set(
		    e, "--order gpipe: needs one chunk of layers a stage, not %d", chunks);
	if (o->slow_stage >= p)
		return err_set(e, "--slow-stage %lld: stages are numbered from 0 to %lld",
		    (long long)o->slow_stage, (long long)p - 1);
	if (passes > PASSES_MAX)
		return err_set(e, "%lld passes: more than the %d that are simulated",
		    (long long)passes, PASSES_MAX);
	return 0;
}

/* The passes at a skew of experts of 1 and of 2. */
static void
price(struct costs *c, const struct run_plan *plan, const struct hardware *hw)
{
	struct hardware with = *hw;

	c->skew = hw->expert_skew;
	with.expert_skew = 1;
	time_plan_stages(plan, &with, &c->even);
	with.expert_skew = 2;
	time_plan_stages(plan, &with, &c->skewed);
}

void
timeline_make(struct timeline *t, const struct run_plan *plan, const struct hardware *hw,
    const struct timeline_options *o)
{
	struct costs *c = mem_zalloc(1, sizeof *c);
	struct simulation s = { &t->shape, pass_of, message_of, lands, c };
	struct step_time time;
	double passes = 0, priced;

	t->shape = layout_schedule(&plan->layout, (int)plan->shape.num_microbatches, true);
	c->o = &(struct timeline_options){ .slow_factor = 1 };
	c->num_stages = t->shape.num_stages;
	price(c, plan, hw);
	time_plan(plan, hw, &time);
	priced = simulate_total(&s);
	c->o = o;
	t->shape.gpipe = o->order == TIMELINE_GPIPE;
	simulate(&s, &t->x);
	t->step = time.total - priced + t->x.total;
	t->bound = o->pass_deviation > 0 || o->expert_deviation > 0 ? 0 : simulate_bound(&s);
	for (int r = 0; r < t->x.num_stages; r++) {
		passes += t->x.stage[r].passes;
		t->bound = fmax(t->bound, t->x.stage[r].passes);
	}
	t->busy = passes / t->x.num_stages / t->x.total;
	free(c);
}

void
timeline_release(struct timeline *t)
{
	simulated_release(&t->x);
}

/* --- words ------------------------------------------------------------------------------------ */

void
timeline_table(const struct timeline *t, FILE *f)
{
	fputs("stage\tpasses_seconds\tmessages_seconds\twait_seconds\tbusy\n", f);
	for (int r = 0; r < t->x.num_stages; r++) {
		const struct sim_stage *s = &t->x.stage[r];

		fprintf(f, "%d\t%.6g\t%.6g\t%.6g\t%.4f\n", r, s->passes, s->messages,
		    t->x.total - s->passes - s->messages, s->passes / t->x.total);
	}
}

void
timeline_say(const struct timeline *t, struct str *out)
{
	str_addf(out,
	    "%d stages take %.6g s, no less than %.6g in any order, and compute %.1f %% of it; a "
	    "step takes %.6g s\n",
	    t->x.num_stages, t->x.total, t->bound, 100 * t->busy, t->step);
}
