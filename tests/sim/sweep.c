/* sweep.c - every call fails once */
#include "tests/sim/sweep.h"
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "tests/sim/crowd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	enum call call;
	int err;
} swept[] = { { CALL_OPEN, EIO }, { CALL_READ, EIO }, { CALL_WRITE, ENOSPC }, { CALL_FSYNC, EIO },
	{ CALL_CLOSE, EIO }, { CALL_RENAME, EIO }, { CALL_MKDIR, ENOSPC }, { CALL_UNLINK, EIO },
	{ CALL_LINK, EIO }, { CALL_TRUNCATE, EIO }, { CALL_FLOCK, ENOLCK }, { CALL_LOOK, EIO },
	{ CALL_LIST, EIO }, { CALL_MMAP, ENOMEM }, { CALL_THREAD, EAGAIN },
	{ CALL_MEMORY, ENOMEM } };
enum { SWEPT = sizeof swept / sizeof *swept };

/* What fails, in the order of the loops. */
struct state {
	const struct sweep *x;
	struct continued *continued;
	int layout, kind, on, rank, half, combination;
	long at;
	bool ended; /* a run has not come to the call: the combination is done */
	bool late;  /* the time is over: none is begun */
	long runs[LAYOUTS][SWEPT], failed[LAYOUTS];
};

/* Sets the next combination; false after the last. Runs of other tools have no half. */
static bool
advance(struct state *s)
{
	const struct layout *x = &layouts[s->layout];

	s->ended = false;
	s->at = 1;
	s->combination++;
	if (++s->rank < x->ranks)
		return true;
	s->rank = 0;
	if (++s->on < 2)
		return true;
	s->on = 0;
	if (++s->half < 2 && !x->tool)
		return true;
	s->half = 0;
	if (++s->kind < SWEPT)
		return true;
	s->kind = 0;
	return s->x->options->layout < 0 && ++s->layout < LAYOUTS;
}

static bool
is_of_part(const struct state *s)
{
	return s->combination % s->x->parts == s->x->part - 1;
}

static bool
next_call(void *ctx, struct case_options *o)
{
	struct state *s = ctx;

	while (!s->late && (s->ended || s->combination < s->x->from || !is_of_part(s))) {
		if (!advance(s))
			return false;
		s->late = s->x->until && clock_seconds() > s->x->until;
	}
	if (s->late)
		return false;
	*o = *s->x->options;
	o->seed = 1;
	o->layout = s->layout;
	o->mark = s->combination;
	o->begins = s->half ? BEGIN_HALF : BEGIN_START;
	o->continued = s->continued;
	o->num_strikes = 1;
	o->strike[0] = (struct strike){ .kind = s->on ? STRIKE_FAIL_ON : STRIKE_FAIL,
		.rank = s->rank,
		.call = swept[s->kind].call,
		.at = s->at,
		.err = swept[s->kind].err };
	s->at += s->x->stride;
	return true;
}

static void
take_call(void *ctx, const struct case_options *o, const struct result *r)
{
	struct state *s = ctx;
	const struct strike *x = &o->strike[0];
	bool struck = r->happened[x->kind] > 0 || !r->ended;

	if (!struck && o->mark == s->combination)
		s->ended = true;
	for (int i = 0; i < SWEPT; i++)
		s->runs[o->layout][i] += struck && swept[i].call == x->call;
	if (!r->failed)
		return;
	s->failed[o->layout]++;
	printf("FAILED --layout %s%s --faults %s:%s:%ld:%d:%d: %s", layouts[o->layout].name,
	    o->begins == BEGIN_HALF ? " --half" : "",
	    x->kind == STRIKE_FAIL_ON ? "fail-on" : "fail", call_names[x->call], x->at, x->rank,
	    x->err, r->why);
	printf("%s", strchr(r->why, '\n') ? "" : "\n");
	fflush(stdout);
}

/* A row for each layout, a column for each kind of call. Returns the runs that failed. */
static long
print(const struct state *s)
{
	long all = 0, failed = 0;

	for (int i = 0; i < SWEPT; i++)
		printf("\t%s", call_names[swept[i].call]);
	printf("\tfailures\n");
	for (int k = 0; k < LAYOUTS; k++) {
		long runs = 0;

		for (int i = 0; i < SWEPT; i++)
			runs += s->runs[k][i];
		all += runs;
		failed += s->failed[k];
		if (!runs)
			continue;
		printf("%s", layouts[k].name);
		for (int i = 0; i < SWEPT; i++)
			printf("\t%ld", s->runs[k][i]);
		printf("\t%ld\n", s->failed[k]);
	}
	printf("%ld calls failed, %ld runs did not end as they should\n", all, failed);
	if (s->late)
		printf("the time is over: continue with --from %d\n", s->combination);
	return failed;
}

int
sweep_run(const struct sweep *x, struct err *e)
{
	struct state s = {
		.x = x, .layout = x->options->layout < 0 ? 0 : x->options->layout, .at = 1
	};
	struct crowd crowd = { .jobs = x->jobs, .next = next_call, .take = take_call, .ctx = &s };

	s.continued = crowd_shared(sizeof *s.continued);
	if (!s.continued)
		return err_set(e, "no memory for the states of disks");
	if (crowd_run(&crowd, e) < 0)
		return -1;
	return print(&s) ? EXIT_FAILED : EXIT_DONE;
}
