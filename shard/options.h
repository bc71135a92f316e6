/* options.h - the option tables of mshard's verbs */
#ifndef SHARD_OPTIONS_H
#define SHARD_OPTIONS_H

#include "shard/sample.h"
#include "shard/shard.h"

struct info_config {
	bool json;
};

extern const struct opt shard_info_opts[], shard_verify_opts[], shard_head_opts[],
    shard_index_opts[], shard_blend_opts[], shard_sample_opts[], shard_cat_opts[],
    shard_split_opts[], shard_repair_opts[], shard_mask_opts[], shard_where_opts[];

/* Checks for at least one dataset and at most `most`, and reduces their names to prefixes; -1 is
 * wrong usage. */
int shard_operands(const char *verb, int argc, char **argv, int most, struct err *e);
/* Checks for no operands, for verbs whose datasets are options. */
int shard_no_operands(int argc, char **argv, struct err *e);

/* What most runs of a verb have, for --help. */
#define COMMON_MAPS "data-path split seq-length seed num-samples data-cache-path tokenizer-model"
#define COMMON_HEAD "num-documents document tokenizer-model vocab-file merge-file"
#define COMMON_SAMPLE \
	COMMON_MAPS " which sample count index iteration micro-batch-size global-batch-size " \
		    "data-parallel-size"
#define COMMON_WHERE "run step rank sample document losses worst text"
#define COMMON_BLEND COMMON_MAPS " consumed-samples dry-run"

#endif
