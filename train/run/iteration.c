/*
 * iteration.c - one step of a run, one evaluation
 *
 * A step is: forward and backward of all micro batches, reduction of gradients, the step's totals,
 * update. Decisions that every rank must take alike (skip, stop, clip) follow from the totals,
 * which all ranks add in the same order from the same numbers; a rank's own clock, signals and
 * files never decide alone. The host waits for the device once per step, to read the scalars; the
 * update runs while the host prepares the next step, so a step's time runs from one reading to the
 * next.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/config/config.h"
#include "train/data/contents.h"
#include "train/data/corpus_log.h"
#include "train/data/sample_losses.h"
#include "train/engine/fp8.h"
#include "train/engine/grads.h"
#include "train/engine/hashes.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "train/optim/qk_clip.h"
#include "train/run/check.h"
#include "train/run/data_ranks.h"
#include "train/run/iteration.h"
#include "train/state/saver.h"
#include "train/step/pipeline.h"
#include "train/watch/stop.h"
#include "train/watch/suspects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weighs the labels of later tokens of a batch of training. */
static void
weigh_batch(const struct run *r, const struct batch *b)
{
	int64_t rows = run_rows(&r->e->plan);

	for (int64_t i = 0; b->later_mask && i < rows * r->e->plan.model.mtp_num_layers; i++)
		b->later_mask[i] = (float)((double)b->later_mask[i] * r->later_factor[i / rows]);
}

/* Micro batch m of this data rank. One that cannot be read has no tokens, and the pass continues:
 * no peer may be left waiting in a receive, and a save under way needs all ranks. The totals tell
 * all ranks of it. */
static void
load(void *ctx, int microbatch, struct batch *out)
{
	struct run *r = ctx;
	struct prefetch_key key = { r->set, r->first_sample, microbatch };
	struct err err;
	double tokens;

	if (r->first.tokens) {
		*out = r->first;
		r->first.tokens = NULL;
		r->tokens += r->first_tokens;
		corpus_log_batch(r->corpora, r->first_sample, microbatch, out);
		return;
	}
	tokens = prefetch_batch(r->prefetch, key, out, &err);
	weigh_batch(r, out);
	if (tokens >= 0 && r->set == SPLIT_TRAIN)
		corpus_log_batch(r->corpora, r->first_sample, microbatch, out);
	if (tokens >= 0)
		r->tokens += tokens;
	else if (!r->bad_data.msg[0])
		r->bad_data = err;
}

/* The first micro batch, which is read once though it runs twice. */
static void
load_first(void *ctx, int microbatch, struct batch *out)
{
	struct run *r = ctx;

	load(ctx, microbatch, out);
	r->first = *out;
	r->first_tokens = r->tokens;
}

/* Samples of the next training step. */
static int64_t
step_samples(const struct run *r)
{
	return batch_at(&r->e->plan.ramp, r->at.consumed_samples);
}

/* All micro batches of one global batch, which starts at the step's sample; losses are summed in
 * the scalars, and counted tokens in r->tokens. Collective. */
static void
pass(struct run *r, int set, struct pipeline *p)
{
	p->iteration = (uint32_t)r->at.iteration;
	p->ctx = r;
	p->replay = r->replay;
	r->set = set;
	r->first_sample = p->first_sample;
	pipeline_run(p);
}

/* The micro batches of the next training step, or the first of them alone. */
static void
train_pass(struct run *r, bool rehearsal)
{
	pass(r, SPLIT_TRAIN,
	    &(struct pipeline){
		.e = r->e,
		.num_microbatches = run_microbatches(&r->e->plan, step_samples(r)),
		.training = true,
		.rehearsal = rehearsal,
		.first_sample = r->at.consumed_samples,
		.load = rehearsal ? load_first : load,
		.losses = corpus_log_losses(r->corpora),
	    });
}

/* Before the passes that are added up together. */
static void
clear_sums(struct run *r)
{
	engine_zero_scalars(r->e);
	r->tokens = 0;
}

/* Where a mask moves the weight of the router's losses or of those of later tokens, and there may
 * be one. */
bool
iteration_counts_first(const struct run *r)
{
	const struct model_config *c = &r->e->plan.model;

	return data_masks(r->data) &&
	    ((model_router_losses(c) && !r->c->o.calculate_per_token_loss) || c->mtp_num_layers);
}

/* The weights of the next step's tokens: those of a step without a mask where there is none.
 * Collective. */
