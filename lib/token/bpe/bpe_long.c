/*
 * bpe_long.c - merging of lists that are long, a stretch at a time
 *
 * A piece may be a whole document. The heap takes some 40 bytes a symbol, so it gets stretches of
 * the list, which end where that is exact (window.h).
 */
#include "lib/token/bpe/bpe_impl.h"

#include <string.h>

/* What the heap works with. */
struct merging {
	const struct bpe *b;
	struct bpe_scratch *s;
};

/* A list that lies in memory, as ids or as bytes of a piece, and where its tokens go: over the ids
 * that have been read, if they lie there. */
struct array {
	const uint32_t *byte_id;
	const unsigned char *bytes; /* NULL: ids */
	const uint32_t *id;
	size_t n; /* that are left */
	uint32_t *to;
};

/* A stretch. */
static size_t
merge(void *ctx, uint32_t *id, uint32_t *width, size_t n)
{
	const struct merging *m = ctx;

	return bpe_merge_heap(m->b, m->s, id, width, n);
}

/* No token has fewer bytes than symbols. */
void
bpe_merge_list(const struct bpe *b, struct bpe_scratch *s, const struct window_list *list)
{
	struct merging m = { b, s };
	struct window_rule rule = { merge, &m, b->widest };

	window_merge(&s->window, list, &rule, WINDOW_SIZE);
}

/* As many as are wanted. */
static void
read_array(void *ctx, struct token_ids *symbols, size_t want)
{
	struct array *a = ctx;
	size_t n = a->n < want ? a->n : want;
	uint32_t *id;

	token_ids_reserve(symbols, n);
	id = symbols->id + symbols->count;
	if (a->bytes)
		for (size_t i = 0; i < n; i++)
			id[i] = a->byte_id[*a->bytes++];
	else
		for (size_t i = 0; i < n; i++)
			id[i] = *a->id++;
	symbols->count += n;
	a->n -= n;
}

/* Never before what is yet to be read: a token is made of one symbol or more. */
static void
take_array(void *ctx, const uint32_t *token, size_t n)
{
	struct array *a = ctx;

	memcpy(a->to, token, n * sizeof *token);
	a->to += n;
}

/* Merges what an array has; returns the end of its tokens. */
static uint32_t *
merge_array(const struct bpe *b, struct bpe_scratch *s, struct array a)
{
	bpe_merge_list(b, s, &(struct window_list){ read_array, take_array, &a });
	return a.to;
}

/* Nothing is none. */
size_t
bpe_merge_long(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n)
{
	return (size_t)(merge_array(b, s, (struct array){ .id = id, .n = n, .to = id }) - id);
}

/* The ids may be fewer than the bytes, and memory after them is not touched. */
size_t
bpe_merge_long_bytes(
    const struct bpe *b, struct bpe_scratch *s, const unsigned char *bytes, size_t n, uint32_t *id)
{
	struct array a = { .byte_id = b->byte_id, .bytes = bytes, .n = n, .to = id };

	return (size_t)(merge_array(b, s, a) - id);
}
