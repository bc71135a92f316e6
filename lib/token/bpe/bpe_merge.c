/*
 * bpe_merge.c - joining neighbouring symbols in the order of rank
 *
 * Two methods that give the same ids: searching the minimum, which is the fastest for a dozen
 * symbols, and a heap, which is n log n. The heap holds rank and position in one 64-bit number:
 * comparing numbers is comparing ranks, then positions.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"
#include "lib/token/simd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_BITS = 6 }; /* of a key, below the rank's */

static_assert(
    BPE_PLACES <= 1 << PLACE_BITS && BPE_BITS + PLACE_BITS <= 32, "a rank and a place fit a key");
static_assert(BPE_LINEAR_MAX % 8 == 0, "the places after all symbols are not searched");

/* The key of a pair that begins at a place; NONE is unchanged. */
static inline uint32_t
key_of(uint32_t rank, size_t place)
{
	return rank == BPE_NONE ? BPE_NONE : rank << PLACE_BITS | (uint32_t)place;
}

/* Starts a list of n > 0 symbols; the caller sets ids and keys. */
static void
list_open(struct bpe_list *l, size_t n)
{
	l->width = (uint32_t)(n + 6) & ~7u;
	l->live = UINT64_MAX >> (64 - n);
	memset(l->key, 0xff, l->width * sizeof *l->key);
	l->id[BPE_AFTER_ALL] = BPE_NO_ID;
}

/* The ranks of pairs of bytes come from a table. */
void
bpe_list_bytes(const struct bpe *b, struct bpe_list *l, const unsigned char *bytes, size_t n)
{
	list_open(l, n);
	for (size_t i = 0; i + 1 < n; i++) {
		l->id[i] = b->byte_id[bytes[i]];
		l->key[i] = key_of(b->leaf[(size_t)bytes[i] << 8 | bytes[i + 1]], i);
	}
	l->id[n - 1] = b->byte_id[bytes[n - 1]];
	l->id[BPE_BEFORE_ALL] = l->id[0];
}

/* Requests the rank of a pair that a merge made. */
static inline void
ask(const struct bpe *b, struct bpe_list *l, int i, size_t left, size_t right)
{
	l->place[i] = (uint32_t)left;
	l->pair[i] = bpe_pair(l->id[left], l->id[right]);
	l->bucket[i] = bpe_pair_ask(&b->pairs, l->pair[i]);
	__builtin_prefetch(l->bucket[i]);
}

/* Merges the next pair and requests the ranks of the two new ones; false when there is none. */
static inline bool
merge_next(const struct bpe *b, struct bpe_list *l)
{
	uint32_t least = simd_least(l->key, l->width);
	size_t at = least & ((1 << PLACE_BITS) - 1);
	uint64_t before = l->live & (((uint64_t)1 << at) - 1), after = l->live >> at >> 1;

	if (least == BPE_NONE)
		return false;
	l->key[at + 1 + (size_t)__builtin_ctzll(after)] = BPE_NONE;
	after &= after - 1;
	l->live = before | (uint64_t)1 << at | after << at << 1;
	l->id[at] = bpe_joined(&b->pairs, least >> PLACE_BITS);
	ask(b, l, 0, before ? 63 - (size_t)__builtin_clzll(before) : BPE_BEFORE_ALL, at);
	ask(b, l, 1, at, after ? at + 1 + (size_t)__builtin_ctzll(after) : BPE_AFTER_ALL);
	return true;
}

/* One merge of each list in turn, then the requested ranks of each, so that their memory accesses
 * overlap. */
void
bpe_merge_lists(const struct bpe *b, struct bpe_list *l, size_t count)
{
	struct bpe_list *open[BPE_LISTS];

	for (size_t i = 0; i < count; i++)
		open[i] = &l[i];
	while (count > 0) {
		for (size_t i = 0; i < count;)
			if (merge_next(b, open[i]))
				i++;
			else
				open[i] = open[--count];
		for (size_t i = 0; i < count; i++)
			for (int k = 0; k < 2; k++)
				open[i]->key[open[i]->place[k]] =
				    key_of(bpe_pair_answer(
					       &b->pairs, open[i]->pair[k], open[i]->bucket[k]),
					open[i]->place[k]);
	}
}

