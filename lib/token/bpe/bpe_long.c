/*
 * bpe_long.c - merging long lists, a stretch at a time
 *
 * A piece may be a whole document. The heap takes some 40 bytes per symbol, so it gets stretches of
 * the list, which end where that is exact (window.h).
 */
#include "lib/token/bpe/bpe_impl.h"

#include <string.h>

/* The context of the heap. */
struct merging {
	const struct bpe *b;
	struct bpe_scratch *s;
};

/* Ids in memory; their tokens overwrite those already read. */
struct array {
	const uint32_t *id;
	size_t n; /* the tokens so far */
	uint32_t *to;
};

/* A piece, and the number of its bytes already read. */
struct reading {
	const struct bpe *b;
	const struct bpe_long *piece;
	size_t at;
};

/* Merges a stretch. */
static size_t
merge(void *ctx, uint32_t *id, uint32_t *width, size_t n)
{
	const struct merging *m = ctx;

	return bpe_merge_heap(m->b, m->s, id, width, n);
}

/* A token has at most as many symbols as bytes. */
void
bpe_merge_list(const struct bpe *b, struct bpe_scratch *s, const struct window_list *list)
{
	struct merging m = { b, s };
	struct window_rule rule = { merge, &m, b->widest };

	window_merge(&s->window, list, &rule, WINDOW_SIZE);
}

/* Reads as many as are wanted. */
static void
read_array(void *ctx, struct token_ids *symbols, size_t want)
{
	struct array *a = ctx;
	size_t n = a->n < want ? a->n : want;

	token_ids_reserve(symbols, n);
	memcpy(symbols->id + symbols->count, a->id, n * sizeof *a->id);
	symbols->count += n;
	a->id += n;
	a->n -= n;
}

/* Never overtakes the reader: a token consists of at least one symbol. */
static void
take_array(void *ctx, const uint32_t *token, size_t n)
{
	struct array *a = ctx;

	memcpy(a->to, token, n * sizeof *token);
	a->to += n;
}

/* An empty list gives no ids. */
size_t
bpe_merge_long(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n)
{
	struct array a = { id, n, id };

	bpe_merge_list(b, s, &(struct window_list){ read_array, take_array, &a });
	return (size_t)(a.to - id);
}

/* Reads the ids of as many bytes as are wanted. */
static void
read_bytes(void *ctx, struct token_ids *symbols, size_t want)
{
	struct reading *r = ctx;
	size_t left = r->piece->n - r->at;

	token_ids_reserve(symbols, left < want ? left : want);
	for (; want > 0 && r->at < r->piece->n; want--)
		symbols->id[symbols->count++] = r->b->byte_id[r->piece->bytes[r->at++]];
}

/* Passes tokens to the caller. */
static void
take_tokens(void *ctx, const uint32_t *token, size_t n)
{
	const struct reading *r = ctx;

	r->piece->take(r->piece->ctx, token, n);
}

/* A stretch at a time. */
void
bpe_merge_long_bytes(const struct bpe *b, struct bpe_scratch *s, const struct bpe_long *piece)
{
	struct reading r = { b, piece, 0 };

	bpe_merge_list(b, s, &(struct window_list){ read_bytes, take_tokens, &r });
}
