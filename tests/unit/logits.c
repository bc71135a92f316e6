/*
 * logits.c - the largest of stored numbers beside a plain loop, the cap of logits, and rows whose
 * parts tensor ranks hold
 */
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/run/forward.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST = 2100 };
static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

static int64_t
plain(const double *x, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/* Checks it at any address. The numbers become those that the type has. */
static void
check_largest(enum dtype t, double *x, int64_t n)
{
	static char stored[MOST * sizeof *x + 1];

	dtype_convert(stored + 1, t, x, DTYPE_F64, n);
	dtype_convert(x, DTYPE_F64, stored + 1, t, n);
	CHECK(dtype_first_largest(stored + 1, t, n) == plain(x, n));
}

/* Some of `some` values, so that equal ones abound, or of many. */
static void
test_random(void)
{
	static double x[MOST];

	for (uint64_t k = 0; k < 4000; k++) {
		int64_t n = 1 + (int64_t)(k * 7919 % (k % 4 ? 70 : MOST));
		double scale = k % 3 ? 5 : 1000;

		for (int64_t i = 0; i < n; i++)
			x[i] =
			    floor(scale *
				((double)rng_uniform(k, (uint64_t)i, 1, 0) - (double)(k % 5) / 4)) /
			    3;
		check_largest(types[k % 4], x, n);
	}
}

/* Zeroes of both signs, numbers below the normal ones, the largest and infinite ones, alone and in
 * twos, at every place of either. */
static void
test_special(void)
{
	static const double smallest[] = { 0x1p-1074, 0x1p-149, 0x1p-133, 0x1p-24 },
			    largest[] = { DBL_MAX, FLT_MAX, 0x1.fep127, 65504 };

	for (int k = 0; k < 4; k++) {
		const double values[] = { 0, -0.0, smallest[k], -smallest[k], 3 * smallest[k],
			-3 * smallest[k], 1, -1, largest[k], -largest[k], INFINITY, -INFINITY };
		enum { VALUES = sizeof values / sizeof *values };

		for (int i = 0; i < VALUES * VALUES * VALUES; i++) {
			double x[] = { values[i % VALUES], values[i / VALUES % VALUES],
				values[i / VALUES / VALUES] };

			check_largest(types[k], x, 3);
		}
	}
}

/* One larger number at each place, and an equal one after it. */
static void
test_places(void)
{
	static double x[MOST];

	for (int64_t i = 0; i < MOST; i++) {
		for (int64_t k = 0; k < MOST; k++)
			x[k] = -7;
		x[i] = x[(i + MOST) / 2] = -6;
		check_largest(types[i % 4], x, MOST);
	}
}

static void
test_cap(void)
{
	const float x[] = { 1, -50, 7, INFINITY, 600 };
	struct logits l = { x, DTYPE_F32, 5, 30 };
	double out[3];

	logits_double(&l, 1, 3, out);
	CHECK(out[0] == 30 * tanh(-50.0 / 30) && out[1] == 30 * tanh(7.0 / 30) && out[2] == 30);
	CHECK(logits_count_nonfinite(&l) == 1);
	l.softcap = 0;
	logits_double(&l, 1, 3, out);
	CHECK(out[0] == -50 && out[1] == 7 && out[2] == INFINITY);
}

/* Two context ranks of three tensor ranks, with two rows of four columns each, of which a
 * vocabulary of ten fills two and a half. */
static void
test_row(void)
{
	enum { RANKS = 3, ROWS = 2, COLUMNS = 4, V = 10 };
	double number[2 * RANKS * ROWS * COLUMNS], out[V];
	char all[sizeof number], row[RANKS * COLUMNS * sizeof *out];
	struct comm tp = { .size = RANKS };
	struct engine e = { .plan.model.vocab_size = V, .groups.tp = &tp };
	struct forward f = { .e = &e, .rows = ROWS, .local = all, .all = all, .columns = COLUMNS };

	e.plan.model.final_logit_softcapping = 1000;
	for (int i = 0; i < 2 * RANKS * ROWS * COLUMNS; i++)
		number[i] = i;
	for (int i = 0; i < 4 * 2 * ROWS; i++) {
		int holder = i / 4 / ROWS, at = i / 4 % ROWS;
		struct logits l;

		e.plan.shape.dtype = types[i % 4];
		dtype_convert(all, types[i % 4], number, DTYPE_F64, 2 * RANKS * ROWS * COLUMNS);
		memset(row, 'x', sizeof row);
		l = forward_row(&f, holder, at, row);
		CHECK(row[V * dtype_size(types[i % 4])] == 'x');
		CHECK(l.data == row && l.type == types[i % 4] && l.count == V && l.softcap == 1000);
		l.softcap = 0;
		logits_double(&l, 0, V, out);
		for (int k = 0; k < V; k++)
			CHECK(out[k] ==
			    ((holder * RANKS + k / COLUMNS) * ROWS + at) * COLUMNS + k % COLUMNS);
	}
}

int
main(void)
{
	test_random();
	test_special();
	test_places();
	test_cap();
	test_row();
	return check_done();
}
