/*
 * bpe.c - a vocabulary made ready for merging
 *
 * Pairs live in tables of integers, so no string is touched while merging. A rank file is
 * turned into such pairs, one a token: a token is only ever made from the two parts that merging
 * its own bytes ends in, because what happens inside its bytes in a longer text is, step by step,
 * what happens to them alone. Those parts are shorter tokens, so the pairs are found in order of
 * length. The same holds for a list of merges, of which some tokenizer.json have several a token.
 */
#include "lib/token/bpe.h"
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

/* Eight bytes at a time; the length goes in as well. Where the table lies is different in every
 * process, so that no file can be made whose tokens all meet in one slot. */
static uint64_t
bytes_hash(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	uint64_t h = (len ^ (uintptr_t)n->slot) * BPE_MIX2, v;

	for (; len >= 8; s += 8, len -= 8) {
		memcpy(&v, s, 8);
		h = (h ^ v) * BPE_MIX;
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, s, len);
	h = (h ^ v) * BPE_MIX;
	return h ^ h >> 32;
}

/* The slot of the token with these bytes, or the free one where it would go. */
static uint32_t *
name_slot(const struct bpe_names *n, const unsigned char *bytes, size_t len)
{
	size_t i = (size_t)bytes_hash(n, bytes, len) & n->mask;

	for (; n->slot[i] != BPE_NONE; i = (i + 1) & n->mask) {
		const struct bpe_token *t = &n->token[n->slot[i]];

		if (t->len == len && !memcmp(t->bytes, bytes, len))
			break;
	}
	return &n->slot[i];
}

/* Whether merging can make it. */
static bool
is_text(const struct bpe_token *t)
{
	return t->bytes && t->len > 0;
}

/* An empty table for count names. */
static void
names_init(struct bpe_names *n, const struct bpe_token *token, size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	n->token = token;
	n->mask = size - 1;
	n->slot = mem_alloc(size, sizeof *n->slot);
	memset(n->slot, 0xff, size * sizeof *n->slot);
}

/* Enters every token that has bytes. */
static int
add_names(struct bpe *b, const struct bpe_spec *spec, struct err *e)
{
	names_init(&b->names, spec->token, spec->num_tokens);
	for (size_t i = 0; i < spec->num_tokens; i++) {
		uint32_t *slot;

		if (!is_text(&spec->token[i]))
			continue;
		slot = name_slot(&b->names, spec->token[i].bytes, spec->token[i].len);
		if (*slot != BPE_NONE)
			return err_set(e, "ids %u and %zu are the same bytes", *slot, i);
		*slot = (uint32_t)i;
	}
	return 0;
}

/* BPE_NONE for what is no token. */
uint32_t
bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len)
{
	return *name_slot(n, bytes, len);
}

/* The same for other kinds. */
int64_t
bpe_find(const struct bpe *b, const unsigned char *bytes, size_t len)
{
	uint32_t id = bpe_name(&b->names, bytes, len);

	return id == BPE_NONE ? -1 : (int64_t)id;
}

/* With all 256 bytes there every text can be encoded, so encoding cannot fail later. */
static int
find_bytes(struct bpe *b, struct err *e)
{
	for (int i = 0; i < 256; i++) {
		unsigned char byte = (unsigned char)i;
		int64_t id = bpe_find(b, &byte, 1);

		if (id < 0)
			return err_set(e, "no token for byte 0x%02x", i);
		b->byte_id[i] = (uint32_t)id;
	}
	return 0;
}

/* The id of the two tokens joined, or -1. */
static int64_t
join(const struct bpe *b, struct bpe_merge pair)
{
	const struct bpe_token *left = &b->names.token[pair.left];
	const struct bpe_token *right = &b->names.token[pair.right];
	unsigned char few[64], *both = few;
	size_t len = (size_t)left->len + right->len;
	int64_t id;

	if (len > sizeof few)
		both = mem_alloc(len, 1);
	memcpy(both, left->bytes, left->len);
	memcpy(both + left->len, right->bytes, right->len);
	id = bpe_find(b, both, len);
	if (both != few)
		free(both);
	return id;
}

/* Rank is the position; *bad counts the merges that are in. */
static int
add_merges(struct bpe *b, const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	for (*bad = 0; *bad < spec->num_merges; ++*bad) {
		struct bpe_merge m = spec->merge[*bad];
		int64_t joined;

		if (m.left >= spec->num_tokens || !is_text(&spec->token[m.left]) ||
		    m.right >= spec->num_tokens || !is_text(&spec->token[m.right]))
			return err_set(e, "a part is no text");
		joined = join(b, m);
		if (joined < 0)
			return err_set(e, "the two join to no token of the vocabulary");
		if (!bpe_pairs_add(&b->pairs, m, (uint32_t)*bad, (uint32_t)joined))
			return err_set(e, "the pair is there twice");
	}
	return 0;
}

