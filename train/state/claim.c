/*
 * claim.c - one run per --save directory
 *
 * Two runs in one directory would overwrite each other's files, and both would fail. A requeued job
 * finds its own lock, whose holder has ended, and continues.
 */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/state/claim.h"
#include "train/watch/stop.h"

static bool
asked_to_stop(void)
{
	return stop_signal() != NULL;
}

struct lock *
claim_save(const struct train_config *c, struct err *err)
{
	const struct lock_terms how = {
		.by_force = c->o.break_lock, .say = cli_note, .give_up = asked_to_stop
	};
	struct err why;
	struct lock *lock;

	if (ckpt_make_save(c->o.save, err) < 0)
		return NULL;
	lock = ckpt_claim(c->o.save, &how, &why);
	if (!lock)
		err_set(err, "--save %s: %s; give another directory, or --break-lock", c->o.save,
		    why.msg);
	return lock;
}

void
claim_forget(struct train_config *c)
{
	c->o.break_lock = false;
	c->o.ckpt_step = -1;
}

int
claim_set_aside(const struct train_config *c, int64_t iteration, struct err *err)
{
	char first[IO_PATH];
	int n = ckpt_set_aside(c->o.save, iteration, c->lock, first, err);

	if (n > 0)
		note("--save %s: %d checkpoint%s later than iteration %lld, from which the run "
		     "continues, "
		     "%s moved aside: %s%s",
		    c->o.save, n, n == 1 ? "" : "s", (long long)iteration, n == 1 ? "is" : "are",
		    first, n == 1 ? "" : " and so on");
	return n < 0 ? -1 : 0;
}
