/*
 * days.h - what a whole run takes: days, device-hours, energy, money, and where the time goes
 *
 * From the seconds of a step, what evaluations and saves take and how often devices fail. Source:
 * docs/planning.md 7.
 */
#ifndef PLAN_DAYS_H
#define PLAN_DAYS_H

#include "lib/model/options.h"
#include "plan/goodput.h"
#include "plan/time.h"

#include <stdio.h>

struct days_options {
	double train_tokens; /* 0: no whole run is asked for */
	double target_days;
	double price;        /* of a device-hour */
	double failure_rate; /* of a device, per hour */
	/* seconds; negative: what follows from the bytes of a checkpoint */
	double save_seconds, save_readable_seconds;
	double restart_seconds;
	double storage_bandwidth; /* GB/s that a rank writes */
	int64_t save_interval;    /* steps; 0: the best */
	int64_t eval_iters, eval_interval;
};

struct run_days {
	double steps, seconds; /* of the whole run */
	struct failures failures;
	double num_failures;  /* that are expected */
	double save_interval; /* steps; INFINITY: it never saves */
	/* shares of the time, which add up to 1; starts: the first too */
	double of_steps, of_saves, of_evaluation, of_starts, of_lost;
};

/* Of a run with this batch and so many ranks, whose model has so many parameters and whose steps
 * take so long. */
void days_of(const struct days_options *o, const struct run_plan *plan, double params,
    const struct hardware *hw, double step_seconds, struct run_days *out);
/* Rows of the table of `mplan time`. */
void days_print(const struct run_days *d, const struct days_options *o, const struct hardware *hw,
    int64_t ranks, FILE *f);

/* clang-format off */
#define DAYS_NUM(S, M, n, f, lo, hi, d, u, ...) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.f), .min = lo, .max = hi, .def = d, \
	  .unit = u, .help = __VA_ARGS__ }
#define DAYS_OPTS(S, M) \
	{ .type = OPT_GROUP, .help = "Whole run" }, \
	    DAYS_NUM(S, M, "train-tokens", train_tokens, 1, 1e18, NULL, "tokens", \
		"what the run trains on: adds what all of it takes"), \
	    DAYS_NUM(S, M, "price", price, 0, 1e9, NULL, NULL, "price of a device-hour", \
		.needs = "train-tokens"), \
	    DAYS_NUM(S, M, "failure-rate", failure_rate, 0, 1e3, "2e-5", NULL, \
		"failures of a device per hour that end the run", .needs = "train-tokens"), \
	    DAYS_NUM(S, M, "save-seconds", save_seconds, 0, 1e6, NULL, "seconds", \
		"what a save holds the run up; by default what copying it to host memory takes " \
		"longer than a step", .needs = "train-tokens"), \
	    DAYS_NUM(S, M, "save-readable-seconds", save_readable_seconds, 0, 1e6, NULL, \
		"seconds", "until a save that has begun can be read; by default what writing it " \
		"takes", \
		.needs = "train-tokens"), \
	    DAYS_NUM(S, M, "storage-bandwidth", storage_bandwidth, 1e-6, 1e6, "1", "GB/s", \
		"what a rank writes of a save", .needs = "train-tokens"), \
	    DAYS_NUM(S, M, "restart-seconds", restart_seconds, 0, 1e6, "600", "seconds", \
		"from the begin of the run, or from a failure, to its next step", \
		.needs = "train-tokens"), \
	    { .name = "save-interval", .type = OPT_INT, .off = offsetof(S, M.save_interval), \
	      .min = 1, .max = 1e15, .unit = "steps", .needs = "train-tokens", \
	      .help = "between saves; by default the interval that loses least" }, \
	    { .name = "eval-iters", .type = OPT_INT, .off = offsetof(S, M.eval_iters), \
	      .max = 1e15, .def = "0", .needs = "train-tokens", \
	      .help = "batches per evaluation" }, \
	    { .name = "eval-interval", .type = OPT_INT, .off = offsetof(S, M.eval_interval), \
	      .min = 1, .max = 1e15, .def = "1000", .unit = "steps", .needs = "eval-iters>0", \
	      .help = "between evaluations" }
/* clang-format on */

#endif
