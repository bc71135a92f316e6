/* bpe_impl.h - what the files of the byte-pair encoder share */
#ifndef TOKEN_BPE_IMPL_H
#define TOKEN_BPE_IMPL_H

#include "lib/token/bpe.h"

enum {
	BPE_LINEAR_MAX = 32,            /* symbols; longer lists use the heap */
	BPE_MAYBE_BITS = 3,
};

#define BPE_NONE UINT32_MAX

/* Multiplicative hashing: 2^64 divided by the golden ratio and by the square root of 3, made odd. */
#define BPE_MIX 0x9e3779b97f4a7c15u
#define BPE_MIX2 0x93cd3a2c8198e269u

struct bpe_pair {
	uint64_t key;                   /* left << 32 | right; all ones: free */
	uint32_t rank, joined;          /* rank BPE_NONE: may not merge */
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
	struct bpe_pair *pair;          /* open addressing, at most half full */
	size_t mask;
	unsigned shift;                 /* 64 less the bits of the table's size */
	uint64_t *maybe;                /* a bit for every hash value of a pair, 8 times the table's size: most
	                                   pairs that are asked for may not merge, and this fits a near cache */
	uint32_t byte_id[256];
	uint32_t leaf[65536];           /* rank of the pair of two bytes, first byte high */
};

/* A symbol of a long list, linked by index. rank is that of the pair (this, next). */
struct bpe_symbol {
	uint32_t id, prev, next, rank, joined;
};

/* Scratch of merging; grows to the longest list. */
struct bpe_scratch {
	struct bpe_symbol *symbol;
	uint64_t *heap;                 /* rank << 32 | index of the left symbol */
	size_t cap, heap_len, heap_cap;
};

static inline uint64_t
bpe_pair_hash(uint32_t left, uint32_t right)
{
	return ((uint64_t)left << 32 | right) * BPE_MIX;
}

/* The slot that holds the pair, or the free one where it would go. */
static inline struct bpe_pair *
bpe_pair_slot(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t key = (uint64_t)left << 32 | right;
	size_t i = (size_t)(bpe_pair_hash(left, right) >> b->shift);

	while (b->pair[i].key != key && b->pair[i].key != UINT64_MAX)
		i = (i + 1) & b->mask;
	return &b->pair[i];
}

/* The pair, or NULL when it may not merge. */
static inline const struct bpe_pair *
bpe_pair_find(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t bit = bpe_pair_hash(left, right) >> (b->shift - BPE_MAYBE_BITS);
	const struct bpe_pair *p;

	if (!(b->maybe[bit >> 6] >> (bit & 63) & 1))
		return NULL;
	p = bpe_pair_slot(b, left, right);
	return p->rank == BPE_NONE ? NULL : p;
}

/* The id of the token with these bytes, or BPE_NONE. */
uint32_t bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len);

void bpe_cuts_init(struct bpe_cuts *c, const struct bpe_token *token, size_t num_tokens);
void bpe_cuts_release(struct bpe_cuts *c);
/* Whether a token can lie across the place between two three-byte characters, given all three bytes
 * before and after it, or, with 0 for one of the numbers, of one side alone. */
bool bpe_crossed(
    const struct bpe_cuts *c, const unsigned char *place, unsigned before, unsigned after);

/* The two methods of merging, in place; each returns how many ids are left. linear needs
 * n <= BPE_LINEAR_MAX. */
size_t bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n);
/* The same from the bytes of a piece of at most BPE_LINEAR_MAX. */
size_t bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id);
size_t bpe_merge_heap(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n);
void   bpe_scratch_release(struct bpe_scratch *s);

#endif
