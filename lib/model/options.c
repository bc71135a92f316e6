/*
 * options.c - from options to a model, a layout and a shape
 *
 * Three sources, in rising order of precedence: the built-in defaults, a config.json or the config
 * of a checkpoint, and the options given. An option's default must therefore not overwrite a
 * config's value; model_take takes care of that. Derived sizes follow when everything else is
 * known. mplan and mtrain both come through here, so that a plan describes the run that would
 * happen.
 */
#include "lib/model/family.h"
#include "lib/model/layout_text.h"
#include "lib/model/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const opt_cp_comm_types[] = { "p2p", "all_gather", "allgather", "a2a", "a2a+p2p",
	NULL };
const char *const opt_dispatchers[] = { "allgather", "alltoall", NULL };
const char *const opt_dispatcher_words[] = { "flex", "alltoall", NULL };
const char *const opt_shardings[] = { "no_shard", "optim", "optim_grads", "optim_grads_params",
	NULL };
const char *const opt_outer_shardings[] = { "no_shard", "optim", NULL };
const char *const opt_recompute_granularities[] = { "none", "selective", "full", NULL };
const char *const opt_recompute_methods[] = { "uniform", "block", NULL };

enum { MICROBATCHES_MAX = 1 << 24 };
/* Of opt_dispatchers. */
enum { DISPATCH_ALLGATHER, DISPATCH_ALLTOALL };
/* Of opt_cp_comm_types. */
enum { COMM_P2P, COMM_ALL_GATHER, COMM_ALLGATHER, COMM_A2A, COMM_A2A_P2P };

/* A note for each option of the recipe that was given and is overridden. */
static void
note_kept(const struct opt_parse *p, const struct run_options *o, const struct model_config *c,
    struct str *notes)
{
	struct run_options typed = *o;
	struct model_config other;
	struct str differences = { 0 };
	struct err ignored;

	typed.model.keep_recipe = false;
	if (run_model(p, &typed, 0, &other, &ignored) == 0)
		model_differences(c, &other, &differences);
	for (const char *at = differences.buf; at && *at; at += strcspn(at, "\n") + 1) {
		const char *kept = strchr(at, '\t') + 1, *lost = strchr(kept, '\t') + 1;

		str_addf(notes,
		    "--use-checkpoint-args: the checkpoint has %.*s, which counts; the command "
		    "line has %.*s\n",
		    (int)(lost - kept - 1), kept, (int)strcspn(lost, "\n"), lost);
	}
	str_release(&differences);
}

/* Of one replica of the model. A product of sizes that divide nothing may be beyond 64 bits. */
static double
ranks_each(const struct layout *l)
{
	return (double)l->tensor_model_parallel_size * (double)l->context_parallel_size *
	    (double)l->pipeline_model_parallel_size;
}

/*
 * world = t p c d: data parallelism is what the other axes leave over, so the ranks that one
 * replica of the model takes must divide those there are. The model's rules are checked first, with
 * d = 1, so that their messages come before the one about ranks.
 */
static int
resolve_layout(const struct run_options *o, int64_t world, struct run_plan *plan, struct err *e)
{
	struct layout *l = &plan->layout;
	int64_t t = o->layout.tensor_model_parallel_size, c = o->layout.context_parallel_size,
		p = o->layout.pipeline_model_parallel_size;
	double each = ranks_each(&o->layout), most = floor((double)world / each);
	char context[64] = "";

	*l = o->layout;
	l->data_parallel_size = 1;
	if (!plan->model.num_experts)
		l->expert_tensor_parallel_size = 0;
	if (layout_check(l, &plan->model, e) < 0)
		return -1;
	if (c > 1)
		snprintf(context, sizeof context, "--context-parallel-size %lld x ", (long long)c);
	if (fmod((double)world, each) != 0)
		return err_set(e,
		    "%lld ranks: must be a multiple of --tensor-model-parallel-size %lld x %s"
		    "--pipeline-model-parallel-size %lld = %.0f (try %.0f)",
		    (long long)world, (long long)t, context, (long long)p, each,
		    (most < 1 ? 1 : most) * each);
	l->data_parallel_size = world / layout_world(l);
	return 0;
}

