/*
 * bpe.h - byte-level byte-pair encoding: pieces of text to ids
 *
 * The rule: start with one symbol a byte; among neighbouring pairs that may merge join the one of
 * lowest rank, leftmost on a tie; stop when none is left. A vocabulary comes with a list of merges
 * (rank is the position in the list: GPT-2, tokenizer.json) or as a rank file (two symbols may
 * merge when their join is a token, and its id is the rank: tiktoken). What is fast about the work
 * (piece caches, cuts inside long pieces) never shows in the ids: they depend on the piece's bytes
 * alone.
 */
#ifndef TOKEN_BPE_BPE_H
#define TOKEN_BPE_BPE_H

#include "lib/base/err.h"
#include "lib/token/ids.h"
#include "lib/token/pretok.h"
#include "lib/token/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an id stands for. bytes NULL: no part of merging (a special token, a hole). */
struct bpe_token {
	const unsigned char *bytes;
	uint32_t len;
};

struct bpe_merge {
	uint32_t left, right; /* ids; both have bytes, and so has the token of their join */
};

struct bpe_spec {
	const struct bpe_token *token; /* by id; array and bytes are borrowed until bpe_free */
	size_t num_tokens;             /* below 2^21, as of merges */
	const struct bpe_merge *merge; /* in order of rank; not needed afterwards */
	size_t num_merges;
	bool ranks;        /* a rank file: no merges are given, the id of a join is its rank */
	bool whole_piece;  /* a piece that is a token is that token, without merging: rank files,
			      and ignore_merges of tokenizer.json */
	bool symbols;      /* callers start from ids of their own (bpe_merge); bytes need no ids */
	struct pool *pool; /* who helps to build it; NULL: nobody */
};

struct bpe;        /* read-only, shared by threads */
struct bpe_worker; /* one a thread */

/*
 * NULL with a reason: a byte without a token, two tokens of the same bytes, a merge whose join is
 * no token, or a pair that is there twice. Where bytes are merged by a list and whole pieces, too,
 * that no two tokens are the same is for the caller to see to. *bad, unless bad is NULL, is the
 * index of the wrong merge, or num_merges when it is something else.
 */
struct bpe *bpe_new(const struct bpe_spec *spec, size_t *bad, struct err *e);
void bpe_free(struct bpe *b);
/* The id of the token that has these bytes, or -1; of symbols and rank files alone. */
int64_t bpe_find(const struct bpe *b, const unsigned char *bytes, size_t len);

struct bpe_worker *bpe_worker_new(const struct bpe *b);
void bpe_worker_free(struct bpe_worker *w);

/* Appends the ids of a text of less than 2^31 bytes: cut by p, each piece encoded. */
void bpe_encode_text(struct bpe_worker *w, const struct pretok *p, const unsigned char *s, size_t n,
    struct token_ids *out);
/* Appends the ids of one piece of less than 2^31 bytes. */
void bpe_encode_piece(
    struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out);
/* Merges n < 2^31 symbols in place and returns how many are left: for vocabularies whose symbols
 * are not bytes. There is no whole_piece here. */
size_t bpe_merge(struct bpe_worker *w, uint32_t *id, size_t n);
/* The same of symbols that are read a stretch at a time, however many there are. */
void bpe_merge_symbols(struct bpe_worker *w, const struct window_list *list);

#endif