size_t
bpe_list_ids(const struct bpe_list *l, uint32_t *id)
{
	size_t count = 0;

	for (uint64_t live = l->live; live; live &= live - 1)
		id[count++] = l->id[__builtin_ctzll(live)];
	return count;
}

/* Starts from any symbols. */
size_t
bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n)
{
	struct bpe_list l;

	if (n == 0)
		return 0;
	list_open(&l, n);
	memcpy(l.id, id, n * sizeof *id);
	l.id[BPE_BEFORE_ALL] = id[0];
	for (size_t i = 0; i + 1 < n; i++)
		l.key[i] = key_of(bpe_pair_rank(&b->pairs, id[i], id[i + 1]), i);
	bpe_merge_lists(b, &l, 1);
	return bpe_list_ids(&l, id);
}

/* An empty list gives no ids. */
size_t
bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id)
{
	struct bpe_list l;

	if (n == 0)
		return 0;
	bpe_list_bytes(b, &l, bytes, n);
	bpe_merge_lists(b, &l, 1);
	return bpe_list_ids(&l, id);
}

/* Sifts the item up from the end. Room is doubled, and kept for the lists after this one. */
static void
heap_push(struct bpe_scratch *s, uint64_t item)
{
	size_t i = s->heap_len++;

	if (s->heap_len > s->heap_cap) {
		s->heap_cap = 2 * s->heap_len;
		s->heap = mem_realloc(s->heap, s->heap_cap, sizeof *s->heap);
	}
	for (; i > 0 && s->heap[(i - 1) / 2] > item; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = item;
}

/* Takes the smallest item: lowest rank, then leftmost. */
static uint64_t
heap_pop(struct bpe_scratch *s)
{
	uint64_t top = s->heap[0], last = s->heap[--s->heap_len];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < s->heap_len) {
		if (child + 1 < s->heap_len && s->heap[child + 1] < s->heap[child])
			child++;
		if (last <= s->heap[child])
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

/*
 * Looks up the new pair (i, next) and queues it if it may merge; the heap's entry for the old pair
 * is recognised by its rank when it comes up.
 */
static void
rank_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t i)
{
	struct bpe_symbol *y = &s->symbol[i];

	y->rank = BPE_NONE;
	if (y->next == BPE_NONE)
		return;
	y->rank = bpe_pair_rank(&b->pairs, y->id, s->symbol[y->next].id);
	if (y->rank != BPE_NONE)
		heap_push(s, (uint64_t)y->rank << 32 | i);
}

/* A symbol joins the one after it, whose place stays unused and without a rank. Entries of changed
 * pairs stay in the heap and are dropped when they come up. */
size_t
bpe_merge_heap(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, uint32_t *width, size_t n)
{
	size_t left = 0;

	if (n > s->cap) {
		s->cap = n;
		s->symbol = mem_realloc(s->symbol, n, sizeof *s->symbol);
	}
	s->heap_len = 0;
	for (uint32_t i = 0; i < n; i++)
		s->symbol[i] = (struct bpe_symbol){ id[i], i ? i - 1 : BPE_NONE,
			i + 1 < n ? i + 1 : BPE_NONE, BPE_NONE };
	for (uint32_t i = 0; i + 1 < n; i++)
		rank_pair(b, s, i);
	while (s->heap_len) {
		uint64_t top = heap_pop(s);
		uint32_t i = (uint32_t)top;
		struct bpe_symbol *y = &s->symbol[i];

		/* A pair that changed since it was queued has another rank now, or none. */
		if (y->rank != top >> 32)
			continue;
		y->id = bpe_joined(&b->pairs, y->rank);
		s->symbol[y->next].rank = BPE_NONE;
		y->next = s->symbol[y->next].next;
		if (y->next != BPE_NONE)
			s->symbol[y->next].prev = i;
		rank_pair(b, s, i);
		if (y->prev != BPE_NONE)
			rank_pair(b, s, y->prev);
	}
	for (uint32_t i = 0, next; i != BPE_NONE; i = next) {
		next = s->symbol[i].next;
		width[left] = (next == BPE_NONE ? (uint32_t)n : next) - i;
		id[left++] = s->symbol[i].id;
	}
	return left;
}

/* A struct of zeroes is allowed. */
void
bpe_scratch_release(struct bpe_scratch *s)
{
	free(s->symbol);
	free(s->heap);
	window_release(&s->window);
}
