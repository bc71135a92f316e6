/*
 * bpe_cut.c - cutting pieces of scripts without spaces into units, at places that no token crosses
 *
 * A Japanese "word" is a whole clause, which is never in a cache. But merging never crosses a place
 * between two characters that no token crosses, so both sides are encoded separately, and such
 * units, mostly single characters if the vocabulary was not made for the language, are in the
 * cache. Only places between two characters of three bytes are tested, because the scripts without
 * spaces have those.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 3 }; /* bytes of context on either side of a place */

/* The last `left` bytes before a place and the first `right` ones after it, as one number. */
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

/* True for ASCII, which most tokens are; they have no places. */
static bool
is_ascii(const struct bpe_token *t)
{
	uint64_t all = 0, v;
	uint32_t i = 0;

	for (; t->len - i >= 8; i += 8) {
		memcpy(&v, t->bytes + i, 8);
		all |= v;
	}
	return ((all | bpe_few_bytes(t->bytes + i, t->len - i)) & 0x8080808080808080) == 0;
}

/* The first place in a token from byte i > 0 on, where a three-byte character begins after another
 * character of several bytes; or its length. */
static uint32_t
next_place(const struct bpe_token *t, uint32_t i)
{
	while (i < t->len && ((t->bytes[i] & 0xf0) != 0xe0 || (t->bytes[i - 1] & 0xc0) != 0x80))
		i++;
	return i < t->len ? i : t->len;
}

/* Enters the context of a place, and that of each side alone, for the quick test. */
static void
add_place(struct bpe_cuts *c, const struct bpe_token *t, uint32_t i)
{
	unsigned left = i < SIDE ? i : SIDE, right = t->len - i < SIDE ? t->len - i : SIDE;
	const uint64_t v[] = { context(t->bytes + i, left, right), context(t->bytes + i, left, 0),
		context(t->bytes + i, 0, right) };

	for (int k = 0; k < 3; k++)
		*slot(c, v[k]) = v[k];
}

/* Every place inside a token. They are counted first, and the tokens that have any are listed. */
void
bpe_cuts_init(struct bpe_cuts *c, const struct bpe_token *token, size_t num_tokens)
{
	uint32_t *list = mem_alloc(num_tokens, sizeof *list);
	size_t listed = 0, places = 0, size = 16;

	for (size_t id = 0; id < num_tokens; id++) {
		const struct bpe_token *t = &token[id];
		size_t before = places;

		if (!t->bytes || is_ascii(t))
			continue;
		for (uint32_t i = 1; (i = next_place(t, i)) < t->len; i++)
			places++;
		if (places > before)
			list[listed++] = (uint32_t)id;
	}
	while (size < 6 * places)
		size *= 2;
	c->mask = size - 1;
	c->slot = mem_zalloc_large(size, sizeof *c->slot);
	for (size_t k = 0; k < listed; k++) {
		const struct bpe_token *t = &token[list[k]];

		for (uint32_t i = 1; (i = next_place(t, i)) < t->len; i++)
			add_place(c, t, i);
	}
	free(list);
}

/* A struct of zeroes is allowed. */
void
bpe_cuts_release(struct bpe_cuts *c)
{
	free(c->slot);
}

/* Tries every way in which a token could cross the place, as far as the given bytes tell. */
bool
bpe_crossed(const struct bpe_cuts *c, const unsigned char *place, unsigned before, unsigned after)
{
	for (unsigned left = before > 0; left <= before; left++)
		for (unsigned right = after > 0; right <= after; right++)
			if (*slot(c, context(place, left, right)))
				return true;
	return false;
}
