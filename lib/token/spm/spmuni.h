/*
 * spmuni.h - the best path of SentencePiece's unigram models, bit for bit
 *
 * The best score of every place is a float. Up to version 0.2.1 of the library, candidates are
 * summed and compared as doubles, except the one for an unknown character, a float; from 0.2.2 on
 * all are floats, user-defined pieces have other scores, and a running score beyond 100,000 is
 * reset to 0, with those of the later places lowered by as much. A candidate replaces another only
 * when it is greater, and they are ordered by start, then by length. The running score of the whole
 * text decides near ties, so a unit's result depends on the text before it; with a bound for the
 * score up to which it does not, it may be cached. Source: google/sentencepiece
 * src/unigram_model.cc (EncodeOptimized), versions 0.1.97 and 0.2.3.
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
	float *score;              /* by id, unless user-defined; 0 after the last */
	double *user_score;        /* by user-defined id */
	uint32_t *symbols, *bytes; /* of a piece, in normalised text */
	uint32_t longest;          /* symbols of the longest piece */
	bool floats;               /* the rule from 0.2.2 on */
	float unk_score, largest;  /* largest: of the absolute scores */
};

/* One thread's scratch; zero-initialise. */
struct spmuni_worker {
	struct spm_place *place;
	uint32_t *symbol;
	size_t cap;
	float score; /* the running score; 0 at the beginning of a text */
};

void spmuni_init(struct spmuni *u, const struct spmodel *m, enum unigram_ties ties,
    const struct spm_unknown *unknown);
void spmuni_release(struct spmuni *u);
void spmuni_worker_release(struct spmuni_worker *w);
void spmuni_worker_trim(struct spmuni_worker *w, size_t most); /* frees memory above that */

/* Appends the ids of a unit and advances the score. */
void spmuni_encode(const struct spmuni *u, struct spmuni_worker *w,
    const struct spm_unknown *unknown, const unsigned char *p, size_t len, struct token_ids *out);

/*
 * Appends the ids of a unit as the first of its text, and leaves the score. Returns the bound: with
 * a running score of smaller magnitude the unit has the same ids, and the score advances by their
 * scores, one after another. Negative: the result must not be cached.
 */
float spmuni_encode_first(const struct spmuni *u, struct spmuni_worker *w,
    const struct spm_unknown *unknown, const unsigned char *p, size_t len, struct token_ids *out);

/* Appends the id of a unit that is a piece, or the ids of an unknown one. */
void spmuni_word(const struct spmuni *u, const struct spm_unknown *unknown, const unsigned char *p,
    size_t len, struct token_ids *out);

#endif
