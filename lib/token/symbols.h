/*
 * symbols.h - the BPE model of a tokenizer.json whose symbols are characters (Llama 2 and others)
 *
 * A character without a token becomes its bytes' <0xNN> tokens, or the unknown token, before
 * merging. Source: models/bpe of huggingface/tokenizers.
 */
#ifndef TOKEN_SYMBOLS_H
#define TOKEN_SYMBOLS_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/names.h"

#include <stdbool.h>

struct symbols_spec {
	const struct name *token; /* by id; bytes NULL: a hole. Borrowed until symbols_free */
	size_t num_tokens;
	const struct bpe_merge *merge; /* in order of rank; not needed afterwards */
	size_t num_merges;
	/* of all characters of a piece but the first; of the last. "": none */
	const char *prefix, *suffix;
	int64_t unk; /* id, or -1: characters without a token are left out */
	bool fuse_unk, byte_fallback, whole_piece;
};

struct symbols;        /* read-only, shared by threads */
struct symbols_worker; /* one per thread */

/* NULL with a reason; *bad as in bpe_new. */
struct symbols *symbols_new(const struct symbols_spec *spec, size_t *bad, struct err *e);
void symbols_free(struct symbols *m); /* NULL is fine */

struct symbols_worker *symbols_worker_new(const struct symbols *m);
void symbols_worker_free(struct symbols_worker *w);

/* Appends the ids of a piece of well-formed UTF-8. */
void symbols_encode(struct symbols_worker *w, const char *piece, size_t len, struct token_ids *out);

#endif
