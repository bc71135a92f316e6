/*
 * options.c - the option tables of mshard's verbs
 *
 * One row an option; parsing, help and manual follow from it. What options must be to each other is
 * checked by the verbs. Names are those of Megatron-LM wherever it has the option.
 */
#include "shard/options.h"
#include "lib/token/options.h"

#include <stddef.h>

const struct opt shard_info_opts[] = {
	{ .name = "json", .type = OPT_FLAG, .off = offsetof(struct info_config, json),
	  .help = "one JSON object a dataset and line" },
	OPT_END
};

#define VERIFY(field) offsetof(struct verify_config, field)

const struct opt shard_verify_opts[] = {
	{ .name = "vocab-size", .type = OPT_INT, .off = VERIFY(vocab_size), .min = 1, .max = 1ll << 31,
	  .help = "also read every token: ids must be from 0 to N - 1" },
	{ .name = "xxh", .type = OPT_FLAG, .off = VERIFY(xxh),
	  .help = "also compare both files with the checksums in PREFIX.xxh; write them when it is missing" },
	TOKENIZER_FILE_OPTS,
	OPT_END
};

#define HEAD(field) offsetof(struct head_config, field)

const struct opt shard_head_opts[] = {
	{ .name = "num-documents", .letter = 'n', .type = OPT_INT, .off = HEAD(count), .min = 1, .max = 1e15,
	  .help = "how many documents: 10, or 1 with --document" },
	{ .name = "document", .type = OPT_INT, .off = HEAD(document), .max = 1e15, .def = "-1", .min = -1,
	  .help = "the first document to print, counted from 0; -1 begins at 0" },
	TOKENIZER_OPTS,
	OPT_END
};

/* What the maps of a split depend on, at an offset of the verb's config. */
#define MAPS(base, field) ((base) + offsetof(struct index_config, field))
#define MAPS_OPTS(base) \
	{ .name = "data-path", .type = OPT_LIST, .off = MAPS(base, data_path), .unit = "PREFIX", \
	  .help = "the dataset, spelled as for training: the names of the maps depend on it" }, \
	{ .name = "split", .type = OPT_STRING, .off = MAPS(base, split), .unit = "SHARES", .def = "969, 30, 1", \
	  .help = "shares of training, validation and test; the names depend on the text" }, \
	{ .name = "seq-length", .type = OPT_INT, .off = MAPS(base, seq_length), .min = 1, .max = 2147483646, \
	  .unit = "tokens", .help = "tokens of a sample" }, \
	{ .name = "seed", .type = OPT_INT, .off = MAPS(base, seed), .max = 4294967295.0, .def = "1234", \
	  .help = "seed of the shuffles" }, \
	{ .name = "num-samples", .type = OPT_STRING, .off = MAPS(base, num_samples), .unit = "TRAIN,VALID,TEST", \
	  .def = "all,all,all", .help = "samples wanted of each split; all means one epoch" }
#define MAPS_CACHE_OPTS(base, text) \
	{ .name = "data-cache-path", .type = OPT_STRING, .off = MAPS(base, cache_dir), .unit = "DIR", .help = text }, \
	{ .type = OPT_GROUP, .help = "The tokenizer as the names of the maps know it" }, \
	{ .name = "tokenizer-class", .type = OPT_STRING, .off = MAPS(base, tokenizer_class), .unit = "NAME", \
	  .help = "Python class; without it MegatronTokenizerText" }, \
	{ .name = "tokenizer-path", .type = OPT_STRING, .off = MAPS(base, tokenizer_path), .unit = "PATH", \
	  .help = "its file or directory" }, \
	{ .name = "tokenizer-option", .type = OPT_LIST, .off = MAPS(base, tokenizer_option), .unit = "KEY=VALUE", \
	  .help = "what its constructor got, in order, as vocab_size=50257 eod_id=50256" }

static const char *const splits[] = { "train", "valid", "test", NULL };

#define SAMPLE(field) offsetof(struct sample_config, field)

