/*
 * resize_vocab.c - mckpt resize-vocab
 *
 * The rows of both vocabulary tables for another tokenizer; resized.h has what becomes of them.
 */
#include "ckpt/resized.h"
#include "ckpt/verbs.h"
#include "lib/token/options.h"

struct resize_config {
	struct tokenizer_spec tokenizer; /* the new one; first, for its options */
	struct tokenizer_spec old;
	const char *map, *report;
	int init; /* of row_inits */
	int64_t seed;
	bool shrink, no_optim, force;
};

static const struct opt resize_opts[] = {
	TEXT(struct resize_config, "old-tokenizer-model", old.model, "FILE",
	    "tokenizer of SRC, as --tokenizer-model; default: beside the weights of a Hugging Face "
	    "directory"),
	TEXT(struct resize_config, "old-tokenizer-type", old.type, "TYPE",
	    "its kind; default: from the files"),
	TEXT(struct resize_config, "old-vocab-file", old.vocab, "FILE", "its vocab.json"),
	TEXT(struct resize_config, "old-merge-file", old.merges, "FILE", "its merges.txt"),
	CHOICE(struct resize_config, "init", init, row_inits, "subword-mean",
	    "what a new row begins with, of the rows of old tokens: the mean of those that make "
	    "its piece; the mean of all; the same with noise of their covariance; 0; the last one"),
	SIZE(struct resize_config, "seed", seed, "1234", "of the noise of --init normal"),
	TEXT(struct resize_config, "map", map, "FILE",
	    "lines of an old token, a tab and the new one that has its row: ids or pieces"),
	TEXT(struct resize_config, "report", report, "FILE",
	    "write a line for each row of the new table: what it is made of"),
	FLAG(struct resize_config, "shrink", shrink,
	    "as many rows as the new tokenizer has tokens; without it none is lost"),
	FLAG(struct resize_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(
	    struct resize_config, "force", force, "write into a directory that holds a checkpoint"),
	TOKENIZER_OPTS,
	OPT_END,
};

static int
resize(struct derived_job *job, const char *report, struct err *e)
{
	struct derived *d = derived_open(job, e);

	if (d && report && resized_report(d, report, e) < 0) {
		derived_close(d);
		d = NULL;
	}
	return d ? derived_write(d, job, e) : CLI_FAILED;
}

static int
run_resize(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct resize_config *c = p->cfg;
	struct resized_rule rule = { &c->old, &c->tokenizer, (enum row_init)c->init,
		(uint64_t)c->seed, c->shrink, c->map };
	struct derived_job job = { .kind = &derived_resized,
		.rule = &rule,
		.path = (const char *const *)argv,
		.count = 1,
		.verb = "resize-vocab",
		.given = p,
		.dtype = DTYPE_NONE,
		.no_optim = c->no_optim,
		.force = c->force };
	int rc = cli_operands(argc, 2, "SRC DST", e);

	if (rc)
		return rc;
	job.save = argv[1];
	if (!c->tokenizer.model && !c->tokenizer.vocab && !c->tokenizer.type) {
		err_set(e, "--tokenizer-model: needed: the new tokenizer");
		return CLI_USAGE;
	}
	return resize(&job, c->report, e);
}

const struct verb verb_resize_vocab = { .name = "resize-vocab",
	.operands = "SRC DST",
	.summary = "give a model the vocabulary of another tokenizer",
	.opts = resize_opts,
	.cfg_size = sizeof(struct resize_config),
	.run_given = run_resize,
	.common = "old-tokenizer-model tokenizer-model init map report shrink" };
