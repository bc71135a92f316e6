/*
 * options.c - the option tables of mshard's verbs
 *
 * One row per option gives parsing, help and manual. The verbs check how options fit together.
 * Names are Megatron-LM's wherever it has the option.
 */
#include "lib/token/options.h"
#include "shard/maps_options.h"
#include "shard/options.h"
#include "shard/where.h"

#include <stddef.h>

const struct opt shard_info_opts[] = { { .name = "json",
					   .type = OPT_FLAG,
					   .off = offsetof(struct info_config, json),
					   .help = "one JSON object per dataset, each on a line" },
	OPT_END };

#define VERIFY(field) offsetof(struct verify_config, field)

const struct opt shard_verify_opts[] = {
	{ .name = "vocab-size",
	    .type = OPT_INT,
	    .off = VERIFY(vocab_size),
	    .min = 1,
	    .max = 1ll << 31,
	    .help = "also read every token: ids must be from 0 to N - 1" },
	{ .name = "xxh",
	    .type = OPT_FLAG,
	    .off = VERIFY(xxh),
	    .help = "also compare both files with the checksums in PREFIX.xxh; write them when it "
		    "is missing" },
	{ .name = "seal",
	    .type = OPT_FLAG,
	    .off = VERIFY(seal),
	    .help = "write the checksums of the tokens to PREFIX.sum if they are missing" },
	TOKENIZER_FILE_OPTS, OPT_END
};

#define HEAD(field) offsetof(struct head_config, field)

const struct opt shard_head_opts[] = {
	{ .name = "num-documents",
	    .letter = 'n',
	    .type = OPT_INT,
	    .off = HEAD(count),
	    .min = -1,
	    .max = 1e15,
	    .def = "-1",
	    .help = "the number of documents; -1: 10, or 1 with --document" },
	{ .name = "document",
	    .type = OPT_INT,
	    .off = HEAD(document),
	    .max = 1e15,
	    .def = "-1",
	    .min = -1,
	    .help = "the first document to print, counted from 0; -1: from 0" },
	TOKENIZER_OPTS, OPT_END
};

const struct opt shard_index_opts[] = { MAPS_OPTS(0), MAPS_BATCH_OPTS(0), TOKENIZER_OPTS,
	MAPS_TOKENIZER_OPTS(0), OPT_END };

const struct opt shard_blend_opts[] = { MAPS_OPTS(0),
	{ .name = "consumed-samples",
	    .type = OPT_INT,
	    MAPS(0, consumed),
	    .max = 1e15,
	    .unit = "samples",
	    .help = "fill the column consumed: how many of the first N training samples come from "
		    "each corpus" },
	{ .name = "dry-run",
	    .type = OPT_FLAG,
	    MAPS(0, dry_run),
	    .help = "print the table and write nothing" },
	MAPS_BATCH_OPTS(0), TOKENIZER_OPTS, MAPS_TOKENIZER_OPTS(0), OPT_END };

static const char *const splits[] = { "train", "valid", "test", NULL };
const char *const shard_loaders[] = { "single", "cyclic", NULL };

#define SAMPLE(field) offsetof(struct sample_config, field)