static void
count_tokens(const struct run *r, struct token_weights *w)
{
	struct engine *e = r->e;
	struct comm *world = e->groups.world;
	int64_t samples = step_samples(r), length = e->plan.shape.seq_length;
	struct prefetch_key key = { SPLIT_TRAIN, r->at.consumed_samples, 0 };
	struct tensor t = tensor_1d(&w->next, DTYPE_F64, 1 + MODEL_MTP_MAX);

	*w = (struct token_weights){ .layers = e->plan.model.mtp_num_layers };
	if (!iteration_counts_first(r)) {
		w->next = (double)(samples * length);
		for (int64_t i = 0; i < w->layers; i++)
			w->later[i] = (double)(samples * int64_max(0, length - i - 1));
		return;
	}
	if (e->first_stage && e->coord[AX_TP] == 0)
		prefetch_tokens(r->prefetch, key, run_microbatches(&e->plan, samples), w);
	world->ops->all_reduce(COMM_HERE(world), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
}

/* The losses of routers are of all tokens, so that their weight beside the loss does not follow
 * from the mask. Gradients are divided by the tokens that count: those of routers are multiplied by
 * the share of these. Source: forward_step in Megatron-LM's
 * core/pipeline_parallel/schedules.py, and attach_and_log_load_balancing_loss in its
 * core/transformer/moe/router.py for --calculate-per-token-loss. */
static double
router_factor(const struct run *r, const struct token_weights *w)
{
	return r->c->o.calculate_per_token_loss
	    ? 1
	    : w->next / (double)(step_samples(r) * r->e->plan.shape.seq_length);
}

/* The losses of each layer after the head count as their mean over the tokens that it predicts
 * does: so often that they have the weight of the tokens that the loss counts. Source:
 * process_mtp_loss in Megatron-LM's core/transformer/multi_token_prediction.py for
 * --calculate-per-token-loss. */
static void
weigh_later(struct run *r, const struct token_weights *w)
{
	for (int64_t i = 0; i < w->layers; i++)
		r->later_factor[i] = w->later[i] > 0 ? w->next / w->later[i] : 0;
}

/* Waits for the passes and reads what they leave: the end of a step. */
static void
read_back(struct run *r)
{
	routers_read(r->routers, r->e);
	engine_read_scalars(r->e, r->scalar);
	timing_read(r->e, &r->spent);
}

/* This rank's share of the totals. Loss and tokens are counted by one tensor rank of one stage per
 * data rank, the norm by the owners of gradients. Only rank 0 looks at the clock and the file
 * 'stop'. */
static void
own_share(struct run *r, double mine[TOTAL_COUNT])
{
	const struct train_options *o = &r->c->o;
	struct engine *e = r->e;
	const double *scalar = r->scalar;
	bool first = e->rank == 0;

	mine[TOTAL_STOP] = stop_signal() != NULL || (first && stop_file(o->save));
	mine[TOTAL_SAVE] = stop_announced();
	if (e->last_stage && e->coord[AX_TP] == 0) {
		mine[TOTAL_LOSS] = scalar[SCALAR_LOSS];
		mine[TOTAL_ZLOSS] = scalar[SCALAR_ZLOSS];
		for (int i = 0; i < MODEL_MTP_MAX; i++)
			mine[TOTAL_LATER + i] = scalar[SCALAR_LATER + i];
	}
	mine[TOTAL_NORM] = scalar[SCALAR_NORM];
	mine[TOTAL_DIFFERENT] = hashes_differ(e, r->different);
	mine[TOTAL_ZEROS] = scalar[SCALAR_ZEROS];
	if (e->first_stage && e->coord[AX_TP] == 0)
		mine[TOTAL_TOKENS] = r->tokens;
	mine[TOTAL_JOULES] = energy_lap(r->energy);
	mine[TOTAL_BAD_DATA] = r->bad_data.msg[0] != '\0';
	mine[TOTAL_LATE] = first && o->exit_duration_in_mins > 0 &&
	    r->watch.clock() - r->started > 60 * o->exit_duration_in_mins;
	mine[TOTAL_WRITTEN] = r->saver && saver_ready(r->saver);
	mine[TOTAL_LOST] = lock_lost(r->lock);
	mine[TOTAL_CHANGED] = audit_failed(r->audit, NULL);
}

/* Sums over the world, in rank order on every rank, hence the same bits everywhere, which clipping
 * and skipping rely on. */
static void
totals(struct run *r)
{
	struct comm *w = r->e->groups.world;
	double mine[TOTAL_COUNT] = { 0 }, *all = mem_alloc((size_t)w->size, sizeof mine);
	struct tensor in = tensor_1d(mine, DTYPE_F64, TOTAL_COUNT),
		      gathered = tensor_1d(all, DTYPE_F64, TOTAL_COUNT * w->size);

	timing_begin(r->e, SPAN_TOTALS);
	prefetch_passed(r->prefetch);
	own_share(r, mine);
	w->ops->all_gather(COMM_HERE(w), NULL, &(struct comm_gather){ gathered, in });
	timing_end(r->e, SPAN_TOTALS);
	timing_begin(r->e, SPAN_BETWEEN);
	for (int k = 0; k < TOTAL_COUNT; k++) {
		r->total[k] = 0;
		for (int i = 0; i < w->size; i++)
			r->total[k] += all[i * TOTAL_COUNT + k];
	}
	free(all);
}

/* The mean over the tokens that count. Where none counts, the sums are 0 and so is the mean:
 * Megatron-LM's forward_step (core/pipeline_parallel/schedules.py) clamps their number to 1. */
static double
mean(const struct run *r, enum total sum)
{
	return r->total[sum] / (r->total[TOTAL_TOKENS] > 0 ? r->total[TOTAL_TOKENS] : 1);
}

/* --- a training step -------------------------------------------------------------------------- */

/* True when an interval ends with this step; 0: never. */
static bool
is_due(int64_t interval, int64_t step)
{
	return interval > 0 && step % interval == 0;
}

/* The gradients of the next global batch and their norm, on the device. Where two runs of the first
 * micro batch are to be compared, it runs before all of them do: the first micro batch writes its
 * gradients instead of adding them, so those of the rehearsal are overwritten and need no memory of
 * their own. Collective. */
static void
gradients(struct run *r)
{
	struct token_weights weights;
	double factor;

	train_scale_tokens(r->c, step_samples(r));
	r->e->token_scale = r->c->scaler.scale / r->c->scaler.tokens;
	count_tokens(r, &weights);
	weigh_later(r, &weights);
	factor = router_factor(r, &weights);
	clear_sums(r);
	engine_weigh_routers(r->e, factor);
	if (is_due(r->c->o.verify_interval, r->at.iteration + 1)) {
		timing_watch(r->e, false);
		hashes_expect(r->e, 0);
		train_pass(r, true);
		clear_sums(r);
		engine_weigh_routers(r->e, factor);
		hashes_expect(r->e, 1);
		timing_watch(r->e, true);
	}
	fault_step(r->c->fault, r->at.iteration + 1);
	timing_end(r->e, SPAN_BETWEEN);
	train_pass(r, false);
	grads_reduce(r->e);
	fp8_step(r->e);
	timing_begin(r->e, SPAN_CLIP);
	grads_measure(r->e);
	if (r->c->o.log_num_zeros_in_grad)
		grads_count_zeros(r->e);
	timing_end(r->e, SPAN_CLIP);
}

/* The metrics of a step, from its totals, and the inputs of its update: learning rate and decay at
 * the samples consumed before it, without skipped steps (fp16 overflow, --iterations-to-skip),
 * which do not move the schedules. */
static struct step_metrics
step_summary(const struct run *r)
{
	const struct train_config *c = r->c;
	int64_t position = r->at.consumed_samples - r->at.skipped_samples;
	double loss = mean(r, TOTAL_LOSS);
	struct step_metrics m = {
		.lr = lr_at(&c->schedule, position),
		.vocab_lr = lr_at_vocab(&c->schedule, position),
		.weight_decay = wd_at(&c->schedule, position),
		.loss_scale = c->scaler.scale,
		.lm_loss = loss,
		.z_loss = mean(r, TOTAL_ZLOSS),
		.num_zeros = r->total[TOTAL_ZEROS],
		.attainable = r->attainable,
		.joules = r->energy ? r->total[TOTAL_JOULES] : NAN,
		.skipped = !isfinite(r->total[TOTAL_NORM]) || !isfinite(loss),
	};

	for (int i = 0; i < MODEL_MTP_MAX; i++)
		m.later_loss[i] = mean(r, (enum total)(TOTAL_LATER + i));
	return m;
}

/* The mean over tokens, their scale and clipping become one factor; where no token counts, what the
 * losses of routers have left counts for nothing either. 1e-6 in the clipping is
 * Megatron-LM's (core/optimizer/clip_grads.py), as is leaving gradients below the limit alone. An
 * expert of a layer has an equal share of rows on average: every token has topk, whether its loss
 * counts or not. */
static void
update(struct run *r, struct step_metrics *m)
{
	const struct optim_options *o = &r->c->optim;
	const struct model_config *model = &r->e->plan.model;
	double tokens = (double)(step_samples(r) * r->e->plan.shape.seq_length);
	double grad_scale =
	    r->total[TOTAL_TOKENS] > 0 ? 1 / (r->total[TOTAL_TOKENS] * r->e->token_scale) : 0;
	double factor = 1, *before = r->scores;
	struct optim_update u = {
		.lr = m->lr,
		.vocab_lr = m->vocab_lr,
		.weight_decay = m->weight_decay,
		.expert_rows = model->num_experts
		    ? tokens * (double)model->moe_router_topk / (double)model->num_experts
		    : 0,
		.step = r->at.optimizer_steps + 1,
	};

	m->grad_norm = sqrt(r->total[TOTAL_NORM]) * grad_scale;
	if (o->clip_grad > 0 && o->clip_grad / (m->grad_norm + 1e-6) < 1)
		factor = o->clip_grad / (m->grad_norm + 1e-6);
	u.grad_scale = grad_scale * factor;
	u.scores = r->scores = qk_clip_scores(r->e);
	timing_end(r->e, SPAN_BETWEEN);
	timing_begin(r->e, SPAN_OPTIMIZER);
	optim_step(r->e, o, &u);
	ema_step(r->e, r->c->o.run.ema_decay);
	free(before);
	timing_end(r->e, SPAN_OPTIMIZER);
	timing_begin(r->e, SPAN_BETWEEN);
	fault_updated(r->c->fault);
	r->at.optimizer_steps++;
}

/* A profile that cannot be written does not stop a run. */
static void
profile_end(const struct run *r)
{
	struct err err;

	if (profile_step_end(r->profile, r->at.iteration, &err) < 0)
		warn("%s", err.msg);
}

/* The norm of the weights as they are now. Collective; waits for the update. */
static double
params_norm(struct run *r)
{
	struct comm *w = r->e->groups.world;
	double scalar[SCALAR_COUNT];
	struct tensor squares = tensor_1d(&scalar[SCALAR_PARAMS], DTYPE_F64, 1);

	grads_measure_params(r->e);
	engine_read_scalars(r->e, scalar);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ squares, REDUCE_SUM });
	return sqrt(scalar[SCALAR_PARAMS]);
}

