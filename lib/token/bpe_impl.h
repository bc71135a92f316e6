/* bpe_impl.h - what the files of the byte-pair encoder share */
#ifndef TOKEN_BPE_IMPL_H
#define TOKEN_BPE_IMPL_H

#include "lib/token/bpe.h"

enum { BPE_LINEAR_MAX = 32 };           /* symbols; longer lists use the heap */

#define BPE_NONE UINT32_MAX

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

struct bpe {
	struct bpe_names names;
	struct bpe_pair *pair;          /* open addressing, at most half full */
	size_t mask;
	unsigned shift;                 /* 64 less the bits of the table's size */
	bool whole_piece;
	uint32_t byte_id[256];
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

/* The slot that holds the pair, or the free one where it would go. Fibonacci hashing: the constant is
 * 2^64 divided by the golden ratio. */
static inline struct bpe_pair *
bpe_pair_slot(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t key = (uint64_t)left << 32 | right;
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> b->shift);

	while (b->pair[i].key != key && b->pair[i].key != UINT64_MAX)
		i = (i + 1) & b->mask;
	return &b->pair[i];
}

/* The two methods of merging, in place; each returns how many ids are left. linear needs
 * n <= BPE_LINEAR_MAX. */
size_t bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n);
size_t bpe_merge_heap(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n);
void   bpe_scratch_release(struct bpe_scratch *s);

#endif
