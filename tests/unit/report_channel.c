/* report_channel.c - a report arrives whole; packets without the run's number are dropped */
#include "lib/base/clock.h"
#include "tests/check.h"
#include "train/watch/report_channel.h"

/* A world of one sends to itself. */
static void
test_own_receiver(struct comm *world)
{
	const struct report sent = { 1.5, false, false,
		{ COMM_DATA, "all-reduce", "train/x.c:1", 7, 64 },
		{ .last = COMM_DATA, .calls = { [COMM_DATA] = 7 } } };
	struct report_channel *p = report_channel_open(world);
	double since = clock_seconds();
	struct report_message news;

	CHECK(report_channel_host(p, 0)[0] != '\0');
	report_channel_wake(p);
	news = report_channel_receive(p, 10000);
	CHECK(news.kind == MESSAGE_NONE && clock_seconds() - since < 5);
	report_channel_send(p, &sent);
	news = report_channel_receive(p, 10000);
	CHECK(news.kind == MESSAGE_REPORT && news.rank == 0);
	CHECK(news.report.waited == 1.5 && news.report.at.number == 7);
	CHECK(news.report.at.bytes == 64);
	CHECK(news.report.at.role == COMM_DATA && news.report.made.calls[COMM_DATA] == 7);
	CHECK_STR(news.report.at.kind, "all-reduce");
	CHECK_STR(news.report.at.site, "train/x.c:1");
	report_channel_close(p);
}

/* Before the addresses are known. */
static void
test_no_post(void)
{
	double since = clock_seconds();

	CHECK(report_channel_receive(NULL, 20).kind == MESSAGE_NONE);
	CHECK(clock_seconds() - since >= 0.019);
}

int
main(void)
{
	struct err e;
	struct comm *world = mpi_world(&e);

	CHECK(world != NULL);
	if (world)
		test_own_receiver(world);
	test_no_post();
	mpi_end();
	return check_done();
}
