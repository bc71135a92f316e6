/*
 * bpe_parts.c - finding the two parts of each token of a rank file
 *
 * A token is only ever made from the two parts in which merging its own bytes ends, because the
 * merges inside its bytes in a longer text are, step by step, those of the bytes alone. So there is
 * one pair per token, or none; without a pair, only a whole piece can be that token.
 *
 * Merging the bytes of a hundred thousand tokens takes long. But for two given parts, whose own
 * parts are known, only the place between them must be checked: they are the parts if no pair
 * across it merges before the merges that consume its symbols. Going backwards from the two, the
 * later made one splits into its own parts, which puts another pair at the place. That requires
 * every token of the two to be made after its parts; tokens made otherwise, and long ones, are
 * merged when all others are known.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"

#include <stdlib.h>

/* The parts of a token, whose rank is its id. */
struct split {
	uint64_t left : 24, right : 24;
	uint64_t cut : 16; /* the bytes of left; 0: unknown */
};

/* Two adjacent tokens around a place in a text: left from start to the place, right from there to
 * end. */
struct meeting {
	uint32_t left, right, start, place, end;
};

/* A token of a rank file, and the tokens that are its prefixes, by end, and its suffixes, by
 * start. */
struct stretch {
	unsigned char text[BPE_LINEAR_MAX + 8];
	uint32_t len;
	uint64_t head[BPE_LINEAR_MAX], tail[BPE_LINEAR_MAX]; /* hashes */
};

/* Ids in order of their tokens' length: a counting sort, so each length keeps its order. */
static void
sort_by_length(const struct bpe *b, uint32_t *id, size_t count)
{
	uint32_t longest = 0, *sorted = mem_alloc(count, sizeof *sorted);
	size_t *first;

	for (size_t i = 0; i < count; i++)
		if (b->token[id[i]].len > longest)
			longest = b->token[id[i]].len;
	first = mem_zalloc((size_t)longest + 2, sizeof *first);
	for (size_t i = 0; i < count; i++)
		first[b->token[id[i]].len + 1]++;
	for (size_t i = 0; i <= longest; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < count; i++)
		sorted[first[b->token[id[i]].len]++] = id[i];
	memcpy(id, sorted, count * sizeof *id);
	free(sorted);
	free(first);
}

/* The token that equals a prefix, a suffix or an inner stretch. */
static inline uint32_t
id_of(const struct bpe *b, const struct stretch *s, uint32_t start, uint32_t end)
{
	const struct bpe_names *n = &b->names;

	return bpe_likely_name(n,
	    start == 0          ? s->head[end]
		: end == s->len ? s->tail[start]
				: bpe_name_hash(n, s->text + start, end - start));
}

/* True when two tokens are made before a pair across the place between them merges. The rank of a
 * pair is the id of its bytes. */
static bool
meet_in(const struct bpe *b, const struct split *split, const struct stretch *s, struct meeting m)
{
	for (;;) {
		uint32_t left = m.place - m.start > 1 ? m.left + 1 : 0;
		uint32_t right = m.end - m.place > 1 ? m.right + 1 : 0;
		const struct split *last = &split[left > right ? m.left : m.right];
		uint32_t limit = left > right ? left - 1 : right;

		if (left == 0 && right == 0)
			return true;
		if (last->cut == 0)
			return false;
		if (left > right) {
			m.left = last->right;
			m.start += (uint32_t)last->cut;
		} else {
			m.right = last->left;
			m.end = m.place + (uint32_t)last->cut;
		}
		if (id_of(b, s, m.start, m.end) < limit)
			return false;
	}
}

/* Takes a token that is not long and prefetches the slots of all its prefixes and suffixes. */
static void
range_init(const struct bpe *b, struct stretch *s, const struct bpe_token *t)
{
	const struct bpe_names *n = &b->names;

	s->len = bpe_is_text(t) && t->len <= BPE_LINEAR_MAX ? t->len : 0;
	for (uint32_t i = 0; i < s->len; i++)
		s->text[i] = t->bytes[i];
	for (uint32_t i = 1; i < s->len; i++) {
		s->head[i] = bpe_name_hash(n, s->text, i);
		s->tail[i] = bpe_name_hash(n, s->text + i, s->len - i);
		__builtin_prefetch(&n->slot[s->head[i] & n->mask]);
		__builtin_prefetch(&n->slot[s->tail[i] & n->mask]);
	}
}

