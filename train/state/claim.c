/*
 * claim.c - one run per --save directory
 *
 * Two runs in one directory would overwrite each other's files, and both would fail. A requeued job
 * finds its own lock, whose holder has ended, and continues.
 */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/run/stop.h"
#include "train/state/claim.h"

static bool
asked_to_stop(void)
{
	return stop_signal() != NULL;
}

/* --break-lock and --ckpt-step are for one start only, but a checkpoint's options serve later
 * starts too, so they are cleared. The directory was examined before the lock was taken: a fresh
 * run must not find a checkpoint. */
struct lock *
claim_save(struct train_config *c, struct err *err)
{
	const struct lock_terms how = {
		.by_force = c->o.break_lock, .say = cli_note, .give_up = asked_to_stop
	};
	bool fresh = c->start == START_FRESH || (c->start == START_WEIGHTS && train_continues(c));
	int64_t iteration;
	struct err why;
	struct lock *lock;

	c->o.break_lock = false;
	c->o.ckpt_step = -1;
	if (ckpt_make_save(c->o.save, err) < 0)
		return NULL;
	lock = ckpt_claim(c->o.save, &how, &why);
	if (!lock) {
		err_set(err, "--save %s: %s; give another directory, or --break-lock", c->o.save,
		    why.msg);
		return NULL;
	}
	if (!fresh || ckpt_tracker(c->o.save, &iteration, err) == 0)
		return lock;
	err_set(
	    err, "--save %s: another run has saved a checkpoint meanwhile; start again", c->o.save);
	lock_release(lock);
	return NULL;
}

int
claim_set_aside(const struct train_config *c, int64_t iteration, struct err *err)
{
	char first[1024];
	int n = ckpt_set_aside(c->o.save, iteration, first, err);

	if (n > 0)
		note("--save %s: %d checkpoint%s later than iteration %lld, from which the run "
		     "continues, "
		     "%s moved aside: %s%s",
		    c->o.save, n, n == 1 ? "" : "s", (long long)iteration, n == 1 ? "is" : "are",
		    first, n == 1 ? "" : " and so on");
	return n < 0 ? -1 : 0;
}
