/*
 * bpe_names.c - tokens by their bytes
 *
 * Used when pairs are made, and by the encoder when a piece that is a token needs no merging. Every
 * piece that could be cut into units is looked up first; few tokens are such, so they have a small
 * separate table.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"

#include <stdlib.h>

enum { BLOCK = 32 }; /* names entered together */

/* The slot of the token with these bytes, or the free one for it. Counts the others with the same
 * half of the hash before it. */
static uint64_t *
name_slot(const struct bpe_names *n, const unsigned char *bytes, size_t len, uint64_t hash,
    size_t *others)
{
	size_t i = (size_t)hash & n->mask;

	for (; n->slot[i]; i = (i + 1) & n->mask) {
		const struct bpe_token *t = &n->token[(uint32_t)n->slot[i] - 1];

		if (n->slot[i] >> 32 != hash >> 32)
			continue;
		if (t->len == len && mem_equal(t->bytes, bytes, len))
			break;
		++*others;
	}
	return &n->slot[i];
}

/* Enters a token by the hash of its bytes. BPE_NONE when they are new, else the id with these
 * bytes. */
static uint32_t
add_name(struct bpe_names *n, uint32_t id, uint64_t hash)
{
	const struct bpe_token *t = &n->token[id];
	size_t others = 0;
	uint64_t *slot = name_slot(n, t->bytes, t->len, hash, &others);

	if (*slot)
		return (uint32_t)*slot - 1;
	n->alike |= others > 0;
	n->longest = t->len > n->longest ? t->len : n->longest;
	*slot = hash >> 32 << 32 | (id + 1);
	return BPE_NONE;
}

/* Zeroed memory is free slots. */
static void
names_alloc(struct bpe_names *n, const struct bpe_token *token, size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	n->token = token;
	n->mask = size - 1;
	n->slot = mem_zalloc_whole(size, sizeof *n->slot);
}

/* BPE_NONE when no token has these bytes. */
uint32_t
bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len, uint64_t hash)
{
	size_t others = 0;

	return (uint32_t)*name_slot(n, bytes, len, hash, &others) - 1;
}

/* Enters every token that has bytes. Slots are prefetched a block ahead of their use. */
int
bpe_names_init(struct bpe_names *n, const struct bpe_token *token, size_t num_tokens, struct err *e)
{
	uint64_t hash[BLOCK];
	uint32_t id[BLOCK];

	names_alloc(n, token, num_tokens);
	for (uint32_t i = 0; i < num_tokens;) {
		size_t count = 0;

		for (; i < num_tokens && count < BLOCK; i++) {
			const struct bpe_token *t = &token[i];

			if (!bpe_is_text(t))
				continue;
			id[count] = i;
			hash[count] = bpe_bytes_hash(n, t->bytes, t->len);
			__builtin_prefetch(&n->slot[hash[count++] & n->mask], 1);
		}
		for (size_t k = 0; k < count; k++) {
			uint32_t first = add_name(n, id[k], hash[k]);

			if (first != BPE_NONE)
				return err_set(
				    e, "ids %u and %u have the same bytes", first, id[k]);
		}
	}
	return 0;
}

/* The table of all tokens has already checked that no two are equal. */
void
bpe_names_init_units(struct bpe_names *n, const struct bpe_token *token, size_t num_tokens)
{
	size_t count = 0;

	for (size_t i = 0; i < num_tokens; i++)
		count += bpe_is_text(&token[i]) && bpe_has_units(token[i].bytes, token[i].len);
	names_alloc(n, token, count);
	for (uint32_t i = 0; i < num_tokens; i++)
		if (bpe_is_text(&token[i]) && bpe_has_units(token[i].bytes, token[i].len))
			add_name(n, i, bpe_bytes_hash(n, token[i].bytes, token[i].len));
}

/* Zeroed is fine. */
void
bpe_names_release(struct bpe_names *n)
{
	free(n->slot);
}
