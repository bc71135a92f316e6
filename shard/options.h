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
    shard_split_opts[], shard_repair_opts[];

/* Checks for at least one dataset and at most `most`, and reduces their names to prefixes; -1 is
 * wrong usage. */
int shard_operands(const char *verb, int argc, char **argv, int most, struct err *e);
/* Checks for no operands, for verbs whose datasets are options. */
int shard_no_operands(int argc, char **argv, struct err *e);
/* Opens the tokenizer of a spec; *t NULL: the options name none. -1 is wrong usage. */
int shard_tokenizer(const struct tokenizer_spec *spec, struct tokenizer **t, struct err *e);

#endif
