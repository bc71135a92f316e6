/*
 * config.c - from options to a run
 *
 * The order matters and is in train_configure: the tokenizer first, since the vocabulary may
 * come from it; then where the run starts, since the model may come from a checkpoint; then
 * model, layout and batch (lib/model); then what needs their numbers. Everything that can be
 * wrong with a run is found here, on every rank alike and before memory is taken or a peer is
 * waited for. Default rules are Megatron-LM's (megatron/training/arguments.py).
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "lib/model/block/workspace.h"
#include "lib/model/hardware.h"
#include "lib/model/hosts.h"
#include "train/backend.h"
#include "train/config/command.h"
#include "train/config/config.h"
#include "train/config/deepspeed.h"
#include "train/config/files.h"
#include "train/config/foreign.h"
#include "train/config/options.h"
#include "train/config/planned.h"
#include "train/config/start.h"
#include "train/config/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* Reads the command line and configuration files alone: no other file is opened, so that --help
 * and --dry-run answer fast. *c holds pointers into argv; train_release frees the rest. -1
 * with what is wrong, which train_configure tells with the rules between options. */
int
train_parse(struct train_config *c, int argc, char **argv, struct err *e)
{
	int rc;

	memset(c, 0, sizeof *c);
	opt_begin(&c->parse, mtrain_opts, &c->o);
	c->parse.foreign = &mtrain_foreign;
	c->parse.no_operands = "mtrain takes no operands";
	command_text(argc, argv, &c->command);
	argc--, argv++;
	if (operands_explain(argc, argv)) {
		operands_split(&c->parse.pool, argc, argv, &c->operands);
		argc = c->operands.own;
		argv = c->operands.option;
	}
	rc = opt_argv(&c->parse, &argc, &argv, e);
	if (!c->o.explain && (c->o.output || c->o.json))
		rc = opt_rule(&c->parse,
		    err_set(e, "--%s: is for --explain", c->o.json ? "json" : "output"), e);
	deepspeed_tokens(c);
	deepspeed_read(c);
	prog_quiet(c->parse.level);
	return rc;
}

/* Closes what train_configure opened. */
static void
close_all(struct train_config *c)
{
	tokenizer_close(c->tokenizer);
	data_paths_release(&c->paths);
	fault_free(c->fault);
}

/* Allowed after a failed train_parse or train_configure: what was not opened is NULL. */
void
train_release(struct train_config *c)
{
	close_all(c);
	free(c->lists);
	str_release(&c->command);
	str_release(&c->origin);
	opt_release(&c->parse);
}

/* One flag a row. */
static size_t
given_bytes(const struct train_config *c)
{
	size_t rows = 0;

	while (c->parse.table[rows].type != OPT_END_TYPE)
		rows++;
	return rows * sizeof *c->parse.given;
}

void
train_keep(const struct train_config *c, struct train_parsed *out)
{
	out->o = c->o;
	out->given = mem_alloc(given_bytes(c), 1);
	memcpy(out->given, c->parse.given, given_bytes(c));
}

/* Strings that configuring has put into the pool stay there. */
void
train_restore(struct train_config *c, const struct train_parsed *p)
{
	struct train_config again = {
		.o = p->o, .parse = c->parse, .lists = c->lists, .lock = c->lock
	};

	close_all(c);
	memcpy(again.parse.given, p->given, given_bytes(c));
	*c = again;
}

void
train_parsed_release(struct train_parsed *p)
{
	free(p->given);
}

/* Steps become samples, and checkpoints and totals carry these numbers as doubles: up to 2^53 they
 * are exact. */
static int
check_counts(const struct train_options *o, const struct run_plan *plan, struct err *e)
{
	const int64_t most = (int64_t)1 << 53;
	int64_t evaluations = o->train_iters / o->eval_interval + 1;
	struct {
		const char *name;
		int64_t steps, batch, times;
	} count[] = {
		{ "train-iters", o->train_iters, plan->global_batch_size, 1 },
		{ "lr-decay-iters", o->lr_decay_iters, plan->global_batch_size, 1 },
		{ "lr-warmup-iters", o->lr_warmup_iters, plan->global_batch_size, 1 },
		{ "lr-wsd-decay-iters", o->lr_wsd_decay_iters, plan->global_batch_size, 1 },
		{ "eval-iters", o->eval_iters, plan->eval_batch_size, evaluations },
	};

	for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
		int64_t limit = most / count[i].batch / count[i].times;

		if (count[i].steps > limit)
			return err_set(e, "--%s %lld: more than 2^53 samples; at most %lld",
			    count[i].name, (long long)count[i].steps, (long long)limit);
	}
	return 0;
}

