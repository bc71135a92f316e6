/* relay.c - tests of two threads that pass buffers on: order, and who hears of a failure */
#include "lib/base/relay.h"
#include "tests/check.h"

struct run {
	int64_t filled, emptied, fill_fails, empty_fails; /* a failure at that buffer; -1: none */
	long long sum;
};

static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	struct run *r = ctx;
	long long x = 3 * i;

	CHECK(i == r->filled++);
	memcpy(buffer, &x, sizeof x);
	return i == r->fill_fails ? err_set(e, "cannot fill %lld", (long long)i) : 0;
}

static int
empty(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	struct run *r = ctx;
	long long x;

	CHECK(i == r->emptied++);
	memcpy(&x, buffer, sizeof x);
	CHECK(x == 3 * i);
	r->sum += x;
	return i == r->empty_fails ? err_set(e, "cannot empty %lld", (long long)i) : 0;
}

static void
test_run(int64_t count, int64_t fill_fails, int64_t empty_fails)
{
	struct run run = { 0, 0, fill_fails, empty_fails, 0 };
	const struct relay r = { count, sizeof(long long), fill, empty, &run };
	struct err e = { "" };
	int rc = relay_run(&r, &e);

	if (fill_fails < 0 && empty_fails < 0) {
		CHECK(rc == 0 && run.emptied == count && run.filled == count);
		CHECK(run.sum == 3 * count * (count - 1) / 2);
	} else if (fill_fails >= 0) {
		CHECK(rc == -1 && run.emptied == fill_fails && run.filled == fill_fails + 1);
		CHECK(strstr(e.msg, "cannot fill") != NULL);
	} else {
		CHECK(rc == -1 && run.emptied == empty_fails + 1);
		CHECK(run.filled <= empty_fails + RELAY_BUFFERS + 1);
		CHECK(strstr(e.msg, "cannot empty") != NULL);
	}
}

int
main(void)
{
	static const int64_t counts[] = { 0, 1, 2, RELAY_BUFFERS, 1000 };

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		test_run(counts[i], -1, -1);
		if (counts[i] == 0)
			continue;
		test_run(counts[i], counts[i] / 2, -1);
		test_run(counts[i], -1, counts[i] / 2);
	}
	return check_done();
}
