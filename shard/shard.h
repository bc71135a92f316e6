/*
 * shard.h - what mshard does to datasets
 *
 * Products go to the given stream; the caller flushes and checks it. All return 0, or -1 with the
 * reason. A prefix names PREFIX.idx and PREFIX.bin.
 */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include "lib/base/opt.h"
#include "lib/format/samples.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Counts and the histogram of sequence lengths: rows "dataset item value", or one JSON object on a
 * line. */
int shard_info(const char *prefix, bool json, FILE *out, struct err *e);

/* Everything that opening checks; with vocab_size > 0 also that every id lies in [0, vocab_size).
 * Says "PREFIX: ok, ...". */
int shard_verify(const char *prefix, int64_t vocab_size, FILE *out, struct err *e);

/* Documents [first, first + count) as rows "document sequence tokens ids"; the last may lie beyond
 * the end, the first not. */
int shard_head(const char *prefix, int64_t first, int64_t count, FILE *out, struct err *e);

struct cat_config {
	const char *output;
	bool force;                     /* replace what is there */
	bool widen;                     /* types may differ: the narrowest that holds all of them */
};
/* Merges datasets, in order, in constant memory (widening: in that of the longest sequence). */
int shard_cat(const struct cat_config *c, int count, char **prefix, struct err *e);

#endif
