/*
 * loop.c - the step loop
 *
 * A step is: forward and backward of all micro batches, reduction of gradients, the step's
 * totals, update. Decisions that every rank must take alike (skip, stop, clip) follow from the
 * totals, which all ranks add in the same order from the same numbers; a rank's own clock,
 * signals and files never decide alone. The device is waited for once a step, to read the scalars;
 * the update runs while the host prepares the next step, so a step's time is that from one reading
 * to the next.
 */
#include "train/loop.h"
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "train/check.h"
#include "train/grads.h"
#include "train/pipeline.h"
#include "train/stop.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* What the ranks sum up once a step: every rank's share, then the whole. */
enum total { TOTAL_LOSS, TOTAL_ZLOSS, TOTAL_NORM, TOTAL_TOKENS, TOTAL_STOP, TOTAL_WRITTEN, TOTAL_COUNT };

/* All ranks that read a batch find what is wrong with it: the first of them says so and ends the
 * run, the others wait. */
static void bad_batch(const struct run *r, const struct err *err) __attribute__((noreturn));

/* Does not return. Ranks of one pipeline and tensor group read the same batch, so they all come
 * here; the other stages and tensor ranks keep silent for a while. */
static void
bad_batch(const struct run *r, const struct err *err)
{
	enum { PATIENCE = 5 };          /* seconds */

	if (!r->e->first_stage || r->e->coord[AX_TP] != 0) {
		prog_mute(true);
		sleep(PATIENCE);
	}
	die("%s", err->msg);
}

/* Micro batch m of this data rank. A bad batch is a matter of the files, not of this rank: there
 * is no way on, and no peer may be left waiting in a receive. */
static void
load(void *ctx, int microbatch, struct batch *out)
{
	struct run *r = ctx;
	struct prefetch_key key = { r->set, r->first_sample, microbatch };
	struct err err;
	int64_t tokens = prefetch_batch(r->prefetch, key, out, &err);

	if (tokens < 0)
		bad_batch(r, &err);
	r->tokens += tokens;
}

/* All micro batches of one global batch; sums of loss add up in the scalars and counted tokens
 * in r->tokens. Collective. */
static void
pass(struct run *r, int set, int64_t first_sample, bool training)
{
	struct pipeline p = {
		.e = r->e,
		.num_microbatches = (int)r->e->plan.shape.num_microbatches,
		.training = training,
		.iteration = (uint32_t)r->at.iteration,
		.first_sample = first_sample,
		.load = load,
		.ctx = r,
		.replay = r->replay,
		.losses = training ? corpus_log_losses(r->corpora) : NULL,
	};

	r->set = set;
	r->first_sample = first_sample;
	pipeline_run(&p);
}

/* Sums over the world in rank order; every figure is counted by the ranks that own it. In rank
 * order on every rank, hence the same bits everywhere, which clipping and skipping rely on. Loss
 * and tokens are counted by one tensor rank of one stage per data rank, the norm by the owners
 * of gradients. */
static void
totals(struct run *r, double stop, double out[TOTAL_COUNT])
{
	struct engine *e = r->e;
	struct comm *w = e->groups.world;
	double scalar[SCALAR_COUNT], mine[TOTAL_COUNT] = { 0 },
				     *all = malloc((size_t)w->size * sizeof mine);
	struct tensor in = tensor_1d(mine, DTYPE_F64, TOTAL_COUNT),
		      gathered = tensor_1d(all, DTYPE_F64, TOTAL_COUNT * w->size);

	engine_read_scalars(e, scalar);
	prefetch_passed(r->prefetch);
	if (e->last_stage && e->coord[AX_TP] == 0) {
		mine[TOTAL_LOSS] = scalar[SCALAR_LOSS];
		mine[TOTAL_ZLOSS] = scalar[SCALAR_ZLOSS];
	}
	mine[TOTAL_NORM] = scalar[SCALAR_NORM];
	if (e->first_stage && e->coord[AX_TP] == 0)
		mine[TOTAL_TOKENS] = (double)r->tokens;
	mine[TOTAL_STOP] = stop;
	mine[TOTAL_WRITTEN] = r->saver && saver_ready(r->saver);
	w->ops->all_gather(w, NULL, &gathered, &in);
	for (int k = 0; k < TOTAL_COUNT; k++) {
		out[k] = 0;
		for (int i = 0; i < w->size; i++)
			out[k] += all[i * TOTAL_COUNT + k];
	}
	free(all);
}

