/*
 * stack.c - mckpt stack and mckpt drop-layers
 *
 * The layers of a model in another order, repeated or left out; layered.h has what becomes of them.
 */
#include "ckpt/copy.h"
#include "ckpt/layered.h"
#include "ckpt/verbs.h"

struct layers_config {
	const char *layers;
	bool zero_new, no_optim, force;
};

#define LAYERS(h) TEXT(struct layers_config, "layers", layers, "A:B,C:D", h)
#define COMMON \
	FLAG(struct layers_config, "no-optim", no_optim, "leave the optimizer's state out"), \
	    FLAG(struct layers_config, "force", force, \
		"write into a directory that holds a checkpoint")

static const struct opt stack_opts[] = {
	LAYERS("layers of SRC in the order of DST: half-open ranges of their numbers from 0, or "
	       "numbers"),
	FLAG(struct layers_config, "zero-new", zero_new,
	    "a layer whose number has appeared before adds nothing: what ends its branches is 0"),
	COMMON,
	OPT_END,
};

static const struct opt drop_opts[] = {
	LAYERS("layers of SRC that DST lacks: half-open ranges of their numbers from 0, or "
	       "numbers"),
	COMMON,
	OPT_END,
};

static int
run_layers(const struct opt_parse *p, struct derived_job *job, int argc, char **argv, struct err *e)
{
	const struct layers_config *c = p->cfg;

	job->kind = &derived_layered;
	job->given = p;
	job->dtype = DTYPE_NONE;
	job->no_optim = c->no_optim;
	job->force = c->force;
	if (argc == 2 && !c->layers) {
		err_set(e, "--layers: needed, such as 0:24,8:32");
		return CLI_USAGE;
	}
	return derived_run(job, argc, argv, e);
}

static int
run_stack(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct layers_config *c = p->cfg;
	const struct layered_rule rule = { .layers = c->layers, .zero_new = c->zero_new };
	struct derived_job job = { .verb = "stack", .rule = &rule };

	return run_layers(p, &job, argc, argv, e);
}

static int
run_drop(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct layers_config *c = p->cfg;
	const struct layered_rule rule = { .layers = c->layers, .drop = true };
	struct derived_job job = { .verb = "drop-layers", .rule = &rule };

	return run_layers(p, &job, argc, argv, e);
}

const struct verb verb_stack = { .name = "stack",
	.operands = "SRC DST",
	.summary = "make a model of layers of another, repeated or reordered",
	.opts = stack_opts,
	.cfg_size = sizeof(struct layers_config),
	.run_given = run_stack };

const struct verb verb_drop_layers = { .name = "drop-layers",
	.operands = "SRC DST",
	.summary = "make a model that lacks layers of another",
	.opts = drop_opts,
	.cfg_size = sizeof(struct layers_config),
	.run_given = run_drop };
