/*
 * timeline.h - a step of a plan: when each stage does what
 *
 * Passes and messages are priced by the operations of the plan and simulated (plan/simulate.h). A
 * stage may be slower than the others, and passes may differ at random, by a seed.
 */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "lib/model/options.h"
#include "plan/time.h"

/* The order in which a stage takes its passes: that of the trainer, or all forward passes before
 * all backward passes, for comparison. */
enum timeline_order { TIMELINE_1F1B, TIMELINE_GPIPE };
extern const char *const timeline_orders[]; /* their names */

struct timeline_options {
	int order;
	int64_t slow_stage; /* with slow_factor above 1 */
	double slow_factor;
	/* of the time of a pass, as a share, and of the rows of the fullest rank over the mean:
	 * standard deviations between passes */
	double pass_deviation, expert_deviation;
	int64_t seed;
};

struct timeline {
	struct schedule_shape shape;
	struct simulated x;
	double bound; /* no order of its passes ends sooner */
	double step;  /* seconds of the whole step */
	double busy;  /* share of the pipeline's time that its stages compute, in the mean */
};

/* Whether the options name what a plan has; -1 with the reason. */
int timeline_check(const struct timeline_options *o, const struct run_plan *plan, struct err *e);
/* Options that were checked; released by timeline_release. */
void timeline_make(struct timeline *t, const struct run_plan *plan, const struct hardware *hw,
    const struct timeline_options *o);
void timeline_release(struct timeline *t);
/* A row for each stage: what its passes and messages take, and how long it waits. */
void timeline_table(const struct timeline *t, FILE *f);
/* A line of what the pipeline takes, and a step. */
void timeline_say(const struct timeline *t, struct str *out);

/* clang-format off */
#define TIMELINE_NUM(S, M, n, f, lo, hi, d, ...) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.f), .min = lo, .max = hi, .def = d, \
	  .help = __VA_ARGS__ }
#define TIMELINE_OPTS(S, M) \
	{ .type = OPT_GROUP, .help = "Simulation" }, \
	    { .name = "order", .type = OPT_CHOICE, .off = offsetof(S, M.order), \
	      .choices = timeline_orders, .def = "1f1b", \
	      .help = "order of passes: the trainer's, or all forward passes before all backward " \
		      "passes" }, \
	    { .name = "slow-stage", .type = OPT_INT, .off = offsetof(S, M.slow_stage), .min = 0, \
	      .max = 1e6, .def = "0", .help = "the stage of a slow rank", \
	      .needs = "slow-factor>1" }, \
	    TIMELINE_NUM(S, M, "slow-factor", slow_factor, 1e-3, 1e3, "1", \
		"how much longer its passes take"), \
	    TIMELINE_NUM(S, M, "pass-deviation", pass_deviation, 0, 10, "0", \
		"standard deviation of the time of a pass, over its mean"), \
	    TIMELINE_NUM(S, M, "expert-deviation", expert_deviation, 0, 100, "0", \
		"standard deviation of --expert-skew between passes", .needs = "num-experts"), \
	    { .name = "seed", .type = OPT_INT, .off = offsetof(S, M.seed), .min = 0, .max = 1e15, \
	      .def = "1", .help = "of the deviations", \
	      .needs = "pass-deviation>0|expert-deviation>0" }
/* clang-format on */

#endif