const struct opt shard_sample_opts[] = {
	MAPS_OPTS(SAMPLE(maps)),
	{ .name = "which", .type = OPT_CHOICE, .off = SAMPLE(which), .choices = splits, .def = "train",
	  .help = "the split" },
	{ .name = "sample", .type = OPT_INT, .off = SAMPLE(sample), .max = 1e15, .def = "0",
	  .help = "the first sample to print, in the order of training, counted from 0" },
	{ .name = "count", .letter = 'n', .type = OPT_INT, .off = SAMPLE(count), .min = 1, .max = 1e15,
	  .def = "1", .help = "how many samples, or iterations with --index" },
	{ .type = OPT_GROUP, .help = "Which rank reads what" },
	{ .name = "index", .type = OPT_FLAG, .off = SAMPLE(index),
	  .help = "print which rank reads which sample in which iteration, in place of tokens" },
	{ .name = "iteration", .type = OPT_INT, .off = SAMPLE(iteration), .min = 1, .max = 1e12, .def = "1",
	  .help = "the first iteration to print, counted from 1" },
	{ .name = "consumed-samples", .type = OPT_INT, .off = SAMPLE(consumed_samples), .min = -1, .max = 1e15, .def = "-1",
	  .unit = "samples", .help = "samples consumed before it; -1 means full iterations of the global batch" },
	{ .name = "micro-batch-size", .type = OPT_INT, .off = SAMPLE(micro_batch_size), .min = 1, .max = 1e6, .def = "1",
	  .unit = "samples", .help = "samples that a rank takes at a time" },
	{ .name = "global-batch-size", .type = OPT_INT, .off = SAMPLE(global_batch_size), .min = 1, .max = 1e9,
	  .unit = "samples", .help = "samples of an iteration on all ranks" },
	{ .name = "data-parallel-size", .type = OPT_INT, .off = SAMPLE(data_parallel_size), .min = 1, .max = 1e6,
	  .def = "1", .unit = "ranks", .help = "data-parallel ranks" },
	TOKENIZER_OPTS,
	OPT_END
};

#define CAT(field) offsetof(struct cat_config, field)

const struct opt shard_cat_opts[] = {
	{ .name = "output", .letter = 'o', .type = OPT_STRING, .off = CAT(output), .unit = "PREFIX",
	  .help = "write PREFIX.bin, PREFIX.idx and PREFIX.json" },
	{ .name = "force", .type = OPT_FLAG, .off = CAT(force), .help = "replace an existing dataset" },
	{ .name = "widen", .type = OPT_FLAG, .off = CAT(widen),
	  .help = "let token types differ: the narrowest type that holds all of them is written" },
	{ .name = "mix-tokenizers", .type = OPT_FLAG, .off = CAT(mix_tokenizers),
	  .help = "merge datasets though their notes name different tokenizers" },
	OPT_END
};

#define CUT(field) offsetof(struct split_config, field)

const struct opt shard_split_opts[] = {
	{ .name = "output", .letter = 'o', .type = OPT_STRING, .off = CUT(output), .unit = "PREFIX",
	  .help = "write the datasets PREFIX_00000, PREFIX_00001 and so on" },
	{ .name = "documents", .type = OPT_INT, .off = CUT(documents), .min = 1, .max = 1e15, .unit = "N",
	  .help = "N documents a piece" },
	{ .name = "tokens", .type = OPT_INT, .off = CUT(tokens), .min = 1, .max = 9e18, .unit = "N",
	  .help = "as many documents a piece as have N tokens or less; a longer document is a piece of its own" },
	{ .name = "proportion", .type = OPT_STRING, .off = CUT(proportion), .unit = "A,B,...",
	  .help = "a piece for each share of the documents" },
	{ .name = "force", .type = OPT_FLAG, .off = CUT(force), .help = "replace existing datasets" },
	OPT_END
};

#define REPAIR(field) offsetof(struct repair_config, field)

const struct opt shard_repair_opts[] = {
	{ .name = "output", .letter = 'o', .type = OPT_STRING, .off = REPAIR(output), .unit = "PREFIX",
	  .help = "write the repaired dataset as PREFIX.bin, PREFIX.idx and PREFIX.json" },
	{ .name = "in-place", .type = OPT_FLAG, .off = REPAIR(in_place),
	  .help = "change the damaged dataset itself: what is cut off is gone" },
	{ .name = "force", .type = OPT_FLAG, .off = REPAIR(force), .help = "replace an existing dataset" },
	OPT_END
};

const struct opt shard_index_opts[] = {
	MAPS_OPTS(0),
	MAPS_CACHE_OPTS(0, "where the maps go; without it PREFIX/cache/GPTDataset_indices"),
	OPT_END
};
