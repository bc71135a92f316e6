/* post.c - a report arrives whole; packets without the run's number are dropped */
#include "lib/base/clock.h"
#include "tests/check.h"
#include "train/watch/post.h"

/* A world of one sends to itself. */
static void
test_own_office(struct comm *world)
{
	const struct report sent = { 1.5, false, false,
		{ COMM_DATA, "all-reduce", "train/x.c:1", 7, 64 },
		{ .last = COMM_DATA, .calls = { [COMM_DATA] = 7 } } };
	struct post *p = post_open(world);
	double since = clock_seconds();
	struct post_news news;

	CHECK(post_host(p, 0)[0] != '\0');
	post_wake(p);
	news = post_receive(p, 10000);
	CHECK(news.kind == POST_NONE && clock_seconds() - since < 5);
	post_send(p, &sent);
	news = post_receive(p, 10000);
	CHECK(news.kind == POST_REPORT && news.rank == 0);
	CHECK(news.report.waited == 1.5 && news.report.at.number == 7);
	CHECK(news.report.at.bytes == 64);
	CHECK(news.report.at.role == COMM_DATA && news.report.made.calls[COMM_DATA] == 7);
	CHECK_STR(news.report.at.kind, "all-reduce");
	CHECK_STR(news.report.at.site, "train/x.c:1");
	post_close(p);
}

/* Before the addresses are known. */
static void
test_no_post(void)
{
	double since = clock_seconds();

	CHECK(post_receive(NULL, 20).kind == POST_NONE);
	CHECK(clock_seconds() - since >= 0.019);
}

int
main(void)
{
	struct err e;
	struct comm *world = mpi_world(&e);

	CHECK(world != NULL);
	if (world)
		test_own_office(world);
	test_no_post();
	mpi_end();
	return check_done();
}
