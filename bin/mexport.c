/*
 * mexport.c - make a Hugging Face directory of a checkpoint
 *
 * The tool's table and the order of its checks; the work is export/hf.c's.
 */
#include "export/hf.h"
#include "lib/base/cli.h"
#include "lib/base/prog.h"

struct export_config {
	int dtype, weights, add_bos_token;
	const char *max_shard_size, *tokenizer_model, *vocab_file, *merge_file, *arch;
	bool force, check;
};

enum { WEIGHTS_LAST, WEIGHTS_EMA };
static const char *const weights[] = { "last", "ema", NULL };
static const char *const add_bos_tokens[] = { "auto", "true", "false", NULL };
static const char *const dtypes[] = { "auto", "bf16", "fp16", "fp32", NULL };
static const enum dtype types[] = { DTYPE_NONE, DTYPE_BF16, DTYPE_F16, DTYPE_F32 };

#define FIELD(f) offsetof(struct export_config, f)

static const struct opt opts[] = {
	{ .name = "dtype",
	    .type = OPT_CHOICE,
	    .off = FIELD(dtype),
	    .choices = dtypes,
	    .def = "auto",
	    .help = "type of the weights; auto: as in the run, or as stored" },
	{ .name = "weights",
	    .type = OPT_CHOICE,
	    .off = FIELD(weights),
	    .choices = weights,
	    .def = "last",
	    .help = "those of the last step, or ema: their average (mtrain --ema-decay)" },
	{ .name = "max-shard-size",
	    .type = OPT_STRING,
	    .off = FIELD(max_shard_size),
	    .unit = "SIZE",
	    .def = "50GB",
	    .help = "largest file of weights; GB is 10^9, GiB 2^30 bytes" },
	{ .name = "tokenizer-model",
	    .type = OPT_STRING,
	    .off = FIELD(tokenizer_model),
	    .unit = "FILE",
	    .help = "SentencePiece model to make tokenizer.json of, or a tokenizer.json or its "
		    "directory to copy" },
	{ .name = "vocab-file",
	    .type = OPT_STRING,
	    .off = FIELD(vocab_file),
	    .unit = "FILE",
	    .help = "vocab.json of GPT-2's BPE" },
	{ .name = "merge-file",
	    .type = OPT_STRING,
	    .off = FIELD(merge_file),
	    .unit = "FILE",
	    .help = "its merges.txt" },
	{ .name = "add-bos-token",
	    .type = OPT_CHOICE,
	    .off = FIELD(add_bos_token),
	    .choices = add_bos_tokens,
	    .def = "auto",
	    .help = "whether the tokenizer that is made of a SentencePiece model begins texts with "
		    "bos; auto: as the documents of the training did, or if that is not known, if "
		    "the model has one" },
	{ .name = "arch",
	    .type = OPT_STRING,
	    .off = FIELD(arch),
	    .unit = "NAME",
	    .help =
		"model_type to export as, such as llama, checked; the first that fits by default" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = FIELD(force),
	    .help = "replace an existing Hugging Face directory" },
	{ .name = "check",
	    .type = OPT_FLAG,
	    .off = FIELD(check),
	    .help = "write nothing, and compare DST with SRC; without SRC, with itself" },
	OPT_END,
};

/* Checks the options against each other. */
static int
check_options(const struct export_config *c, struct err *e)
{
	if (c->tokenizer_model && (c->vocab_file || c->merge_file))
		return err_set(e,
		    "--tokenizer-model excludes --vocab-file and --merge-file: give one kind of "
		    "tokenizer");
	if (!c->vocab_file != !c->merge_file)
		return err_set(e, "--vocab-file and --merge-file: both are needed");
	return c->check && c->force ? err_set(e, "--check: not with --force: nothing is written")
				    : 0;
}

/* Exports, or prints each difference from what an export would be. */
static int
work(const struct export_options *o, struct err *e)
{
	struct str notes = { 0 }, warnings = { 0 }, what = { 0 };
	int rc = o->check ? export_check(o, &warnings, &notes, &what, e)
			  : export_hf(o, &notes, &warnings, e);

	cli_say(&notes, note);
	cli_say(&warnings, warn);
	if (rc == 0 && what.len)
		printf("%s\n", what.buf);
	str_release(&what);
	return rc > 0 ? CLI_NO : rc;
}

static int
run(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct export_config *c = cfg;
	struct export_options o = { .dtype = types[c->dtype],
		.max_shard_bytes = export_size(c->max_shard_size, e),
		.tokenizer_model = c->tokenizer_model,
		.vocab_file = c->vocab_file,
		.merge_file = c->merge_file,
		.arch = c->arch,
		.add_bos = c->add_bos_token,
		.average = c->weights == WEIGHTS_EMA,
		.force = c->force,
		.check = c->check };
	bool alone = c->check && argc == 1;
	int rc = cli_operands(argc, alone ? 1 : 2, c->check ? "[SRC] DST" : "SRC DST", e);

	if (o.max_shard_bytes == 0 || check_options(c, e) < 0 || rc)
		return CLI_USAGE;
	o.src = alone ? NULL : argv[0];
	o.dst = argv[argc - 1];
	return work(&o, e);
}

static const struct verb *const verbs[] = {
	&(const struct verb){ "", "SRC DST", "make a Hugging Face directory of a checkpoint", opts,
	    sizeof(struct export_config), run },
	NULL,
};

static const struct tool tool = {
	.name = "mexport",
	.summary = "make a Hugging Face directory of a checkpoint",
	.built_in = "CPU",
	.verbs = verbs,
};

/* The frame (help, version, exit status, closing stdout) is cli_main's. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