/* The batch of an evaluation, where it differs from that of training, and its micro batches: as
 * large as memory may be planned for, and the batch is made of them. */
static int
eval_batch(struct train_config *c, struct err *e)
{
	struct run_plan *p = &c->plan;
	int64_t micro = c->o.eval_micro_batch_size, once = micro * p->layout.data_parallel_size;

	p->eval_micro_batch_size = micro;
	if (c->o.eval_global_batch_size)
		p->eval_batch_size = c->o.eval_global_batch_size;
	if (!micro)
		return c->o.eval_global_batch_size
		    ? run_check_batch(p, "eval-global-batch-size", p->eval_batch_size, e)
		    : 0;
	if (p->shape.seq_length > (1 << 30) / micro)
		return err_set(e,
		    "--eval-micro-batch-size %lld: seq-length x eval-micro-batch-size must be "
		    "below 2^30",
		    (long long)micro);
	return p->eval_batch_size % once == 0
	    ? 0
	    : err_set(e,
		  "--eval-micro-batch-size %lld: a batch of an evaluation has %lld samples, which "
		  "must be a multiple of --eval-micro-batch-size x data-parallel size = %lld",
		  (long long)micro, (long long)p->eval_batch_size, (long long)once);
}

/* False for a run that may leave out what trains. */
static bool
trains(const struct train_options *o)
{
	return !o->skip_train && !o->tokens_file && !o->generate && !o->calibrate;
}

/* --train-iters or --train-samples, to steps: those taken so far, and those left with the batch as
 * it is now. Samples that do not fill a last batch get no step, as in Megatron-LM. A batch size
 * that changes needs samples. */
static int
train_length(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	const char *changes = o->run.rampup_batch_size.count ? "rampup-batch-size"
	    : o->run.step_batch_size_schedule                ? "step-batch-size-schedule"
							     : NULL;
	int64_t taken, consumed;

	if (o->train_iters && o->train_samples)
		return err_set(
		    e, "--train-iters and --train-samples exclude each other: give one of them");
	if (o->train_iters && changes)
		return err_set(e,
		    "--train-iters %lld: a run with --%s is counted in samples: give "
		    "--train-samples%s%s",
		    (long long)o->train_iters, changes,
		    o->lr_decay_iters ? ", and --lr-decay-samples for --lr-decay-iters" : "",
		    o->lr_warmup_iters ? ", and --lr-warmup-samples for --lr-warmup-iters" : "");
	if (check_counts(o, &c->plan, e) < 0)
		return -1;
	c->train_iters = o->train_iters;
	if (o->train_samples) {
		if (train_progress(c, &taken, &consumed, e) < 0)
			return -1;
		c->train_iters = taken + batch_steps(&c->plan.ramp, consumed, o->train_samples);
	}
	return c->train_iters > 0 || !o->train_samples || o->dry_run || !trains(o)
	    ? 0
	    : err_set(e, "--train-samples %lld: must be at least --global-batch-size %lld",
		  (long long)o->train_samples, (long long)batch_at(&c->plan.ramp, 0));
}

/* Megatron-LM's rule. */
static int
check_retained(const struct train_options *o, struct err *e)
{
	int64_t retain = o->save_retain_interval, each = o->save_interval;

	if (!retain || (each && retain % each == 0))
		return 0;
	if (!each)
		return err_set(
		    e, "--save-retain-interval %lld: needs --save-interval", (long long)retain);
	return err_set(e,
	    "--save-retain-interval %lld: must be a multiple of --save-interval %lld (try %lld)",
	    (long long)retain, (long long)each, (long long)((retain / each + 1) * each));
}

/* Only checkpoints can be exported. */
static int
check_exports(const struct train_options *o, struct err *e)
{
	int64_t exports = o->save_hf_interval, each = o->save_interval;

	if (!exports || !o->save || (each && exports % each == 0))
		return 0;
	if (!each)
		return err_set(
		    e, "--save-hf-interval %lld: needs --save-interval", (long long)exports);
	return err_set(e,
	    "--save-hf-interval %lld: must be a multiple of --save-interval %lld (try %lld)",
	    (long long)exports, (long long)each, (long long)((exports / each + 1) * each));
}