const struct opt shard_sample_opts[] = { MAPS_OPTS(SAMPLE(maps)),
	{ .name = "which",
	    .type = OPT_CHOICE,
	    .off = SAMPLE(which),
	    .choices = splits,
	    .def = "train",
	    .help = "the split" },
	{ .name = "sample",
	    .type = OPT_INT,
	    .off = SAMPLE(sample),
	    .max = 1e15,
	    .def = "0",
	    .help = "the first sample to print, in the order of training, counted from 0" },
	{ .name = "count",
	    .letter = 'n',
	    .type = OPT_INT,
	    .off = SAMPLE(count),
	    .max = 1e15,
	    .def = "1",
	    .help = "the number of samples, or of iterations with --index" },
	{ .type = OPT_GROUP, .help = "Which rank reads what" },
	{ .name = "index",
	    .type = OPT_FLAG,
	    .off = SAMPLE(index),
	    .help = "print which rank reads which sample in which iteration, instead of tokens" },
	{ .name = "iteration",
	    .type = OPT_INT,
	    .off = SAMPLE(iteration),
	    .min = 1,
	    .max = 1e12,
	    .def = "1",
	    .help = "the first iteration to print, counted from 1" },
	{ .name = "consumed-samples",
	    .type = OPT_INT,
	    .off = SAMPLE(consumed_samples),
	    .min = -1,
	    .max = 1e15,
	    .def = "-1",
	    .unit = "samples",
	    .help = "samples consumed before it; -1 means full iterations of the global batch" },
	READING_OPTS(SAMPLE(reading)),
	{ .name = "data-parallel-size",
	    .type = OPT_INT,
	    .off = SAMPLE(data_parallel_size),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .unit = "ranks",
	    .help = "data-parallel ranks" },
	MAPS_BATCH_OPTS(SAMPLE(maps)), FIM_OPTS(SAMPLE(fim)), TOKENIZER_OPTS, OPT_END };

#define WHERE(field) offsetof(struct where_config, field)

const struct opt shard_where_opts[] = { { .type = OPT_GROUP, .help = "What is looked for" },
	{ .name = "run",
	    .type = OPT_STRING,
	    .off = WHERE(run),
	    .unit = "SAVE",
	    .help = "a run's directory of checkpoints, which hold the options that follow" },
	{ .name = "step",
	    .type = OPT_STRING,
	    .off = WHERE(step),
	    .unit = "A[-B]",
	    .help = "what these iterations read, counted from 1" },
	{ .name = "rank",
	    .type = OPT_INT,
	    .off = WHERE(rank),
	    .min = -1,
	    .max = 1e6,
	    .def = "-1",
	    .help = "only of this data-parallel rank" },
	{ .name = "sample",
	    .type = OPT_INT,
	    .off = WHERE(sample),
	    .min = -1,
	    .max = 1e15,
	    .def = "-1",
	    .help = "only of this sample of the run, counted from 0; without --step of its "
		    "iteration" },
	{ .name = "document",
	    .type = OPT_STRING,
	    .off = WHERE(document),
	    .unit = "PREFIX:K",
	    .help = "the iterations that read document K of a dataset, counted from 0" },
	{ .name = "losses",
	    .type = OPT_STRING,
	    .off = WHERE(losses),
	    .unit = "FILE",
	    .help = "samples of a file of mtrain's --sample-losses" },
	{ .name = "worst",
	    .type = OPT_INT,
	    .off = WHERE(worst),
	    .min = 1,
	    .max = 1e9,
	    .def = "10",
	    .help = "of --losses: those with the greatest losses beside the means of their "
		    "iterations",
	    .needs = "losses" },
	{ .name = "text",
	    .type = OPT_FLAG,
	    .off = WHERE(text),
	    .help = "add the beginning of the text, decoded by the tokenizer" },
	{ .type = OPT_GROUP, .help = "The run, where --run does not name it" },
	MAPS_OPTS(WHERE(maps)), READING_OPTS(WHERE(reading)),
	{ .name = "data-parallel-size",
	    .type = OPT_INT,
	    .off = WHERE(data_parallel_size),
	    .min = 0,
	    .max = 1e6,
	    .def = "0",
	    .unit = "ranks",
	    .help = "data-parallel ranks; 0: as many as the run had, or 1" },
	MAPS_BATCH_OPTS(WHERE(maps)), TOKENIZER_OPTS, OPT_END };

#define CAT(field) offsetof(struct cat_config, field)

