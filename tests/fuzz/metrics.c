/* metrics.c - fuzz target of mplan report: a metrics file and the page of what it holds, which
 * stays a page whatever the figures are */
#include "lib/base/utf8.h"
#include "plan/report.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	struct report_device device = { 0 };
	struct report_run r;
	struct str page = { 0 };
	struct err e;

	if (report_read(&r, input_file(&file, data, size), &e) == 0) {
		r.label = "a run";
		r.plan.why_not = "none";
		report_html(&(struct report_page){ "title", &r, 1, &device, NULL, 0 }, &page);
		if (!utf8_valid(page.buf, page.len) || strstr(page.buf, "<script") ||
		    strstr(page.buf, "\"nan") || strstr(page.buf, "\"inf"))
			BUG("a page that is no page");
	}
	str_release(&page);
	report_release(&r);
	return 0;
}
