/* verbs.c - what each verb of mplan reads, computes and prints */
#include "plan/verbs.h"
#include "lib/base/target.h"
#include "lib/model/hosts.h"
#include "plan/fewest.h"
#include "plan/fit_print.h"
#include "plan/options.h"
#include "plan/prepare.h"
#include "plan/search.h"
#include "plan/timetable.h"

/* The plan of the layout that was typed; an illegal layout is a "no" (status 1), not wrong
 * usage. */
static int
resolve(const struct opt_parse *p, int argc, char **argv, struct run_plan *plan, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct model_config model;
	struct str notes = { 0 };
	int rc = plan_begins(p, argc, argv, &model, e) < 0 ? CLI_USAGE : 0;

	if (rc == 0 && run_resolve(p, &cfg->run, cfg->world_size, 0, plan, &notes, e) < 0)
		rc = CLI_FAILED;
	if (rc == 0)
		run_note_config(&cfg->run, &notes);
	cli_notes(&notes);
	return rc;
}

/* mplan check: the layout in one line, or why not; what a rank sends. */
static int
run_check(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct run_plan plan;
	int rc = resolve(p, argc, argv, &plan, e);

	plan.layout.host_ranks = cfg->sent.ranks_per_host;
	if (rc == 0 && cfg->sent.ranks_per_host && plan.model.num_experts)
		plan.layout.expert_hosts = hosts_of_experts(&plan.layout,
		    &(struct host_places){ .ranks_per_host = cfg->sent.ranks_per_host });
	if (rc == 0 && !cfg->sent.json)
		memtable_summary(&plan, stdout);
	if (rc == 0 && cfg->sent.ranks_per_host)
		sent_print(&plan, &cfg->sent, stdout);
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

/* A step of the layout that was typed, simulated. */
struct simulated_step {
	struct run_plan plan;
	struct hardware hw;
	struct timeline t;
};

static int
simulate_typed(
    const struct opt_parse *p, int argc, char **argv, struct simulated_step *s, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	int rc = time_needs(p, e) < 0 ? CLI_USAGE : resolve(p, argc, argv, &s->plan, e);

	if (rc == 0 && timeline_check(&cfg->timeline, &s->plan, e) < 0)
		rc = CLI_USAGE;
	if (rc == 0) {
		time_device(p, &s->plan, &s->hw);
		timeline_make(&s->t, &s->plan, &s->hw, &cfg->timeline);
	}
	return rc;
}

/* To a file that is named, or else to standard output. */
static int
put(const struct plan_config *cfg, struct str *text, struct err *e)
{
	if (cfg->output)
		return target_write(cfg->output, cfg->force, text->buf, text->len, e);
	str_put(text, stdout);
	return 0;
}

/* mplan draw: the passes of a step, its memory or its ranks. */
static int
run_draw(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct simulated_step s;
	struct str text = { 0 };
	struct usage *usage;
	int rc = draw_check(&cfg->draw, e) < 0 ? CLI_USAGE : simulate_typed(p, argc, argv, &s, e);

	if (rc)
		return rc;
	usage = usage_of(&s.plan, &s.t.x);
	draw(&(struct drawing){ &cfg->draw, &s.plan, &s.hw, &s.t, usage }, &text);
	rc = put(cfg, &text, e);
	usage_free(usage, s.t.x.num_stages);
	timeline_release(&s.t);
	str_release(&text);
	return rc;
}

/* mplan simulate: what each stage of a step computes, and how long it waits. */
static int
run_simulate(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	struct str said = { 0 };
	struct simulated_step s;
	int rc = simulate_typed(p, argc, argv, &s, e);

	if (rc)
		return rc;
	timeline_say(&s.t, &said);
	cli_notes(&said);
	timeline_table(&s.t, stdout);
	timeline_release(&s.t);
	return 0;
}

/* mplan rankfile: ranks on hosts, and what they send each other. */
static int
run_rankfile(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct sent_options sent = { 0 };
	struct rankfile file = { 0 };
	struct hardware hw;
	struct run_plan plan;
	int rc = rankfile_needs(p, e) < 0 ? CLI_USAGE : resolve(p, argc, argv, &plan, e);

	if (rc)
		return rc;
	time_device(p, &plan, &hw);
	rc = rankfile_make(&cfg->rankfile, &plan, &hw, cfg->output, &file, e);
	if (rc == 0)
		rc = target_write(cfg->output, cfg->force, file.text.buf, file.text.len, e);
	if (rc == 0) {
		cli_notes(&file.how);
		sent.ranks_per_host = (int64_t)hw.gpus_per_node;
		sent_print(&plan, &sent, stdout);
	}
	str_release(&file.text);
	str_release(&file.how);
	return rc;
}

/* mplan time: the seconds of a step by part, and what a whole run takes. */
static int
run_time(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	struct days_options days;
	struct hardware hw;
	struct run_plan plan;
	int rc = time_needs(p, e) < 0 ? CLI_USAGE : resolve(p, argc, argv, &plan, e);

	if (rc == 0) {
		time_device(p, &plan, &hw);
		days_typed(p, &days);
		timetable_print(&plan, &hw, &days, stdout);
	}
	return rc;
}

/* What is said of the plans before their table. */
static void
say_search(const struct opt_parse *p, const struct search *s, const struct search_input *in,
    const struct days_options *days)
{
	struct str notes = { 0 };

	str_addf(&notes, "in %s: ", memtable_precision(in->shape.dtype));
	search_reason(s, &notes);
	str_adds(&notes, "\n");
	search_fp32(p, s, in, &notes);
	if (days->train_tokens > 0)
		fewest_say(s, in, days, &notes);
	cli_notes(&notes);
}

/* mplan search: the best layouts, and the best of all as a file. */
static int
run_search(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct search s = { 0 };
	struct search_input in;
	struct days_options days;
	struct str text = { 0 };
	int rc = search_needs(p, e) < 0 ? -1 : plan_begins(p, argc, argv, &in.model, e);

	if (rc < 0 || search_for(p, &in, e) < 0)
		return CLI_USAGE;
	if (cfg->output && target_check_kind(cfg->output, &search_file, cfg->force, e) < 0)
		return -1;
	days_typed(p, &days);
	rc = days.target_days > 0 ? fewest_run(p, &days, &s, &in, e) : search_run(&s, &in, e);
	if (rc == 0) {
		say_search(p, &s, &in, &days);
		search_print(&s, &in, cfg->top, stdout);
		if (cfg->output && (rc = search_text(&s, &in, cfg->pick, &text, e)) == 0)
			rc = target_write(cfg->output, cfg->force, text.buf, text.len, e);
	}
	str_release(&text);
	search_release(&s);
	return rc;
}

/* mplan fit: constants from measured steps. */
static int
run_fit(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	return fit_run(p, &((const struct plan_config *)p->cfg)->fit, argc, argv, e);
}

/* mplan report: a page of what runs have told, beside their plans. */
static int
run_report(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct plan_config *cfg = p->cfg;
	struct report_device device = { .given = opt_given(p, "gpu") || opt_given(p, "tflops") };
	struct str page = { 0 }, notes = { 0 };
	int rc = 0;

	hardware_resolve(p, cfg->gpu, &cfg->hw, &device.hw);
	if (cfg->output)
		rc = target_check_kind(cfg->output, &report_file, cfg->force, e);
	if (rc == 0)
		rc = report_make(&cfg->report, &device, argc, argv, &page, &notes, e);
	cli_notes(&notes);
	if (rc == 0)
		rc = put(cfg, &page, e);
	str_release(&page);
	return rc;
}

const struct verb plan_check = { .name = "check",
	.operands = "",
	.summary = "say whether a layout is legal, or which rule it breaks",
	.opts = plan_check_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_check,
	.common = PLAN_COMMON };

const struct verb plan_mem = { .name = "mem",
	.operands = "",
	.summary = "print the bytes that each rank allocates",
	.opts = plan_mem_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_mem,
	.common = PLAN_COMMON };

const struct verb plan_draw = { .name = "draw",
	.operands = "",
	.summary = "draw when each pipeline stage does which pass",
	.opts = plan_draw_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_draw,
	.common = "gpu " PLAN_COMMON };

const struct verb plan_simulate = { .name = "simulate",
	.operands = "",
	.summary = "print what each pipeline stage computes and waits in a step",
	.opts = plan_simulate_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_simulate,
	.common = "gpu " PLAN_COMMON };

const struct verb plan_rankfile = { .name = "rankfile",
	.operands = "",
	.summary = "write which rank is on which host, and print what links carry",
	.opts = plan_rankfile_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_rankfile,
	.common = "output launcher hostfile cores-per-host force gpu gpus-per-node world-size "
		  "model num-layers hidden-size seq-length global-batch-size "
		  "tensor-model-parallel-size pipeline-model-parallel-size "
		  "context-parallel-size expert-model-parallel-size config" };

const struct verb plan_time = { .name = "time",
	.operands = "",
	.summary = "print what each part of a step takes on a device",
	.opts = plan_time_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_time,
	.common = "gpu " PLAN_COMMON };

const struct verb plan_search = { .name = "search",
	.operands = "",
	.summary = "rank the layouts that fit a device by the time of a step",
	.opts = plan_search_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_search,
	.common = PLAN_COMMON };

const struct verb plan_fit = { .name = "fit",
	.operands = "FILE...",
	.summary = "find the constants of a device or program from measured steps",
	.opts = plan_fit_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_fit,
	.common = "rows each output force gpu stack" };

const struct verb plan_report = { .name = "report",
	.operands = "METRICS...",
	.summary = "draw what runs have told in their metrics files, beside their plans",
	.opts = plan_report_opts,
	.cfg_size = sizeof(struct plan_config),
	.run_given = run_report,
	.common = "output label checkpoint title samples gpu force" };
