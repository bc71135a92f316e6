/*
 * bpe_merge.c - joining neighbouring symbols in the order of rank
 *
 * Two methods that give the same ids: searching the minimum, which is the fastest for a dozen
 * symbols, and a heap, which is n log n. The heap holds rank and position in one 64-bit number:
 * comparing numbers is comparing ranks, then positions.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * A short list while it merges. Symbols keep their places; a bit says which are still there. A key is a
 * rank, which has 23 bits, above its place, so the least one says which pair is next: lowest rank, then
 * leftmost. Behind the places stand two that are no part of the list, for what has no neighbour: the
 * work is the same for every pair, since a processor that guesses wrong loses more than it takes.
 */
enum { PLACE_BITS = 5, BEFORE_ALL = BPE_LINEAR_MAX, BEHIND_ALL, PLACES };

struct short_list {
	uint32_t id[PLACES], key[PLACES];
	uint64_t live;
};

static_assert(BPE_LINEAR_MAX == 1 << PLACE_BITS, "a place fits its bits");

/* The key of a pair that begins at a place; NONE stays what it is. */
static inline uint32_t
key_of(uint32_t rank, size_t place)
{
	return rank == BPE_NONE ? BPE_NONE : rank << PLACE_BITS | (uint32_t)place;
}

/* The key of a pair of the list. What merging it will look at first is asked for, since merging waits for
 * memory more than for anything else, and mostly another pair is next. */
static inline uint32_t
expect(const struct bpe *b, uint32_t rank, size_t place)
{
	if (rank != BPE_NONE)
		__builtin_prefetch(&b->pairs.region[bpe_joined(&b->pairs, rank)]);
	return key_of(rank, place);
}

static inline uint32_t
lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The least key of places below width, a multiple of eight. */
static inline uint32_t
least_key(const uint32_t *key, size_t width)
{
	uint32_t least = BPE_NONE;

	for (const uint32_t *k = key; k < key + width; k += 8) {
		uint32_t a = lesser(lesser(k[0], k[1]), lesser(k[2], k[3]));
		uint32_t c = lesser(lesser(k[4], k[5]), lesser(k[6], k[7]));

		least = lesser(least, lesser(a, c));
	}
	return least;
}

/* Merges the n > 0 symbols of the list, whose keys are there and NONE from place n - 1 on, and writes what is left to out. */
static size_t
merge_list(const struct bpe *b, struct short_list *l, size_t n, uint32_t *out)
{
	size_t width = (n + 6) & ~(size_t)7, count = 0;
	uint32_t least;

	l->live = UINT64_MAX >> (64 - n);
	l->id[BEFORE_ALL] = l->id[0];
	l->id[BEHIND_ALL] = BPE_NONE;
	while ((least = least_key(l->key, width)) != BPE_NONE) {
		size_t at = least & (BPE_LINEAR_MAX - 1), last, next;
		uint64_t before = l->live & (((uint64_t)1 << at) - 1), behind = l->live >> at >> 1;

		last = before ? 63 - (size_t)__builtin_clzll(before) : BEFORE_ALL;
		l->key[at + 1 + (size_t)__builtin_ctzll(behind)] = BPE_NONE;
		behind &= behind - 1;
		l->live = before | (uint64_t)1 << at | behind << at << 1;
		next = behind ? at + 1 + (size_t)__builtin_ctzll(behind) : BEHIND_ALL;
		l->id[at] = bpe_joined(&b->pairs, least >> PLACE_BITS);
		l->key[last] = expect(b, bpe_pair_rank(&b->pairs, l->id[last], l->id[at]), last);
		l->key[at] = expect(b, bpe_pair_rank(&b->pairs, l->id[at], l->id[next]), at);
	}
	for (uint64_t live = l->live; live; live &= live - 1)
		out[count++] = l->id[__builtin_ctzll(live)];
	return count;
}

/* From any symbols. */
size_t
bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n)
{
	struct short_list l;

	if (n == 0)
		return 0;
	memset(l.key, 0xff, sizeof l.key);
	for (size_t i = 0; i < n; i++)
		l.id[i] = id[i];
	for (size_t i = 0; i + 1 < n; i++)
		l.key[i] = key_of(bpe_pair_rank(&b->pairs, id[i], id[i + 1]), i);
	return merge_list(b, &l, n, id);
}

/* From bytes, whose ranks stand in a table. */
size_t
bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id)
{
	struct short_list l;

	if (n == 0)
		return 0;
	memset(l.key, 0xff, sizeof l.key);
	for (size_t i = 0; i + 1 < n; i++) {
		l.id[i] = b->byte_id[bytes[i]];
		l.key[i] = expect(b, b->leaf[(size_t)bytes[i] << 8 | bytes[i + 1]], i);
	}
	l.id[n - 1] = b->byte_id[bytes[n - 1]];
	return merge_list(b, &l, n, id);
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
 * Looks the pair (i, next) up again and queues it if it may merge; what stands in the heap for the
 * old pair is recognised by its rank when it comes up.
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

/*
 * Joins symbol i with the one after it, whose place is left unused and without rank, so that the
 * heap's entries for it die.
 */
static void
join(const struct bpe *b, struct bpe_scratch *s, uint32_t i)
{
	struct bpe_symbol *y = &s->symbol[i], *gone = &s->symbol[y->next];

	y->id = bpe_joined(&b->pairs, y->rank);
	y->next = gone->next;
	gone->rank = BPE_NONE;
	if (y->next != BPE_NONE)
		s->symbol[y->next].prev = i;
}

/* Links n symbols, with nothing in the heap. */
static void
link_symbols(struct bpe_scratch *s, const uint32_t *id, size_t n)
{
	if (n > s->cap) {
		s->cap = n;
		s->symbol = mem_realloc(s->symbol, n, sizeof *s->symbol);
	}
	s->heap_len = 0;
	for (uint32_t i = 0; i < n; i++)
		s->symbol[i] = (struct bpe_symbol){ id[i], i ? i - 1 : BPE_NONE,
			i + 1 < n ? i + 1 : BPE_NONE, BPE_NONE };
}

/* Entries of pairs that have changed stay in the heap and are dropped when they come up. */
size_t
bpe_merge_heap(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n)
{
	size_t left = 0;

	if (n == 0)
		return 0;
	link_symbols(s, id, n);
	for (uint32_t i = 0; i + 1 < n; i++)
		rank_pair(b, s, i);
	while (s->heap_len) {
		uint64_t top = heap_pop(s);
		uint32_t i = (uint32_t)top;

		/* A pair that changed since it was queued has another rank now, or none. */
		if (s->symbol[i].rank != top >> 32)
			continue;
		join(b, s, i);
		rank_pair(b, s, i);
		if (s->symbol[i].prev != BPE_NONE)
			rank_pair(b, s, s->symbol[i].prev);
	}
	for (uint32_t i = 0; i != BPE_NONE; i = s->symbol[i].next)
		id[left++] = s->symbol[i].id;
	return left;
}

/* Zeroed scratch is fine. */
void
bpe_scratch_release(struct bpe_scratch *s)
{
	free(s->symbol);
	free(s->heap);
}
