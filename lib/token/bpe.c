/*
 * bpe.c - a vocabulary made ready for merging
 *
 * Pairs live in tables of integers, so no string is touched while merging. What two symbols join to is
 * mostly the token behind the last join, since vocabularies are written in the order of their making; only
 * where that fails are tokens found by their bytes. A rank file is turned into such pairs as well
 * (bpe_parts.c).
 */
#include "lib/token/bpe.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

/* Where the last join was found, and how many tokens may still be looked at. */
struct joins {
	uint32_t last;
	size_t looks;
};

/* What bpe_name_hash gives, of bytes behind which none may be read. */
static uint64_t
bytes_hash(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	size_t words = len & ~(size_t)7;

	return bpe_hash_end(bpe_hash_words(n, s, len), bpe_few_bytes(s + words, len - words));
}

/* The slot of the token with these bytes, or the free one where it would go. Counts the others of the
 * same half of the hash that lie before it. */
static uint64_t *
name_slot(const struct bpe_names *n, const unsigned char *bytes, size_t len, uint64_t hash, size_t *others)
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

/* The bytes are the token's own. */
uint32_t
bpe_names_add(struct bpe_names *n, uint32_t id)
{
	const struct bpe_token *t = &n->token[id];
	uint64_t hash = bytes_hash(n, t->bytes, t->len), *slot;
	size_t others = 0;

	slot = name_slot(n, t->bytes, t->len, hash, &others);
	if (*slot)
		return (uint32_t)*slot - 1;
	n->alike |= others > 0;
	*slot = hash >> 32 << 32 | (id + 1);
	return BPE_NONE;
}

/* The memory comes zeroed, that is, free. */
void
bpe_names_init(struct bpe_names *n, const struct bpe_token *token, size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	n->token = token;
	n->mask = size - 1;
	n->alike = false;
	n->slot = mem_zalloc_whole(size, sizeof *n->slot);
}

/* BPE_NONE for what is no token. */
uint32_t
bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len)
{
	size_t others = 0;

	return (uint32_t)*name_slot(n, bytes, len, bytes_hash(n, bytes, len), &others) - 1;
}

/* The same for other kinds. */
int64_t
bpe_find(const struct bpe *b, const unsigned char *bytes, size_t len)
{
	uint32_t id = bpe_name(&b->names, bytes, len);

	return id == BPE_NONE ? -1 : (int64_t)id;
}

/* Enters every token that has bytes. */
static int
add_names(struct bpe *b, struct err *e)
{
	bpe_names_init(&b->names, b->token, b->num_tokens);
	for (uint32_t i = 0; i < b->num_tokens; i++) {
		uint32_t first = bpe_is_text(&b->token[i]) ? bpe_names_add(&b->names, i) : BPE_NONE;

		if (first != BPE_NONE)
			return err_set(e, "ids %u and %u are the same bytes", first, i);
	}
	return 0;
}

/* With all 256 bytes there every text can be encoded, so encoding cannot fail later. */
static int
find_bytes(struct bpe *b, struct err *e)
{
	memset(b->byte_id, 0xff, sizeof b->byte_id);
	for (uint32_t i = 0; i < b->num_tokens; i++)
		if (b->token[i].bytes && b->token[i].len == 1)
			b->byte_id[*b->token[i].bytes] = i;
	for (int i = 0; i < 256; i++)
		if (b->byte_id[i] == BPE_NONE)
			return err_set(e, "no token for byte 0x%02x", i);
	return 0;
}

/* The id of the two tokens joined, by their bytes, or BPE_NONE. */
static uint32_t
look_up_join(const struct bpe *b, const struct bpe_token *left, const struct bpe_token *right)
{
	unsigned char few[64], *both = few;
	size_t len = (size_t)left->len + right->len;
	uint32_t id;

	if (len > sizeof few)
		both = mem_alloc(len, 1);
	memcpy(both, left->bytes, left->len);
	memcpy(both + left->len, right->bytes, right->len);
	id = bpe_name(&b->names, both, len);
	if (both != few)
		free(both);
	return id;
}

/* The same, after a look at the join before, which may be the same token, and at the tokens behind it, as
 * long as not too many were passed by. */
static int
find_join(struct bpe *b, struct bpe_merge m, struct joins *j, struct err *e)
{
	const struct bpe_token *left = &b->token[m.left], *right = &b->token[m.right];

	for (uint32_t id = j->last; id < b->num_tokens && j->looks; id++, j->looks--)
		if (bpe_is_join(&b->token[id], left, right)) {
			j->last = id;
			return 0;
		}
	if (!b->names.slot && add_names(b, e) < 0)
		return -1;
	j->last = look_up_join(b, left, right);
	return j->last == BPE_NONE ? err_set(e, "the two join to no token of the vocabulary") : 0;
}

