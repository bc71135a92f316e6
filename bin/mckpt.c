/*
 * mckpt.c - look at, check, seal, compare, import, reshard and export checkpoints
 *
 * Tables of verbs and options, and one short function per verb that maps them to ckpt/. Problems
 * that a verb finds go to stderr and decide the status; what it prints goes to stdout.
 */
#include "ckpt/diff.h"
#include "ckpt/export.h"
#include "ckpt/import.h"
#include "ckpt/inspect.h"
#include "ckpt/options.h"
#include "ckpt/reshard.h"
#include "ckpt/seal.h"
#include "ckpt/verify.h"
#include "lib/base/cli.h"
#include "lib/base/prog.h"

/* Lists every directory, whatever is wrong with one of them. */
static int
run_ls(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct look_config *c = cfg;
	struct str problems = { 0 };
	char *here = ".";

	(void)e;
	ls_saves(argc ? argv : &here, argc ? argc : 1, c->json, stdout, &problems);
	return cli_say(&problems, warn) ? EXIT_FAILED : EXIT_DONE;
}

/* One checkpoint: its description, or its tensors. */
static int
run_info(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct look_config *c = cfg;
	int rc = cli_operands(argc, 1, "DIR", e);

	if (rc)
		return rc;
	return c->tensors ? info_tensors(argv[0], c->json, stdout, e)
			  : info_model(argv[0], c->json, stdout, e);
}

/* All operands are verified; the status is 1 when any has a problem. */
static int
run_verify(const void *cfg, int argc, char **argv, struct err *e)
{
	struct str problems = { 0 };

	(void)cfg;
	if (argc == 0)
		return cli_operands(argc, 1, "DIR...", e);
	for (int i = 0; i < argc; i++)
		verify_dir(argv[i], stdout, &problems);
	return cli_say(&problems, warn) ? EXIT_FAILED : EXIT_DONE;
}

/* One checkpoint at a time, so that each change is examined on its own. */
static int
run_seal(const void *cfg, int argc, char **argv, struct err *e)
{
	int rc = cli_operands(argc, 1, "DIR", e);

	(void)cfg;
	return rc ? rc : seal_texts(argv[0], stdout, e);
}

/* Prints every tensor; the status says whether they differ. */
static int
run_diff(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct diff_config *c = cfg;
	int rc = cli_operands(argc, 2, "A B", e);
	struct diff_options o = { .tolerance = c->tolerance, .only = c->only, .ignore = c->ignore };
	struct str warnings = { 0 };

	if (rc)
		return rc;
	o.a = argv[0];
	o.b = argv[1];
	rc = diff_sources(&o, stdout, &warnings, e);
	cli_say(&warnings, warn);
	return rc;
}

/* Notes are printed also when the import fails: they may explain why. */
static int
run_import(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct import_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct import_options o = { .dtype = ckpt_import_types[c->dtype],
		.vocab_size = c->vocab_size,
		.force = c->force,
		.allow_nonfinite = c->allow_nonfinite };
	struct str notes = { 0 };

	if (rc)
		return rc;
	o.src = argv[0];
	o.save = argv[1];
	rc = import_source(&o, &notes, e);
	cli_say(&notes, note);
	return rc;
}

/* Context parallelism does not change what is stored. */
static int
run_reshard(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct reshard_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct reshard_options o = {
		.layout = c->layout, .split = c->split, .no_optim = c->no_optim, .force = c->force
	};

	if (rc)
		return rc;
	o.layout.context_parallel_size = 1;
	o.src = argv[0];
	o.save = argv[1];
	return reshard(&o, e);
}

/* Notes are printed also when the export fails: they may explain why. */
static int
run_export(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct export_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct export_options o = { .format = (enum export_format)c->to,
		.layout = c->layout,
		.split = c->split,
		.dtype = ckpt_import_types[c->dtype],
		.use_distributed_optimizer = c->use_distributed_optimizer,
		.no_optim = c->no_optim,
		.force = c->force,
		.local = c->transformer_impl };
	struct str notes = { 0 };

	if (rc)
		return rc;
	o.layout.data_parallel_size = o.layout.context_parallel_size = 1;
	o.src = argv[0];
	o.save = argv[1];
	rc = export_source(&o, &notes, e);
	cli_say(&notes, note);
	return rc;
}

static const struct verb verbs[] = {
	{ "ls", "DIR ...", "list the checkpoints of SAVE directories", ckpt_ls_opts,
	    sizeof(struct look_config), run_ls },
	{ "info", "DIR", "say what a checkpoint holds", ckpt_info_opts, sizeof(struct look_config),
	    run_info },
	{ "verify", "DIR ...",
	    "check every sum, every shape, the model that they make, and that its numbers are "
	    "finite",
	    ckpt_no_opts, 1, run_verify },
	{ "seal", "DIR", "take options.conf and state.conf as they are now", ckpt_no_opts, 1,
	    run_seal },
	{ "diff", "A B", "compare tensors", ckpt_diff_opts, sizeof(struct diff_config), run_diff },
	{ "import", "SRC DST", "make a checkpoint of a model of another format", ckpt_import_opts,
	    sizeof(struct import_config), run_import },
	{ "reshard", "SRC DST", "rewrite a checkpoint as a run of another layout would",
	    ckpt_reshard_opts, sizeof(struct reshard_config), run_reshard },
	{ "export", "SRC DST", "write a checkpoint of Megatron-LM", ckpt_export_opts,
	    sizeof(struct export_config), run_export },
	{ 0 },
};

static const struct tool tool = {
	.name = "mckpt",
	.summary = "look at, check, seal, compare, import, reshard and export checkpoints",
	.built_in = "CPU",
	.verbs = verbs,
};

/* The frame is cli_main's: help, version, finding the verb, exit status, closing stdout. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