static int
read_skips(struct train_config *c, struct err *e)
{
	const struct opt_list *l = &c->o.iterations_to_skip;

	c->skips = mem_pool_alloc(&c->parse.pool, (size_t)l->count, sizeof *c->skips);
	return opt_numbers("iterations-to-skip", l, 1, c->skips, e);
}

/* Going back needs checkpoints that hold the whole state of a run. */
static int
read_spikes(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	const char *lacks = !o->save ? "--save" : !o->save_interval ? "--save-interval" : NULL;

	if (!o->rewind_on_spike)
		return 0;
	if (spike_parse(o->rewind_on_spike, &c->spikes, e) < 0)
		return -1;
	if (lacks)
		return err_set(e, "--rewind-on-spike %s: needs %s, for checkpoints to go back to",
		    o->rewind_on_spike, lacks);
	return o->save_optim
	    ? 0
	    : err_set(e,
		  "--rewind-on-spike %s: excludes --no-save-optim: a run cannot go back without "
		  "the optimizer state",
		  o->rewind_on_spike);
}

bool
train_skips(const struct train_config *c, int64_t iteration)
{
	for (int i = 0; i < c->o.iterations_to_skip.count; i++)
		if (c->skips[i] == iteration)
			return true;
	return false;
}

/* Lengths in samples, as Megatron-LM's get_optimizer_param_scheduler has them: a run of steps
 * counts global batches; a run of samples counts all of them, though the last may fill no batch; a
 * share of the decay is not rounded. Decay lasts as long as the run unless an option says
 * otherwise. */
static void
schedule_lengths(const struct train_config *c, struct lr_schedule *s)
{
	const struct train_options *o = &c->o;
	int64_t b = c->plan.global_batch_size;

	if (o->train_samples) {
		s->wd_samples = o->train_samples;
		s->decay_samples = o->lr_decay_samples;
		s->warmup_samples = (double)o->lr_warmup_samples;
		s->wsd_decay_samples = o->lr_wsd_decay_samples;
	} else {
		s->wd_samples = (c->train_iters ? c->train_iters : 1) * b;
		s->decay_samples = o->lr_decay_iters * b;
		s->warmup_samples = (double)(o->lr_warmup_iters * b);
		s->wsd_decay_samples = o->lr_wsd_decay_iters * b;
	}
	if (!s->decay_samples)
		s->decay_samples = s->wd_samples;
	if (opt_given(&c->parse, "lr-warmup-fraction"))
		s->warmup_samples = o->lr_warmup_fraction * (double)s->decay_samples;
	if (o->lr_warmup_tokens)
		s->warmup_samples = (double)o->lr_warmup_tokens / (double)c->plan.shape.seq_length;
}

/* Lengths are in the run's unit, only one option gives the length of the warm-up, and WSD has a
 * tail. 0 means not given, as in Megatron-LM. */
static int
check_lengths(const struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	int samples = o->train_samples > 0;
	static const char *const run[] = { "train-iters", "train-samples" };
	static const char *const tail[] = { "lr-wsd-decay-iters", "lr-wsd-decay-samples" };
	const long long total = samples ? o->train_samples : o->train_iters;
	const struct {
		const char *name[2];
		long long value[2];
	} length[] = {
		{ { "lr-decay-iters", "lr-decay-samples" },
		  { o->lr_decay_iters, o->lr_decay_samples } },
		{ { "lr-warmup-iters", "lr-warmup-samples" },
		  { o->lr_warmup_iters, o->lr_warmup_samples } },
	}, *warmup = &length[1];

	for (size_t i = 0; i < sizeof length / sizeof *length; i++)
		if (length[i].value[!samples])
			return err_set(e, "--%s %lld: is for --%s; --%s %lld takes --%s",
			    length[i].name[!samples], length[i].value[!samples], run[!samples],
			    run[samples], total, length[i].name[samples]);
	if (opt_given(&c->parse, "lr-warmup-fraction") && warmup->value[samples])
		return err_set(e, "--lr-warmup-fraction %g: excludes --%s %lld: give one of them",
		    o->lr_warmup_fraction, warmup->name[samples], warmup->value[samples]);
	if (opt_given(&c->parse, "lr-warmup-fraction") && o->lr_warmup_tokens)
		return err_set(e,
		    "--lr-warmup-fraction %g: excludes --lr-warmup-tokens %lld: give one of them",
		    o->lr_warmup_fraction, (long long)o->lr_warmup_tokens);
	if (lr_has_tail(o->lr_decay_style) && !opt_given(&c->parse, tail[samples]))
		return err_set(e, "--lr-decay-style %s: needs --%s, the length of its tail",
		    lr_styles[o->lr_decay_style], tail[samples]);
	return 0;
}