/* Ids in order of their tokens' length: a counting sort, so each length keeps its order. */
static size_t
sort_by_length(const struct bpe_spec *spec, uint32_t *order)
{
	uint32_t longest = 0;
	size_t *first, count = 0;

	for (size_t i = 0; i < spec->num_tokens; i++)
		if (is_text(&spec->token[i]) && spec->token[i].len > longest)
			longest = spec->token[i].len;
	first = mem_zalloc((size_t)longest + 2, sizeof *first);
	for (size_t i = 0; i < spec->num_tokens; i++)
		if (is_text(&spec->token[i]))
			first[spec->token[i].len + 1]++, count++;
	for (size_t i = 0; i <= longest; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < spec->num_tokens; i++)
		if (is_text(&spec->token[i]))
			order[first[spec->token[i].len]++] = (uint32_t)i;
	free(first);
	return count;
}

/* The first look-ups of every merge, without hashing. All pairs of two bytes must be there. */
static void
fill_leaves(struct bpe *b)
{
	for (size_t i = 0; i < 65536; i++)
		b->leaf[i] = bpe_pair_rank(&b->pairs, b->byte_id[i >> 8], b->byte_id[i & 255]);
}

/* What merging its bytes makes of a token: how many ids, at id, which holds the token's length. */
static size_t
merged(const struct bpe *b, struct bpe_scratch *s, const struct bpe_token *t, uint32_t *id)
{
	if (t->len <= BPE_LINEAR_MAX)
		return bpe_merge_bytes(b, t->bytes, t->len, id);
	for (uint32_t i = 0; i < t->len; i++)
		id[i] = b->byte_id[t->bytes[i]];
	return bpe_merge_heap(b, s, id, t->len);
}

/* Tokens that merging does not make. */
static void
add_odd(struct bpe *b, const uint32_t *id, size_t count)
{
	names_init(&b->odd, b->names.token, count);
	for (size_t i = 0; i < count; i++) {
		const struct bpe_token *t = &b->names.token[id[i]];

		*name_slot(&b->odd, t->bytes, t->len) = id[i];
		if (t->len > b->odd_max)
			b->odd_max = t->len;
	}
}

/*
 * A rank file's pairs, and what whole pieces alone can be: a token whose bytes end in more than two
 * parts gets no pair.
 */
static void
walk_tokens(struct bpe *b, const struct bpe_spec *spec)
{
	uint32_t *order = mem_alloc(spec->num_tokens, sizeof *order), *id = NULL;
	size_t count = sort_by_length(spec, order), odd = 0;
	struct bpe_scratch s = { 0 };

	if (count > 0)
		id = mem_alloc((size_t)spec->token[order[count - 1]].len, sizeof *id);
	for (size_t i = 0; i < count; i++) {
		const struct bpe_token *t = &spec->token[order[i]];
		size_t n = t->len > 1 ? merged(b, &s, t, id) : 1;

		if (spec->ranks && n == 2) {
			bpe_pairs_add(
			    &b->pairs, (struct bpe_merge){ id[0], id[1] }, order[i], order[i]);
			if (t->len == 2)
				b->leaf[(size_t)t->bytes[0] << 8 | t->bytes[1]] = order[i];
		} else if (n > 1) {
			order[odd++] = order[i];
		}
	}
	add_odd(b, order, spec->whole_piece ? odd : 0);
	bpe_scratch_release(&s);
	free(order);
	free(id);
}

/* Names first: merges find their joins by them. */
static int
build(struct bpe *b, const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	if (spec->num_tokens > BPE_MAX || spec->num_merges > BPE_MAX)
		return err_set(e, "%zu tokens and %zu merges: at most %d of each", spec->num_tokens,
		    spec->num_merges, BPE_MAX);
	if (add_names(b, spec, e) < 0 || (!spec->symbols && find_bytes(b, e) < 0))
		return -1;
	bpe_pairs_init(&b->pairs, spec->ranks ? spec->num_tokens : spec->num_merges);
	if (!spec->ranks && add_merges(b, spec, bad, e) < 0)
		return -1;
	if (!spec->symbols)
		fill_leaves(b);
	if (!spec->symbols && (spec->ranks || spec->whole_piece))
		walk_tokens(b, spec);
	if (!spec->symbols)
		bpe_cuts_init(&b->cuts, spec->token, spec->num_tokens);
	return 0;
}

/* All or nothing. */
struct bpe *
bpe_new(const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	struct bpe *b = mem_zalloc(1, sizeof *b);
	size_t ignored;

	bad = bad ? bad : &ignored;
	*bad = spec->num_merges;
	if (build(b, spec, bad, e) == 0)
		return b;
	bpe_free(b);
	return NULL;
}

/* NULL is fine. Workers must be gone. */
void
bpe_free(struct bpe *b)
{
	if (!b)
		return;
	free(b->names.slot);
	free(b->odd.slot);
	bpe_cuts_release(&b->cuts);
	bpe_pairs_release(&b->pairs);
	free(b);
}