/* The micro batches of the step that failed, once more. */
static void
pass_again(void *ctx)
{
	struct run *r = ctx;

	pass(r, SPLIT_TRAIN, r->at.consumed_samples, true);
}

/* Names what is not finite and ends the run: nothing is saved over the last checkpoint.
 * Collective, since finding the place is. Weights and moments have not been touched by this step. */
static void
numerical_failure(struct run *r, double loss)
{
	struct str where = { 0 };
	char name[96];

	grads_first_bad(r->e, name);
	check_find(r->e, pass_again, r, &where);
	if (r->e->rank == 0)
		warn("iteration %lld: %s%s%s (loss %g); first: %s: stopping; the last checkpoint is intact",
		    (long long)r->at.iteration + 1, name[0] ? "the gradient of '" : "the loss",
		    name, name[0] ? "' is not finite" : " is not finite", fabs(loss),
		    where.len ? where.buf : "not found when the step was run again");
	str_release(&where);
}

/* The update of one step from the totals. The mean over tokens, the loss scale and clipping
 * become one factor. 1e-6 in the clipping is Megatron-LM's (core/optimizer/clip_grads.py), as is
 * leaving gradients below the limit alone. */
static void
update(struct run *r, const double sum[TOTAL_COUNT], struct step_metrics *m)
{
	struct train_config *c = r->c;
	double grad_scale = 1 / (sum[TOTAL_TOKENS] * r->e->loss_scale), factor = 1;
	struct optim_update u = {
		.lr = m->lr, .weight_decay = m->weight_decay, .step = r->at.optimizer_steps + 1
	};

	m->grad_norm = sqrt(sum[TOTAL_NORM]) * grad_scale;
	if (c->optim.clip_grad > 0 && c->optim.clip_grad / (m->grad_norm + 1e-6) < 1)
		factor = c->optim.clip_grad / (m->grad_norm + 1e-6);
	u.grad_scale = grad_scale * factor;
	optim_step(r->e, &c->optim, &u);
	r->at.optimizer_steps++;
}

/* A profile that cannot be written is no reason to stop a run. */
static void
profile_end(const struct run *r)
{
	struct err err;

	if (profile_step_end(r->profile, r->at.iteration, &err) < 0)
		warn("%s", err.msg);
}

/* One step. Returns an exit status when the run cannot go on, else EXIT_DONE; *stop: somebody
 * asked for it. Collective. The learning rate is that of the samples consumed before this step.
 * Order: totals before the update, because a step that is skipped must leave weights and moments
 * untouched. */
