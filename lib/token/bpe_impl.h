/* bpe_impl.h - what the files of the byte-pair encoder share */
#ifndef TOKEN_BPE_IMPL_H
#define TOKEN_BPE_IMPL_H

#include "lib/token/bpe.h"

enum { BPE_LINEAR_MAX = 32 };           /* symbols; longer lists use the heap */

#define BPE_NONE UINT32_MAX

/* Ids and ranks that are in a pair have so many bits; the last id is nobody's. */
enum { BPE_BITS = 21, BPE_NOBODY = (1 << BPE_BITS) - 1, BPE_MAX = BPE_NOBODY };

/* Multiplicative hashing: 2^64 divided by the golden ratio and by the square root of 3, made odd. */
#define BPE_MIX 0x9e3779b97f4a7c15u
#define BPE_MIX2 0x93cd3a2c8198e269u

/*
 * Which pairs may merge: open addressing in buckets of two places, at most half full. A place holds the pair
 * above its rank, so that one load answers. Most pairs that are asked for may not: a filter of one bit
 * for every quarter of a place, small enough for a near cache, mostly says so at once.
 */
struct bpe_pairs {
	uint64_t *place;                /* left, right and rank of BPE_BITS bits each; all bits set: free */
	uint64_t *filter;
	uint64_t mix;                   /* of the hash; different in every process */
	unsigned place_shift, filter_shift;     /* from a hash to a bucket, to a bit of the filter */
	size_t num_buckets;             /* and one more in front of them that is always free */
	uint32_t *joined;               /* by rank: the id that the two become */
	uint32_t first_joined;          /* linear: the id that rank 0 becomes */
	bool linear;                    /* ids go up with ranks, so joined need not be looked at */
	size_t num_added;               /* pairs */
};

/* Tokens by their bytes; open addressing, at most half full. */
struct bpe_names {
	const struct bpe_token *token;
	uint32_t *slot;                 /* an id, or BPE_NONE */
	size_t mask;
};

/* The places between two characters that some token crosses (bpe_cut.c). */
struct bpe_cuts {
	uint64_t *slot;
	size_t mask;
};

struct bpe {
	struct bpe_names names;
	struct bpe_names odd;           /* tokens that only a whole piece can be, not merging */
	uint32_t odd_max;               /* bytes of the longest; 0: there are none */
	struct bpe_cuts cuts;
	struct bpe_pairs pairs;
	uint32_t byte_id[256];
	uint32_t leaf[65536];           /* rank of the pair of two bytes, first byte high */
};

/* A symbol of a long list, linked by index. rank is that of the pair (this, next). */
struct bpe_symbol {
	uint32_t id, prev, next, rank;
};

/* Scratch of merging; grows to the longest list. */
struct bpe_scratch {
	struct bpe_symbol *symbol;
	uint64_t *heap;                 /* rank << 32 | index of the left symbol */
	size_t cap, heap_len, heap_cap;
};

static inline uint64_t
bpe_pair(uint32_t left, uint32_t right)
{
	return (uint64_t)left << BPE_BITS | right;
}

/* The bucket in which looking for a pair begins. */
static inline size_t
bpe_pair_bucket(const struct bpe_pairs *p, uint64_t hash)
{
	return (size_t)(hash >> p->place_shift) + 1;
}

/* The rank of a pair from the buckets behind the first, which is full. */
uint32_t bpe_pair_rank_behind(const struct bpe_pairs *p, uint64_t pair);

/* The bucket of a pair that may merge. For most others the filter says so, and then it is the bucket that is
 * always free, for nobody can foresee the answer. */
static inline const uint64_t *
bpe_pair_ask(const struct bpe_pairs *p, uint64_t pair)
{
	uint64_t hash = pair * p->mix, bit = hash >> p->filter_shift;
	uint64_t pass = p->filter[bit >> 6] >> (bit & 63) & 1;

	return p->place + 2 * (bpe_pair_bucket(p, hash) & -pass);
}

