/* mshard.c - look at, check, merge, cut, mask, repair, index and blend datasets */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "shard/maps.h"
#include "shard/options.h"
#include "shard/where.h"

#include <stdlib.h>

/* Bytes of tokens; shown on a terminal, at most 5 times a second. */
static void
progress(uint64_t done, uint64_t total)
{
	prog_progress("%.2f of %.2f GB", (double)done / 1e9, (double)total / 1e9);
}

/* Stops at the first dataset that cannot be read. */
static int
run_info(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct info_config *o = cfg;
	enum info_form form = o->json ? INFO_JSON : INFO_HEAD;

	if (shard_operands("info", argc, argv, INT32_MAX, e) < 0)
		return CLI_USAGE;
	for (int i = 0; i < argc; i++, form = o->json ? INFO_JSON : INFO_ROWS)
		if (shard_info(argv[i], form, stdout, e) < 0)
			return CLI_FAILED;
	return EXIT_DONE;
}

/* Continues after a dataset that is not sound. */
static int
run_verify(const void *cfg, int argc, char **argv, struct err *e)
{
	struct verify_config c = *(const struct verify_config *)cfg;
	struct tokenizer *t;
	int rc = EXIT_DONE;

	c.spec.vocab_size = c.vocab_size;
	if (shard_operands("verify", argc, argv, INT32_MAX, e) < 0 ||
	    shard_tokenizer(&c.spec, &t, e) < 0)
		return CLI_USAGE;
	c.tokenizer = t;
	c.progress = progress;
	for (int i = 0; i < argc; i++) {
		int bad = shard_verify(&c, argv[i], stdout, e);

		prog_progress_end();
		if (bad < 0) {
			warn("%s", e->msg);
			rc = EXIT_FAILED;
		}
	}
	tokenizer_close(t);
	return rc;
}

/* Ten documents, or the one that was asked for. */
static int
run_head(const void *cfg, int argc, char **argv, struct err *e)
{
	struct head_config c = *(const struct head_config *)cfg;
	struct tokenizer *t;
	int rc;

	if (shard_operands("head", argc, argv, 1, e) < 0 || shard_tokenizer(&c.spec, &t, e) < 0)
		return CLI_USAGE;
	c.count = c.count >= 0 ? c.count : c.document < 0 ? 10 : 1;
	c.document = c.document < 0 ? 0 : c.document;
	c.tokenizer = t;
	rc = shard_head(&c, argv[0], stdout, e);
	tokenizer_close(t);
	return rc;
}

/* Everything wrong with the options is reported before a dataset is opened. */
static int
run_sample(const void *cfg, int argc, char **argv, struct err *e)
{
	struct sample_config c = *(const struct sample_config *)cfg;
	struct str notes = { 0 };
	struct tokenizer *t;
	char *lists = NULL;
	int rc = CLI_USAGE;

	if (shard_no_operands(argc, argv, e) == 0 && shard_maps_load(&c.maps, &lists, e) == 0 &&
	    shard_sample_check(&c, e) == 0 && shard_tokenizer(&c.maps.spec, &t, e) == 0) {
		c.tokenizer = t;
		rc = shard_sample(&c, stdout, &notes, e);
		cli_say(&notes, note);
		tokenizer_close(t);
	}
	free(lists);
	return rc;
}

static int
run_cat(const void *cfg, int argc, char **argv, struct err *e)
{
	struct cat_config c = *(const struct cat_config *)cfg;
	struct str said = { 0 };
	int rc;

	if (shard_operands("cat", argc, argv, INT32_MAX, e) < 0 || shard_cat_check(&c, e) < 0)
		return CLI_USAGE;
	c.made_by = prog_release();
	c.said = &said;
	c.progress = progress;
	rc = shard_cat(&c, argc, argv, e);
	prog_progress_end();
	cli_say(&said, note);
	return rc;
}

static int
run_split(const void *cfg, int argc, char **argv, struct err *e)
{
	struct split_config c = *(const struct split_config *)cfg;
	int rc;

	if (shard_operands("split", argc, argv, 1, e) < 0 || shard_split_check(&c, e) < 0)
		return CLI_USAGE;
	c.made_by = prog_release();
	c.progress = progress;
	rc = shard_split(&c, argv[0], stdout, e);
	prog_progress_end();
	return rc;
}

static int
run_mask(const void *cfg, int argc, char **argv, struct err *e)
{
	if (shard_operands("mask", argc, argv, 1, e) < 0 || shard_mask_check(cfg, e) < 0)
		return CLI_USAGE;
	return shard_mask(cfg, argv[0], stdout, e);
}

static int
run_repair(const void *cfg, int argc, char **argv, struct err *e)
{
	struct repair_config c = *(const struct repair_config *)cfg;

	if (shard_operands("repair", argc, argv, 1, e) < 0 || shard_repair_check(&c, e) < 0)
		return CLI_USAGE;
	c.made_by = prog_release();
	return shard_repair(&c, argv[0], stdout, e);
}

/* Everything wrong with the options is reported before a file is opened. */
/* clang-format off */
#define RUN_MAPS(n, c) static int run_##n(const void *cfg, int argc, char **argv, struct err *e) { \
	struct c##_config x = *(const struct c##_config *)cfg; \
	struct str notes = { 0 }; \
	char *lists = NULL; \
	int rc = CLI_USAGE; \
	if (shard_no_operands(argc, argv, e) == 0 && \
	    shard_maps_load((struct maps_config *)(void *)&x, &lists, e) == 0 && \
	    shard_##c##_check(&x, e) == 0) \
		rc = shard_##n(&x, stdout, &notes, e); \
	cli_say(&notes, note); \
	free(lists); \
	return rc; }
RUN_MAPS(index, maps)
RUN_MAPS(blend, maps)
RUN_MAPS(where, where)
#define VERB(n, c, o, ...) &(const struct verb){ .name = #n, .operands = o, \
	.opts = shard_##n##_opts, .cfg_size = sizeof(struct c##_config), .run = run_##n, \
	.summary = __VA_ARGS__ }
/* clang-format on */
static const struct verb *const verbs[] = {
	VERB(info, info, "PREFIX ...",
	    "count documents, sequences and tokens, with a histogram of lengths"),
	VERB(verify, verify, "PREFIX ...", "check the index against itself and against the tokens"),
	VERB(head, head, "PREFIX", "print documents as token ids or text", .common = COMMON_HEAD),
	VERB(sample, sample, "", "print training samples, or which rank reads which",
	    .common = COMMON_SAMPLE),
	VERB(where, where, "", "print what an iteration of a run read, or which read a document",
	    .common = COMMON_WHERE),
	VERB(cat, cat, "PREFIX ...", "merge datasets into one"),
	VERB(split, split, "PREFIX", "cut a dataset into several"),
	VERB(mask, mask, "PREFIX", "take documents out of the loss of training"),
	VERB(repair, repair, "PREFIX", "repair a damaged dataset"),
	VERB(index, maps, "", "write the maps that training looks for", .common = COMMON_MAPS),
	VERB(blend, maps, "", "print what a blend takes from each dataset, and write its index",
	    .common = COMMON_BLEND),
	NULL,
};

static const struct tool tool = { "mshard",
	"look at, check, merge, cut, mask, repair, index and blend tokenised datasets", "", NULL,
	verbs };

int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
