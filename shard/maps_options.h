/*
 * maps_options.h - the option rows of a struct maps_config, for the verbs that have them and for
 * what is read of a run's options
 */
#ifndef SHARD_MAPS_OPTIONS_H
#define SHARD_MAPS_OPTIONS_H

#include "shard/maps.h"

#include <stddef.h>

extern const char *const shard_loaders[]; /* in the order of enum sampler_type */

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
/* The rows of a struct reading_config. */
#define READING(base, field) .off = (base) + offsetof(struct reading_config, field)
#define READING_OPTS(base) \
	{ .name = "dataloader-type", .type = OPT_CHOICE, READING(base, loader), \
	  .choices = shard_loaders, .def = "single", \
	  .help = "samples in order, or a permutation of them for each epoch" }, \
	{ .name = "no-data-sharding", .type = OPT_FLAG, READING(base, no_data_sharding), \
	  .help = "cyclic: all ranks share one permutation, instead of having a bucket each" }, \
	{ .name = "micro-batch-size", .type = OPT_INT, READING(base, micro_batch_size), \
	  .min = 1, .max = 1e9, .def = "1", .unit = "samples", \
	  .help = "samples per micro batch of a rank" }
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

#endif