static int
step(struct run *r, bool *stop)
{
	struct train_config *c = r->c;
	struct engine *e = r->e;
	double sum[TOTAL_COUNT], start = r->last_total > 0 ? r->last_total : clock_seconds();
	/* A skipped step (fp16 overflow) does not move the schedules. */
	int64_t position = r->at.consumed_samples - r->at.skipped * e->plan.global_batch_size;
	struct step_metrics m = { .lr = lr_at(&c->schedule, position),
		.weight_decay = wd_at(&c->schedule, position) };
	double waited = prefetch_waits(r->prefetch).seconds;
	double asked = stop_signal() != NULL || (e->rank == 0 && stop_file(c->o.save));

	e->loss_scale = c->scaler.scale;
	r->tokens = 0;
	profile_step_begin(r->profile, r->at.iteration);
	engine_zero_scalars(e);
	pass(r, SPLIT_TRAIN, r->at.consumed_samples, true);
	grads_reduce(e);
	grads_measure(e);
	totals(r, asked, sum);
	r->last_total = clock_seconds();
	r->written = sum[TOTAL_WRITTEN] == (double)e->groups.world->size;
	m.loss_scale = e->loss_scale;
	m.lm_loss = sum[TOTAL_LOSS] / sum[TOTAL_TOKENS];
	m.z_loss = sum[TOTAL_ZLOSS] / sum[TOTAL_TOKENS];
	m.skipped = !isfinite(sum[TOTAL_NORM]) || !isfinite(m.lm_loss);
	/* An overflow at the least scale is no matter of scale. */
	if (m.skipped && (!c->scaler.dynamic || c->scaler.scale <= c->scaler.min_scale)) {
		numerical_failure(r, m.lm_loss);
		return EXIT_NUMERICAL;
	}
	scaler_update(&c->scaler, m.skipped);
	if (m.skipped)
		r->at.skipped++;
	else
		update(r, sum, &m);
	profile_end(r);
	r->at.iteration++;
	r->at.consumed_samples += e->plan.global_batch_size;
	m.iteration = r->at.iteration;
	m.consumed_samples = r->at.consumed_samples;
	m.seconds = r->last_total - start;
	m.data_wait = prefetch_waits(r->prefetch).seconds - waited;
	if (r->metrics)
		metrics_step(r->metrics, &m);
	corpus_log_step(r->corpora, r->at.consumed_samples - e->plan.global_batch_size, m.skipped);
	if (r->at.iteration % c->o.log_interval == 0 || r->at.iteration == c->train_iters)
		corpus_log_write(r->corpora, r->metrics, r->at.iteration);
	*stop = sum[TOTAL_STOP] > 0;
	return EXIT_DONE;
}

/* One set: always the same batches, from its start, with the weights as they are: neither gradients
 * nor progress change. */
static void
evaluate_set(struct run *r, int set, const struct data_set *s)
{
	double sum[TOTAL_COUNT];
	struct metrics_evaluation m = { .iteration = r->at.iteration, .split = split_name[s->which], .set = s->name };

	engine_zero_scalars(r->e);
	r->tokens = 0;
	for (int64_t i = 0; i < s->batches; i++) {
		prog_progress("evaluating %s: %lld of %lld", s->name ? s->name : m.split, (long long)i, (long long)s->batches);
		pass(r, set, i * r->e->plan.global_batch_size, false);
	}
	totals(r, 0, sum);
	r->last_total = 0;
	m.lm_loss = sum[TOTAL_LOSS] / sum[TOTAL_TOKENS];
	if (r->metrics)
		metrics_evaluation(r->metrics, &m);
}

/* Collective; nothing happens for a split without samples. */
void
loop_evaluate(struct run *r, enum split which)
{
	for (int i = 0; i < data_num_sets(r->data); i++) {
		struct data_set s;

		data_set(r->data, i, &s);
		if (s.which == which && s.batches > 0)
			evaluate_set(r, i, &s);
	}
}

