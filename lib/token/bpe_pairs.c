/*
 * bpe_pairs.c - the table of pairs that may merge, while it is made
 *
 * Nearly all pairs are known beforehand, and so how large the region of each left symbol must be. One that
 * becomes more than half full all the same moves to the end of the array, twice as large. What it leaves
 * behind is never read again.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

/* Regions one behind the other, each at most half full with the pairs that will come. */
static size_t
lay_out(struct bpe_pairs *p, size_t num_ids, const struct bpe_merge *coming, size_t count)
{
	size_t next = 1;

	for (size_t i = 0; i < count; i++)
		p->used[coming[i].left]++;
	for (size_t id = 0; id < num_ids; id++) {
		unsigned bits = 1;

		if (!p->used[id])
			continue;
		while ((uint32_t)1 << bits < 2 * p->used[id])
			bits++;
		p->region[id] = next << 5 | bits;
		next += (size_t)1 << bits;
	}
	memset(p->used, 0, num_ids * sizeof *p->used);
	return next;
}

/* The first place of the array stays free: no region is 0, and there is a place where nothing is found. */
void
bpe_pairs_init(struct bpe_pairs *p, size_t num_ids, size_t num_ranks,
    const struct bpe_merge *coming, size_t num_coming)
{
	p->region = mem_zalloc_whole(num_ids, sizeof *p->region);
	p->used = mem_zalloc_whole(num_ids, sizeof *p->used);
	p->joined = mem_zalloc_whole(num_ranks, sizeof *p->joined);
	p->linear = true;
	p->num_pairs = p->cap = lay_out(p, num_ids, coming, num_coming);
	p->pair = mem_zalloc_whole(p->cap, sizeof *p->pair);
	memset(p->pair, 0xff, p->num_pairs * sizeof *p->pair);
}

/* Zeroed is fine. */
void
bpe_pairs_release(struct bpe_pairs *p)
{
	free(p->region);
	free(p->used);
	free(p->joined);
	free(p->pair);
}

/* A new region of 2^bits free places at the end; the number of merges keeps offsets within 27 bits. */
static void
new_region(struct bpe_pairs *p, uint32_t left, unsigned bits)
{
	size_t size = (size_t)1 << bits;
	uint64_t filter = p->region[left] >> 32;

	if (p->num_pairs + size > p->cap) {
		p->cap = 2 * p->cap + size;
		p->pair = mem_realloc(p->pair, p->cap, sizeof *p->pair);
	}
	memset(p->pair + p->num_pairs, 0xff, size * sizeof *p->pair);
	p->region[left] = filter << 32 | p->num_pairs << 5 | bits;
	p->num_pairs += size;
}

/* Makes room for one more pair of this left symbol, which is counted. */
static void
grow(struct bpe_pairs *p, uint32_t left)
{
	uint32_t region = (uint32_t)p->region[left], size = (uint32_t)1 << (region & 31);
	size_t first = region >> 5;

	p->used[left]++;
	if (region == 0) {
		new_region(p, left, 1);
		return;
	}
	if (2 * p->used[left] <= size)
		return;
	new_region(p, left, (region & 31) + 1);
	for (uint32_t i = 0; i < size; i++) {
		struct bpe_pair old = p->pair[first + i];

		if (old.right != BPE_NONE)
			*bpe_pair_slot(p, p->region[left], old.right) = old;
	}
}

/* The caller has checked that ids and rank are within what the table was made for. */
bool
bpe_pairs_add(struct bpe_pairs *p, struct bpe_merge m, uint32_t rank, uint32_t joined)
{
	if (bpe_pair_rank(p, m.left, m.right) != BPE_NONE)
		return false;
	grow(p, m.left);
	p->region[m.left] |= (uint64_t)1 << (32 + (bpe_pair_hash(m.right) >> 8 & 31));
	*bpe_pair_slot(p, p->region[m.left], m.right) = (struct bpe_pair){ m.right, rank };
	p->joined[rank] = joined;
	if (p->num_added++ == 0)
		p->first_joined = joined - rank;
	p->linear &= joined - rank == p->first_joined;
	return true;
}

/* Nothing may be added any more. */
void
bpe_pairs_close(struct bpe_pairs *p)
{
	free(p->used);
	p->used = NULL;
}