static int64_t
seq_length(const struct run_options *o, const struct model_config *c)
{
	return o->seq_length ? o->seq_length : model_longest(c);
}

/* Samples that all ranks process at once. */
static int64_t
at_once(const struct run_plan *plan)
{
	return plan->shape.micro_batch_size * plan->layout.data_parallel_size;
}

/* The sizes of the steps, from the one option that sets them. Without one a step is a micro batch
 * of each rank, or a group of them where chunks take turns. */
static int
step_sizes(
    const struct opt_parse *p, const struct run_options *o, struct run_plan *plan, struct err *e)
{
	bool global = opt_given(p, "global-batch-size"), linear = opt_given(p, "rampup-batch-size");
	struct schedule_shape turns = layout_schedule(&plan->layout, 1, true);
	int64_t least = at_once(plan) * (turns.num_chunks > 1 ? turns.group_size : 1);

	if (opt_bad(p, "global-batch-size"))
		return err_set(e, "--global-batch-size: has no value");
	if (o->step_batch_size_schedule && (global || linear))
		return err_set(e, "--step-batch-size-schedule: excludes --%s: give one of them",
		    global ? "global-batch-size" : "rampup-batch-size");
	if (linear && !global)
		return err_set(
		    e, "--rampup-batch-size: needs --global-batch-size, the size that it leads to");
	if (linear)
		return batch_linear(&plan->ramp, &o->rampup_batch_size, o->global_batch_size, e);
	if (o->step_batch_size_schedule)
		return batch_table(
		    &plan->ramp, o->step_batch_size_schedule, plan->shape.seq_length, e);
	plan->ramp = batch_constant(global ? o->global_batch_size : least);
	return 0;
}

int64_t
run_rows(const struct run_plan *plan)
{
	return layout_held(&plan->layout, plan->shape.seq_length) * plan->shape.micro_batch_size;
}

int64_t
run_document_rows(const struct run_plan *plan)
{
	return plan->shape.context_form == CONTEXT_HEADS
	    ? plan->shape.seq_length * plan->shape.micro_batch_size
	    : run_rows(plan);
}

int
run_microbatches(const struct run_plan *plan, int64_t samples)
{
	return (int)(samples / at_once(plan));
}

int
run_check_batch(const struct run_plan *plan, const char *option, int64_t samples, struct err *e)
{
	int64_t once = at_once(plan), below = samples / once * once;

	if (samples % once)
		return err_set(e,
		    "--%s %lld: must be a multiple of --micro-batch-size x data-parallel size = "
		    "%lld (try %lld)",
		    option, (long long)samples, (long long)once, (long long)(below ? below : once));
	if (samples / once > MICROBATCHES_MAX)
		return err_set(e, "--%s %lld: more than %d micro batches per step; try %lld",
		    option, (long long)samples, MICROBATCHES_MAX,
		    (long long)once * MICROBATCHES_MAX);
	return 0;
}

/* The micro batches of every step divide into the groups that interleaved stages pass to their
 * chunks. */
static int
check_turns(const struct run_plan *plan, const char *option, struct err *e)
{
	int64_t size;

	for (int64_t i = 0; (size = batch_size(&plan->ramp, i)) > 0; i++) {
		int m = run_microbatches(plan, size);
		struct schedule_shape s = layout_schedule(&plan->layout, m, true);
		int groups = m < s.group_size ? 1 : m / s.group_size;

		if (!schedule_fits(&s))
			return err_set(e,
			    "--%s %lld: makes %d micro batches: must be a multiple of %d with "
			    "interleaved stages, or leave at least %d (try %lld)",
			    option, (long long)size, m, s.group_size, s.num_stages,
			    (long long)(groups * s.group_size * at_once(plan)));
	}
	return 0;
}

/* The option that sets the sizes. */
static const char *
batch_option(const struct run_options *o)
{
	if (o->step_batch_size_schedule)
		return "step-batch-size-schedule";
	return o->rampup_batch_size.count ? "rampup-batch-size" : "global-batch-size";
}

