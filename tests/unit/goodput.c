/* goodput.c - tests of what failures leave of a run: formulas beside runs that fail at random, and
 * the best interval beside others */
#include "plan/goodput.h"
#include "tests/check.h"

#include <stdbool.h>

/* In (0, 1], by splitmix64. */
static double
uniform(unsigned long *state)
{
	unsigned long z = *state += 0x9e3779b97f4a7c15ul;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ z >> 27) * 0x94d049bb133111ebul;
	return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0 + 1.0 / 9007199254740992.0;
}

static double
until_failure(const struct failures *f, unsigned long *state)
{
	return -log(uniform(state)) / f->rate;
}

/* Seconds until a start succeeds. */
static double
start(const struct failures *f, unsigned long *state)
{
	double sum = 0, alive;

	while ((alive = until_failure(f, state)) < f->restart)
		sum += alive;
	return sum + f->restart;
}

/* Runs through so many failures, save by save. */
static void
simulate(const struct failures *f, double interval, int failures, struct goodput *out)
{
	unsigned long state = 1;
	double total = 0, starts = 0, kept = 0, saved = 0;

	for (int i = 0; i < failures; i++) {
		double from_start = start(f, &state), alive = until_failure(f, &state);
		double begins = interval; /* the next save */

		for (; begins + f->readable <= alive; begins += interval + f->hold) {
			kept += interval;
			saved += f->hold;
		}
		starts += from_start;
		total += from_start + alive;
	}
	*out = (struct goodput){ kept / total, saved / total, starts / total,
		1 - (kept + saved + starts) / total };
}

/* Rates per hour, seconds: a large run, one that is held up long, and starts that fail too. */
static const struct failures cases[] = {
	{ 0.33 / 3600, 0.005, 0.3, 600 },
	{ 0.33 / 3600, 60, 60, 600 },
	{ 2.0 / 3600, 20, 90, 900 },
	{ 12.0 / 3600, 5, 30, 300 },
};
enum { CASES = sizeof cases / sizeof *cases };

static void
test_simulated(void)
{
	static const double intervals[] = { 60, 700 };
	enum { FAILURES = 30000 };

	for (int i = 0; i < CASES; i++)
		for (int j = 0; j < 2; j++) {
			struct goodput g, s;

			goodput_of(&cases[i], intervals[j], &g);
			simulate(&cases[i], intervals[j], FAILURES, &s);
			CHECK_NEAR(g.steps, s.steps, 0.01);
			CHECK_NEAR(g.saves, s.saves, 0.005);
			CHECK_NEAR(g.starts, s.starts, 0.01);
			CHECK_NEAR(g.lost, s.lost, 0.01);
			CHECK_NEAR(g.steps + g.saves + g.starts + g.lost, 1, 1e-12);
		}
}

/* No interval nearby is better, and Young's square root is near where failures are rare. */
static void
test_best(void)
{
	for (int i = 0; i < CASES; i++) {
		const struct failures *f = &cases[i];
		double best = goodput_interval(f);
		struct goodput g, other;

		goodput_of(f, best, &g);
		for (double factor = 0.5; factor < 2.1; factor += 0.1) {
			goodput_of(f, factor * best, &other);
			CHECK(other.steps <= g.steps + 1e-12);
		}
	}
	CHECK_NEAR(
	    goodput_interval(&cases[1]) / (sqrt(2 * cases[1].hold / cases[1].rate) - cases[1].hold),
	    1, 0.03);
}

/* What a start takes and when a save can be read do not change which interval is best. */
static void
test_limits(void)
{
	struct failures f = cases[1];
	struct goodput g;

	f.restart = f.readable = 3000;
	CHECK(goodput_interval(&f) == goodput_interval(&cases[1]));
	f.hold = 0;
	CHECK(goodput_interval(&f) == 0);
	f.rate = 0;
	f.hold = 10;
	CHECK(isinf(goodput_interval(&f)));
	goodput_of(&f, INFINITY, &g);
	CHECK(g.steps == 1 && g.saves == 0 && g.starts == 0 && g.lost == 0);
	goodput_of(&f, 90, &g);
	CHECK_NEAR(g.steps, 0.9, 1e-12);
	CHECK_NEAR(g.saves, 0.1, 1e-12);
}

/* 419 failures of 16,384 GPUs in 54 days (Llama 3, arXiv:2407.21783, 3.3.4), with starts of ten
 * minutes and saves that hold up a moment: more than 90 % of the time counts, as was published. */
static void
test_published(void)
{
	struct failures f = { 419 / (54 * 86400.0), 0.005, 10, 600 };
	struct goodput g;

	goodput_of(&f, fmax(goodput_interval(&f), f.readable), &g);
	CHECK(g.steps > 0.9 && g.steps < 0.95);
}

int
main(void)
{
	test_simulated();
	test_best();
	test_limits();
	test_published();
	return check_done();
}
