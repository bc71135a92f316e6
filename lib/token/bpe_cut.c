/*
 * bpe_cut.c - where no token can reach across: pieces of scripts without spaces fall into units
 *
 * A Japanese "word" is a whole clause, which no cache has seen before. But merging never crosses a
 * place between two characters that no token crosses, so what stands on either side is encoded by
 * itself, and such units, mostly single characters where the vocabulary was not made for the
 * language, are in the cache. Only places between two characters of three bytes are looked at: the
 * scripts without spaces are there.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 3 };                      /* bytes of context on either side of a place */

/* The last `left` bytes before a place and the first `right` ones behind it, as one number. */
static uint64_t
context(const unsigned char *place, unsigned left, unsigned right)
{
	uint64_t v = left << 4 | right;

	for (unsigned i = 0; i < left + right; i++)
		v = v << 8 | place[(int)i - (int)left];
	return v;
}

/* The slot of a context, or the free one where it would go. */
static uint64_t *
slot(const struct bpe_cuts *c, uint64_t v)
{
	size_t i = (size_t)(v * BPE_MIX >> 32) & c->mask;

	while (c->slot[i] && c->slot[i] != v)
		i = (i + 1) & c->mask;
	return &c->slot[i];
}

/* Whether byte i of the token begins a three-byte character behind another character's bytes. */
static bool
is_place(const struct bpe_token *t, uint32_t i)
{
	return (t->bytes[i] & 0xf0) == 0xe0 && (t->bytes[i - 1] & 0xc0) == 0x80;
}

/* Places inside tokens. */
static size_t
count_places(const struct bpe_token *token, size_t num_tokens)
{
	size_t n = 0;

	for (size_t id = 0; id < num_tokens; id++)
		for (uint32_t i = 1; token[id].bytes && i < token[id].len; i++)
			n += is_place(&token[id], i);
	return n;
}

/* Enters the context of every place inside a token. */
void
bpe_cuts_init(struct bpe_cuts *c, const struct bpe_token *token, size_t num_tokens)
{
	size_t places = count_places(token, num_tokens), size = 16;

	while (size < 6 * places)
		size *= 2;
	c->mask = size - 1;
	c->slot = mem_zalloc(size, sizeof *c->slot);
	for (size_t id = 0; id < num_tokens; id++)
		for (uint32_t i = 1; token[id].bytes && i < token[id].len; i++) {
			uint32_t right = token[id].len - i;
			uint64_t v;

			if (!is_place(&token[id], i))
				continue;
			v = context(token[id].bytes + i, i < SIDE ? i : SIDE,
			    right < SIDE ? right : SIDE);
			*slot(c, v) = v;
			/* one side alone, for the quick answer */
			v = context(token[id].bytes + i, i < SIDE ? i : SIDE, 0);
			*slot(c, v) = v;
			v = context(token[id].bytes + i, 0, right < SIDE ? right : SIDE);
			*slot(c, v) = v;
		}
}

/* Zeroed is fine. */
void
bpe_cuts_release(struct bpe_cuts *c)
{
	free(c->slot);
}

/* Every way in which a token could lie across, as far as the bytes given tell. */
bool
bpe_crossed(const struct bpe_cuts *c, const unsigned char *place, unsigned before, unsigned after)
{
	for (unsigned left = before > 0; left <= before; left++)
		for (unsigned right = after > 0; right <= after; right++)
			if (*slot(c, context(place, left, right)))
				return true;
	return false;
}