/* The sizes of the steps, each a multiple of what all ranks process at once. */
static int
batch_sizes(
    const struct opt_parse *p, const struct run_options *o, struct run_plan *plan, struct err *e)
{
	const char *option = batch_option(o);
	int64_t uneven;

	plan->shape.micro_batch_size = o->micro_batch_size;
	if (step_sizes(p, o, plan, e) < 0)
		return -1;
	uneven = batch_uneven(&plan->ramp, at_once(plan));
	plan->global_batch_size = plan->eval_batch_size = batch_largest(&plan->ramp);
	plan->shape.num_microbatches = run_microbatches(plan, plan->global_batch_size);
	return run_check_batch(plan, option, uneven ? uneven : plan->global_batch_size, e);
}

/* Beside a rule about the model that has failed, which the sizes do not need. */
static void
batch_alone(const struct opt_parse *p, const struct run_options *o, int64_t world)
{
	struct run_plan plan = { .layout = o->layout };
	double rows = (double)world / ranks_each(&o->layout);
	struct err e;

	plan.layout.data_parallel_size = (int64_t)rows;
	if (rows == floor(rows) && !opt_bad_group(p, "Layout") &&
	    opt_given(p, "global-batch-size") && !opt_given(p, "step-batch-size-schedule"))
		opt_rule(p, batch_sizes(p, o, &plan, &e), &e);
}

/* How ranks share a sequence. */
static int
resolve_context(
    const struct run_options *o, struct run_plan *plan, struct str *notes, struct err *e)
{
	bool shared = plan->layout.context_parallel_size > 1;

	if (o->cp_comm_type == COMM_A2A_P2P)
		return err_set(e,
		    "--cp-comm-type a2a+p2p: context parallelism of two levels is not supported; "
		    "give a2a or all_gather");
	if (shared && o->cp_comm_type == COMM_P2P)
		str_adds(notes,
		    "--cp-comm-type p2p: keys and values are gathered, as with all_gather; there "
		    "is no ring\n");
	plan->shape.context_form = o->cp_comm_type == COMM_A2A ? CONTEXT_HEADS : CONTEXT_GATHER;
	return o->cp_comm_type == COMM_A2A ? layout_check_heads(&plan->layout, &plan->model, e) : 0;
}

/* Options that only models with experts have. */
static int
resolve_experts(const struct opt_parse *p, const struct run_options *o, struct run_plan *plan,
    struct str *notes, struct err *e)
{
	const struct layout *l = &plan->layout;

	if (!plan->model.num_experts && l->expert_model_parallel_size > 1)
		return err_set(e, "--expert-model-parallel-size %lld: needs --num-experts",
		    (long long)l->expert_model_parallel_size);
	if (plan->model.num_experts && o->dispatcher == DISPATCH_ALLGATHER &&
	    opt_given(p, "moe-token-dispatcher-type"))
		str_adds(notes,
		    "--moe-token-dispatcher-type allgather: rows are sent to the ranks of their "
		    "experts alone, as with alltoall\n");
	return capacity_resolve(p, &o->capacity, &plan->model, &plan->shape, notes, e);
}

/* Megatron-LM's strategy, or the one that its other options imply. */
static int
resolve_sharding(
    const struct opt_parse *p, const struct run_options *o, enum sharding *out, struct err *e)
{
	bool fsdp = o->use_megatron_fsdp || o->use_torch_fsdp2;

	*out = opt_given(p, "data-parallel-sharding-strategy") ? (enum sharding)o->sharding
	    : fsdp                                             ? SHARDING_PARAMS
	    : o->use_distributed_optimizer                     ? SHARDING_OPTIM
							       : SHARDING_NONE;
	if (o->use_megatron_fsdp && o->use_torch_fsdp2)
		return err_set(e, "--use-megatron-fsdp and --use-torch-fsdp2 exclude each other");
	if (*out == SHARDING_NONE && o->use_distributed_optimizer)
		return err_set(e,
		    "--data-parallel-sharding-strategy no_shard: with --use-distributed-optimizer "
		    "it must be optim, optim_grads or optim_grads_params");
	return 0;
}