const struct opt shard_cat_opts[] = { { .name = "output",
					  .letter = 'o',
					  .type = OPT_STRING,
					  .off = CAT(output),
					  .unit = "PREFIX",
					  .help = "write PREFIX.bin, PREFIX.idx and PREFIX.json" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = CAT(force),
	    .help = "replace an existing dataset" },
	{ .name = "widen",
	    .type = OPT_FLAG,
	    .off = CAT(widen),
	    .help =
		"accept different token types: the result has the narrowest type that holds all" },
	{ .name = "mix-tokenizers",
	    .type = OPT_FLAG,
	    .off = CAT(mix_tokenizers),
	    .help = "merge datasets even if their notes name different tokenizers" },
	OPT_END };

#define CUT(field) offsetof(struct split_config, field)

const struct opt shard_split_opts[] = {
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = CUT(output),
	    .unit = "PREFIX",
	    .help = "write the datasets PREFIX_00000, PREFIX_00001 and so on" },
	{ .name = "documents",
	    .type = OPT_INT,
	    .off = CUT(documents),
	    .min = 1,
	    .max = 1e15,
	    .unit = "N",
	    .help = "N documents per piece" },
	{ .name = "tokens",
	    .type = OPT_INT,
	    .off = CUT(tokens),
	    .min = 1,
	    .max = 9e18,
	    .unit = "N",
	    .help = "at most N tokens per piece, in whole documents; a longer document is its own "
		    "piece" },
	{ .name = "proportion",
	    .type = OPT_STRING,
	    .off = CUT(proportion),
	    .unit = "A,B,...",
	    .help = "one piece per share of the documents" },
	{ .name = "without",
	    .type = OPT_STRING,
	    .off = CUT(without),
	    .unit = "LIST",
	    .help = "one dataset PREFIX, without these documents: a list as mask takes it" },
	{ .name = "corpus",
	    .type = OPT_STRING,
	    .off = CUT(corpus),
	    .unit = "PREFIX",
	    .help = "of --without that are rows of where: those of this dataset, as it is spelled "
		    "there" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = CUT(force),
	    .help = "replace existing datasets" },
	OPT_END
};

#define MASK(field) offsetof(struct mask_config, field)

const struct opt shard_mask_opts[] = {
	{ .name = "documents",
	    .type = OPT_STRING,
	    .off = MASK(documents),
	    .unit = "LIST",
	    .help = "documents that the loss is not to count: a number a line, or document, first "
		    "token and number of tokens" },
	{ .name = "corpus",
	    .type = OPT_STRING,
	    .off = MASK(corpus),
	    .unit = "PREFIX",
	    .help = "of --documents that are rows of where: those of this dataset, as it is "
		    "spelled there" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = MASK(force),
	    .help = "take them out of a mask that exists" },
	OPT_END
};

#define REPAIR(field) offsetof(struct repair_config, field)

const struct opt shard_repair_opts[] = {
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = REPAIR(output),
	    .unit = "PREFIX",
	    .help = "write the repaired dataset as PREFIX.bin, PREFIX.idx and PREFIX.json" },
	{ .name = "in-place",
	    .type = OPT_FLAG,
	    .off = REPAIR(in_place),
	    .help = "change the damaged dataset itself: what is cut off is lost" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = REPAIR(force),
	    .help = "replace an existing dataset" },
	OPT_END
};

/* At least one dataset and at most `most`. A dataset is a pair of files, so it cannot come from
 * standard input. */
int
shard_operands(const char *verb, int argc, char **argv, int most, struct err *e)
{
	if (argc == 0)
		err_set(e,
		    "a dataset is needed: PREFIX is the path of its files without .bin and .idx");
	else if (argc > most)
		err_set(e, "%s takes one dataset at a time, not %d", verb, argc);
	for (int i = 0; i < argc; i++)
		shard_prefix(argv[i]);
	return argc == 0 || argc > most ? -1 : 0;
}

int
shard_no_operands(int argc, char **argv, struct err *e)
{
	return argc == 0
	    ? 0
	    : err_set(e, "unexpected operand '%s': --data-path names the datasets", argv[0]);
}
