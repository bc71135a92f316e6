/*
 * spmuni.h - the best path of SentencePiece's unigram models, bit for bit
 *
 * The best score of every place is a float. Up to version 0.2.1 of the library candidates are added
 * up and compared as doubles, the one for an unknown character as float; from 0.2.2 on all of them
 * as floats, user-defined pieces have other scores, and a running score beyond 100,000 is set back
 * to 0, with those of the places ahead lowered by as much. A candidate replaces another only when
 * it is greater, and they come by start, then by length. The running score of the whole text
 * decides near ties, so a unit's result depends on what stands before it; with a bound for the
 * score up to which it does not, it may be kept. Source: google/sentencepiece src/unigram_model.cc
 * (EncodeOptimized), versions 0.1.97 and 0.2.3.
 */
#ifndef TOKEN_SPM_SPMUNI_H
#define TOKEN_SPM_SPMUNI_H

#include "lib/token/spm/spmbpe.h"
#include "lib/token/spm/spmodel.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/tokenizer.h"
#include "lib/token/trie.h"

/* Read-only after spmuni_init. Also finds the words of word models. */
struct spmuni {
	const struct spmodel *model;
	struct code_map symbol; /* 1, 2, ... of the characters of pieces */
	struct trie trie;       /* pieces by symbols; value: id, plus USER_PIECE */
	uint32_t *first;        /* node after the first symbol */
	uint32_t num_symbols;
	float *score;              /* of an id that is not user-defined; 0 after the last */
	double *user_score;        /* of one that is */
	uint32_t *symbols, *bytes; /* of a piece, in normalised text */
	uint32_t longest;          /* symbols of the longest */
	bool floats;               /* the rule from 0.2.2 on */
	float unk_score, largest;  /* largest: of the absolute scores */
};

/* One thread's scratch; zero-initialise. */
struct spmuni_worker {
	struct spm_place *place;
	uint32_t *symbol;
	size_t cap;
	float score; /* of the text so far; 0 at its beginning */
};

void spmuni_init(struct spmuni *u, const struct spmodel *m, enum unigram_ties ties,
    const struct spm_unknown *unknown);
void spmuni_release(struct spmuni *u);
void spmuni_worker_release(struct spmuni_worker *w);
void spmuni_worker_trim(struct spmuni_worker *w, size_t most); /* drops what grew beyond */

/* Appends the ids of a unit and advances the score. */
void spmuni_encode(const struct spmuni *u, struct spmuni_worker *w,
    const struct spm_unknown *unknown, const unsigned char *p, size_t len, struct token_ids *out);

/*
 * Appends the ids of a unit as the first of its text, and leaves the score. Returns the bound: with
 * a running score of smaller magnitude the unit has the same ids, and the score advances by their
 * scores, one after another. Negative: the result is not to be kept.
 */
float spmuni_encode_first(const struct spmuni *u, struct spmuni_worker *w,
    const struct spm_unknown *unknown, const unsigned char *p, size_t len, struct token_ids *out);

/* Appends the id of a unit that is a piece, or what is unknown. */
void spmuni_word(const struct spmuni *u, const struct spm_unknown *unknown, const unsigned char *p,
    size_t len, struct token_ids *out);

#endif
