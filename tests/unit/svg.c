/* svg.c - axes, ticks, labels, the points that curves keep, and charts against golden files */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/base/svg.h"
#include "tests/check.h"

/* The ticks of an axis as text. */
static void
ticks_are(const struct svg_axis *a, int most, const char *want)
{
	double at[SVG_TICKS];
	struct str text = { 0 };
	int n = svg_ticks(a, most, at);

	CHECK(n <= most);
	for (int i = 0; i < n; i++) {
		str_adds(&text, i ? " " : "");
		svg_number(at[i], &text);
	}
	CHECK_STR(text.len ? text.buf : "", want);
	str_release(&text);
}

static void
axes(void)
{
	struct svg_axis a = svg_axis(2.13, 9.7, false);

	CHECK(!a.log && a.min == 2 && a.max == 10);
	ticks_are(&a, 7, "2 4 6 8 10");
	a = svg_axis(3, 9.7, true);
	CHECK(a.min == 0 && a.max == 10);
	a = svg_axis(-3, 9.7, true);
	CHECK(a.min == -5 && a.max == 10);
	/* By decades only above a factor of 100, where all are positive, and never from 0 on. */
	CHECK(!svg_axis(1, 100, false).log && svg_axis(1, 101, false).log);
	CHECK(!svg_axis(0, 1e6, false).log && !svg_axis(1, 101, true).log);
	a = svg_axis(0.03, 60, false);
	CHECK(a.log && fabs(a.min - 0.02) < 1e-12 && fabs(a.max - 100) < 1e-9);
	ticks_are(&a, 7, "0.1 1 10 100");
	a = svg_axis(1e-9, 1e9, false);
	ticks_are(&a, 7, "1e-9 1e-6 0.001 1 1,000 1M 1G");
	a = svg_axis(2, 400, false);
	ticks_are(&a, 10, "2 5 10 20 50 100 200 500");
	/* A single value has an axis too. */
	a = svg_axis(4, 4, false);
	CHECK(a.min <= 4 && a.max > 4);
	a = svg_axis(0, 0, true);
	CHECK(a.min == 0 && a.max == 1);
	/* Ends that are no ticks. */
	ticks_are(&(struct svg_axis){ 0, 103, false }, 6, "0 50 100");
	ticks_are(&(struct svg_axis){ 61803, 100000, false }, 6, "70k 80k 90k 100k");
}

/* Of any range: the ends hold the values, ticks are 1, 2 or 5 times a power of ten apart and not
 * more than asked. */
static void
random_axes(void)
{
	unsigned long seed = check_seed();

	for (int i = 0; i < 5000; i++) {
		double u = rng_uniform(seed, (uint64_t)i, 0, 0),
		       v = rng_uniform(seed, (uint64_t)i, 1, 0);
		double low = (u - 0.3) * pow(10, 12 * v - 6), high = low + u * pow(10, 9 * v - 5);
		struct svg_axis a = svg_axis(low, high, i % 2 == 0);
		double at[SVG_TICKS];
		int most = 3 + i % 7, n = svg_ticks(&a, most, at);
		double slack = 1e-9 * (a.max - a.min);

		CHECK(a.min <= low + slack && a.max >= high - slack && a.min < a.max);
		CHECK(n >= 1 && n <= most && at[0] >= a.min - slack && at[n - 1] <= a.max + slack);
		if (n > 1 && !a.log) {
			double power = pow(10, floor(log10(at[1] - at[0]) + 1e-6)),
			       step = (at[1] - at[0]) / power;

			CHECK(fabs(step - 1) < 1e-6 || fabs(step - 2) < 1e-6 ||
			    fabs(step - 5) < 1e-6);
		}
	}
}

static void
numbers(void)
{
	static const struct {
		double v;
		const char *want;
	} of[] = { { 0, "0" }, { 1, "1" }, { -2.5, "-2.5" }, { 0.001, "0.001" }, { 3e-4, "3e-4" },
		{ 1.25e-7, "1.25e-7" }, { 999, "999" }, { 1500, "1,500" }, { 9999, "9,999" },
		{ -1500, "-1,500" }, { 20000, "20k" }, { 1250000, "1.25M" }, { 3.407e6, "3.41M" },
		{ 8.03e9, "8.03G" }, { 1e22, "1e22" }, { 4.6217, "4.622" }, { 341.46, "341.5" },
		{ NAN, "\xe2\x80\x93" }, { -INFINITY, "\xe2\x80\x93" } };

	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct str text = { 0 };

		svg_number(of[i].v, &text);
		CHECK_STR(text.buf, of[i].want);
		str_release(&text);
	}
}

