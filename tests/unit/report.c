/* report.c - what is read of a metrics file: broken lines, steps that were taken again,
 * evaluations, smoothing, and a page of it */
#include "lib/base/outfile.h"
#include "lib/base/target.h"
#include "lib/base/utf8.h"
#include "plan/report.h"
#include "tests/check.h"

#include <unistd.h>

static char path[] = "/tmp/mikoshi-report-XXXXXX";

/* A step's line; loss as text, so that it may be null. */
static void
step(struct str *s, int iteration, const char *loss)
{
	str_addf(s,
	    "{\"iteration\": %d, \"consumed_samples\": %d, \"lm_loss\": %s, \"lr\": 0.1, "
	    "\"tokens_per_second\": 100, \"seconds\": 2}\n",
	    iteration, 8 * iteration, loss);
}

/* Reads the text as a file. */
static int
read_text(struct report_run *r, const struct str *s, struct err *e)
{
	CHECK(outfile_write(path, s->len ? s->buf : "", s->len, e) == 0);
	return report_read(r, path, e);
}

static void
broken(void)
{
	static const char *const lines[] = { "{\"iteration\": 3, \"lm_lo\n", "nonsense\n", "[1]\n",
		"{\"iteration\": \"x\", \"lm_loss\": 1}\n", "{\"iteration\": -1, \"lm_loss\": 1}\n",
		"{\"iteration\": 3, \"lm_loss\": \"1\"}\n", "{\"lm_loss\": 1}\n",
		"{\"iteration\": 3, \"split\": 1}\n", "{\"iteration\": 3, \"corpus\": null}\n",
		"{\"iteration\": 3, \"layer\": 1, \"expert_load\": [1, \"a\"]}\n",
		"{\"iteration\": 3, \"rewind_to\": \"1\"}\n",
		"{\"iteration\": 3, \"rewind_to\": 1, \"lm_loss\": []}\n",
		"{\"iteration\": 3, \"resumed_on_ranks\": null}\n",
		"{\"iteration\": 3, \"stopped_by\": 3}\n" };
	struct report_run r;
	struct str s = { 0 };
	struct err e = { "" };

	step(&s, 1, "5");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		str_adds(&s, lines[i]);
	/* These are right, and of no interest; the last has a figure that no run has. */
	str_adds(&s, "\n{\"iteration\": 3, \"of a newer version\": [1]}\n");
	step(&s, 2, "4");
	step(&s, 3, "1e300");
	str_adds(&s, "{\"iteration\": 3, \"lm_loss\": 3");
	CHECK(read_text(&r, &s, &e) == 0);
	CHECK(r.steps.count == 3 && r.broken == 15 && r.num_events == 0 && r.num_points == 0);
	CHECK(r.steps.column[REPORT_LOSS][1] == 4 && r.seconds == 6);
	CHECK(isnan(r.steps.column[REPORT_LOSS][2]));
	CHECK(isnan(r.steps.column[REPORT_GRAD_NORM][1]));
	report_release(&r);
	str_clear(&s);
	str_adds(&s, "nonsense\n");
	CHECK(read_text(&r, &s, &e) < 0);
	CHECK(strstr(e.msg, ": holds no line of a step: --metrics-file of mtrain writes them"));
	report_release(&r);
	str_release(&s);
}

/* A resumed run takes two steps again, one of which had been evaluated; later a rewind. */
static void
again(void)
{
	struct report_run r;
	struct str s = { 0 };
	struct err e;

	step(&s, 1, "5");
	step(&s, 2, "4");
	str_adds(&s, "{\"iteration\": 2, \"split\": \"valid\", \"lm_loss\": 4.5, \"ppl\": 90}\n");
	step(&s, 3, "null");
	step(&s, 2, "4.25");
	str_adds(&s, "{\"iteration\": 2, \"split\": \"valid\", \"lm_loss\": 4.4, \"ppl\": 81}\n");
	str_adds(&s, "{\"iteration\": 2, \"split\": \"valid\", \"lm_loss\": 4.3, \"ppl\": 80}\n");
	str_adds(&s, "{\"iteration\": 2, \"split\": \"valid\", \"set\": \"b\", \"lm_loss\": 3}\n");
	step(&s, 3, "3.5");
	step(&s, 4, "9");
	str_adds(&s, "{\"iteration\": 4, \"rewind_to\": 3, \"lm_loss\": 9}\n");
	step(&s, 4, "3.25");
	CHECK(read_text(&r, &s, &e) == 0);
	CHECK(r.steps.count == 4 && r.earlier.count == 3 && r.broken == 0 && r.seconds == 14);
	CHECK(r.steps.column[REPORT_LOSS][1] == 4.25 && r.steps.column[REPORT_LOSS][3] == 3.25);
	CHECK(r.earlier.column[REPORT_LOSS][0] == 4 && isnan(r.earlier.column[REPORT_LOSS][1]));
	CHECK(r.earlier.column[REPORT_LOSS][2] == 9);
	CHECK(r.num_points == 2 && r.point[0].value == 4.3 && r.point[0].second == 80);
	CHECK_STR(r.point[0].name, "validation");
	CHECK_STR(r.point[1].name, "validation b");
	CHECK(r.num_events == 2 && r.event[0].kind == REPORT_RESUME);
	CHECK_STR(r.event[0].text, "resumed: steps 2 to 3 were taken again");
	CHECK_STR(r.event[1].text, "rewind: a loss of 9 at step 4, back to step 3");
	report_release(&r);
	str_release(&s);
}