int
run_check_instances(int64_t instances, enum sharding sharding, struct err *e)
{
	if (instances > 1 && sharding == SHARDING_NONE)
		return err_set(e,
		    "--num-distributed-optimizer-instances %lld: needs what they share: "
		    "--use-distributed-optimizer, or --data-parallel-sharding-strategy",
		    (long long)instances);
	return 0;
}

void
run_join_instances(struct layout *l, enum sharding sharding)
{
	if (sharding == SHARDING_OPTIM && layout_state_instances(l) > 1)
		l->optimizer_instances = 1;
}

static int
resolve_instances(struct run_plan *plan, struct err *e)
{
	struct layout *l = &plan->layout;

	if (run_check_instances(l->optimizer_instances, plan->shape.sharding, e) < 0 ||
	    layout_check_instances(l, &plan->model, e) < 0)
		return -1;
	run_join_instances(l, plan->shape.sharding);
	return 0;
}

/*
 * The sequence cannot exceed a table of learned positions or a number that was given, as in
 * Megatron-LM; for other positions the nominal length from a config.json or a checkpoint is raised,
 * and the checkpoint records the new one.
 */
static int
resolve_shape(
    const struct opt_parse *p, const struct run_options *o, struct run_plan *plan, struct err *e)
{
	const struct model_config *c = &plan->model;
	struct train_shape *s = &plan->shape;
	/* An upper bound of the elements that a token saves for the backward pass in one layer. */
	double row = 4 * (double)c->hidden_size +
	    5 * (double)(c->num_attention_heads * c->kv_channels) + 3 * (double)c->ffn_hidden_size +
	    4 * (double)(c->linear_num_key_heads * c->linear_key_head_dim) +
	    4 * (double)(c->linear_num_value_heads * c->linear_value_head_dim);

	if (o->bf16 + o->fp16 + o->fp64 > 1)
		return err_set(e, "--bf16, --fp16 and --fp64 exclude each other: give one of them");
	s->dtype = o->bf16 ? DTYPE_BF16 : o->fp16 ? DTYPE_F16 : o->fp64 ? DTYPE_F64 : DTYPE_F32;
	s->seq_length = seq_length(o, &plan->model);
	s->bucket_size = o->ddp_bucket_size;
	s->grad_reduce_in_bf16 = o->grad_reduce_in_bf16;
	s->tp_comm_overlap = o->tp_comm_overlap;
	s->fp32_residual_connection = o->fp32_residual_connection;
	if (resolve_sharding(p, o, &s->sharding, e) < 0 || resolve_instances(plan, e) < 0)
		return -1;
	s->reset_attention_mask = o->reset_attention_mask;
	s->rule = &optim_rules[o->optimizer];
	s->averaged = o->ema_decay > 0;
	s->qk_clip = o->qk_clip;
	if (s->seq_length < 1)
		return err_set(e, "--seq-length: is needed");
	if ((plan->model.position == POSITION_LEARNED || opt_given(p, "max-position-embeddings")) &&
	    s->seq_length > plan->model.max_position_embeddings)
		return err_set(e,
		    "--seq-length %lld: must be at most --max-position-embeddings %lld",
		    (long long)s->seq_length, (long long)plan->model.max_position_embeddings);
	if (model_check_length(&plan->model, s->seq_length, e) < 0 ||
	    layout_check_rows(&plan->layout, s->seq_length, e) < 0)
		return -1;
	if (plan->model.max_position_embeddings < s->seq_length)
		plan->model.max_position_embeddings = s->seq_length;
	if (s->seq_length > (1 << 30) / o->micro_batch_size)
		return err_set(e,
		    "--micro-batch-size %lld: seq-length x micro-batch-size must be below 2^30",
		    (long long)o->micro_batch_size);
	/* In double, which cannot overflow: it bounds the sums of the memory plan that is made
	 * next. */
	if (row * (double)(s->seq_length * o->micro_batch_size) * (double)c->num_layers > 0x1p55)
		return err_set(e,
		    "--seq-length %lld: the activations of one micro batch are larger than any "
		    "size this program "
		    "can hold",
		    (long long)s->seq_length);
	return 0;
}