/* One step among 100,000 is kept, and so are the ends and every gap; four points a column and the
 * gap at most. */
static void
decimation(void)
{
	enum { N = 100000 };
	struct svg_axis axis = { 0, N - 1, false };
	double *x = mem_alloc(N, sizeof *x), *y = mem_alloc(N, sizeof *y);
	size_t keep[SVG_KEPT], n;
	bool spike = false, dip = false, gap = false;

	for (int i = 0; i < N; i++) {
		x[i] = i;
		y[i] = sin(i * 0.37) + i * 1e-5;
	}
	y[61803] = 50;
	y[31415] = -50;
	y[27182] = NAN;
	n = svg_decimate(&axis, x, y, N, keep);
	CHECK(n <= 4 * SVG_COLUMNS + 1 && n >= 2 * SVG_COLUMNS);
	CHECK(keep[0] == 0 && keep[n - 1] == N - 1);
	for (size_t i = 0; i < n; i++) {
		CHECK(i == 0 || keep[i] > keep[i - 1]);
		spike = spike || keep[i] == 61803;
		dip = dip || keep[i] == 31415;
		gap = gap || keep[i] == 27182;
	}
	CHECK(spike && dip && gap);
	/* A column that is flat needs two points, and few points are all kept. */
	for (int i = 0; i < N; i++)
		y[i] = 1;
	CHECK(svg_decimate(&axis, x, y, N, keep) == 2 * SVG_COLUMNS);
	CHECK(svg_decimate(&axis, x, y, 2 * SVG_COLUMNS, keep) == 2 * SVG_COLUMNS);
	CHECK(svg_decimate(&axis, x, y, 0, keep) == 0);
	free(x);
	free(y);
}

/* GOLDEN=1 in the environment writes the files anew. */
static void
same_as(const char *path, struct str *got)
{
	struct err e;
	char *want = NULL;

	if (getenv("GOLDEN"))
		CHECK(outfile_write(path, got->buf, got->len, &e) == 0);
	CHECK(io_read_file(path, 0, &want, NULL, &e) == 0);
	CHECK_STR(got->buf, want ? want : "");
	free(want);
	str_release(got);
}

static void
golden(void)
{
	static const double x[] = { 0, 10, 20, 30, 40 }, y[] = { 4, 3, NAN, 2, 2 },
			    low[] = { 0, 0, 0, 0, 0 }, alone[] = { NAN, NAN, 3.5, NAN, NAN },
			    lost[] = { INFINITY };
	const struct svg_curve curve[] = {
		{ SVG_LINE, 0, "raw", "a <run> & \"more\"", x, y, NULL, 5 },
		{ SVG_LINE, 9, "plan", "alone", x, alone, NULL, 5 },
		{ SVG_DOTS, 2, "", NULL, x, y, NULL, 5 },
		{ SVG_DOTS, 2, "nan", "lost", x + 2, lost, NULL, 1 },
		{ SVG_AREA, 3, "", "area", x, low, low, 5 },
	};
	const struct svg_mark mark[] = { { 10, 10, "resume", "resumed" },
		{ 20, 30, "band", "step 30\na: 2" } };
	struct svg_chart c = { "A chart", "step ", { 0, 40, false }, svg_axis(0, 4, true), curve, 5,
		mark, 2 };
	const struct svg_part part[] = { { 3, 0, "weights: 3" }, { 0, 1, "none" }, { 2, 2, NULL } };
	const struct svg_bar bar[] = { { "plan", part, 3, 6, "limit" },
		{ "used", part, 1, NAN, NULL } };
	struct str out = { 0 };

	svg_chart(&c, &out);
	same_as("tests/golden/svg/chart.svg", &out);
	svg_bars(&(struct svg_bars){ "Bars", { 0, 8, false }, bar, 2 }, &out);
	same_as("tests/golden/svg/bars.svg", &out);
}

int
main(void)
{
	axes();
	random_axes();
	numbers();
	decimation();
	golden();
	return check_done();
}
