/* hang_report.c - which rank is named when one has waited too long */
#include "tests/check.h"
#include "train/watch/hang_report.h"

enum { RANKS = 4, LIMIT = 10 };

/* All ranks have just reported, and have waited for `waited` seconds in the same call. */
static void
all_wait(struct seen rank[RANKS], double waited)
{
	const struct place at = { COMM_DATA, "all-reduce", "train/engine/grads.c:20", 7, 64 };

	for (int i = 0; i < RANKS; i++)
		rank[i] = (struct seen){ "node", { waited, false, false, at, { 0 } }, true, 1 };
}

/* The line of the report; empty: none. */
static void
check_line(const struct seen rank[RANKS], const char *line)
{
	struct hang_report v = hang_report_of(rank, RANKS, LIMIT);
	struct str text = { 0 };

	str_adds(&text, "");
	if (v.waits >= 0)
		hang_report_text(rank, &v, &text);
	CHECK_STR(text.buf ? text.buf : "", line);
	str_release(&text);
}

#define CALL "all-reduce 7 of data ranks (64 bytes, train/engine/grads.c:20)"

static void
test_nobody(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT - 1);
	check_line(rank, "");
	all_wait(rank, -1);
	check_line(rank, "");
	/* The last report of a silent rank does not count as a wait. */
	rank[1].report.waited = LIMIT + 1;
	rank[1].silence = LIMIT;
	check_line(rank, "");
}

static void
test_silent(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT);
	rank[1].report.waited = LIMIT + 1;
	rank[2].silence = LIMIT + 2;
	rank[2].host = "away";
	rank[3].report.waited = -1; /* alive and computing: not the first to be named */
	check_line(rank,
	    "rank 1 (node) has waited 11.0 s in " CALL "; rank 2 (away) has not come: "
	    "not a word from it for 12.0 s, last seen in " CALL);
	for (int i = 1; i < 3; i++) {
		rank[i].placed = true;
		rank[i].rail = i;
		rank[i].number = i == 1 ? 4 : -1;
	}
	check_line(rank,
	    "rank 1 (node#4, rail 1) has waited 11.0 s in " CALL "; rank 2 (away, rail 2) has not "
	    "come: not a word from it for 12.0 s, last seen in " CALL);
	rank[1].placed = rank[2].placed = false;
	rank[2].report.waited = -1;
	rank[3].silence = LIMIT;
	check_line(rank,
	    "rank 1 (node) has waited 11.0 s in " CALL "; rank 2 (away), as 1 more, has not come: "
	    "not a word from it for 12.0 s, last seen after " CALL);
	rank[2].heard = false;
	rank[3].silence = 0;
	check_line(rank,
	    "rank 1 (node) has waited 11.0 s in " CALL "; rank 2 (away) has not come: "
	    "not a word from it for 12.0 s");
}

static void
test_at_work(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT);
	rank[3].report.waited = -1;
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in " CALL "; rank 3 (node) has not come: "
	    "it has called nothing since " CALL);
	rank[3].report.computes = true;
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in " CALL "; rank 3 (node) has not come: "
	    "its device has not come further than " CALL);
	rank[3].report.at.number = 0;
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in " CALL "; rank 3 (node) has not come: "
	    "it has called nothing yet");
}

/* All wait for something that none of them does: the last to begin is named. */
static void
test_all_wait(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT + 2);
	rank[1].report.waited = LIMIT + 1;
	strcpy(rank[1].report.at.kind, "exchange");
	check_line(rank,
	    "rank 0 (node) has waited 12.0 s in " CALL "; rank 1 (node) has not come: "
	    "it waits too, in exchange 7 of data ranks (64 bytes, train/engine/grads.c:20)");
}

/* One has skipped a call and is in another one: it is named although it has waited longest, unless
 * the others began later. */
