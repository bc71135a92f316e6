/*
 * fit.h - the constants of a program on a device, from measured steps
 *
 * The mean of |log(time / measured)| over rows is made small by least squares whose weights are
 * set anew, with a prior about the constants that it starts from, so that what rows do not
 * determine stays. A step is its bound (plan/time.h) times what a simulation adds to it at the
 * start. Nothing is random, and the work is bounded. Source: docs/planning.md 8.
 */
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "plan/rows.h"

enum { FIT_CONSTANTS = 12 };

struct fit_constant {
	const char *option; /* that sets it */
	size_t off;         /* of a double in struct hardware */
	double least, most;
	double scale; /* by which it may well differ from what it starts from: of a constant that
		       * may be 0 as it is, of another of its logarithm */
	bool linear;
};
extern const struct fit_constant fit_constants[FIT_CONSTANTS];

struct fitted {
	double value[FIT_CONSTANTS];
	bool known[FIT_CONSTANTS]; /* rows determine it */
};

/* Simulates each row's step once, with these constants. */
void fit_prepare(struct measured_rows *rows, const struct fitted *start);
/* The rows whose `use` is set, from the constants of start. near: of a fit to most of these rows,
 * from which the way is shorter; may be NULL. */
void fit_rows(const struct measured_rows *rows, const bool *use, const struct fitted *start,
    const struct fitted *near, struct fitted *out);
/* The constants of a device. */
void fit_of(const struct hardware *hw, struct fitted *out);
/* Seconds of a row's step with these constants. */
double fit_seconds(const struct measured_row *r, const struct fitted *f);

#endif
