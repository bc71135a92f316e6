/*
 * set.c - mckpt set
 *
 * Options of the model that leave the tensors as they are: those that may change without changing
 * the meaning of stored weights, and those that a run which begins with the weights may have
 * otherwise, by the tags of their rows. And whether the tables of the vocabulary are one.
 */
#include "ckpt/copy.h"
#include "ckpt/retold.h"
#include "ckpt/verbs.h"
#include "lib/model/fields.h"

#include <string.h>

struct set_config {
	struct model_options model;
	int tie; /* of ties */
	bool untie, no_optim, force;
};

/* In the order of enum tie. */
static const char *const ties[] = { "none", "equal", "embedding", "output", "mean", NULL };

static const struct opt set_opts[] = {
	FLAG(struct set_config, "untie", untie, "write the output table, a copy of the embedding"),
	CHOICE(struct set_config, "tie", tie, ties, "none",
	    "leave out one of two tables: of equal ones; the output table; the embedding; or "
	    "both, for their mean"),
	FLAG(struct set_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(struct set_config, "force", force, "write into a directory that holds a checkpoint"),
	MODEL_OPTS(struct set_config, model),
	OPT_END,
};

/* Options that change tensors, and what changes them. */
static const struct {
	const char *name, *how;
} others[] = {
	{ "num-layers", "mckpt stack and mckpt drop-layers change it" },
	{ "num-experts", "mckpt upcycle changes it" },
	{ "untie-embeddings-and-output-weights", "--untie and --tie change it" },
};

/* Whether the option, or another one of the same value, may be set. */
static bool
may_be_set(const struct opt *table, const struct opt *row)
{
	for (const struct opt *r = table; r->type != OPT_END_TYPE; r++)
		if (r->off == row->off && r->type == row->type &&
		    r->tag & (MODEL_FREE | MODEL_FREE_START))
			return true;
	return false;
}

static int
refuse(const struct opt *row, struct err *e)
{
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strcmp(row->name, others[i].name))
			return err_set(
			    e, "--%s: changes the tensors: %s", row->name, others[i].how);
	return err_set(
	    e, "--%s: is not set: it gives the stored weights another meaning", row->name);
}

/* The lines of the options of the model that were given. */
static int
read_lines(const struct opt_parse *p, struct str *lines, struct err *e)
{
	const struct opt *row = p->table;

	while (row->type != OPT_GROUP)
		row++;
	for (row++; row->type != OPT_GROUP; row++) {
		if (!opt_given(p, row->name))
			continue;
		if (!may_be_set(p->table, row))
			return refuse(row, e);
		opt_dump_row(row, p->cfg, lines);
	}
	return 0;
}

static int
run_set(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct set_config *c = p->cfg;
	struct str lines = { 0 };
	struct retold_rule rule = { .tie = c->untie ? TIE_UNTIE : (enum tie)c->tie };
	struct derived_job job = { .kind = &derived_retold,
		.rule = &rule,
		.verb = "set",
		.given = p,
		.dtype = DTYPE_NONE,
		.no_optim = c->no_optim,
		.force = c->force };
	int rc = read_lines(p, &lines, e) < 0 ? CLI_USAGE : 0;

	str_adds(&lines, "");
	rule.lines = lines.buf;
	if (rc == 0 && argc == 2 && !lines.len && rule.tie == TIE_NONE) {
		err_set(e, "needs an option to set");
		rc = CLI_USAGE;
	}
	if (rc == 0 && c->untie && c->tie != TIE_NONE) {
		err_set(e, "--untie: not with --tie");
		rc = CLI_USAGE;
	}
	if (rc == 0)
		rc = derived_run(&job, argc, argv, e);
	str_release(&lines);
	return rc;
}

const struct verb verb_set = { .name = "set",
	.operands = "SRC DST",
	.summary = "change options of the model, such as its rotary base, and tie or untie tables",
	.opts = set_opts,
	.cfg_size = sizeof(struct set_config),
	.run_given = run_set,
	.common =
	    "rotary-base rope-scaling-type rope-scaling-factor max-position-embeddings untie tie" };
