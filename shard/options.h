/* options.h - the option tables of mshard's verbs */
#ifndef SHARD_OPTIONS_H
#define SHARD_OPTIONS_H

#include "shard/shard.h"

struct info_config {
	bool json;
};

extern const struct opt shard_info_opts[], shard_verify_opts[], shard_head_opts[], shard_sample_opts[], shard_cat_opts[],
	shard_split_opts[], shard_repair_opts[], shard_index_opts[];

#endif
