/*
 * bpe_parts.c - which two tokens each token is made of
 *
 * A token is only ever made from the two parts that merging its own bytes ends in, because what happens
 * inside its bytes in a longer text is, step by step, what happens to them alone. So a rank file has one
 * pair a token. The same holds for a list of merges, of which some tokenizer.json have several a token.
 *
 * To merge the bytes of a hundred thousand tokens takes long. But where two parts are given, and how they
 * are made themselves, one need only look at the place between them: they are the parts if no pair across
 * it came before the merges that took its symbols away. Going backwards from the two, whichever was made
 * last falls into its own parts, and another pair lies at the place. That needs every token of the two to be
 * made after its parts; what is made otherwise, or is long, is merged when all else is known.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>

/* How a token is made. order is the rank of the pair and one more; 0 for a byte, BPE_NONE: not known. */
struct made {
	uint32_t left, right, order, len;
};

/* Two tokens side by side around a place in a text: left from start to the place, right from there to end. */
struct meeting {
	uint32_t left, right, start, place, end;
};

/* A token of a rank file, and the ids of what its bytes begin and end with. */
struct stretch {
	unsigned char text[BPE_LINEAR_MAX + 8];
	uint32_t len;
	uint32_t head[BPE_LINEAR_MAX + 1], tail[BPE_LINEAR_MAX];        /* by their end, by their start */
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

/* Nothing is known but bytes. */
static struct made *
made_new(const struct bpe *b)
{
	struct made *made = mem_alloc_large(b->num_tokens, sizeof *made);

	for (size_t id = 0; id < b->num_tokens; id++)
		made[id] = (struct made){ BPE_NONE, BPE_NONE, BPE_NONE, b->token[id].len };
	for (int i = 0; i < 256; i++)
		made[b->byte_id[i]].order = 0;
	return made;
}

/* Takes back the last merge of the two. Returns the rank below which a pair of what meets now would have
 * gone first, where of equal ranks the leftmost does; BPE_NONE when there was no merge. */
static inline uint32_t
undo(const struct made *made, struct meeting *m)
{
	const struct made *left = &made[m->left], *right = &made[m->right];

	if (left->order > right->order) {
		m->left = left->right;
		m->start = m->place - made[m->left].len;
		return left->order - 1;
	}
	if (right->order == 0)
		return BPE_NONE;
	m->right = right->left;
	m->end = m->place + made[m->right].len;
	return right->order;
}

/* Whether the two are made before a pair across the place between them is merged: by the pairs. */
static bool
meet(const struct bpe *b, const struct made *made, struct bpe_merge pair)
{
	struct meeting m = { pair.left, pair.right, 0, 0, 0 };
	uint32_t limit;

	while ((limit = undo(made, &m)) != BPE_NONE)
		if (bpe_pair_rank(&b->pairs, m.left, m.right) < limit)
			return false;
	return true;
}

/* The same by what the bytes of the two are together. */
static bool
meet_in(const struct bpe *b, const struct made *made, const struct stretch *s, uint32_t place)
{
	struct meeting m = { s->head[place], s->tail[place], 0, place, s->len };
	uint32_t limit;

	while ((limit = undo(made, &m)) != BPE_NONE) {
		uint32_t rank = m.start == 0 ? s->head[m.end] : m.end == s->len ? s->tail[m.start] :
		    bpe_likely_name(&b->names, s->text + m.start, m.end - m.start);

		if (rank < limit)
			return false;
	}
	return true;
}

/* All that a token begins and ends with, if it is not long. */
static bool
stretch_init(const struct bpe *b, struct stretch *s, const struct bpe_token *t)
{
	if (t->len > BPE_LINEAR_MAX)
		return false;
	s->len = t->len;
	memcpy(s->text, t->bytes, t->len);
	for (uint32_t i = 1; i < t->len; i++) {
		s->head[i] = bpe_likely_name(&b->names, s->text, i);
		s->tail[i] = bpe_likely_name(&b->names, s->text + i, t->len - i);
	}
	return true;
}

/* The parts of a token of a rank file, if all is made in order. */
static bool
find_parts(const struct bpe *b, const struct made *made, uint32_t id, struct bpe_merge *out)
{
	const struct bpe_token *t = &b->token[id];
	struct stretch s;

	if (b->names.alike || !stretch_init(b, &s, t))
		return false;
	for (uint32_t i = t->len - 1; i > 0; i--) {
		*out = (struct bpe_merge){ s.head[i], s.tail[i] };
		if (out->left != BPE_NONE && out->right != BPE_NONE && made[out->left].order <= id &&
		    made[out->right].order <= id && meet_in(b, made, &s, i) &&
		    bpe_is_join(t, &b->token[out->left], &b->token[out->right]))
			return true;
	}
	return false;
}

/* How many ids merging its bytes makes of a token; two of them go to *out. */
static size_t
merged(const struct bpe *b, struct bpe_scratch *s, const struct bpe_token *t, struct bpe_merge *out)
{
	uint32_t few[BPE_LINEAR_MAX], *id = few;
	size_t n;

	if (t->len <= BPE_LINEAR_MAX) {
		n = bpe_merge_bytes(b, t->bytes, t->len, id);
	} else {
		id = mem_alloc(t->len, sizeof *id);
		for (uint32_t i = 0; i < t->len; i++)
			id[i] = b->byte_id[t->bytes[i]];
		n = bpe_merge_heap(b, s, id, t->len);
	}
	if (n > 1)
		*out = (struct bpe_merge){ id[0], id[1] };
	if (id != few)
		free(id);
	return n;
}

/* Tokens that merging does not make. */
static void
add_odd(struct bpe *b, const uint32_t *id, size_t count)
{
	bpe_names_init(&b->odd, b->token, count);
	for (size_t i = 0; i < count; i++) {
		bpe_names_add(&b->odd, id[i]);
		if (b->token[id[i]].len > b->odd_max)
			b->odd_max = b->token[id[i]].len;
	}
}

/* What the join of two is a token for, by rank. */
static void
add_pair(struct bpe *b, uint32_t id, struct bpe_merge m)
{
	const struct bpe_token *t = &b->token[id];

	bpe_pairs_add(&b->pairs, m, id, id);
	if (t->len == 2)
		b->leaf[(size_t)t->bytes[0] << 8 | t->bytes[1]] = id;
}

/* A token whose bytes end in more than two parts gets no pair. What is left after the first look is merged
 * in order of length, as the parts are shorter. */
void
bpe_parts_of_ranks(struct bpe *b)
{
	uint32_t *rest = mem_alloc(b->num_tokens, sizeof *rest), *id = mem_alloc(b->num_tokens, sizeof *id);
	struct bpe_merge *pair = mem_alloc_large(b->num_tokens, sizeof *pair), m;
	size_t num_rest = 0, num_pairs = 0, odd = 0;
	struct made *made = made_new(b);
	struct bpe_scratch s = { 0 };

	for (uint32_t i = 0; i < b->num_tokens; i++) {
		if (!bpe_is_text(&b->token[i]) || b->token[i].len == 1)
			continue;
		if (find_parts(b, made, i, &pair[num_pairs])) {
			made[i] = (struct made){ pair[num_pairs].left, pair[num_pairs].right, i + 1, made[i].len };
			id[num_pairs++] = i;
		} else {
			rest[num_rest++] = i;
		}
	}
	bpe_pairs_init(&b->pairs, b->num_tokens, b->num_tokens, pair, num_pairs);
	for (size_t i = 0; i < num_pairs; i++)
		add_pair(b, id[i], pair[i]);
	sort_by_length(b, rest, num_rest);
	for (size_t i = 0; i < num_rest; i++) {
		if (merged(b, &s, &b->token[rest[i]], &m) == 2)
			add_pair(b, rest[i], m);
		else
			rest[odd++] = rest[i];
	}
	add_odd(b, rest, odd);
	bpe_scratch_release(&s);
	free(rest);
	free(id);
	free(pair);
	free(made);
}

/* Merges in order of rank, so that parts come before what is made of them; the first way is the one. */
void
bpe_parts_of_merges(struct bpe *b, const struct bpe_merge *merge, size_t count)
{
	uint32_t *odd = mem_alloc(b->num_tokens, sizeof *odd);
	struct made *made = made_new(b);
	struct bpe_scratch s = { 0 };
	struct bpe_merge m;
	size_t num_odd = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = bpe_joined(&b->pairs, i);

		m = merge[i];
		if (made[id].order == BPE_NONE && made[m.left].order <= i && made[m.right].order <= i &&
		    meet(b, made, m))
			made[id] = (struct made){ m.left, m.right, i + 1, made[id].len };
	}
	for (uint32_t id = 0; id < b->num_tokens; id++)
		if (bpe_is_text(&b->token[id]) && made[id].order == BPE_NONE &&
		    merged(b, &s, &b->token[id], &m) > 1)
			odd[num_odd++] = id;
	add_odd(b, odd, num_odd);
	bpe_scratch_release(&s);
	free(odd);
	free(made);
}