/* Scores have to grow with the weights that shrink: norms of heads come after these, and those of
 * latents before them. */
static int
check_clip(const struct run_plan *plan, struct err *e)
{
	bool normed = plan->model.qk_layernorm && !plan->model.multi_latent_attention;

	return plan->shape.qk_clip && normed
	    ? err_set(e, "--qk-clip: is not supported with --qk-layernorm")
	    : 0;
}

/* Rows of a filter belong to channels of their own. */
static int
check_linear(const struct run_plan *plan, struct err *e)
{
	const struct optim_rule *rule = plan->shape.rule;

	return model_has_linear(&plan->model) && rule && rule->matrix_states
	    ? err_set(e,
		  "--linear-attention-freq: its filters are no matrices for an update rule of "
		  "matrices: give --optimizer adam")
	    : 0;
}

/* Layers after the head read the table of positions, which is on the first stage alone. */
static int
check_later(const struct run_plan *plan, struct err *e)
{
	const struct model_config *c = &plan->model;

	return c->mtp_num_layers && c->position == POSITION_LEARNED &&
		plan->layout.pipeline_model_parallel_size > 1
	    ? err_set(e,
		  "--mtp-num-layers %lld: needs --pipeline-model-parallel-size 1 with "
		  "--position-embedding-type learned_absolute",
		  (long long)c->mtp_num_layers)
	    : 0;
}

/* A device and a host may round differently, and copies of a tied table must stay equal. */
static int
check_offload(const struct run_plan *plan, struct err *e)
{
	double share = plan->shape.optimizer_offload;

	if (share == 0 || share == 1 || !model_table_at_ends(&plan->model) ||
	    plan->layout.pipeline_model_parallel_size == 1)
		return 0;
	return err_set(e,
	    "--optimizer-offload-fraction %g: must be 0 or 1 where pipeline stages have copies of "
	    "one table%s",
	    share,
	    plan->model.mtp_num_layers ? ", as with --mtp-num-layers"
				       : "; --untie-embeddings-and-output-weights makes them two");
}

/* The loss of the balance counts as often as that of the tokens, however many ranks have these. */
static void
note_balance(const struct run_plan *plan, struct str *notes)
{
	int64_t ranks = plan->layout.data_parallel_size;
	double coefficient = plan->model.moe_aux_loss_coeff;

	if (model_balances_globally(&plan->model) && coefficient > 0 && ranks > 1)
		str_addf(notes,
		    "--moe-aux-loss-coeff %g: Megatron-LM divides gradients of global_aux_loss by "
		    "the number of data ranks: --moe-aux-loss-coeff %g is the same with %lld of "
		    "them\n",
		    coefficient, coefficient / (double)ranks, (long long)ranks);
}

/* What changes nothing here, and what costs much. */
static void
note_effects(const struct run_plan *plan, struct str *notes)
{
	const struct train_shape *s = &plan->shape;
	long long data_ranks = layout_data_ranks(&plan->layout), n = s->num_microbatches;

	note_balance(plan, notes);
	if (s->recompute.modules & RECOMPUTE_CORE_ATTN)
		str_adds(notes,
		    "--recompute-modules core_attn: changes nothing: attention is always "
		    "recomputed\n");
	if (s->recompute.modules & RECOMPUTE_MOE_ACT)
		str_adds(notes,
		    "--recompute-modules moe_act: changes nothing: activations of experts are "
		    "always recomputed\n");
	if (s->recompute.modules & (RECOMPUTE_MOE | RECOMPUTE_SHARED_EXPERTS))
		str_addf(notes,
		    "--recompute-modules %s: is not recomputed alone, and its activations are "
		    "kept; "
		    "--recompute-granularity full recomputes all\n",
		    s->recompute.modules & RECOMPUTE_MOE ? "moe" : "shared_experts");
	/* A pipeline has many micro batches. */
	if (plan->layout.pipeline_model_parallel_size > 1 && data_ranks > 1 &&
	    s->sharding >= SHARDING_GRADS) {
		str_addf(notes,
		    "--data-parallel-sharding-strategy %s: a step reduces gradients %lld times, "
		    "once per micro batch",
		    opt_shardings[s->sharding], n);
		if (s->sharding == SHARDING_PARAMS)
			str_addf(notes, ", and gathers weights up to %lld times, once per pass",
			    (s->recompute.granularity == RECOMPUTE_FULL ? 3 : 2) * n);
		str_adds(notes, "; with optim, once\n");
	}
	if (layout_instances(&plan->layout) > 1 && s->sharding == SHARDING_OPTIM)
		str_adds(notes,
		    "--num-distributed-optimizer-instances: where only the optimizer is sharded, "
		    "a third more bytes go between hosts than with one instance\n");
	if (s->rule->matrix_states && !s->sharding && data_ranks > 1)
		str_addf(notes,
		    "--optimizer %s: each of %lld data ranks updates all its matrices; with "
		    "--use-distributed-optimizer they share them\n",
		    s->rule->name, data_ranks);
}