/* Adds the step to the run's progress and reports it. Collective at log steps, and where the norm
 * of the weights is asked for. */
static void
record(struct run *r, struct step_metrics *m)
{
	const struct train_options *o = &r->c->o;
	int64_t first = r->at.consumed_samples;

	m->samples = step_samples(r);
	m->iteration = ++r->at.iteration;
	m->consumed_samples = r->at.consumed_samples += m->samples;
	r->at.skipped += m->skipped;
	r->at.skipped_samples += m->skipped ? m->samples : 0;
	m->passed_samples = r->at.passed_samples += m->left_out ? m->samples : 0;
	r->empty += !m->left_out && r->total[TOTAL_TOKENS] == 0;
	if (o->log_params_norm)
		m->params_norm = params_norm(r);
	if (o->log_memory_to_tensorboard) {
		m->planned_bytes = r->planned_bytes;
		m->used_bytes = r->e->backend->used_memory(r->e->device);
	}
	if (r->metrics) {
		m->fill = data_fill(r->data, first, m->samples);
		metrics_step(r->metrics, m);
	}
	corpus_log_step(r->corpora, first, m->skipped);
	if (!m->skipped)
		sample_losses_step(
		    r->sample_losses, corpus_log_losses(r->corpora), m->iteration, first);
	if (m->iteration % o->log_interval != 0 && m->iteration != r->c->train_iters)
		return;
	timers_log(r->timers, r->e->groups.world, r->metrics, m->iteration);
	corpus_log_write(r->corpora, r->metrics, m->iteration, m->consumed_samples);
	if (!m->left_out)
		routers_write(r->routers, r->metrics, m->iteration);
}

