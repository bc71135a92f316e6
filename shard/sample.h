/*
 * sample.h - training samples, and which rank reads which of them when: the verb sample
 */
#ifndef SHARD_SAMPLE_H
#define SHARD_SAMPLE_H

#include "shard/maps.h"

struct sample_config {
	struct maps_config maps; /* first, as its spec has to be */
	int which;               /* enum split */
	int64_t sample, count;   /* the first, and how many; with `index` how many iterations */
	bool index;
	int64_t micro_batch_size, data_parallel_size, global_batch_size, iteration;
	/* before that iteration; -1: what the iterations before it consume */
	int64_t consumed_samples;
	int loader; /* enum sampler_type */
	bool no_data_sharding;
	const struct tokenizer *tokenizer; /* text in place of ids; NULL: ids */
};
/* What the option table cannot check; -1 is wrong usage. */
int shard_sample_check(const struct sample_config *c, struct err *e);
/* Training samples as rows "sample dataset parts tokens ids", or with `index` which rank reads
 * which sample when. The options are checked; notes gets lines for people. */
int shard_sample(const struct sample_config *c, FILE *out, struct str *notes, struct err *e);

#endif