/* A save that failed is said once and ends the run. */
static int
save_status(const struct run *r, int rc, const struct err *err)
{
	if (rc < 0 && r->e->rank == 0)
		warn("%s", err->msg);
	return rc < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* Begins a save, which may go on behind the next steps. EXIT_DONE without --save: there is nothing to
 * fail. */
static int
save(struct run *r)
{
	struct str data = { 0 };
	struct err err;
	int rc;

	if (!r->saver)
		return EXIT_DONE;
	if (r->e->rank == 0) {
		data_state(r->data, corpus_log_counts(r->corpora), &data);
		data_note_consumed(r->data, corpus_log_counts(r->corpora));
	}
	rc = saver_start(r->saver, &r->at, data.buf, &err);
	str_release(&data);
	return save_status(r, rc, &err);
}

/* Saves unless this step has been saved already, and waits until the device has done all of it and everything
 * is on the disk. */
static int
save_last(struct run *r, bool saved)
{
	struct err err;
	int status = saved ? EXIT_DONE : save(r);

	if (!r->saver && r->e->rank == 0)
		data_note_consumed(r->data, corpus_log_counts(r->corpora));
	engine_sync(r->e);
	if (prog_level() > 0)
		note("waited for data %lld times, %.3f s in all", (long long)prefetch_waits(r->prefetch).count,
		    prefetch_waits(r->prefetch).seconds);
	if (status == EXIT_DONE && r->saver)
		status = save_status(r, saver_wait(r->saver, &err), &err);
	return status;
}

/* Takes a save in the background on when all ranks have written. */
static int
save_goes_on(struct run *r)
{
	struct err err;

	return r->written ? save_status(r, saver_next(r->saver, &err), &err) : EXIT_DONE;
}

/* The reasons to stop that the options give; the clock is rank 0's, agreed with the next step's
 * totals. NULL to go on. Non-NULL on all ranks or on none; the text may differ between them and
 * only rank 0's is shown. */
static const char *
reason_to_stop(const struct run *r, bool asked)
{
	if (asked)
		return stop_signal()          ? stop_signal()
		    : stop_file(r->c->o.save) ? "the file 'stop'"
					      : "a request of another rank";
	if (r->c->o.exit_interval && r->at.iteration % r->c->o.exit_interval == 0)
		return "--exit-interval";
	return NULL;
}

/* Saves unless this step has been saved already. The barrier keeps every rank until rank 0 has
 * removed the stop file and said its word, since the first exit may end the others. */
static int
stop_run(struct run *r, const char *why, bool saved)
{
	int status = save_last(r, saved);

	if (status != EXIT_DONE)
		return status;
	if (r->e->rank == 0) {
		stop_file_remove(r->c->o.save);
		note("stopped behind iteration %lld by %s; %s", (long long)r->at.iteration, why,
		    !r->c->o.save ? "nothing is saved without --save"
			: train_continues(r->c)
			? "the same command goes on"
			: "a command whose --load is this one's --save goes on");
	}
	r->e->groups.world->ops->barrier(r->e->groups.world);
	return EXIT_STOPPED;
}

/* Has rank 0's clock passed --exit-duration-in-mins? Every rank gets the same answer. Costs one
 * small reduction a step, and none without the option. */
static bool
out_of_time(const struct run *r, double start)
{
	struct comm *w = r->e->groups.world;
	double over = r->e->rank == 0 && clock_seconds() - start > 60 * r->c->o.exit_duration_in_mins;
	struct tensor t = tensor_1d(&over, DTYPE_F64, 1);

	if (r->c->o.exit_duration_in_mins <= 0)
		return false;
	w->ops->all_reduce(w, NULL, &t, REDUCE_MAX);
	return over != 0;
}

/* Behind the last step. Evaluation first, so that its result is logged even if the save fails. */
static int
finish(struct run *r, bool saved)
{
	loop_evaluate(r, SPLIT_VALID);
	loop_evaluate(r, SPLIT_TEST);
	return save_last(r, saved);
}

/* Collective; returns the exit status, the same on every rank. A request from outside skips the
 * evaluation that is due: a batch system leaves seconds, and they are for the save. --exit-
 * interval and the clock wait for both. */
int
loop_train(struct run *r)
{
	const struct train_options *o = &r->c->o;
	double start = clock_seconds();
	bool saved = true;

	while (r->at.iteration < r->c->train_iters) {
		bool asked = false, evaluate;
		const char *why;
		int status = step(r, &asked);

		if (status == EXIT_DONE)
			status = save_goes_on(r);
		if (status != EXIT_DONE)
			return status;
		saved = false;
		why = reason_to_stop(r, asked);
		if (!why && out_of_time(r, start))
			why = "--exit-duration-in-mins";
		if (asked && why)
			return stop_run(r, why, saved);
		evaluate =
		    r->at.iteration % o->eval_interval == 0 && r->at.iteration < r->c->train_iters;
		if (evaluate)
			loop_evaluate(r, SPLIT_VALID);
		if (o->save_interval && r->at.iteration % o->save_interval == 0) {
			status = save(r);
			if (status != EXIT_DONE)
				return status;
			saved = true;
		}
		if (why)
			return stop_run(r, why, saved);
	}
	return finish(r, saved);
}
