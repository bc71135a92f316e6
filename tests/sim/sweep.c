/* sweep.c - every call fails once */
#include "tests/sim/sweep.h"
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
	{ CALL_LINK, EIO }, { CALL_FLOCK, ENOLCK }, { CALL_LOOK, EIO }, { CALL_LIST, EIO },
	{ CALL_MMAP, ENOMEM }, { CALL_THREAD, EAGAIN }, { CALL_MEMORY, ENOMEM } };
enum { SWEPT = sizeof swept / sizeof *swept };

/* What fails, in the order of the loops. */
struct sweep {
	const struct case_options *options;
	long stride, at;
	int kind, on, rank, half, combination;
	bool ended; /* a run has not come to the call: the combination is done */
	long runs[SWEPT], failed;
};

/* Sets the next combination; false after the last. */
static bool
advance(struct sweep *s)
{
	s->ended = false;
	s->at = 1;
	s->combination++;
	if (++s->rank < layouts[s->options->layout].ranks)
		return true;
	s->rank = 0;
	if (++s->on < 2)
		return true;
	s->on = 0;
	if (++s->half < 2)
		return true;
	s->half = 0;
	return ++s->kind < SWEPT;
}

static bool
next_call(void *ctx, struct case_options *o)
{
	struct sweep *s = ctx;

	if (s->ended && !advance(s))
		return false;
	*o = *s->options;
	o->seed = 1;
	o->mark = s->combination;
	o->begins = s->half ? BEGIN_HALF : BEGIN_START;
	o->num_strikes = 1;
	o->strike[0] = (struct strike){ .kind = s->on ? STRIKE_FAIL_ON : STRIKE_FAIL,
		.rank = s->rank,
		.call = swept[s->kind].call,
		.at = s->at,
		.err = swept[s->kind].err };
	s->at += s->stride;
	return true;
}

static void
take_call(void *ctx, const struct case_options *o, const struct result *r)
{
	struct sweep *s = ctx;
	const struct strike *x = &o->strike[0];
	bool struck = r->happened[x->kind] > 0 || !r->ended;

	if (!struck && o->mark == s->combination)
		s->ended = true;
	for (int i = 0; i < SWEPT; i++)
		s->runs[i] += struck && swept[i].call == x->call;
	if (!r->failed)
		return;
	s->failed++;
	printf("FAILED --layout %s%s --faults %s:%s:%ld:%d:%d: %s", layouts[o->layout].name,
	    o->begins == BEGIN_HALF ? " --half" : "",
	    x->kind == STRIKE_FAIL_ON ? "fail-on" : "fail", call_names[x->call], x->at, x->rank,
	    x->err, r->why);
	printf("%s", strchr(r->why, '\n') ? "" : "\n");
	fflush(stdout);
}

int
sweep_run(const struct case_options *o, int jobs, long stride, struct err *e)
{
	struct case_options options = *o;
	struct sweep s = { .options = &options, .stride = stride, .at = 1 };
	struct crowd crowd = { .jobs = jobs, .next = next_call, .take = take_call, .ctx = &s };
	long runs = 0;

	options.layout = o->layout < 0 ? 0 : o->layout;
	if (crowd_run(&crowd, e) < 0)
		return -1;
	for (int i = 0; i < SWEPT; i++) {
		printf("%s\t%ld\n", call_names[swept[i].call], s.runs[i]);
		runs += s.runs[i];
	}
	printf("%s: %ld calls failed, %ld runs did not end as they should\n",
	    layouts[options.layout].name, runs, s.failed);
	return s.failed ? EXIT_FAILED : EXIT_DONE;
}