/* As in Megatron-LM, not all layers. */
static int
check_offloaded(const struct run_plan *plan, struct err *e)
{
	long long offloaded = plan->shape.offloaded_layers, layers = plan->model.num_layers;

	return !offloaded || offloaded < layers
	    ? 0
	    : err_set(e, "--cpu-offloading-num-layers %lld: must be less than --num-layers %lld",
		  offloaded, layers);
}

/* A module that no layer has would be left out silently. */
static int
check_modules(const struct run_plan *plan, struct err *e)
{
	const struct model_config *c = &plan->model;

	return plan->shape.recompute.modules & RECOMPUTE_MLP &&
		model_expert_layers(c) == c->num_layers
	    ? err_set(e,
		  "--recompute-modules mlp: every layer has experts in its place, which "
		  "--recompute-granularity full computes again")
	    : 0;
}

/* A block without a norm of its input reads the residual stream as it is. */
static int
check_residual(const struct run_plan *plan, struct err *e)
{
	return plan->shape.fp32_residual_connection &&
		plan->model.norm_placement == NORM_PLACEMENT_POST
	    ? err_set(e, "--fp32-residual-connection: is for --norm-placement pre or both")
	    : 0;
}

/* The model, its layers on the ranks, and the shape of a pass: what other rules build on. */
static int
resolve_sizes(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    struct run_plan *plan)
{
	struct err e;
	int rc;

	if (opt_bad_group(p, "Layout") ||
	    opt_rule(p, resolve_layout(o, world_size, plan, &e), &e) < 0)
		return -1;
	rc = opt_rule(p, layout_check_experts(&plan->layout, &plan->model, &e), &e);
	if (opt_rule(p, resolve_shape(p, o, plan, &e), &e) < 0)
		return -1;
	rc |= opt_rule(p,
	    split_resolve(&o->split, &plan->model, plan->shape.seq_length, &plan->layout, &e), &e);
	if (rc < 0)
		return -1;
	plan->layout.overlap_p2p = o->overlap_p2p_communication && layout_chunks(&plan->layout) > 1;
	return 0;
}

/* Rules that need a layout and a shape, and not each other. */
static int
resolve_rest(const struct opt_parse *p, const struct run_options *o, struct run_plan *plan,
    struct str *notes)
{
	struct train_shape *s = &plan->shape;
	struct err e;
	int rc = opt_rule(p, resolve_experts(p, o, plan, notes, &e), &e);

	rc |= opt_rule(p, resolve_context(o, plan, notes, &e), &e);
	rc |= opt_rule(p, check_offloaded(plan, &e), &e);
	rc |= opt_rule(p, check_modules(plan, &e), &e);
	rc |= opt_rule(p, batch_sizes(p, o, plan, &e), &e) < 0
	    ? -1
	    : opt_rule(p, check_turns(plan, batch_option(o), &e), &e);
	rc |= opt_rule(p, check_residual(plan, &e), &e);
	rc |= opt_rule(p, optim_types_resolve(&o->optim_types, &plan->layout, s, notes, &e), &e);
	rc |= opt_rule(p, check_offload(plan, &e), &e);
	rc |= opt_rule(p, check_later(plan, &e), &e);
	rc |= opt_rule(p, fp8_resolve(&o->fp8, &plan->model, &plan->layout, s, &e), &e);
	return rc | opt_rule(p, check_clip(plan, &e), &e) | opt_rule(p, check_linear(plan, &e), &e);
}

