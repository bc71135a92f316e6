/*
 * bpe_pairs.c - the table of pairs that may merge: building it, and the search after a full bucket
 *
 * A bucket of two places is full in one of twelve cases; its pairs continue in the next one.
 * Multiplying by a number that depends on the table's address makes it different in every process,
 * so that no file can be crafted whose pairs all collide.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum { FILTER_BITS = 3 }; /* 8 bits of the filter per bucket */

/* The filter is indexed by the bits of the bucket and a few more, all from the top of the hash. */
void
bpe_pairs_init(struct bpe_pairs *p, size_t num_ranks)
{
	unsigned bits = 4;

	while ((size_t)1 << bits < num_ranks)
		bits++;
	p->num_buckets = (size_t)1 << bits;
	p->place_shift = 64 - bits;
	p->filter_shift = p->place_shift - FILTER_BITS;
	p->place = mem_zalloc_whole(2 * (p->num_buckets + 1), sizeof *p->place);
	p->filter = mem_zalloc_whole(p->num_buckets >> (6 - FILTER_BITS), sizeof *p->filter);
	p->mix = (uintptr_t)p->place * BPE_MIX2 ^ BPE_MIX;
	p->mix |= 1;
	p->joined = mem_zalloc_whole(num_ranks, sizeof *p->joined);
	p->linear = true;
}

/* A struct of zeroes is allowed. */
void
bpe_pairs_release(struct bpe_pairs *p)
{
	free(p->place);
	free(p->filter);
	free(p->joined);
}

/* The place of a pair, or the free one for it. Half of the places stay free. */
static uint64_t *
find(const struct bpe_pairs *p, uint64_t pair)
{
	size_t bucket = bpe_pair_bucket(p, pair * p->mix);

	for (;; bucket = bucket % p->num_buckets + 1)
		for (uint64_t *place = p->place + 2 * bucket, *end = place + 2; place < end;
		     place++)
			if (~*place >> BPE_BITS == pair || *place == 0)
				return place;
}

/* Not inlined: it is rare. */
uint32_t
bpe_pair_rank_overflow(const struct bpe_pairs *p, uint64_t pair)
{
	uint64_t place = *find(p, pair);

	return place == 0 ? BPE_NONE : (uint32_t)~place & BPE_NO_ID;
}

/* The caller has checked that ids and rank are within the table's bounds. */
void
bpe_pairs_add(struct bpe_pairs *p, struct bpe_merge m, uint32_t rank, uint32_t joined)
{
	uint64_t pair = bpe_pair(m.left, m.right), *place = find(p, pair);
	uint64_t bit = pair * p->mix >> p->filter_shift;

	*place = ~(pair << BPE_BITS | rank);
	p->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
	p->joined[rank] = joined;
	if (p->num_added++ == 0)
		p->first_joined = joined - rank;
	p->linear &= joined - rank == p->first_joined;
}