/* A step that is passed over consumes its samples and changes nothing else. The ranks agree on the
 * same totals as after any other step. */
static enum iteration_end
leave_out(struct run *r)
{
	struct step_metrics m;

	clear_sums(r);
	read_back(r);
	m.seconds = stopwatch_lap(&r->watch);
	totals(r);
	m = step_summary(r);
	m.skipped = m.left_out = true;
	profile_end(r);
	record(r, &m);
	return ITERATION_DONE;
}

/* True when a step with this loss is a spike, unless the run is to go through it. */
static bool
find_spike(struct run *r, double loss)
{
	const struct spike_rule *rule = &r->c->spikes;
	int64_t iteration = r->at.iteration + 1;

	if (!spike_is(&r->at.spikes, rule, loss) ||
	    (r->spike.endured && r->spike.iteration == iteration))
		return false;
	r->spike = (struct spike){
		.iteration = iteration, .loss = loss, .median = spike_median(&r->at.spikes, rule)
	};
	return true;
}

/* The totals come before the update, because a skipped step must leave weights and moments
 * untouched. */
enum iteration_end
iteration_train(struct run *r)
{
	struct scaler *scaler = &r->c->scaler;
	double seconds, waited = prefetch_stats(r->prefetch).seconds;
	struct step_metrics m;

	timing_watch(r->e, true);
	profile_step_begin(r->profile, r->at.iteration);
	if (train_skips(r->c, r->at.iteration + 1) ||
	    spike_passes(&r->at.spikes, r->at.iteration + 1))
		return leave_out(r);
	gradients(r);
	read_back(r);
	seconds = r->spent.elapsed[SPAN_STEP] = stopwatch_lap(&r->watch);
	totals(r);
	m = step_summary(r);
	m.routers = routers_sum(r->routers, r->e);
	m.seconds = seconds;
	for (int w = WAIT_DATA; w <= WAIT_PIPELINE; w++)
		m.exposed[w] = timing_waited(r->spent.elapsed, w);
	timers_step(r->timers, &r->spent, step_samples(r));
	memset(&r->spent, 0, sizeof r->spent);
	m.data_wait = prefetch_stats(r->prefetch).seconds - waited;
	if (r->total[TOTAL_CHANGED] > 0)
		return ITERATION_DATA_CHANGED;
	if (r->total[TOTAL_BAD_DATA] > 0)
		return ITERATION_BAD_DATA;
	if (r->total[TOTAL_DIFFERENT] > 0)
		return ITERATION_DIFFERENT;
	if (find_spike(r, m.lm_loss))
		return ITERATION_SPIKE;
	/* A lower scale cures neither a loss that is not finite nor an overflow at the least
	 * scale. */
	if (m.skipped &&
	    (!scaler->dynamic || scaler->scale <= scaler->min_scale || !isfinite(m.lm_loss)))
		return ITERATION_NOT_FINITE;
	scaler_update(scaler, m.skipped);
	if (!m.skipped)
		update(r, &m);
	if (!m.skipped && r->total[TOTAL_TOKENS] > 0)
		spike_keep(&r->at.spikes, &r->c->spikes, m.lm_loss);
	profile_end(r);
	record(r, &m);
	r->step_seconds = seconds;
	return is_due(r->c->o.check_weight_hash_interval, r->at.iteration) &&
		!data_ranks_agree(r->e, r->different)
	    ? ITERATION_WEIGHTS_DIFFER
	    : ITERATION_DONE;
}

