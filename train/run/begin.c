/*
 * begin.c - what a run continues from
 *
 * Going back before a spike restarts the run inside the process: the same loader under the same
 * rules, from a checkpoint of --save. Such a run and one that was stopped anywhere and resumed end
 * with the same bits, since all that decides (losses, rewinds) is in the checkpoints.
 */
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/config/start.h"
#include "train/data/corpus_log.h"
#include "train/data/sample_losses.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "train/run/begin.h"
#include "train/state/claim.h"
#include "train/state/load.h"
#include "train/state/saver.h"
#include "train/watch/stop.h"

#include <stdlib.h>
#include <string.h>

/* Optimizer state is left alone in runs that only go forward: their plans have no memory for it. */
int
begin_run(struct run *r, struct err *err)
{
	struct comm *world = r->e->groups.world;
	struct err ignored;
	int rc = 0;

	if (r->c->start != START_FRESH) {
		rc = load_checkpoint(r->e, r->c, &r->at, err);
	} else {
		engine_init_weights(r->e);
		optim_to_weights(r->e);
		ema_start(r->e);
	}
	if (stop_agree(world, rc < 0 ? &ignored : err) < 0) {
		r->failure = EXIT_STOPPED;
		return -1;
	}
	return rc;
}

/* --- rewinds ---------------------------------------------------------------------------------- */

/* The iteration of the newest checkpoint earlier than `before` that opens and has this order of the
 * data; -1: there is none. In a --save that the run was not loaded from, earlier checkpoints belong
 * to another run. */
static int64_t
find_back(const struct run *r, int64_t before)
{
	int64_t *all, found = -1, least = train_continues(r->c) ? 0 : r->began + 1;
	char dir[IO_PATH];
	struct err ignored;
	int i = ckpt_iterations(r->c->o.save, &all, &ignored) - 1;

	while (i >= 0 && all[i] >= before)
		i--;
	for (; i >= 0 && all[i] >= least && found < 0; i--) {
		struct ckpt *k;

		ckpt_iter_dir(r->c->o.save, all[i], dir);
		k = ckpt_open(dir, &ignored);
		if (k && ckpt_state(k)->consumed_train_samples >= data_start(r->data))
			found = all[i];
		ckpt_close(k);
	}
	free(all);
	return found;
}

/* The state is the checkpoint's except for the rewinds: it may not know all of them. Later
 * checkpoints are no longer part of the run. */
static int
go_back(struct run *r, int64_t to, struct err *err)
{
	struct train_config *c = r->c;
	struct comm *world = r->e->groups.world;
	struct spike_record *spikes = &r->at.spikes, known;
	struct metrics_rewind m = { .spike = r->spike,
		.to = to,
		.passed = spike_rewind(spikes, &c->spikes, r->spike.iteration) };
	char dir[IO_PATH];
	int rc = 0;

	known = *spikes;
	ckpt_iter_dir(c->o.save, to, dir);
	c->start = START_RESUME;
	c->weights_from = mem_pool_strndup(&c->parse.pool, dir, strlen(dir));
	c->o.load_optim = true;
	if (begin_run(r, err) < 0) {
		if (r->failure == EXIT_STOPPED)
			err_set(err, "stopped while going back to iteration %lld; %s",
			    (long long)to, train_way_on(c));
		return -1;
	}
	spikes->num_rewinds = known.num_rewinds;
	memcpy(spikes->passed, known.passed, sizeof known.passed);
	if (world->rank == 0 &&
	    (lock_check(r->lock, err) < 0 || claim_set_aside(c, r->at.iteration, err) < 0))
		rc = -1;
	if (comm_agree(COMM_HERE(world), rc, err))
		return -1;
	corpus_log_close(r->corpora);
	r->corpora = corpus_log_open(r->data, r->e, r->at.consumed_samples, err);
	if (!r->corpora)
		return -1;
	sample_losses_close(r->sample_losses);
	r->sample_losses = sample_losses_open(r->data, r->e, r->at.iteration);
	r->saved_at = to;
	if (r->metrics)
		metrics_rewind(r->metrics, &m);
	return 0;
}

/* Repeats the step; its loss counts whatever it is. */
static void
go_through(struct run *r)
{
	const struct train_config *c = r->c;

	r->spike.endured = true;
	if (r->e->rank != 0)
		return;
	if (r->at.spikes.num_rewinds >= c->spikes.times)
		note("iteration %lld: a loss of %g, and a median of %g before it: all %lld rewinds "
		     "have been taken; the run continues",
		    (long long)r->spike.iteration, r->spike.loss, r->spike.median,
		    (long long)c->spikes.times);
	else
		note("iteration %lld: a loss of %g, and a median of %g before it: no checkpoint of "
		     "this run is from before iteration %lld; the run continues",
		    (long long)r->spike.iteration, r->spike.loss, r->spike.median,
		    (long long)(r->spike.iteration - c->spikes.history));
}

/* Rank 0 looks for a checkpoint for all ranks, if --save is still this run's. Saves that were begun
 * are on the disk by then, so what is found does not depend on the disk's speed. */
int
rewind_run(struct run *r)
{
	struct comm *world = r->e->groups.world;
	int64_t to = -1;
	struct tensor t = tensor_1d(&to, DTYPE_I64, 1);
	bool may = r->at.spikes.num_rewinds < r->c->spikes.times;
	struct err err;
	int rc = may ? saver_wait(r->saver, &err) : 0;

	if (may && rc == 0)
		rc = comm_agree(COMM_HERE(world), lock_check(r->lock, &err), &err) ? -1 : 0;
	if (may && rc == 0) {
		if (world->rank == 0)
			to = find_back(r, r->spike.iteration - r->c->spikes.history);
		world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ t, 0 });
	}
	if (rc == 0 && to < 0)
		go_through(r);
	else if (rc == 0)
		rc = go_back(r, to, &err);
	if (rc < 0 && world->rank == 0)
		warn("%s", err.msg);
	return rc == 0 ? EXIT_DONE : r->failure;
}