/* Whether something is read depends on the model that was resolved, which may not be the typed
 * one. */
static void
note_unread(const struct opt_parse *p, const struct run_options *o, const struct run_plan *plan,
    struct str *notes)
{
	struct model_options model = o->model;
	struct opt_overlay over = { .off = (size_t)((const char *)&o->model - (const char *)p->cfg),
		.size = sizeof model,
		.at = &model };

	model.typed = plan->model;
	if (plan->model.window_size)
		model.window_size = "given";
	if (opt_given(p, "num-query-groups") && !o->model.group_query_attention &&
	    plan->model.num_query_groups < plan->model.num_attention_heads)
		str_addf(notes,
		    "--num-query-groups %lld: counts without --group-query-attention too, unlike "
		    "in "
		    "Megatron-LM\n",
		    (long long)plan->model.num_query_groups);
	opt_unread(p, &over, notes);
}

void
run_note_config(const struct run_options *o, struct str *notes)
{
	struct model_config c;
	struct config_rest rest;
	struct err why;

	if (!o->model.path)
		return;
	if (family_read_config(o->model.path, &c, &rest, &why))
		str_add(notes, rest.notes.buf, rest.notes.len);
	config_rest_release(&rest);
}

int
run_rules(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    int64_t vocab_size, struct run_plan *plan, struct str *notes)
{
	struct train_shape *s = &plan->shape;
	struct err e;
	int rc;

	memset(plan, 0, sizeof *plan);
	rc = opt_rule(p, recompute_resolve(p, o, &s->recompute, &e), &e);
	s->offloaded_layers = o->cpu_offloading_num_layers;
	if (run_model_rules(p, o, vocab_size, &plan->model) < 0) {
		batch_alone(p, o, world_size);
		return -1;
	}
	if (resolve_sizes(p, o, world_size, plan) < 0)
		return -1;
	if (o->model.keep_recipe)
		note_kept(p, o, &plan->model, notes);
	if (resolve_rest(p, o, plan, notes) < 0 || rc < 0)
		return -1;
	note_effects(plan, notes);
	note_unread(p, o, plan, notes);
	return 0;
}

int
run_resolve(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    int64_t vocab_size, struct run_plan *plan, struct str *notes, struct err *e)
{
	if (run_rules(p, o, world_size, vocab_size, plan, notes) == 0)
		return 0;
	opt_answer(p, e);
	opt_forget(p);
	return -1;
}

/* The option table needs a struct of the caller to fill. */
struct text_config {
	struct run_options run;
};

static const struct opt text_opts[] = {
	RUN_OPTS(struct text_config, run),
	OPT_END,
};

/*
 * For the options.conf of a checkpoint. Options of mtrain that do not concern the model are
 * ignored. Data parallelism is not part of a checkpoint and becomes 1; a layout of sizes that are
 * refused here has no split. Errors start with name, the file's name.
 */
int
model_from_text(
    const char *name, const char *text, struct model_config *c, struct layout *l, struct err *e)
{
	struct text_config cfg = { 0 };
	struct opt_parse p;
	struct err why;
	int rc;

	opt_begin(&p, text_opts, &cfg);
	p.unknown = layout_unknown;
	rc = opt_text(&p, name, text, false, e);
	/* The text holds all values; the config.json they came from need not exist any more. */
	cfg.run.model.path = NULL;
	if (rc == 0 && run_model(&p, &cfg.run, 0, c, &why) < 0)
		rc = err_at(e, name, 0, "%s", why.msg);
	*l = cfg.run.layout;
	l->data_parallel_size = 1;
	if (rc == 0 && layout_check(l, c, &why) == 0 &&
	    split_resolve(&cfg.run.split, c, seq_length(&cfg.run, c), l, &why) < 0)
		rc = err_at(e, name, 0, "%s", why.msg);
	opt_release(&p);
	return rc;
}
