/*
 * mckpt.c - look at, check, seal, compare, import and reshard checkpoints
 *
 * Tables of verbs and options, and one short function a verb that maps them to ckpt/. Problems
 * that a verb finds go to stderr and decide the status; what it prints goes to stdout.
 */
#include "ckpt/diff.h"
#include "ckpt/import.h"
#include "ckpt/inspect.h"
#include "ckpt/reshard.h"
#include "ckpt/seal.h"
#include "ckpt/verify.h"
#include "lib/base/cli.h"
#include "lib/base/prog.h"

struct look_config {
	bool json, tensors;
};

struct diff_config {
	double tolerance;
	const char *only, *ignore;
};

struct import_config {
	int dtype;
	bool force, allow_nonfinite;
};

struct reshard_config {
	int64_t tp, pp, dp;
	bool no_optim, force;
};

/* Side by side: the option's word and the type that it stands for. */
static const char *const import_dtypes[] = { "keep", "bf16", "fp16", "fp32", NULL };
static const enum dtype import_types[] = { DTYPE_NONE, DTYPE_BF16, DTYPE_F16, DTYPE_F32 };

#define FLAG(S, n, f, h) { .name = n, .type = OPT_FLAG, .off = offsetof(S, f), .help = h }
#define TEXT(S, n, f, u, h) { .name = n, .type = OPT_STRING, .off = offsetof(S, f), .unit = u, .help = h }
#define SIZE(S, n, f, d, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, f), .min = 1, .max = 1e6, .def = d, .help = h }

static const struct opt no_opts[] = { OPT_END };
static const struct opt ls_opts[] = {
	FLAG(struct look_config, "json", json, "one JSON object a line instead of TSV"),
	OPT_END,
};

static const struct opt info_opts[] = {
	FLAG(struct look_config, "json", json, "JSON instead of TSV"),
	FLAG(struct look_config, "tensors", tensors, "a line a tensor instead"),
	OPT_END,
};

static const struct opt diff_opts[] = {
	{ .name = "tolerance", .type = OPT_NUMBER, .off = offsetof(struct diff_config, tolerance), .min = -1, .max = 1e300,
	  .def = "-1", .unit = "R", .help = "largest relative L2 difference that is close; -1: equal bytes" },
	TEXT(struct diff_config, "only", only, "PATTERN", "compare only tensors whose name matches the shell pattern"),
	TEXT(struct diff_config, "ignore", ignore, "PATTERN", "leave out tensors whose name matches the shell pattern"),
	OPT_END,
};

static const struct opt import_opts[] = {
	{ .name = "dtype", .type = OPT_CHOICE, .off = offsetof(struct import_config, dtype), .choices = import_dtypes,
	  .def = "keep", .help = "type of the tensors; rounds to nearest, once" },
	FLAG(struct import_config, "allow-nonfinite", allow_nonfinite,
	    "import NaN and infinity; each tensor that has them is noted"),
	FLAG(struct import_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

static const struct opt reshard_opts[] = {
	SIZE(struct reshard_config, "tensor-model-parallel-size", tp, "1", "tensor ranks of the run that will read it"),
	SIZE(struct reshard_config, "pipeline-model-parallel-size", pp, "1", "pipeline stages"),
	SIZE(struct reshard_config, "data-parallel-size", dp, "1", "data ranks, which share the pieces of each"),
	FLAG(struct reshard_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(struct reshard_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

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
	return c->tensors ? info_tensors(argv[0], c->json, stdout, e) : info_checkpoint(argv[0], c->json, stdout, e);
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

/* One checkpoint at a time: each change is looked at by who made it. */
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

	if (rc)
		return rc;
	o.a = argv[0];
	o.b = argv[1];
	return diff_sources(&o, stdout, e);
}

/* Notes are said also when the import fails: they may explain why. */
static int
run_import(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct import_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct import_options o = { .dtype = import_types[c->dtype], .force = c->force,
		.allow_nonfinite = c->allow_nonfinite };
	struct str notes = { 0 };

	if (rc)
		return rc;
	o.src = argv[0];
	o.save = argv[1];
	rc = import_hf(&o, &notes, e);
	cli_say(&notes, note);
	return rc;
}

/* Context parallelism does not change what is stored. */
static int
run_reshard(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct reshard_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct reshard_options o = { .layout = { c->tp, 1, c->dp, c->pp }, .no_optim = c->no_optim, .force = c->force };

	if (rc)
		return rc;
	o.src = argv[0];
	o.save = argv[1];
	return reshard(&o, e);
}

static const struct verb verbs[] = {
	{ "ls", "DIR ...", "list the checkpoints of SAVE directories", ls_opts, sizeof(struct look_config), run_ls },
	{ "info", "DIR", "say what a checkpoint holds", info_opts, sizeof(struct look_config), run_info },
	{ "verify", "DIR ...", "check sums, shapes, the model that they make, and that it is finite", no_opts, 1, run_verify },
	{ "seal", "DIR", "take options.conf and state.conf as they are now", no_opts, 1, run_seal },
	{ "diff", "A B", "compare tensors", diff_opts, sizeof(struct diff_config), run_diff },
	{ "import", "SRC DST", "import a Hugging Face model", import_opts, sizeof(struct import_config), run_import },
	{ "reshard", "SRC DST", "rewrite for another layout", reshard_opts, sizeof(struct reshard_config), run_reshard },
	{ 0 },
};

static const struct tool tool = {
	.name = "mckpt", .summary = "look at, check, seal, compare and make checkpoints", .built_in = "CPU", .verbs = verbs,
};

/* The frame is cli_main's: help, version, finding the verb, exit status, closing stdout. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