/* --- an evaluation ---------------------------------------------------------------------------- */

/* Evaluates one set with the weights as they are: neither gradients nor progress change. */
static enum iteration_end
evaluate_set(struct run *r, int set, const struct data_set *s)
{
	struct engine *e = r->e->evaluator;
	struct metrics_evaluation m = { .iteration = r->at.iteration,
		.consumed_samples = r->at.consumed_samples,
		.split = split_name[s->which],
		.set = s->name,
		.last = r->c->o.skip_train || r->at.iteration >= r->c->train_iters };

	clear_sums(r);
	for (int64_t i = 0; i < s->batches; i++) {
		prog_progress("evaluating %s: %lld of %lld", s->name ? s->name : m.split,
		    (long long)i, (long long)s->batches);
		pass(r, set,
		    &(struct pipeline){
			.e = e,
			.num_microbatches = run_microbatches(&e->plan, e->plan.eval_batch_size),
			.first_sample = i * e->plan.eval_batch_size,
			.load = load,
		    });
	}
	read_back(r);
	totals(r);
	if (r->total[TOTAL_CHANGED] > 0)
		return ITERATION_DATA_CHANGED;
	if (r->total[TOTAL_BAD_DATA] > 0)
		return ITERATION_BAD_DATA;
	m.lm_loss = mean(r, TOTAL_LOSS);
	if (r->total[TOTAL_TOKENS] == 0 && r->e->rank == 0)
		note("evaluation of %s: the loss mask leaves no token of its %lld batches: a loss "
		     "of 0 is not a result",
		    s->name ? s->name : m.split, (long long)s->batches);
	if (r->metrics)
		metrics_evaluation(r->metrics, &m);
	return ITERATION_DONE;
}