/* The parts of a token of a rank file, if all are made in order. Most cuts are near the middle, so
 * the search starts there and alternates to the left and right. */
static bool
find_parts(const struct bpe *b, const struct split *split, const struct stretch *s, uint32_t id,
    struct bpe_merge *out)
{
	for (uint32_t k = 0, i = s->len / 2; k < s->len; k++, i = k & 1 ? i - k : i + k) {
		if (i == 0 || i >= s->len)
			continue;
		out->right = id_of(b, s, i, s->len);
		if (out->right >= id && i + 1 < s->len)
			continue;
		out->left = id_of(b, s, 0, i);
		if ((out->left < id || i == 1) &&
		    meet_in(b, split, s, (struct meeting){ out->left, out->right, 0, i, s->len }) &&
		    bpe_is_join(&b->token[id], &b->token[out->left], &b->token[out->right]))
			return true;
	}
	return false;
}

/* The first two ids of a token, and the number of ids. */
struct parts {
	uint32_t id[2];
	size_t n;
};

/* Ids after the first two are only counted. */
static void
take_parts(void *ctx, const uint32_t *id, size_t n)
{
	struct parts *p = ctx;

	for (size_t i = 0; i < n; i++, p->n++)
		if (p->n < 2)
			p->id[p->n] = id[i];
}

/* Enters the join of two parts, by rank. */
static void
add_pair(struct bpe *b, uint32_t id, struct bpe_merge m)
{
	bpe_pairs_add(&b->pairs, m, id, id);
	bpe_leaf_add(b, &b->token[id], id);
}

/* Finds the parts of tokens from those of earlier tokens; the others go to rest. Returns the number
 * of pairs. The slots for a token are prefetched while the one before it is handled. */
static size_t
split_tokens(
    const struct bpe *b, struct bpe_merge *pair, uint32_t *id, uint32_t *rest, size_t *num_rest)
{
	struct split *split = mem_zalloc_whole(b->num_tokens, sizeof *split);
	struct stretch s[2];
	size_t count = 0;

	*num_rest = 0;
	range_init(b, &s[0], &b->token[0]);
	for (uint32_t i = 0; i < b->num_tokens; i++) {
		if (i + 1 < b->num_tokens)
			range_init(b, &s[(i + 1) & 1], &b->token[i + 1]);
		if (!bpe_is_text(&b->token[i]) || b->token[i].len == 1)
			continue;
		if (b->names.alike || !find_parts(b, split, &s[i & 1], i, &pair[count])) {
			rest[(*num_rest)++] = i;
			continue;
		}
		split[i] = (struct split){ pair[count].left, pair[count].right,
			b->token[pair[count].left].len };
		id[count++] = i;
	}
	free(split);
	return count;
}

/* A token whose bytes end in more than two parts gets no pair. The remaining ones are merged in
 * order of length, since parts are shorter than their token. */
void
bpe_parts_of_ranks(struct bpe *b)
{
	uint32_t *rest = mem_alloc(b->num_tokens, sizeof *rest),
		 *id = mem_alloc(b->num_tokens, sizeof *id), few[BPE_LINEAR_MAX];
	struct bpe_merge *pair = mem_alloc(b->num_tokens, sizeof *pair);
	size_t num_rest, num_pairs = split_tokens(b, pair, id, rest, &num_rest);
	struct bpe_scratch s = { 0 };

	bpe_pairs_init(&b->pairs, b->num_tokens);
	for (size_t i = 0; i < num_pairs; i++) {
		if (i + BPE_AHEAD < num_pairs)
			bpe_pairs_expect(&b->pairs, pair[i + BPE_AHEAD]);
		add_pair(b, id[i], pair[i]);
	}
	sort_by_length(b, rest, num_rest);
	for (size_t i = 0; i < num_rest; i++) {
		const struct bpe_token *t = &b->token[rest[i]];
		struct parts p = { .n = 0 };

		if (t->len <= BPE_LINEAR_MAX)
			take_parts(&p, few, bpe_merge_bytes(b, t->bytes, t->len, few));
		else
			bpe_merge_long_bytes(
			    b, &s, &(struct bpe_long){ t->bytes, t->len, take_parts, &p });
		if (p.n == 2)
			add_pair(b, rest[i], (struct bpe_merge){ p.id[0], p.id[1] });
	}
	bpe_scratch_release(&s);
	free(rest);
	free(id);
	free(pair);
}
