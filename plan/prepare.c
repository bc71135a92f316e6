/*
 * prepare.c - from options to plans and devices
 */
#include "plan/prepare.h"
#include "plan/allocated.h"
#include "plan/options.h"

int
plan_begins(const struct opt_parse *p, int argc, char **argv, struct model_config *c, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	const struct run_options *o = &cfg->run;

	if (argc > 0)
		err_set(
		    e, "operand '%s': mplan takes none; option files come with --config", argv[0]);
	else if (!cfg->world_size && !cfg->days.target_days)
		err_set(e, "--world-size: is needed");
	else if (o->bf16 + o->fp16 + o->fp64 > 1)
		err_set(e, "--bf16, --fp16 and --fp64 exclude each other: give one of them");
	else if (run_model(p, o, 0, c, e) == 0) {
		if (o->seq_length || c->max_position_embeddings)
			return 0;
		err_set(e, "--seq-length: is needed");
	}
	return -1;
}

int
time_needs(const struct opt_parse *p, struct err *e)
{
	const struct plan_config *cfg = p->cfg;

	if (hardware_check_stack(&cfg->hw, e) < 0)
		return -1;
	if (opt_given(p, "gpu") || opt_given(p, "tflops"))
		return 0;
	return err_set(e, "--gpu: is needed, or --tflops and what else is known of the device");
}

void
time_device(const struct opt_parse *p, struct run_plan *plan, struct hardware *hw)
{
	const struct plan_config *cfg = p->cfg;

	hardware_resolve(p, cfg->gpu, &cfg->hw, hw);
	if (opt_given(p, "gpu"))
		plan->shape.hopper = hw->hopper ? HOPPER_YES : HOPPER_NO;
	price_hosts(&plan->layout, &plan->model, hw);
}

void
days_typed(const struct opt_parse *p, struct days_options *out)
{
	*out = ((const struct plan_config *)p->cfg)->days;
	if (!opt_given(p, "save-seconds"))
		out->save_seconds = -1;
	if (!opt_given(p, "save-readable-seconds"))
		out->save_readable_seconds = -1;
}

/* Sizes that were typed are not searched for. */
static void
take_sizes(const struct opt_parse *p, const struct run_options *o, struct search_input *in)
{
	const struct layout *l = &o->layout;

	if (opt_given(p, "tensor-model-parallel-size"))
		in->tensor = l->tensor_model_parallel_size;
	if (opt_given(p, "context-parallel-size"))
		in->context = l->context_parallel_size;
	if (opt_given(p, "pipeline-model-parallel-size"))
		in->pipeline = l->pipeline_model_parallel_size;
	if (opt_given(p, "micro-batch-size"))
		in->micro_batch = o->micro_batch_size;
}

/* What the search may choose: layout options that were typed hold for every plan. */
int
search_for(const struct opt_parse *p, struct search_input *in, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct run_options o = cfg->run;
	struct run_plan plan;
	struct str notes = { 0 };
	int rc;

	/* One rank resolves whatever does not depend on the layout. */
	o.layout = (struct layout){ 1, 1, 1, 1 };
	o.micro_batch_size = 1;
	o.split = (struct split_options){ 0 };
	rc = run_resolve(p, &o, 1, 0, &plan, &notes, e);
	str_release(&notes);
	if (rc < 0)
		return -1;
	*in = (struct search_input){ .model = plan.model,
		.shape = plan.shape,
		.world_size = cfg->world_size,
		.global_batch_size = plan.global_batch_size,
		.typed = cfg->run.layout,
		.keep_sharding = opt_given(p, "data-parallel-sharding-strategy") ||
		    cfg->run.use_distributed_optimizer || cfg->run.use_megatron_fsdp ||
		    cfg->run.use_torch_fsdp2,
		.keep_outer_sharding = opt_given(p, "outer-dp-sharding-strategy"),
		.keep_form = opt_given(p, "cp-comm-type"),
		.keep_recompute =
		    opt_given(p, "recompute-granularity") || cfg->run.recompute_activations,
		.keep_offload = opt_given(p, "cpu-offloading-num-layers"),
		.keep_optimizer = plan.shape.optim.chosen,
		.split = cfg->run.split,
		.top = cfg->top > cfg->pick ? cfg->top : cfg->pick,
		.overlap_p2p = cfg->run.overlap_p2p_communication };
	if (!opt_given(p, "num-distributed-optimizer-instances"))
		in->typed.optimizer_instances = 0;
	if (in->keep_sharding &&
	    run_check_instances(in->typed.optimizer_instances, in->shape.sharding, e) < 0)
		return -1;
	if (in->keep_sharding)
		run_join_instances(&in->typed, in->shape.sharding);
	take_sizes(p, &cfg->run, in);
	hardware_resolve(p, cfg->gpu, &cfg->hw, &in->hw);
	if (opt_given(p, "gpu"))
		in->shape.hopper = in->hw.hopper ? HOPPER_YES : HOPPER_NO;
	/* What leaves the device is this program's. */
	if (allocated_elsewhere(&in->hw))
		in->keep_offload = in->keep_optimizer = true;
	return 0;
}

int
rankfile_needs(const struct opt_parse *p, struct err *e)
{
	if (!opt_given(p, "output"))
		opt_needed(p, "output", NULL);
	if (!opt_given(p, "gpu") && !opt_given(p, "gpus-per-node"))
		opt_needed(p, "gpu", "or --gpus-per-node");
	return opt_answer(p, e);
}

int
search_needs(const struct opt_parse *p, struct err *e)
{
	if (hardware_check_stack(&((const struct plan_config *)p->cfg)->hw, e) < 0)
		return -1;
	if (!opt_given(p, "world-size") && !opt_given(p, "target-days"))
		opt_needed(p, "world-size", NULL);
	if (!opt_given(p, "gpu") && !opt_given(p, "memory-gb"))
		opt_needed(p, "gpu", "or --memory-gb and what else is known of the device");
	if (!opt_given(p, "global-batch-size"))
		opt_needed(p, "global-batch-size", NULL);
	if (opt_given(p, "target-days") && !opt_given(p, "train-tokens"))
		opt_needed(p, "train-tokens", NULL);
	return opt_answer(p, e);
}

void
search_fp32(const struct opt_parse *p, const struct search *s, const struct search_input *in,
    struct str *out)
{
	struct plan_config cfg = *(const struct plan_config *)p->cfg;
	struct opt_parse again = *p;
	struct search_input faster;
	struct search other = { 0 };
	const char *option = in->hw.bf16 ? "bf16" : "fp16";
	struct err e;

	if (in->shape.dtype != DTYPE_F32 || in->hw.tflops <= in->hw.tflops_fp32)
		return;
	cfg.run.bf16 = in->hw.bf16;
	cfg.run.fp16 = !in->hw.bf16;
	again.cfg = &cfg;
	if (search_for(&again, &faster, &e) == 0 && search_run(&other, &faster, &e) == 0)
		str_addf(out, "the plan is in fp32: a step takes %.4g s, and %.4g s with --%s\n",
		    s->item[0].time.total, other.item[0].time.total, option);
	search_release(&other);
}