enum iteration_end
iteration_evaluate(struct run *r, enum split which)
{
	enum iteration_end end = ITERATION_DONE;

	timing_watch(r->e, false);
	for (int i = 0; r->data && i < data_num_sets(r->data) && end == ITERATION_DONE; i++) {
		struct data_set s;

		data_set(r->data, i, &s);
		if (s.which == which && s.batches > 0)
			end = evaluate_set(r, i, &s);
	}
	return end;
}

/* --- what went wrong -------------------------------------------------------------------------- */

/* All ranks that read a batch find what is wrong with it: one reports it. */
static int
bad_data(struct run *r)
{
	struct comm *w = r->e->groups.world;

	if (comm_agree(COMM_HERE(w), r->bad_data.msg[0] ? -1 : 0, &r->bad_data) && w->rank == 0)
		warn("%s", r->bad_data.msg);
	return EXIT_FAILED;
}

int
iteration_audit(struct run *r, double seconds)
{
	struct comm *w = r->e->groups.world;
	struct err err = { "" };
	int rc;

	audit_wait(r->audit, seconds);
	rc = audit_failed(r->audit, &err) ? -1 : 0;
	if (rc < 0)
		data_name_rank(w, &err);
	if (!comm_agree(COMM_HERE(w), rc, &err))
		return EXIT_DONE;
	if (w->rank == 0)
		warn("%s; stopping without a save", err.msg);
	return EXIT_FAILED;
}

/* Repeats the micro batches of the step that failed. */
static void
rerun_pass(void *ctx)
{
	struct run *r = ctx;

	train_pass(r, false);
}

/* Reports what is not finite: a parameter that was loaded or trained so, else the loss, which
 * spoils every gradient, else the gradient in which it arose. Collective, since the search for the
 * place is. This step has not touched weights and moments, and nothing is saved over the last
 * checkpoint. */
static int
not_finite(struct run *r)
{
	double loss = mean(r, TOTAL_LOSS);
	struct str where = { 0 };
	char name[96], what[128] = "the loss";

	grads_first_bad(r->e, BUF_WEIGHTS, name);
	if (name[0]) {
		snprintf(what, sizeof what, "the parameter '%s'", name);
	} else {
		grads_first_bad(r->e, BUF_GRADS, name);
		if (isfinite(loss) && name[0])
			snprintf(what, sizeof what, "the gradient of '%s'", name);
	}
	check_find(r->e, rerun_pass, r, &where);
	if (r->e->rank == 0)
		warn("iteration %lld: %s is not finite (loss %g); first: %s: stopping; the last "
		     "checkpoint is intact",
		    (long long)r->at.iteration + 1, what, fabs(loss),
		    where.len ? where.buf : "not found when the step was repeated");
	str_release(&where);
	return EXIT_NUMERICAL;
}

/* Results that ought to be equal differ: a fault in a device. It is that of a rank that is named,
 * or of one whose sums it receives; of data ranks the faulty one is known where most of them are
 * equal, else all are named. */
static int
different(struct run *r, int64_t iteration, const char *what, const char *then)
{
	struct str ranks = { 0 };

	suspects(r->e->groups.world, r->e->backend, r->different, &ranks);
	if (r->e->rank == 0)
		warn("iteration %lld: %s: %s: %s", (long long)iteration, what, ranks.buf, then);
	str_release(&ranks);
	return EXIT_NUMERICAL;
}

int
iteration_failure(struct run *r, enum iteration_end end)
{
	switch (end) {
	case ITERATION_BAD_DATA: return bad_data(r);
	case ITERATION_DATA_CHANGED: return iteration_audit(r, 0);
	case ITERATION_DIFFERENT:
		return different(r, r->at.iteration + 1,
		    "the first micro batch was run twice, with different results",
		    "stopping; the last checkpoint is intact");
	case ITERATION_WEIGHTS_DIFFER:
		return different(r, r->at.iteration, "data ranks hold different weights",
		    "stopping without a save");
	default: return not_finite(r);
	}
}
