/*
 * unigram.h - the Unigram model of a tokenizer.json (T5, XLM-R, llm-jp and others)
 *
 * The best path through the pieces, as a sum of doubles: on a tie the first candidate wins, by
 * start, then by length. A run of unknown characters is one unknown token, or its bytes' <0xNN>
 * tokens. Source: models/unigram of huggingface/tokenizers.
 */
#ifndef TOKEN_UNIGRAM_H
#define TOKEN_UNIGRAM_H

#include "lib/base/err.h"
#include "lib/token/ids.h"
#include "lib/token/names.h"

#include <stdbool.h>

struct unigram_spec {
	const struct name *token; /* by id; bytes NULL: a hole. Not needed afterwards */
	const double *score;      /* by id */
	size_t num_tokens;
	int64_t unk; /* id, or -1: an unknown character is an error */
	bool byte_fallback;
};

struct unigram;        /* read-only, shared by threads */
struct unigram_worker; /* one per thread */

struct unigram *unigram_new(const struct unigram_spec *spec);
void unigram_free(struct unigram *m); /* NULL is fine */

struct unigram_worker *unigram_worker_new(const struct unigram *m);
void unigram_worker_free(struct unigram_worker *w); /* NULL is fine */

/* Appends the ids of a piece of well-formed UTF-8. Fails at an unknown character when there is no
 * unknown token. */
int unigram_encode(
    struct unigram_worker *w, const char *piece, size_t len, struct token_ids *out, struct err *e);

#endif