/* Weight decay has a start and an end when it grows, and only then. */
static int
check_weight_decay(const struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	bool start = opt_given(&c->parse, "start-weight-decay");
	bool end = opt_given(&c->parse, "end-weight-decay");

	if (wd_is_steady(o->weight_decay_incr_style))
		return !start && !end ? 0
				      : err_set(e,
					    "--%s-weight-decay %g: --weight-decay-incr-style %s "
					    "takes --weight-decay",
					    start ? "start" : "end",
					    start ? o->start_weight_decay : o->end_weight_decay,
					    wd_styles[o->weight_decay_incr_style]);
	if (!start || !end)
		return err_set(e,
		    "--weight-decay-incr-style %s: needs --start-weight-decay and "
		    "--end-weight-decay",
		    wd_styles[o->weight_decay_incr_style]);
	if (o->start_weight_decay > o->end_weight_decay)
		return err_set(e, "--start-weight-decay %g: must be at most --end-weight-decay %g",
		    o->start_weight_decay, o->end_weight_decay);
	return 0;
}

/* From the options. A run that trains nothing may leave out the rate, and the rules of Megatron-LM
 * (megatron/training/arguments.py, core/optimizer_param_scheduler.py) do not apply to it. */
static int
schedule(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	bool constant = wd_is_steady(o->weight_decay_incr_style),
	     decoupled = opt_given(&c->parse, "decoupled-lr");
	struct lr_schedule *s = &c->schedule;

	s->style = o->lr_decay_style;
	s->wsd_style = o->lr_wsd_decay_style;
	s->wd_style = o->weight_decay_incr_style;
	s->lr = o->lr;
	s->min_lr = o->min_lr;
	s->vocab_lr = decoupled ? o->decoupled_lr : o->lr;
	s->vocab_min_lr =
	    decoupled && opt_given(&c->parse, "decoupled-min-lr") ? o->decoupled_min_lr : o->min_lr;
	s->lr_warmup_init = o->lr_warmup_init;
	schedule_lengths(c, s);
	s->start_weight_decay = constant ? o->weight_decay : o->start_weight_decay;
	s->end_weight_decay = constant ? o->weight_decay : o->end_weight_decay;
	if (!c->train_iters || c->plan.shape.forward_only)
		return 0;
	if (o->override_schedule && o->use_checkpoint_schedule)
		return err_set(e,
		    "--override-opt_param-scheduler: excludes "
		    "--use-checkpoint-opt_param-scheduler: give one of them");
	return check_lengths(c, e) < 0 || check_weight_decay(c, e) < 0 ? -1 : lr_check(s, e);
}

/* False for mock data, inference, measurements of a machine and a dry run. */
bool
train_reads_data(const struct train_config *c)
{
	const struct train_options *o = &c->o;

	return !o->dry_run && !o->calibrate && !o->tokens_file && !o->generate && !o->mock_data;
}

/* Finds what the backend cannot compute. A plan for other machines is not held to this one's
 * limits. A backend that is not available at all is reported by train_run, with its reason. */
static int
check_backend(const struct train_config *c, struct err *e)
{
	struct err ignored;
	const struct backend *b = backend_choose(mtrain_backends[c->o.backend], &ignored);
	const struct model_config *m = &c->plan.model;

	if (!b || (c->o.dry_run && !opt_given(&c->parse, "backend")))
		return 0;
	if (c->o.attention_backend && b->one_attention)
		note("--attention-backend %s: changes nothing on the %s backend, which has one "
		     "attention",
		    mtrain_attention_backends[c->o.attention_backend], b->name);
	if (m->num_experts > b->max_experts)
		return err_set(e, "--num-experts %lld: the %s backend routes among at most %lld",
		    (long long)m->num_experts, b->name, (long long)b->max_experts);
	if (b->max_head_size && m->kv_channels > b->max_head_size)
		return err_set(e,
		    "--kv-channels %lld: the %s backend computes heads of at most %lld; with more "
		    "--num-attention-heads they are narrower",
		    (long long)m->kv_channels, b->name, (long long)b->max_head_size);
	if (b->max_norm && m->hidden_size > b->max_norm)
		return err_set(e, "--hidden-size %lld: the %s backend computes at most %lld",
		    (long long)m->hidden_size, b->name, (long long)b->max_norm);
	if (b->max_norm && m->qk_layernorm_hidden_dim &&
	    m->num_attention_heads * m->kv_channels > b->max_norm)
		return err_set(e,
		    "--qk-layernorm-hidden-dim: %lld elements of all heads: the %s backend "
		    "computes at most %lld",
		    (long long)(m->num_attention_heads * m->kv_channels), b->name,
		    (long long)b->max_norm);
	return 0;
}

