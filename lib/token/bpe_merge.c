/*
 * bpe_merge.c - joining neighbouring symbols in the order of rank
 *
 * Two methods that give the same ids: searching the minimum, which is the fastest for a dozen
 * symbols, and a heap, which is n log n. The heap holds rank and position in one 64-bit number:
 * comparing numbers is comparing ranks, then positions.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * Quadratic, but the fastest for what nearly all pieces are: a dozen bytes. rank[i] is that of the
 * symbols i and i + 1.
 */
static size_t
merge_ranked(const struct bpe *b, uint32_t *id, uint32_t *rank, size_t n)
{
	while (n > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			best = rank[i] < rank[best] ? i : best;
		if (rank[best] == BPE_NONE)
			break;
		id[best] = b->pairs.joined[rank[best]];
		n--;
		for (size_t i = best + 1; i < n; i++) {
			id[i] = id[i + 1];
			rank[i - 1] = rank[i];
		}
		if (best + 1 < n)
			rank[best] = bpe_pair_rank(&b->pairs, id[best], id[best + 1]);
		if (best > 0)
			rank[best - 1] = bpe_pair_rank(&b->pairs, id[best - 1], id[best]);
	}
	return n;
}

/* From any symbols. */
size_t
bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n)
{
	uint32_t rank[BPE_LINEAR_MAX];

	for (size_t i = 0; i + 1 < n; i++)
		rank[i] = bpe_pair_rank(&b->pairs, id[i], id[i + 1]);
	return merge_ranked(b, id, rank, n);
}

/* From bytes, whose ranks stand in a table. */
size_t
bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id)
{
	uint32_t rank[BPE_LINEAR_MAX];

	for (size_t i = 0; i < n; i++)
		id[i] = b->byte_id[bytes[i]];
	for (size_t i = 0; i + 1 < n; i++)
		rank[i] = b->leaf[(size_t)bytes[i] << 8 | bytes[i + 1]];
	return merge_ranked(b, id, rank, n);
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

	y->id = b->pairs.joined[y->rank];
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
