/*
 * leave.c - what a run says of its end
 *
 * The seconds of a stop are those of the last step and the last save. Before the first save only
 * the step's are known.
 */
#include "lib/base/prog.h"
#include "lib/base/str.h"
#include "lib/ckpt/ckpt.h"
#include "train/config/start.h"
#include "train/run/iteration.h"
#include "train/run/leave.h"
#include "train/state/saver.h"
#include "train/watch/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* mpirun's default for half of what it leaves its ranks. */
enum { SIGKILL_TIMEOUT = 1 };

/* Seconds from TERM or Ctrl-C on mpirun to its KILL; 0: nothing limits the stop. */
static double
allowed(void)
{
	const char *set = getenv("OMPI_MCA_odls_base_sigkill_timeout");
	double half = set ? strtod(set, NULL) : SIGKILL_TIMEOUT;

	if (!getenv("OMPI_COMM_WORLD_SIZE") || getenv(LEAVE_LAUNCHED))
		return 0;
	return half > 0 ? 2 * half : 0;
}

void
leave_begin(void)
{
	const char *launched = getenv(LEAVE_LAUNCHED);

	if (launched && !strcmp(launched, LEAVE_TERMINAL))
		prog_terminal();
}

void
leave_expect(struct run *r)
{
	double save = saver_seconds(r->saver), takes = r->step_seconds + save, least = allowed();

	if (!r->saver || r->e->rank != 0)
		return;
	stop_expect(takes);
	if (r->told || !least || takes <= least)
		return;
	r->told = true;
	note("Ctrl-C or TERM on mpirun leaves %.0f s, and %s %.0f: steps that are not saved would "
	     "be lost; --ranks or --launch leave all the time, as do USR1 to mpirun and "
	     "OMPI_MCA_odls_base_sigkill_timeout=%.0f",
	    least, save > 0 ? "a step and a save take" : "a step takes", ceil(takes), ceil(takes));
}

void
leave_parts(const struct run *r)
{
	const struct run_parts *p = &r->parts;
	double all = prog_seconds(), steps = all - p->start - p->saves - p->evaluation - p->back,
	       lost = p->taken ? steps * (double)p->lost / (double)p->taken : 0;

	if (r->e->rank != 0 || prog_level() <= 0)
		return;
	note("of %.1f s %.1f %% were steps that count, %.1f %% saves, %.1f %% evaluation, %.1f %% "
	     "the start, %.1f %% steps that a rewind lost",
	    all, 100 * (steps - lost) / all, 100 * p->saves / all, 100 * p->evaluation / all,
	    100 * p->start / all, 100 * (p->back + lost) / all);
}

void
leave_say(const struct run *r, const char *why)
{
	const struct train_config *c = r->c;
	bool alone = r->e->groups.world->size == 1 && !getenv("OMPI_COMM_WORLD_SIZE");
	char dir[IO_PATH], *path;

	note("stopped after iteration %lld by %s; %s", (long long)r->at.iteration, why,
	    train_way_on(c));
	if (!c->o.save)
		return;
	ckpt_iter_dir(c->o.save, r->at.iteration, dir);
	path = realpath(dir, NULL);
	if (path)
		note("saved as '%s' in %.1f s%s%s", path, saver_seconds(r->saver),
		    alone && train_repeats(c) ? "; to continue: " : "",
		    alone && train_repeats(c) ? c->command.buf : "");
	free(path);
}

void
leave_lost(const struct run *r)
{
	const struct train_config *c = r->c;
	int64_t last = metrics_last(c->o.metrics_file);
	bool resumed = c->start == START_RESUME;

	if (c->goes_back || last <= r->at.iteration ||
	    !(resumed ? train_continues(c) : lock_left(r->lock)))
		return;
	note("the last run ended at iteration %lld without saving; %s %lld", (long long)last,
	    resumed ? "continuing from" : "starting again from", (long long)r->at.iteration);
}