/* Comparisons need something to compare, and results that repeat. */
static int
check_comparisons(const struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	struct err ignored;
	const struct backend *b = backend_choose(mtrain_backends[o->backend], &ignored);

	if (o->verify_interval && b && !b->repeatable && !o->deterministic_mode &&
	    !hopper_serves(&c->plan.model, &c->plan.shape, false))
		return err_set(e,
		    "--verify-interval %lld: needs --deterministic-mode on the %s backend, whose "
		    "attention otherwise adds in an order that changes",
		    (long long)o->verify_interval, b->name);
	if (o->check_weight_hash_interval && c->plan.shape.sharding >= SHARDING_PARAMS)
		return err_set(e,
		    "--check-weight-hash-across-dp-replicas-interval %lld: data ranks have no "
		    "weights in common with --data-parallel-sharding-strategy %s",
		    (long long)o->check_weight_hash_interval,
		    opt_shardings[c->plan.shape.sharding]);
	return 0;
}

void
train_scale_tokens(struct train_config *c, int64_t samples)
{
	if (c->o.run.fp16)
		c->scaler.tokens = (double)samples * (double)c->plan.shape.seq_length;
}

/* The loss scale is 1 outside fp16: bf16 and fp32 have the range of fp32, where a scale does not
 * help against overflow. */
static int
numerics(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	bool fixed = o->loss_scale > 0;

	c->optim =
	    (struct optim_options){ o->run.optimizer, o->adam_beta1, o->adam_beta2, o->adam_eps,
		    o->sgd_momentum, o->decoupled_weight_decay, o->clip_grad, o->muon, o->qk_clip };
	c->scaler = (struct scaler){ .dynamic = o->run.fp16 && !fixed,
		.scale = 1,
		.tokens = 1,
		.min_scale = o->min_loss_scale,
		.growth_interval = o->loss_scale_growth_interval,
		.hysteresis = o->hysteresis,
		.hysteresis_left = o->hysteresis };
	if (o->run.fp16) {
		c->scaler.scale = fixed ? o->loss_scale : o->initial_loss_scale;
		train_scale_tokens(c, c->plan.global_batch_size);
	}
	if (!c->scaler.dynamic)
		return 0;
	if (o->min_loss_scale <= 0)
		return err_set(
		    e, "--min-loss-scale %g: must be above 0; 1 is usual", o->min_loss_scale);
	return o->min_loss_scale <= o->initial_loss_scale
	    ? 0
	    : err_set(e, "--min-loss-scale %.15g: must be at most --initial-loss-scale %.15g",
		  o->min_loss_scale, o->initial_loss_scale);
}

/* A default may be asked for, but not together with its opposite. */
static int
check_overlap(const struct train_config *c, struct err *e)
{
	static const char *const pairs[][2] = {
		{ "overlap-grad-reduce", "no-overlap-grad-reduce" },
		{ "overlap-param-gather", "no-overlap-param-gather" },
	};

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (opt_foreign_given(&c->parse, pairs[i][0]) && opt_given(&c->parse, pairs[i][1]))
			return err_set(e, "--%s and --%s exclude each other: give one of them",
			    pairs[i][0], pairs[i][1]);
	return 0;
}

/* Rules that need neither the model nor the layout. A run that trains nothing may leave out what
 * trains. */