/* A run that is stopped resumes without a step twice, then with one; a line says both. */
static void
stops(void)
{
	struct report_run r;
	struct str s = { 0 };
	struct err e;

	step(&s, 1, "5");
	str_adds(&s,
	    "{\"iteration\": 1, \"stopped_by\": \"SIGTERM\", \"time\": 7}\n"
	    "{\"iteration\": 1, \"resumed_on_ranks\": 2, \"time\": 8}\n");
	step(&s, 2, "4");
	str_adds(&s, "{\"iteration\": 1, \"resumed_on_ranks\": 1, \"time\": 8}\n");
	step(&s, 2, "4");
	CHECK(read_text(&r, &s, &e) == 0);
	CHECK(r.steps.count == 2 && r.earlier.count == 1 && r.broken == 0 && r.num_events == 3);
	CHECK(r.event[0].kind == REPORT_STOP && r.event[1].kind == REPORT_RESUME);
	CHECK_STR(r.event[0].text, "stopped after step 1 by SIGTERM");
	CHECK_STR(r.event[1].text, "resumed after step 1, on 2 ranks");
	CHECK_STR(r.event[2].text, "resumed: steps 2 to 2 were taken again");
	report_release(&r);
	str_release(&s);
}

/* A run that stood still for two and a half hours, and one step that was saved slowly. */
static void
pauses(void)
{
	struct report_run r;
	struct str s = { 0 }, text = { 0 };
	struct err e;
	double now = 1e9;

	for (int i = 1; i <= 200; i++) {
		now += i == 77 ? 9002 : i == 90 ? 42 : 2;
		str_addf(&s,
		    "{\"iteration\": %d, \"lm_loss\": 1, \"seconds\": 2, \"time\": %.3f}\n", i,
		    now);
	}
	CHECK(read_text(&r, &s, &e) == 0);
	CHECK(r.num_events == 1 && r.event[0].kind == REPORT_PAUSE && r.event[0].iteration == 77);
	CHECK_STR(r.event[0].text, "2.5 hours without a step before step 77");
	report_duration(119.9, "", "", &text);
	report_duration(120, " ", ". ", &text);
	report_duration(1e6, "", "", &text);
	CHECK_STR(text.buf, "119.9s2 min. 11.6days");
	report_release(&r);
	str_release(&s);
	str_release(&text);
}

/* A constant stays what it is from the first point on, whatever is missing; after a jump half of
 * the way is made in a half-life. */
static void
smoothing(void)
{
	enum { N = 2000 };
	double x[N], y[N], out[N], jump[] = { 3, NAN, 1 };

	for (int i = 0; i < N; i++) {
		x[i] = i;
		y[i] = i % 7 == 3 ? NAN : 2.5;
	}
	report_smooth(x, y, N, 20, out);
	for (int i = 0; i < N; i++)
		CHECK(i % 7 == 3 ? isnan(out[i]) : fabs(out[i] - 2.5) < 1e-12);
	for (int i = 0; i < N; i++)
		y[i] = i >= 1000;
	report_smooth(x, y, N, 20, out);
	CHECK_NEAR(out[1019], 0.5, 1e-9);
	CHECK_NEAR(out[1039], 0.75, 1e-9);
	/* Without a bias the second of two points counts more, not the first twice. */
	report_smooth(x, y + 999, 2, 1, out);
	CHECK_NEAR(out[1], 2. / 3, 1e-12);
	CHECK(report_median(jump, 3) == 3 && isnan(report_median(jump + 1, 1)));
}

/* Texts of others do not become markup, and the page is one file that asks for nothing. */
static void
page(void)
{
	struct report_device device = { 0 };
	struct report_run r;
	struct str s = { 0 }, out = { 0 };
	const char *sample = "</pre><script>alert(1)</script>";
	struct err e;

	for (int i = 1; i < 40; i++)
		step(&s, i, i == 20 ? "null" : "4.5");
	str_adds(&s, "{\"iteration\": 9, \"corpus\": \"<b>&\", \"epochs\": 0.5}\n");
	CHECK(read_text(&r, &s, &e) == 0);
	r.label = "a <i>run</i>";
	r.plan.why_not = "none";
	report_html(&(struct report_page){ "\"title\" <u>", &r, 1, &device, &sample, 1 }, &out);
	CHECK(strstr(out.buf, "<script") == NULL && strstr(out.buf, "<b>") == NULL);
	CHECK(strstr(out.buf, "<i>run") == NULL && strstr(out.buf, "<u>") == NULL);
	CHECK(strstr(out.buf, "&lt;b&gt;&amp;") != NULL);
	CHECK(strstr(out.buf, " src=") == NULL && strstr(out.buf, " href=") == NULL);
	CHECK(strstr(out.buf, "url(") == NULL && strstr(out.buf, "@import") == NULL);
	CHECK(strstr(out.buf, "1 step has a loss that is not a number") != NULL);
	CHECK(utf8_valid(out.buf, out.len));
	CHECK(!memcmp(out.buf, report_file.head, report_file.bytes));
	report_release(&r);
	str_release(&s);
	str_release(&out);
}

int
main(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0);
	broken();
	again();
	stops();
	pauses();
	smoothing();
	page();
	remove(path);
	return check_done();
}
