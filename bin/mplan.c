/* mplan.c - say whether a layout is legal and fits, and search for the best one */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "lib/base/target.h"
#include "plan/options.h"
#include "plan/search.h"

/* What every verb checks first: the options and the model. */
static int
begin(const struct opt_parse *p, int argc, char **argv, struct model_config *c, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	const struct run_options *o = &cfg->run;

	if (argc > 0)
		err_set(
		    e, "operand '%s': mplan takes none; option files come with --config", argv[0]);
	else if (!cfg->world_size)
		err_set(e, "--world-size: is needed");
	else if (o->bf16 + o->fp16 + o->fp64 > 1)
		err_set(e, "--bf16, --fp16 and --fp64 exclude each other: give one of them");
	else if (run_model(p, o, 0, c, e) == 0) {
		if (o->seq_length || c->max_position_embeddings)
			return 0;
		err_set(e, "--seq-length: is needed");
	}
	return CLI_USAGE;
}

/* The plan of the layout that was typed; an illegal layout is a "no" (status 1), not wrong
 * usage. */
static int
resolve(const struct opt_parse *p, int argc, char **argv, struct run_plan *plan, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct model_config model;
	struct str notes = { 0 };
	int rc = begin(p, argc, argv, &model, e);

	if (rc == 0 && run_resolve(p, &cfg->run, cfg->world_size, 0, plan, &notes, e) < 0)
		rc = CLI_FAILED;
	if (notes.len)
		note("%.*s", (int)notes.len - 1, notes.buf);
	str_release(&notes);
	return rc;
}

/* mplan check: the layout in one line, or why not. */
static int
run_check(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	struct run_plan plan;
	int rc = resolve(p, argc, argv, &plan, e);

	if (rc == 0)
		memtable_summary(&plan, stdout);
	return rc;
}

/* mplan mem: the bytes of every stage, rank or buffer. */
static int
run_mem(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct run_plan plan;
	int rc = resolve(p, argc, argv, &plan, e);

	if (rc == 0)
		memtable_print(&plan, &cfg->mem, stdout);
	return rc;
}

/* mplan draw: the passes of a step. */
static int
run_draw(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct run_plan plan;
	struct timeline t;
	int rc = resolve(p, argc, argv, &plan, e);

	if (rc)
		return rc;
	if (timeline_make(&t, &plan, (enum draw_order)cfg->draw.order, e) < 0)
		return CLI_USAGE;
	timeline_print(&t, &cfg->draw, stdout);
	timeline_release(&t);
	return 0;
}

/* What the search may choose: layout options that were typed hold for every plan. */
static int
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
		.split = cfg->run.split,
		.overlap_p2p = cfg->run.overlap_p2p_communication };
	if (opt_given(p, "tensor-model-parallel-size"))
		in->tensor = cfg->run.layout.tensor_model_parallel_size;
	if (opt_given(p, "pipeline-model-parallel-size"))
		in->pipeline = cfg->run.layout.pipeline_model_parallel_size;
	if (opt_given(p, "micro-batch-size"))
		in->micro_batch = cfg->run.micro_batch_size;
	hardware_resolve(p, cfg->gpu, &cfg->hw, &in->hw);
	return 0;
}

/* What the search cannot do without, in one line. */
static int
search_needs(const struct opt_parse *p, struct err *e)
{
	if (!opt_given(p, "world-size"))
		opt_needed(p, "world-size", NULL);
	if (!opt_given(p, "gpu") && !opt_given(p, "memory-gb"))
		opt_needed(p, "gpu", "or --memory-gb and what else is known of the device");
	if (!opt_given(p, "global-batch-size"))
		opt_needed(p, "global-batch-size", NULL);
	return opt_answer(p, e);
}

/* Training in fp32 is rarely meant where a device has 16-bit GEMMs. The note says what it costs. */
static void
note_fp32(const struct opt_parse *p, const struct search *s, const struct search_input *in)
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
		note("the plan is in fp32: a step takes %.4g s, and %.4g s with --%s",
		    s->item[0].time.total, other.item[0].time.total, option);
	search_release(&other);
}

/* mplan search: the best layouts, and the best of all as a file. */
static int
run_search(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct search s = { 0 };
	struct search_input in;
	struct str why = { 0 }, text = { 0 };
	int rc = search_needs(p, e) < 0 ? -1 : begin(p, argc, argv, &in.model, e);

	if (rc < 0 || search_for(p, &in, e) < 0)
		return CLI_USAGE;
	if (cfg->output && target_check_kind(cfg->output, &search_file, cfg->force, e) < 0)
		return -1;
	rc = search_run(&s, &in, e);
	if (rc == 0) {
		search_reason(&s, &why);
		note("in %s: %s", memtable_precision(in.shape.dtype), why.buf);
		note_fp32(p, &s, &in);
		search_print(&s, &in, cfg->top, stdout);
		if (cfg->output && (rc = search_text(&s, &in, cfg->pick, &text, e)) == 0)
			rc = target_write(cfg->output, cfg->force, text.buf, text.len, e);
	}
	str_release(&text);
	str_release(&why);
	search_release(&s);
	return rc;
}

static const struct verb *const verbs[] = {
	&(const struct verb){ .name = "check",
	    .operands = "",
	    .summary = "say whether a layout is legal, or which rule it breaks",
	    .opts = plan_check_opts,
	    .cfg_size = sizeof(struct plan_config),
	    .run_given = run_check },
	&(const struct verb){ .name = "mem",
	    .operands = "",
	    .summary = "print the bytes that each rank allocates",
	    .opts = plan_mem_opts,
	    .cfg_size = sizeof(struct plan_config),
	    .run_given = run_mem },
	&(const struct verb){ .name = "draw",
	    .operands = "",
	    .summary = "draw when each pipeline stage does which pass",
	    .opts = plan_draw_opts,
	    .cfg_size = sizeof(struct plan_config),
	    .run_given = run_draw },
	&(const struct verb){ .name = "search",
	    .operands = "",
	    .summary = "rank the layouts that fit a device by the time of a step",
	    .opts = plan_search_opts,
	    .cfg_size = sizeof(struct plan_config),
	    .run_given = run_search },
	NULL,
};

/* cli_main finds the verb and gives it the options that were typed, which search needs to know. */
int
main(int argc, char **argv)
{
	static const struct tool tool = { "mplan",
		"Plan a training run: what is legal, what fits, what is fast", "nothing optional",
		NULL, verbs };

	return cli_main(&tool, argc, argv);
}