static void
test_elsewhere(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT);
	rank[2].report = (struct report){ LIMIT + 1, false, false,
		{ COMM_WORLD, "all-gather", "train/run/iteration.c:9", 3, 96 } };
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in " CALL "; rank 2 (node) has not come: "
	    "it waits too, in all-gather 3 of all ranks (96 bytes, train/run/iteration.c:9), "
	    "after 0 calls of data ranks");
	for (int i = 0; i < RANKS; i++)
		rank[i].report.waited -= i == 2 ? 1 : LIMIT - 4;
	check_line(rank,
	    "rank 2 (node) has waited 10.0 s in all-gather 3 of all ranks (96 bytes, "
	    "train/run/iteration.c:9); rank 0 (node) has not come: it waits too, in " CALL
	    ", after 0 calls of all ranks");
}

enum { T = COMM_TENSOR, D = COMM_DATA };

/* Ranks 0 and 1, 2 and 3 share matrices; 0 and 2, 1 and 3 are replicas. Rank 1 has left out a sum
 * of tensor ranks: 0 waits for it there, 2 for 0 among data ranks, 1 and 3 for 0 among all. */
static void
two_by_two(struct seen rank[RANKS])
{
	static const struct {
		int role;
		uint64_t tensor, data, all;
	} at[RANKS] = { { T, 8, 4, 2 }, { COMM_WORLD, 7, 5, 3 }, { D, 8, 5, 2 },
		{ COMM_WORLD, 8, 5, 3 } };

	all_wait(rank, LIMIT);
	for (int i = 0; i < RANKS; i++) {
		struct report *r = &rank[i].report;

		r->at.role = r->made.last = at[i].role;
		r->made.calls[T] = at[i].tensor;
		r->made.calls[D] = at[i].data;
		r->made.calls[COMM_WORLD] = at[i].all;
		r->at.number = r->made.calls[at[i].role];
	}
}

/* The ranks are numbered on by `turn`, which changes the first of those that wait alike. */
static void
test_left_out(void)
{
	struct seen rank[RANKS], rotated[RANKS];
	struct hang_report v;

	two_by_two(rank);
	for (int turn = 0; turn < RANKS; turn++) {
		for (int i = 0; i < RANKS; i++)
			rotated[(i + turn) % RANKS] = rank[i];
		v = hang_report_of(rotated, RANKS, LIMIT);
		CHECK(v.missing == (1 + turn) % RANKS && v.waits == turn % RANKS);
		CHECK(hang_report_failed(rotated, RANKS).missing == v.missing);
	}
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in all-reduce 8 of tensor ranks (64 bytes, "
	    "train/engine/grads.c:20); rank 1 (node) has not come: it waits too, in all-reduce "
	    "3 of all ranks (64 bytes, train/engine/grads.c:20), after 7 calls of tensor ranks");
}

/* Two ranks alone cannot tell which of their orders is right; one of them differs from the step
 * before. Where neither does, a failure is nobody's. */
static void
test_of_two(void)
{
	struct seen rank[RANKS];
	struct str text = { 0 };
	struct hang_report v;

	two_by_two(rank);
	CHECK(hang_report_failed(rank, 2).missing < 0);
	rank[1].report.made.unusual = true;
	rank[0].report.waited = LIMIT - 1;
	v = hang_report_of(rank, 2, LIMIT);
	CHECK(v.missing == 1 && v.waits == 0);
	rank[0].report.failed = true;
	v = hang_report_failed(rank, 2);
	CHECK(v.missing == 1 && v.waits == 0);
	hang_report_text(rank, &v, &text);
	CHECK_STR(text.buf,
	    "rank 0 (node) has lost a peer in all-reduce 8 of tensor ranks (64 bytes, "
	    "train/engine/grads.c:20); rank 1 (node) has not come: it waits too, in all-reduce "
	    "3 of all ranks (64 bytes, train/engine/grads.c:20), after 7 calls of tensor ranks");
	str_release(&text);
}

int
main(void)
{
	test_nobody();
	test_silent();
	test_at_work();
	test_all_wait();
	test_elsewhere();
	test_left_out();
	test_of_two();
	return check_done();
}
