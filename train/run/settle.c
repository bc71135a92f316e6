/*
 * settle.c - what a run does, decided while no other run changes its --save
 *
 * Options are checked before the lock of --save is waited for, so that a mistake is told at once
 * and nothing is written. They are checked by what the directories hold, which another run may
 * change until the lock is there. So whatever was looked at is looked at once more under the lock,
 * and if anything differs, everything is decided again, from the options as they were parsed. There
 * is no second place that looks, and no rule of its own for what may have changed.
 */
#include "train/config/agree.h"
#include "train/config/config.h"
#include "train/config/start.h"
#include "train/run/settle.h"
#include "train/state/claim.h"

#include <string.h>

/* Collective. */
static int
decide(struct train_config *c, struct comm *world, struct err *e)
{
	int rc = train_configure(c, world->size, e);

	return comm_agree(COMM_HERE(world), rc, e) ? -1 : agree_start(world, c, e);
}

/* On rank 0: what --load and --save hold. The caller releases it. */
static struct str
look(const struct train_config *c, const struct comm *world)
{
	struct str seen = { 0 };

	if (world->rank == 0)
		train_seen(c, &seen);
	return seen;
}

/* Collective: claims --save. *changed, on all ranks: --load or --save holds something else than
 * `before`. */
static int
claim(struct train_config *c, struct comm *world, const struct str *before, bool *changed,
    struct err *e)
{
	int64_t differs = 0;
	struct tensor t = tensor_1d(&differs, DTYPE_I64, 1);
	struct str now;

	if (world->rank == 0)
		c->lock = claim_save(c, e);
	if (comm_agree(COMM_HERE(world), world->rank == 0 && !c->lock ? -1 : 0, e)) {
		c->unreadable = true;
		return -1;
	}
	now = look(c, world);
	differs = now.len != before->len || (now.len && memcmp(now.buf, before->buf, now.len));
	str_release(&now);
	world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ t, 0 });
	*changed = differs != 0;
	return 0;
}

int
settle(struct train_config *c, struct comm *world, struct err *e)
{
	const struct train_options *o = &c->o;
	bool claims = o->save && !o->skip_train && !o->tokens_file && !o->generate, changed = false;
	struct str before = { 0 };
	struct train_parsed parsed;
	int rc;

	if ((o->pretend_hosts > 1 && mpi_pretend_hosts(world, o->pretend_hosts, e) < 0) ||
	    mpi_levels(world, e) < 0)
		return -1;
	c->hosts = mpi_hosts(world);
	train_keep(c, &parsed);
	if (claims)
		before = look(c, world);
	rc = decide(c, world, e);
	if (rc == 0 && claims)
		rc = claim(c, world, &before, &changed, e);
	if (rc == 0 && changed) {
		train_restore(c, &parsed);
		rc = decide(c, world, e);
	}
	if (rc < 0) {
		lock_release(c->lock);
		c->lock = NULL;
	}
	if (claims)
		claim_forget(c);
	str_release(&before);
	train_parsed_release(&parsed);
	return rc;
}
