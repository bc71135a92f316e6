/*
 * fim.h - samples whose documents are rearranged, so that a model learns to fill in their middles
 *
 * A document becomes PREFIX, its beginning, SUFFIX, its end, MIDDLE, its middle; or PREFIX, SUFFIX,
 * its end, MIDDLE, its beginning, its middle. Source: Bavarian et al. 2022, arXiv:2207.14255; the
 * arithmetic is that of Megatron-LM megatron/training/datasets/fim_dataset.py, token for token, but
 * each sample has random numbers of its own.
 */
#ifndef TOKEN_FIM_H
#define TOKEN_FIM_H

#include "lib/base/rng.h"
#include "lib/token/tokenizer.h"

enum fim_token { FIM_PREFIX, FIM_MIDDLE, FIM_SUFFIX, FIM_PAD, FIM_EOD, FIM_SPLIT, FIM_TOKENS };

struct fim_options {
	bool on;
	/* of documents that are rearranged; of these, that begin with their ends; and of the
	 * fragments of documents that hold the split token. In [0, 1]; fragment_rate below 0: as
	 * rate. */
	double rate, spm_rate, fragment_rate;
	const char *token[FIM_TOKENS]; /* their pieces; FIM_SPLIT NULL: none */
	const char *no_prefix;         /* text that begins like this stays as it is; NULL: none */
};

/* For one thread; t and o outlive it. NULL where the tokenizer lacks a token. */
struct fim *fim_new(const struct tokenizer *t, const struct fim_options *o, struct err *e);
void fim_free(struct fim *f); /* NULL is ignored */

/* The random numbers of a sample of a corpus, by its number before the shuffle. */
void fim_draws(struct mt19937 *draws, int64_t seed, int64_t sample);

/* Rearranges the documents among n ids, in place: what becomes too long is cut, what becomes too
 * short is filled with FIM_PAD. Returns how many ids are not filled; -1 where the tokenizer does
 * not take the text. */
int64_t fim_rearrange(struct fim *f, struct mt19937 *draws, int64_t *ids, int64_t n, struct err *e);

#endif
