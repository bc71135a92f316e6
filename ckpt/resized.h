/*
 * resized.h - a model for another tokenizer: rows of its vocabulary tables moved and added, as a
 * source (derived.h)
 */
#ifndef CKPT_RESIZED_H
#define CKPT_RESIZED_H

#include "ckpt/derived.h"
#include "ckpt/vocab_map.h"

/* What a new row begins with, of the rows of the old tokens: the mean of those of the pieces that
 * make it; the mean of all, with or without noise of their covariance; 0; or the last one. */
enum row_init { INIT_SUBWORD_MEAN, INIT_MEAN, INIT_NORMAL, INIT_ZERO, INIT_LAST };
extern const char *const row_inits[]; /* for options; ended by NULL */

struct resized_rule {
	const struct tokenizer_spec *before; /* of no file: the tokenizer beside the weights */
	const struct tokenizer_spec *after;
	enum row_init init;
	uint64_t seed;   /* of the noise */
	bool shrink;     /* as many rows as tokens */
	const char *map; /* file of tokens and what they were; NULL: none */
};

/* derived_job.rule is a struct resized_rule. Both tables change, with their states and averages,
 * where new rows of moments are 0; all else is kept. One table is in memory at a time. */
extern const struct derived_kind derived_resized;

/* Writes a line for each row of the new table: see mckpt(1). Reads the embedding. */
int resized_report(struct derived *d, const char *path, struct err *e);

#endif