static void
check_alone(struct train_config *c)
{
	const struct train_options *o = &c->o;
	bool ends = o->train_iters || o->train_samples;
	struct err e;

	if (o->world_size && !o->dry_run)
		opt_rule(&c->parse,
		    err_set(&e,
			"--world-size: is for --dry-run; a run has the ranks that mpirun starts"),
		    &e);
	opt_rule(&c->parse, check_overlap(c, &e), &e);
	opt_rule(&c->parse, read_skips(c, &e), &e);
	opt_rule(&c->parse, read_spikes(c, &e), &e);
	opt_rule(&c->parse, check_retained(o, &e), &e);
	opt_rule(&c->parse, check_exports(o, &e), &e);
	deepspeed_experts(c);
	if (optim_rules[o->run.optimizer].matrix_states)
		opt_rule(&c->parse,
		    muon_check_steps(o->muon.coefficient_type, o->muon.num_ns_steps, &e), &e);
	if (trains(o) && !ends && !o->dry_run)
		opt_needed(&c->parse, "train-iters", "or --train-samples");
	if (trains(o) && (ends || !o->dry_run) && !opt_given(&c->parse, "lr"))
		opt_needed(&c->parse, "lr", "1e-4 to 1e-3 is usual");
}

/* Any size will do for rules about the rest, where a tokenizer does not open. */
static int64_t
vocabulary(const struct train_config *c)
{
	return c->tokenizer            ? tokenizer_vocab_size(c->tokenizer)
	    : train_lacks_tokenizer(c) ? PLANNED_VOCABULARY
				       : 0;
}

/* The model, layout, batch and shape. Errors join those of the parse. */
static int
resolve(struct train_config *c, int64_t world_size)
{
	struct train_options *o = &c->o;
	struct model_config model;
	struct str notes = { 0 };
	struct err e;
	int rc, fixed = 0;

	if (opt_rule(&c->parse, train_start(c, &e), &e) == 0)
		fixed = opt_rule(&c->parse, train_checkpoint_model(c, &model, &e), &e);
	if (fixed < 0)
		return -1;
	o->run.model.fixed = fixed ? &model : NULL;
	o->run.model.keep_recipe = fixed && o->use_checkpoint_args;
	rc = run_rules(&c->parse, &o->run, world_size, vocabulary(c), &c->plan, &notes);
	o->run.model.fixed = NULL;
	o->run.model.keep_recipe = false;
	/* a source says these itself */
	if (rc == 0 &&
	    (!c->weights_from || !o->run.model.path || strcmp(c->weights_from, o->run.model.path)))
		run_note_config(&o->run, &notes);
	if (rc == 0)
		str_adds(&c->parse.notes, notes.len ? notes.buf : "");
	str_release(&notes);
	return rc;
}

/* Attention of our own for Hopper: by name, by the GPU that a plan is made for, by that here. */
static enum hopper_use
hopper_of(const struct train_config *c)
{
	const struct backend *b;
	struct hardware hw;
	struct err ignored;

	if (c->o.attention_backend)
		return strcmp(mtrain_attention_backends[c->o.attention_backend], "hopper") == 0
		    ? HOPPER_NAMED
		    : HOPPER_NO;
	if (c->o.dry_run && opt_given(&c->parse, "gpu")) {
		hardware_row(c->o.gpu, &hw);
		return hw.hopper ? HOPPER_YES : HOPPER_NO;
	}
	b = backend_choose(mtrain_backends[c->o.backend], &ignored);
	return !b || b->one_attention                              ? HOPPER_PERHAPS
	    : b->has_hopper_attention && b->has_hopper_attention() ? HOPPER_YES
								   : HOPPER_NO;
}

/* Planned ranks are on one machine. */
static int64_t
expert_hosts(const struct train_config *c)
{
	const struct layout *l = &c->plan.layout;
	int64_t world = layout_world(l), hosts = c->o.pretend_hosts;

	if (!c->plan.model.num_experts || (!c->hosts && world % hosts))
		return 1;
	return hosts_of_experts(l, &(struct host_places){ c->hosts, world / hosts });
}

/* As layout.host_ranks has it. */
static int64_t
host_ranks(const struct train_config *c)
{
	int64_t world = layout_world(&c->plan.layout);
	struct hosts h;

	if (!c->hosts)
		return world % c->o.pretend_hosts ? 1 : world / c->o.pretend_hosts;
	hosts_of(&h, c->hosts, (int)world, 0);
	return h.inside;
}

