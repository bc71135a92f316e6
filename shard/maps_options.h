/*
 * maps_options.h - the option rows that a struct maps_config is read from, at an offset of the
 * verb's own config
 */
#ifndef SHARD_MAPS_OPTIONS_H
#define SHARD_MAPS_OPTIONS_H

#include "shard/maps.h"

#include <stddef.h>

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
	{ .name = "train-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_TRAIN]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "datasets of training alone, whole; --split does not apply" }, \
	{ .name = "valid-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_VALID]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "the same of validation" }, \
	{ .name = "test-data-path", .type = OPT_LIST, MAPS(base, paths.split_path[SPLIT_TEST]), \
	  .unit = "[WEIGHT] PREFIX", \
	  .help = "the same of the test" }, \
	{ .name = "per-split-data-args-path", .type = OPT_STRING, \
	  MAPS(base, paths.per_split_data_args_path), .unit = "FILE", \
	  .help = "all three from a JSON object with the keys train, valid and test" }, \
	{ .name = "split", .type = OPT_STRING, MAPS(base, split), .unit = "SHARES", \
	  .def = "969, 30, 1", \
	  .help = "shares of training, validation and test; the names depend on the text" }, \
	{ .name = "seq-length", .type = OPT_INT, MAPS(base, seq_length), .min = 1, \
	  .max = 2147483646, .unit = "tokens", \
	  .help = "tokens of a sample" }, \
	{ .name = "seed", .type = OPT_INT, MAPS(base, seed), .max = 4294967295.0, .def = "1234", \
	  .help = "seed of the shuffles" }, \
	{ .name = "num-samples", .type = OPT_STRING, MAPS(base, num_samples), \
	  .unit = "TRAIN,VALID,TEST", .def = "all,all,all", \
	  .help = "samples wanted of each split; all means one epoch" }, \
	{ .name = "mid-level-dataset-surplus", .type = OPT_NUMBER, MAPS(base, surplus), \
	  .max = 1e6, .def = "0.005", \
	  .unit = "fraction", \
	  .help = "how much more than its share is asked of each corpus of a weighted blend" }, \
	{ .name = "no-add-extra-token-to-sequence", .type = OPT_UNFLAG, \
	  MAPS(base, add_extra_token), \
	  .help = "samples do not overlap by the token that is the last label" }, \
	{ .name = "no-drop-last-partial-validation-sequence", .type = OPT_UNFLAG, \
	  MAPS(base, drop_last_partial), \
	  .help = "validation keeps the last sample though it is not full" }, \
	{ .name = "data-cache-path", .type = OPT_STRING, MAPS(base, cache_dir), .unit = "DIR", \
	  .help = "where the maps go; without it PREFIX/cache/GPTDataset_indices, and blends are " \
	  "not kept" }, \
	{ .name = "num-dataset-builder-threads", .type = OPT_INT, MAPS(base, threads), \
	  .max = 1024, .unit = "threads", \
	  .help = "corpora built side by side; 0: as many as there are cores, up to 16" }
#define MAPS_TOKENIZER_OPTS(base) \
	{ .type = OPT_GROUP, .help = "The tokenizer as the names of the maps know it" }, \
	{ .name = "tokenizer-class", .type = OPT_STRING, MAPS(base, tokenizer_class), \
	  .unit = "NAME", \
	  .help = "Python class; without it MegatronTokenizerText" }, \
	{ .name = "tokenizer-path", .type = OPT_STRING, MAPS(base, tokenizer_path), \
	  .unit = "PATH", \
	  .help = "its file or directory" }, \
	{ .name = "tokenizer-option", .type = OPT_LIST, MAPS(base, tokenizer_option), \
	  .unit = "KEY=VALUE", \
	  .help = "what its constructor got, in order, as vocab_size=50257 eod_id=50256" }
/* clang-format on */

#endif
