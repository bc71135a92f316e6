/*
 * bpe.h - byte-level byte-pair encoding: pieces of text to ids
 *
 * The rule: start with one symbol per byte; of the neighbouring pairs that may merge, join the one
 * of lowest rank, leftmost on a tie; stop when none is left. A vocabulary comes with a list of
 * merges (rank is the position in the list: GPT-2, tokenizer.json) or as a rank file (two symbols
 * may merge when their join is a token, and its id is the rank: tiktoken). Optimisations (piece
 * caches, cuts inside long pieces) never change the ids: they depend only on the piece's bytes.
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

/* The bytes of an id. NULL: not used in merging (a special token, a hole). */
struct bpe_token {
	const unsigned char *bytes;
	uint32_t len;
};

struct bpe_merge {
	uint32_t left, right; /* ids; both have bytes, and so has the token of their join */
};

struct bpe_spec {
	const struct bpe_token *token; /* by id; array and bytes are borrowed until bpe_free */
	size_t num_tokens;             /* below 2^21, like the number of merges */
	const struct bpe_merge *merge; /* in order of rank; not needed afterwards */
	size_t num_merges;
	bool ranks;        /* a rank file: it has no merges, the id of a join is its rank */
	bool whole_piece;  /* a piece that is a token is that token, without merging: rank files,
			    * and ignore_merges of tokenizer.json */
	bool symbols;      /* callers supply the initial ids (bpe_merge); bytes need no ids */
	struct pool *pool; /* threads for building; NULL: none */
};

struct bpe;        /* read-only, shared by threads */
struct bpe_worker; /* one per thread */

/*
 * NULL with a reason: a byte without a token, two tokens with the same bytes, a merge whose join is
 * not a token. Of two merges of one pair the later counts, as in huggingface/tokenizers. With
 * merges of bytes and whole_piece, the caller must ensure that tokens are distinct. *bad, unless
 * bad is NULL, is the index of the faulty merge, or num_merges for any other reason.
 */
struct bpe *bpe_new(const struct bpe_spec *spec, size_t *bad, struct err *e);
void bpe_free(struct bpe *b);
/* The id of the token that has these bytes, or -1; only with symbols or for rank files. */
int64_t bpe_find(const struct bpe *b, const unsigned char *bytes, size_t len);

struct bpe_worker *bpe_worker_new(const struct bpe *b);
void bpe_worker_free(struct bpe_worker *w);

/* Appends the ids of a text of less than 2^31 bytes: cut by p, each piece encoded. */
void bpe_encode_text(struct bpe_worker *w, const struct pretok *p, const unsigned char *s, size_t n,
    struct token_ids *out);
/* Appends the ids of one piece of less than 2^31 bytes. */
void bpe_encode_piece(
    struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out);
/* Merges n < 2^31 symbols in place and returns the number of ids, for vocabularies whose symbols
 * are not bytes. whole_piece does not apply. */
size_t bpe_merge(struct bpe_worker *w, uint32_t *id, size_t n);
/* The same for any number of symbols, read a stretch at a time. */
void bpe_merge_symbols(struct bpe_worker *w, const struct window_list *list);

#endif
