/* sweep.c - every call fails once */
#include "tests/sim/sweep.h"
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "tests/sim/crowd.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	enum call call;
	int err;
} swept[] = { { CALL_OPEN, EIO }, { CALL_READ, EIO }, { CALL_WRITE, ENOSPC }, { CALL_FSYNC, EIO },
	{ CALL_CLOSE, EIO }, { CALL_RENAME, EIO }, { CALL_MKDIR, ENOSPC }, { CALL_UNLINK, EIO },
	{ CALL_LINK, EIO }, { CALL_TRUNCATE, EIO }, { CALL_FLOCK, ENOLCK }, { CALL_LOOK, EIO },
	{ CALL_LIST, EIO }, { CALL_MMAP, ENOMEM }, { CALL_THREAD, EAGAIN },
	{ CALL_MEMORY, ENOMEM } };
enum { SWEPT = sizeof swept / sizeof *swept };

/* What came of all, in memory that all processes share. */
struct tally {
	struct continued continued;
	long runs[LAYOUTS][SWEPT], failed[LAYOUTS];
	long
	    unfinished; /* the lowest combination that the end of the time cut short, or LONG_MAX */
};

/* A combination is a run that nothing disturbs, with a branch for each call. */
static struct {
	const struct sweep *x;
	struct tally *tally;
	int layout, kind, on, rank, half; /* in the order of the loops */
	long combination;
	bool begun;
} sweep;

/* Sets the next combination; false after the last. Runs of other tools have no half. */
static bool
advance(void)
{
	const struct layout *x = &layouts[sweep.layout];

	sweep.combination++;
	if (++sweep.rank < x->ranks)
		return true;
	sweep.rank = 0;
	if (++sweep.on < 2)
		return true;
	sweep.on = 0;
	if (++sweep.half < 2 && !x->tool)
		return true;
	sweep.half = 0;
	if (++sweep.kind < SWEPT)
		return true;
	sweep.kind = 0;
	return sweep.x->options->layout < 0 && ++sweep.layout < LAYOUTS;
}

static bool
is_late(void)
{
	return sweep.x->until && clock_seconds() > sweep.x->until;
}

static void
lower(long *at, long value)
{
	long now = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (value < now &&
	    !__atomic_compare_exchange_n(
		at, &now, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void
take(const struct case_options *o, const struct result *r)
{
	const struct strike *x = &o->strike[0];

	if (!r->failed)
		return;
	__atomic_fetch_add(&sweep.tally->failed[o->layout], 1, __ATOMIC_RELAXED);
	printf("FAILED --layout %s%s --faults %s:%s:%ld:%d:%d: %s", layouts[o->layout].name,
	    o->begins == BEGIN_HALF ? " --half" : "",
	    x->kind == STRIKE_FAIL_ON ? "fail-on" : "fail", call_names[x->call], x->at, x->rank,
	    x->err, r->why);
	printf("%s", strchr(r->why, '\n') ? "" : "\n");
	fflush(stdout);
}

static struct result *
branch(const struct case_options *o, long n)
{
	static struct result *r;
	struct case_options here = *o;
	int status;
	pid_t pid;

	if ((n - 1) % sweep.x->stride)
		return NULL;
	if (is_late()) {
		lower(&sweep.tally->unfinished, sweep.combination);
		return NULL;
	}
	if (!r && !(r = crowd_shared(sizeof *r)))
		abort();
	memset(r, 0, sizeof *r);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		return r;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		abort();
	crowd_note_end(r, status);
	here.strike[0].at = n;
	take(&here, r);
	__atomic_fetch_add(&sweep.tally->runs[o->layout][sweep.kind], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The process of a combination begins before the next one is set, and has its copy of `sweep`. */
static bool
next(void *ctx, struct case_options *o)
{
	bool more = true;

	(void)ctx;
	if (sweep.begun)
		more = advance();
	sweep.begun = true;
	while (more &&
	    (sweep.combination < sweep.x->from ||
		sweep.combination % sweep.x->parts != sweep.x->part - 1))
		more = advance();
	if (more && is_late()) {
		lower(&sweep.tally->unfinished, sweep.combination);
		more = false;
	}
	*o = *sweep.x->options;
	o->seed = 1;
	o->layout = sweep.layout;
	o->begins = sweep.half ? BEGIN_HALF : BEGIN_START;
	o->continued = &sweep.tally->continued;
	o->branch = branch;
	o->num_strikes = 1;
	o->strike[0] = (struct strike){ .kind = sweep.on ? STRIKE_FAIL_ON : STRIKE_FAIL,
		.rank = sweep.rank,
		.call = swept[sweep.kind].call,
		.err = swept[sweep.kind].err };
	return more;
}

/* A row for each layout, a column for each kind of call. Returns the runs that failed. */
static long
print(const struct tally *t)
{
	long all = 0, failed = 0;

	for (int i = 0; i < SWEPT; i++)
		printf("\t%s", call_names[swept[i].call]);
	printf("\tfailures\n");
	for (int k = 0; k < LAYOUTS; k++) {
		long runs = 0;

		for (int i = 0; i < SWEPT; i++)
			runs += t->runs[k][i];
		all += runs;
		failed += t->failed[k];
		if (!runs)
			continue;
		printf("%s", layouts[k].name);
		for (int i = 0; i < SWEPT; i++)
			printf("\t%ld", t->runs[k][i]);
		printf("\t%ld\n", t->failed[k]);
	}
	printf("%ld calls failed, %ld runs did not end as they should\n", all, failed);
	if (t->unfinished < LONG_MAX)
		printf("the time is over: continue with --from %ld\n", t->unfinished);
	return failed;
}

/* A run that nothing disturbs and does not end as it should. */
static void
take_whole(void *ctx, const struct case_options *o, const struct result *r)
{
	(void)ctx;
	take(o, r);
}

int
sweep_run(const struct sweep *x, struct err *e)
{
	struct crowd crowd = { .jobs = x->jobs, .next = next, .take = take_whole };

	sweep.x = x;
	sweep.layout = x->options->layout < 0 ? 0 : x->options->layout;
	sweep.tally = crowd_shared(sizeof *sweep.tally);
	if (!sweep.tally)
		return err_set(e, "no memory for the states of disks");
	sweep.tally->unfinished = LONG_MAX;
	if (crowd_run(&crowd, e) < 0)
		return -1;
	return print(sweep.tally) ? EXIT_FAILED : EXIT_DONE;
}
