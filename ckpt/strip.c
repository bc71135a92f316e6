/*
 * strip.c - mckpt strip and mckpt extract
 *
 * A checkpoint without what only a run continues from, or a part of it.
 */
#include "ckpt/chosen.h"
#include "ckpt/copy.h"
#include "ckpt/layered.h"
#include "ckpt/verbs.h"

struct strip_config {
	int dtype; /* of copy_dtypes */
	bool force;
};

static const struct opt strip_opts[] = {
	CHOICE(struct strip_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the weights; rounds to nearest, once"),
	FLAG(struct strip_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

static int
run_strip(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	static const struct layered_rule rule;
	const struct strip_config *c = p->cfg;
	struct derived_job job = { .kind = &derived_stripped,
		.rule = &rule,
		.verb = "strip",
		.given = p,
		.dtype = copy_types[c->dtype],
		.no_optim = true,
		.force = c->force };

	return derived_run(&job, argc, argv, e);
}

const struct verb verb_strip = { .name = "strip",
	.operands = "SRC DST",
	.summary = "leave out the optimizer's state and the scales of 8-bit operands",
	.opts = strip_opts,
	.cfg_size = sizeof(struct strip_config),
	.run_given = run_strip };

struct extract_config {
	const char *layers, *tensors;
	int dtype; /* of copy_dtypes */
	bool ema, force;
};

static const struct opt extract_opts[] = {
	FLAG(struct extract_config, "ema", ema,
	    "the average that a run with --ema-decay keeps becomes the weights"),
	TEXT(struct extract_config, "layers", layers, "A:B,C:D",
	    "these layers alone: half-open ranges of their numbers from 0, or numbers"),
	TEXT(struct extract_config, "tensors", tensors, "PATTERN",
	    "these tensors alone, states too, in one safetensors file DST; * and ? stand for any "
	    "letters"),
	CHOICE(struct extract_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the weights; rounds to nearest, once"),
	FLAG(struct extract_config, "force", force,
	    "write into a directory that holds a checkpoint, or replace a file"),
	OPT_END,
};

/* The tensors as mckpt info --tensors lists them, also the states, unless the average takes the
 * place of the weights. */
static int
extract_tensors(const struct extract_config *c, struct derived_job *job, char **argv, struct err *e)
{
	struct derived *d;

	job->kind = c->ema ? &derived_extracted : &derived_layered;
	job->path = (const char *const *)argv;
	job->count = 1;
	job->save = argv[1];
	d = derived_open(job, e);
	return d ? chosen_write(d, job, c->tensors, e) : CLI_FAILED;
}

static int
run_extract(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct extract_config *c = p->cfg;
	const struct layered_rule rule = { .layers = c->layers, .average = c->ema };
	struct derived_job job = { .kind = &derived_extracted,
		.rule = &rule,
		.verb = "extract",
		.given = p,
		.dtype = copy_types[c->dtype],
		.no_optim = true,
		.force = c->force };

	if (argc == 2 && !c->ema && !c->layers && !c->tensors) {
		err_set(e, "needs --ema, --layers or --tensors");
		return CLI_USAGE;
	}
	if (argc == 2 && c->tensors)
		return extract_tensors(c, &job, argv, e);
	return derived_run(&job, argc, argv, e);
}

const struct verb verb_extract = { .name = "extract",
	.operands = "SRC DST",
	.summary =
	    "make a model of the average of the weights or of some layers, or a file of tensors",
	.opts = extract_opts,
	.cfg_size = sizeof(struct extract_config),
	.run_given = run_extract };