/* What else follows from the options, once the plan is known. */
static void
apply(struct train_config *c)
{
	const struct train_options *o = &c->o;
	struct run_plan *p = &c->plan;

	p->layout.expert_hosts = expert_hosts(c);
	p->layout.host_ranks = host_ranks(c);
	p->layout.sockets = o->pretend_hosts > 1;
	if (!p->model.eos_token_id.count && c->eod >= 0)
		p->model.eos_token_id = (struct id_list){ 1, { c->eod } };
	if (train_documents_apart(o))
		p->shape.reset_attention_mask = true;
	/* Inference runs one text, which is one document. */
	if (o->tokens_file || o->generate)
		p->shape.reset_attention_mask = false;
	if (o->calculate_per_token_loss && !model_router_losses(&p->model))
		str_adds(&c->parse.notes,
		    "--calculate-per-token-loss: the loss is always a mean over the tokens of a "
		    "batch\n");
	p->shape.deterministic = o->deterministic_mode;
	p->shape.hopper = hopper_of(c);
	p->shape.hashed = o->verify_interval || o->check_weight_hash_interval;
	p->shape.forward_only = o->skip_train || o->tokens_file || o->generate;
	p->tasks = o->eval_tasks.count > 0;
}

static int
check_vocabulary(const struct train_config *c, struct err *e)
{
	long long size = c->plan.model.vocab_size,
		  least = c->tokenizer ? (long long)tokenizer_vocab_size(c->tokenizer) : 0;

	return size >= least
	    ? 0
	    : err_set(e, "--vocab-size %lld: must be at least the tokenizer's %lld", size, least);
}

/* Whoever names the kind of linear attention wants some: without layers that have it Megatron-LM
 * ends, too. */
static int
check_linear(const struct train_config *c, struct err *e)
{
	static const char *const names[] = { "experimental-attention-variant",
		"linear-attention-type" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (opt_foreign_given(&c->parse, names[i]) && !model_has_linear(&c->plan.model))
			return err_set(
			    e, "--%s: needs --linear-attention-freq (4 is usual)", names[i]);
	return 0;
}

/* Rules about a plan that is known. */
static void
check_plan(struct train_config *c, int64_t world_size)
{
	const struct opt_parse *p = &c->parse;
	struct err e;

	opt_rule(p, check_vocabulary(c, &e), &e);
	opt_rule(p, check_linear(c, &e), &e);
	opt_rule(p, numerics(c, &e), &e);
	opt_rule(p, check_backend(c, &e), &e);
	opt_rule(p, check_comparisons(c, &e), &e);
	opt_rule(p, eval_batch(c, &e), &e);
	if (opt_rule(p, train_length(c, &e), &e) == 0)
		opt_rule(p, schedule(c, &e), &e);
	opt_rule(p, fault_read(&c->fault, world_size, &e), &e);
	if (c->o.dry_run) /* planned ranks are on one machine */
		opt_rule(p, hosts_pretended(0, (int)world_size, c->o.pretend_hosts, &e), &e);
}

/* Not collective: every rank computes the same from the same files. What it opened is freed by
 * train_release, also on failure. What relies on something that is wrong is not looked at; all else
 * is, for one answer. */
int
train_check(struct train_config *c, int64_t world_size, struct err *e)
{
	const struct opt_parse *p = &c->parse;
	struct err why;

	check_alone(c);
	opt_rule(p, train_open_tokenizer(c, &why), &why);
	opt_rule(p, train_check_fim(c, &why), &why);
	opt_rule(p, train_read_stops(c, &why), &why);
	if (resolve(c, world_size) == 0) {
		apply(c);
		check_plan(c, world_size);
	}
	opt_rule(p, train_check_files(c, &why), &why);
	if (opt_answer(p, e) < 0) {
		c->unreadable = c->unreadable && p->errors->count == 1;
		return -1;
	}
	return 0;
}

/* Notes were collected while options were read, before it was known whether this rank may print. */
int
train_configure(struct train_config *c, int64_t world_size, struct err *e)
{
	if (train_check(c, world_size, e) < 0)
		return -1;
	cli_say(&c->parse.notes, note);
	return 0;
}

/* The options after the model group: those of the model follow from model_dump. This is what a
 * checkpoint's options file and a run's record hold: reading it back gives this configuration. */
void
train_dump(const struct train_config *c, bool defaults, struct str *out)
{
	struct opt_parse rest = c->parse;

	while (rest.table->type != OPT_GROUP || strcmp(rest.table->help, "Layout")) {
		rest.table++;
		rest.given++;
	}
	model_dump(&c->plan.model, out);
	opt_dump(&rest, !defaults, out);
}
