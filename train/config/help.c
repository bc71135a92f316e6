/* help.c - mtrain as a tool without verbs: its --help and the completion of its options */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "train/config/help.h"
#include "train/config/options.h"

/* What nearly every run has. */
static const char common[] = "config model num-layers hidden-size num-attention-heads seq-length "
			     "micro-batch-size global-batch-size bf16 tensor-model-parallel-size "
			     "pipeline-model-parallel-size ranks train-iters lr lr-warmup-iters "
			     "data-path tokenizer-model save load save-interval";

static const struct tool tool = { .name = "mtrain",
	.verbs = (const struct verb *const[]){ &(const struct verb){ .name = "",
						   .operands = "",
						   .summary = "Train a language model",
						   .opts = mtrain_opts,
						   .common = common },
	    NULL } };

/* What the line has beside --help is all that is told of, other programs' options too. */
void
train_help(const struct train_config *c)
{
	struct err e;

	if (c->want_mdoc)
		opt_mdoc(mtrain_opts, stdout);
	else if (cli_help(&tool, tool.verbs[0], &c->parse, &e) < 0)
		die_usage("%s", e.msg);
}

int
train_completion(const struct train_config *c)
{
	struct str out = { 0 };

	cli_completion(&tool, c->parse.shell, &out);
	str_put(&out, stdout);
	return CLI_DONE;
}
