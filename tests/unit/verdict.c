/* verdict.c - which rank is named when one has waited too long */
#include "tests/check.h"
#include "train/run/verdict.h"

enum { RANKS = 4, LIMIT = 10 };

/* All ranks have just reported, and have waited for `waited` seconds in the same call. */
static void
all_wait(struct seen rank[RANKS], double waited)
{
	const struct place at = { "data ranks", "all-reduce", "train/engine/grads.c:20", 7, 64 };

	for (int i = 0; i < RANKS; i++)
		rank[i] = (struct seen){ "node", { waited, at }, true, 1 };
}

/* The line of the verdict; empty: none. */
static void
check_line(const struct seen rank[RANKS], const char *line)
{
	struct verdict v = verdict_of(rank, RANKS, LIMIT);
	struct str text = { 0 };

	str_adds(&text, "");
	if (v.waits >= 0)
		verdict_text(rank, &v, &text);
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
	    "it waits itself, in exchange 7 of data ranks (64 bytes, train/engine/grads.c:20)");
}

/* One has skipped a call and is in another one: it is named although it has waited longest, unless
 * the others began later. */
static void
test_elsewhere(void)
{
	struct seen rank[RANKS];

	all_wait(rank, LIMIT);
	rank[2].report = (struct report){ LIMIT + 1,
		{ "all ranks", "all-gather", "train/run/iteration.c:9", 3, 96 } };
	check_line(rank,
	    "rank 0 (node) has waited 10.0 s in " CALL "; rank 2 (node) has not come: "
	    "it waits itself, in all-gather 3 of all ranks (96 bytes, train/run/iteration.c:9)");
	for (int i = 0; i < RANKS; i++)
		rank[i].report.waited -= i == 2 ? 1 : LIMIT - 4;
	check_line(rank,
	    "rank 2 (node) has waited 10.0 s in all-gather 3 of all ranks (96 bytes, "
	    "train/run/iteration.c:9); rank 0 (node) has not come: it waits itself, in " CALL);
}

int
main(void)
{
	test_nobody();
	test_silent();
	test_at_work();
	test_all_wait();
	test_elsewhere();
	return check_done();
}