/* What each merge makes, up to the first that is wrong; returns how many are right, with a reason if that
 * is not all. */
static size_t
find_joins(struct bpe *b, const struct bpe_spec *spec, uint32_t *joined, struct err *e)
{
	struct joins j = { 0, 2 * (spec->num_tokens + spec->num_merges) };

	for (size_t i = 0; i < spec->num_merges; i++) {
		struct bpe_merge m = spec->merge[i];

		if (m.left >= spec->num_tokens || !bpe_is_text(&spec->token[m.left]) ||
		    m.right >= spec->num_tokens || !bpe_is_text(&spec->token[m.right])) {
			err_set(e, "a part is no text");
			return i;
		}
		if (find_join(b, m, &j, e) < 0)
			return i;
		joined[i] = j.last;
	}
	return spec->num_merges;
}

/* Rank is the position; *bad is the first merge that is wrong. */
static int
add_merges(struct bpe *b, const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	uint32_t *joined = mem_alloc(spec->num_merges, sizeof *joined);
	size_t right = find_joins(b, spec, joined, e), i = 0;

	bpe_pairs_init(&b->pairs, right);
	while (i < right && bpe_pairs_add(&b->pairs, spec->merge[i], (uint32_t)i, joined[i])) {
		i++;
		if (i + BPE_AHEAD < right)
			bpe_pairs_expect(&b->pairs, spec->merge[i + BPE_AHEAD]);
	}
	free(joined);
	if (i == spec->num_merges)
		return 0;
	*bad = i;
	return i < right ? err_set(e, "the pair is there twice") : -1;
}

/* The first look-ups of every merge, without hashing. */
static void
fill_leaves(struct bpe *b, const struct bpe_spec *spec)
{
	memset(b->leaf, 0xff, sizeof b->leaf);
	for (size_t i = 0; i < spec->num_merges; i++) {
		const struct bpe_token *left = &b->token[spec->merge[i].left];
		const struct bpe_token *right = &b->token[spec->merge[i].right];

		if (left->len == 1 && right->len == 1)
			b->leaf[(size_t)*left->bytes << 8 | *right->bytes] = (uint32_t)i;
	}
}

/* A vocabulary of characters looks tokens up by name later, and a rank file to find its pairs. */
static int
build_pairs(struct bpe *b, const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	if (((spec->symbols || spec->ranks) && add_names(b, e) < 0) ||
	    (!spec->symbols && find_bytes(b, e) < 0) || (!spec->ranks && add_merges(b, spec, bad, e) < 0))
		return -1;
	if (!spec->symbols)
		fill_leaves(b, spec);
	if (spec->ranks)
		bpe_parts_of_ranks(b);
	else if (spec->whole_piece && !spec->symbols)
		bpe_parts_of_merges(b, spec->merge, spec->num_merges);
	return 0;
}

/* The pairs, and the cuts beside them: neither looks at the other. */
struct build {
	struct bpe *b;
	const struct bpe_spec *spec;
	size_t *bad;
	struct err *e;
	int rc;
};

static void
build_side(void *ctx, int side)
{
	struct build *x = ctx;

	if (side == 0)
		x->rc = build_pairs(x->b, x->spec, x->bad, x->e);
	else if (!x->spec->symbols)
		bpe_cuts_init(&x->b->cuts, x->spec->token, x->spec->num_tokens);
}

/* -1 with the reason, and with the merge that is wrong, if any, in *bad. */
static int
build(struct bpe *b, const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	struct build x = { b, spec, bad, e, 0 };

	if (spec->num_tokens > BPE_MAX || spec->num_merges > BPE_MAX)
		return err_set(e, "%zu tokens and %zu merges: at most %d of each", spec->num_tokens,
		    spec->num_merges, BPE_MAX);
	if (spec->pool)
		pool_run(spec->pool, 2, build_side, &x);
	else
		for (int side = 0; side < 2; side++)
			build_side(&x, side);
	return x.rc;
}

/* All or nothing. */
struct bpe *
bpe_new(const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	struct bpe *b = mem_zalloc(1, sizeof *b);
	size_t ignored;

	b->token = spec->token;
	b->num_tokens = spec->num_tokens;
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