/* The rank of a pair, BPE_NONE for one that may not merge, when its bucket is known. */
static inline uint32_t
bpe_pair_answer(const struct bpe_pairs *p, uint64_t pair, const uint64_t *bucket)
{
	/* of the place that has the pair nothing is left but the rank */
	uint64_t first = bucket[0] ^ pair << BPE_BITS, second = bucket[1] ^ pair << BPE_BITS;
	uint64_t rank = first < second ? first : second;

	if (__builtin_expect((rank > BPE_NOBODY) & (bucket[1] != UINT64_MAX), 0))
		return bpe_pair_rank_behind(p, pair);
	return rank > BPE_NOBODY ? BPE_NONE : (uint32_t)rank;
}

/* Both at once. */
static inline uint32_t
bpe_pair_rank(const struct bpe_pairs *p, uint32_t left, uint32_t right)
{
	uint64_t pair = bpe_pair(left, right);

	return bpe_pair_answer(p, pair, bpe_pair_ask(p, pair));
}

/* The id that a pair of this rank becomes. */
static inline uint32_t
bpe_joined(const struct bpe_pairs *p, uint32_t rank)
{
	return p->linear ? p->first_joined + rank : p->joined[rank];
}

/* Room for ranks below num_ranks. */
void bpe_pairs_init(struct bpe_pairs *p, size_t num_ranks);
void bpe_pairs_release(struct bpe_pairs *p);
/* False when the pair has a rank already. */
bool bpe_pairs_add(struct bpe_pairs *p, struct bpe_merge m, uint32_t rank, uint32_t joined);

/* The id of the token with these bytes, or BPE_NONE. */
uint32_t bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len);

void bpe_cuts_init(struct bpe_cuts *c, const struct bpe_token *token, size_t num_tokens);
void bpe_cuts_release(struct bpe_cuts *c);
/* Whether a token can lie across the place between two three-byte characters, given all three bytes
 * before and after it, or, with 0 for one of the numbers, of one side alone. */
bool bpe_crossed(
    const struct bpe_cuts *c, const unsigned char *place, unsigned before, unsigned after);

/*
 * A short list while it merges. Symbols keep their places; a bit says which are still there. A key is a
 * rank above its place, so the least one says which pair is next: lowest rank, then leftmost. Behind the
 * places stand two that are no part of the list, for what has no neighbour: the work is the same for
 * every pair, since a processor that guesses wrong loses more than it takes.
 */
enum { BPE_BEFORE_ALL = BPE_LINEAR_MAX, BPE_BEHIND_ALL, BPE_PLACES };

struct bpe_list {
	uint32_t id[BPE_PLACES], key[BPE_PLACES];
	uint64_t live;
	uint32_t width;                 /* places that are looked at, a multiple of eight */
	uint32_t place[2];              /* of the two pairs that the last merge has made */
	uint64_t pair[2];
	const uint64_t *bucket[2];
};

/* The bytes of a piece of 1 to BPE_LINEAR_MAX, not merged yet. */
void bpe_list_bytes(const struct bpe *b, struct bpe_list *l, const unsigned char *bytes, size_t n);
/* Merges several lists side by side, at most BPE_LISTS. */
enum { BPE_LISTS = 16 };
void bpe_merge_lists(const struct bpe *b, struct bpe_list *l, size_t count);
/* Writes what is left; returns how many. */
size_t bpe_list_ids(const struct bpe_list *l, uint32_t *id);

/* The two methods of merging, in place; each returns how many ids are left. linear needs
 * n <= BPE_LINEAR_MAX. */
size_t bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n);
/* The same from the bytes of a piece of at most BPE_LINEAR_MAX. */
size_t bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id);
size_t bpe_merge_heap(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n);
void   bpe_scratch_release(struct bpe_scratch *s);

#endif
