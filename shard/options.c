/*
 * options.c - the option tables of mshard's verbs
 *
 * One row per option gives parsing, help and manual. The verbs check how options fit together.
 * Names are Megatron-LM's wherever it has the option.
 */
#include "lib/token/options.h"
#include "shard/options.h"

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

/* The rows of a struct maps_config, at an offset in the verb's own config. */
/* clang-format off */
#define MAPS(base, field) .off = (base) + offsetof(struct maps_config, field)
#define MAPS_OPTS(base) \
	{ .name = "data-path", .type = OPT_LIST, MAPS(base, paths.data_path), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "datasets of all splits, spelled as for training: the names of the maps depend " \
	  "on it" }, \
	{ .name = "data-args-path", .type = OPT_STRING, MAPS(base, paths.data_args_path), \
	  .unit = "FILE", \
	  .help = "the words of --data-path from a file" }, \
	{ .name = "data-schedule", .type = OPT_STRING, MAPS(base, paths.data_schedule), \
	  .unit = "FILE", \
	  .help = "datasets whose weights change at given tokens: a line for each stage of " \
	  "training" }, \
	{ .name = "train-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_TRAIN]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "datasets only of training, whole; --split does not apply" }, \
	{ .name = "valid-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_VALID]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "the same for validation" }, \
	{ .name = "test-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_TEST]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "the same for the test" }, \
	{ .name = "per-split-data-args-path", .type = OPT_STRING, \
	  MAPS(base, paths.per_split_data_args_path), .unit = "FILE", \
	  .help = "all three from a JSON object with the keys train, valid and test" }, \
	{ .name = "split", .type = OPT_STRING, MAPS(base, split), .unit = "SHARES", \
	  .def = "969, 30, 1", \
	  .help = "shares of training, validation and test; the names depend on the text" }, \
	{ .name = "seq-length", .type = OPT_INT, MAPS(base, seq_length), .min = 1, \
	  .max = 2147483646, .unit = "tokens", \
	  .help = "tokens per sample" }, \
	{ .name = "seed", .type = OPT_INT, MAPS(base, seed), .max = 4294967295.0, .def = "1234", \
	  .help = "seed of the shuffles" }, \
	{ .name = "num-samples", .type = OPT_STRING, MAPS(base, num_samples), \
	  .unit = "TRAIN,VALID,TEST", .def = "all,all,all", \
	  .help = "samples wanted from each split; all means one epoch" }, \
	{ .name = "mid-level-dataset-surplus", .type = OPT_NUMBER, MAPS(base, surplus), \
	  .max = 1e6, .def = "0.005", \
	  .unit = "fraction", \
	  .help = "how much more than its share each corpus of a weighted blend is asked for" }, \
	{ .name = "no-add-extra-token-to-sequence", .type = OPT_UNFLAG, \
	  MAPS(base, add_extra_token), \
	  .help = "samples do not overlap by the token that is the last label" }, \
	{ .name = "no-drop-last-partial-validation-sequence", .type = OPT_UNFLAG, \
	  MAPS(base, drop_last_partial), \
	  .help = "validation keeps its last sample even when it is not full" }, \
	{ .name = "sample-packing", .type = OPT_CHOICE, MAPS(base, packing), \
	  .choices = sample_packing_names, .def = "cut", \
	  .help = "samples: sequences laid end to end and cut, or whole ones that fill them " \
	  "best" }, \
	{ .name = "long-documents", .type = OPT_CHOICE, MAPS(base, long_documents), \
	  .choices = long_documents_names, .def = "cut", \
	  .help = "of best-fit: sequences longer than a sample are cut into pieces, truncated, " \
	  "or left out" }, \
	{ .name = "data-cache-path", .type = OPT_STRING, MAPS(base, cache_dir), .unit = "DIR", \
	  .help = "where the maps go; without it PREFIX/cache/GPTDataset_indices, and blends are " \
	  "not kept" }, \
	{ .name = "num-dataset-builder-threads", .type = OPT_INT, MAPS(base, threads), \
	  .max = 1024, .unit = "threads", \
	  .help = "corpora built in parallel; 0: the number of cores, up to 16" }
#define MAPS_BATCH_OPTS(base) \
	{ .type = OPT_GROUP, .help = "The batches of the run" }, \
	{ .name = "global-batch-size", .type = OPT_INT, MAPS(base, global_batch_size), .min = 1, \
	  .max = 1e9, .unit = "samples", \
	  .help = "samples per iteration, over all ranks" }, \
	{ .name = "rampup-batch-size", .type = OPT_LIST, MAPS(base, rampup), .unit = "N", \
	  .help = "START INCREMENT SAMPLES: the batch grows linearly, as in training" }, \
	{ .name = "step-batch-size-schedule", .type = OPT_STRING, MAPS(base, step_schedule), \
	  .unit = "\"TOKENS:SIZE ...\"", \
	  .help = "the batch by consumed tokens, as in training" }
#define MAPS_TOKENIZER_OPTS(base) \
	{ .type = OPT_GROUP, .help = "The tokenizer in the names of the maps" }, \
	{ .name = "tokenizer-class", .type = OPT_STRING, MAPS(base, tokenizer_class), \
	  .unit = "NAME", \
	  .help = "Python class; without it MegatronTokenizerText" }, \
	{ .name = "tokenizer-path", .type = OPT_STRING, MAPS(base, tokenizer_path), \
	  .unit = "PATH", \
	  .help = "its file or directory" }, \
	{ .name = "tokenizer-option", .type = OPT_LIST, MAPS(base, tokenizer_option), \
	  .unit = "KEY=VALUE", \
	  .help = "its constructor's arguments, in order, such as vocab_size=50257 eod_id=50256" }
/* clang-format on */

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
static const char *const loaders[] = { "single", "cyclic", NULL }; /* enum sampler_type */

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
	{ .name = "dataloader-type",
	    .type = OPT_CHOICE,
	    .off = SAMPLE(loader),
	    .choices = loaders,
	    .def = "single",
	    .help = "samples in order, or a permutation of them for each epoch" },
	{ .name = "no-data-sharding",
	    .type = OPT_FLAG,
	    .off = SAMPLE(no_data_sharding),
	    .help = "cyclic: all ranks share one permutation, instead of having a bucket each" },
	{ .name = "micro-batch-size",
	    .type = OPT_INT,
	    .off = SAMPLE(micro_batch_size),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .unit = "samples",
	    .help = "samples per micro batch of a rank" },
	{ .name = "data-parallel-size",
	    .type = OPT_INT,
	    .off = SAMPLE(data_parallel_size),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .unit = "ranks",
	    .help = "data-parallel ranks" },
	MAPS_BATCH_OPTS(SAMPLE(maps)), FIM_OPTS(SAMPLE(fim)), TOKENIZER_OPTS, OPT_END };

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

/* *t is NULL when the options name no tokenizer. */
int
shard_tokenizer(const struct tokenizer_spec *spec, struct tokenizer **t, struct err *e)
{
	*t = NULL;
	if (!spec->type && !spec->model && !spec->vocab && !spec->merges)
		return 0;
	*t = tokenizer_open(spec, e);
	return *t ? 0 : -1;
}
