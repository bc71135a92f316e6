/* mshard.c - look at, check, print, merge, index and blend datasets */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "shard/maps.h"
#include "shard/shard.h"

#include <string.h>

struct info_options {
	bool json;
};

static const struct opt info_opts[] = {
	{ .name = "json", .type = OPT_FLAG, .off = offsetof(struct info_options, json),
	  .help = "one JSON object a dataset and line" },
	OPT_END
};

struct verify_options {
	int64_t vocab_size;
};

static const struct opt verify_opts[] = {
	{ .name = "vocab-size", .type = OPT_INT, .off = offsetof(struct verify_options, vocab_size), .min = 1, .max = 1ll << 31,
	  .help = "also read every token: ids must be from 0 to N - 1" },
	OPT_END
};

struct head_options {
	int64_t count, document;
};

static const struct opt head_opts[] = {
	{ .name = "num-documents", .letter = 'n', .type = OPT_INT, .off = offsetof(struct head_options, count),
	  .min = 1, .max = 1e15,
	  .help = "how many documents: 10, or 1 with --document" },
	{ .name = "document", .type = OPT_INT, .off = offsetof(struct head_options, document), .max = 1e15, .def = "-1",
	  .min = -1, .help = "the first document to print, counted from 0; -1 begins at 0" },
	OPT_END
};

static const struct opt cat_opts[] = {
	{ .name = "output", .letter = 'o', .type = OPT_STRING, .off = offsetof(struct cat_config, output), .unit = "PREFIX",
	  .help = "write PREFIX.bin and PREFIX.idx" },
	{ .name = "force", .type = OPT_FLAG, .off = offsetof(struct cat_config, force), .help = "replace an existing dataset" },
	{ .name = "widen", .type = OPT_FLAG, .off = offsetof(struct cat_config, widen),
	  .help = "let token types differ: the narrowest type that holds all of them is written" },
	OPT_END
};

/* An operand may be either file of the pair. */
static const char *
prefix_of(char *operand)
{
	size_t n = strlen(operand);

	if (n > 4 && (!strcmp(operand + n - 4, ".idx") || !strcmp(operand + n - 4, ".bin")))
		operand[n - 4] = '\0';
	return operand;
}

/* A dataset is mapped, so standard input cannot stand in for it. */
static int
need_operands(int argc, struct err *e)
{
	if (argc > 0)
		return 0;
	err_set(e, "which dataset? PREFIX is the path of its files without .bin and .idx");
	return CLI_USAGE;
}

/* Stops at the first dataset that cannot be read. */
static int
run_info(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct info_options *o = cfg;

	if (need_operands(argc, e) < 0)
		return CLI_USAGE;
	if (!o->json)
		puts("dataset\titem\tvalue");
	for (int i = 0; i < argc; i++)
		if (shard_info(prefix_of(argv[i]), o->json, stdout, e) < 0)
			return CLI_FAILED;
	return EXIT_DONE;
}

/* Goes on after a dataset that is not sound. */
static int
run_verify(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct verify_options *o = cfg;
	int rc = EXIT_DONE;

	if (need_operands(argc, e) < 0)
		return CLI_USAGE;
	for (int i = 0; i < argc; i++)
		if (shard_verify(prefix_of(argv[i]), o->vocab_size, stdout, e) < 0) {
			warn("%s", e->msg);
			rc = EXIT_FAILED;
		}
	return rc;
}

/* Ten documents, or the one that was asked for. */
static int
run_head(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct head_options *o = cfg;
	int64_t count = o->count ? o->count : o->document < 0 ? 10 : 1;

	if (need_operands(argc, e) < 0)
		return CLI_USAGE;
	if (argc > 1) {
		err_set(e, "head prints one dataset at a time, not %d", argc);
		return CLI_USAGE;
	}
	puts("document\tsequence\ttokens\tids");
	return shard_head(prefix_of(argv[0]), o->document < 0 ? 0 : o->document, count, stdout, e);
}

/* The result has no default name: a dataset is too large to appear by accident. */
static int
run_cat(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct cat_config *c = cfg;

	if (need_operands(argc, e) < 0)
		return CLI_USAGE;
	if (!c->output) {
		err_set(e, "--output: where should the merged dataset go?");
		return CLI_USAGE;
	}
	for (int i = 0; i < argc; i++)
		prefix_of(argv[i]);
	return shard_cat(c, argc, argv, e);
}

/* Everything wrong with the options is said before a file is opened. Notes follow the product. */
static int
run_maps(int (*run)(const struct maps_config *, FILE *, struct str *, struct err *), const void *cfg, int argc, char **argv,
    struct err *e)
{
	struct str notes = { 0 };
	int rc;

	if (argc > 0)
		err_set(e, "operand '%s': the datasets are those of --data-path", argv[0]);
	if (argc > 0 || shard_maps_check(cfg, e) < 0)
		return CLI_USAGE;
	rc = run(cfg, stdout, &notes, e);
	cli_say(&notes, note);
	return rc;
}

/* All maps that a run needs. */
static int
run_index(const void *cfg, int argc, char **argv, struct err *e)
{
	return run_maps(shard_index, cfg, argc, argv, e);
}

/* The blending index alone. */
static int
run_blend(const void *cfg, int argc, char **argv, struct err *e)
{
	return run_maps(shard_blend, cfg, argc, argv, e);
}

static const struct verb verbs[] = {
	{ "info", "PREFIX ...", "count documents, sequences and tokens, with a histogram of lengths", info_opts,
	  sizeof(struct info_options), run_info },
	{ "verify", "PREFIX ...", "check the index against itself and against the tokens", verify_opts,
	  sizeof(struct verify_options),
	  run_verify },
	{ "head", "PREFIX", "print documents as token ids", head_opts, sizeof(struct head_options), run_head },
	{ "cat", "PREFIX ...", "merge datasets into one", cat_opts, sizeof(struct cat_config), run_cat },
	{ "index", "", "write the index maps that training looks for", shard_index_opts, sizeof(struct maps_config), run_index },
	{ "blend", "", "say what a blend takes from each dataset, and write its index", shard_blend_opts,
	  sizeof(struct maps_config), run_blend },
	{ 0 }
};

static const struct tool tool = {
	.name = "mshard", .summary = "look at, check, print, merge, index and blend tokenised datasets", .built_in = "",
	.verbs = verbs,
};

/* Verbs that print go on to cli_main's check of stdout. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
