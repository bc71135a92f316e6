/*
 * sample.h - the verb sample: training samples, and which rank reads which of them in which
 * iteration
 */
#ifndef SHARD_SAMPLE_H
#define SHARD_SAMPLE_H

#include "lib/token/fim.h"
#include "shard/maps.h"

struct sample_config {
	struct maps_config maps; /* first, because its spec must be */
	int which;               /* enum split */
	int64_t sample, count;   /* the first one and the number; with `index` the number of
				  * iterations */
	bool index;
	int64_t data_parallel_size, iteration;
	/* samples before that iteration; -1: as many as the earlier iterations consume */
	int64_t consumed_samples;
	struct reading_config reading;
	struct fim_options fim;
	const struct tokenizer *tokenizer; /* prints text; NULL: ids */
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_sample_check(const struct sample_config *c, struct err *e);
/* Training samples as rows "sample dataset parts tokens ids", or with `index` which rank reads
 * which sample in which iteration. The options must be checked; notes gets lines for people. */
int shard_sample(const struct sample_config *c, FILE *out, struct str *notes, struct err *e);

#endif
