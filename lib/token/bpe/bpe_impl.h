/* bpe_impl.h - shared by the files of the byte-pair encoder */
#ifndef TOKEN_BPE_BPE_IMPL_H
#define TOKEN_BPE_BPE_IMPL_H

#include "lib/base/mem.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/window.h"

#include <string.h>

enum { BPE_LINEAR_MAX = 56 }; /* symbols; longer lists use the heap, a stretch at a time */

#define BPE_NONE UINT32_MAX

/* The bits of ids and ranks in a pair; no token has the last id. */
enum { BPE_BITS = 21, BPE_NO_ID = (1 << BPE_BITS) - 1, BPE_MAX = BPE_NO_ID };

/* Multiplicative hashing: 2^64 divided by the golden ratio and by the square root of 3, made
 * odd. */
#define BPE_MIX 0x9e3779b97f4a7c15u
#define BPE_MIX2 0x93cd3a2c8198e269u

/*
 * Which pairs may merge: open addressing in buckets of two places, at most half full. A place holds
 * the pair above its rank, so that one load suffices. Most pairs may not merge: a filter of one bit
 * per quarter of a place, small enough for a near cache, usually shows it at once.
 */
struct bpe_pairs {
	/* the complement of left, right and rank, BPE_BITS bits each; 0: free */
	uint64_t *place;
	uint64_t *filter;
	uint64_t mix; /* of the hash; different in every process */
	/* from a hash to a bucket, to a bit of the filter */
	unsigned place_shift, filter_shift;
	size_t num_buckets;    /* and one more before them that is always free */
	uint32_t *joined;      /* by rank: the id of the join */
	uint32_t first_joined; /* linear: the id of rank 0's join */
	bool linear;           /* ids increase with ranks, so joined is not needed */
	size_t num_added;      /* pairs */
};

/* Tokens by their bytes; open addressing, at most half full. */
struct bpe_names {
	const struct bpe_token *token;
	uint64_t *slot; /* the upper half of the hash << 32 | id + 1; 0: free */
	size_t mask;
	bool alike;       /* that half does not distinguish all names */
	uint32_t longest; /* bytes */
};

/* The places between two characters that some token crosses (bpe_cut.c). */
struct bpe_cuts {
	uint64_t *slot;
	size_t mask;
};

struct bpe {
	const struct bpe_token *token; /* by id */
	size_t num_tokens;
	/* with whole_piece or symbols; else only if joins needed them */
	struct bpe_names names;
	struct bpe_names units; /* the names that would otherwise be cut into units */
	bool whole_piece;       /* a piece that is a token is not merged */
	struct bpe_cuts cuts;
	struct bpe_pairs pairs;
	uint32_t widest; /* bytes of the longest token that merging makes, or 1 */
	uint32_t byte_id[256];
	uint32_t leaf[65536]; /* rank of the pair of two bytes, first byte high */
};

/* A symbol of a long list, linked by index. rank is that of the pair (this, next). */
struct bpe_symbol {
	uint32_t id, prev, next, rank;
};

/* Scratch of merging; grows to the longest stretch. */
struct bpe_scratch {
	struct bpe_symbol *symbol;
	uint64_t *heap; /* rank << 32 | index of the left symbol */
	size_t cap, heap_len, heap_cap;
	struct window window;
};

static inline uint64_t
bpe_pair(uint32_t left, uint32_t right)
{
	return (uint64_t)left << BPE_BITS | right;
}

/* The bucket where the search for a pair begins. */
static inline size_t
bpe_pair_bucket(const struct bpe_pairs *p, uint64_t hash)
{
	return (size_t)(hash >> p->place_shift) + 1;
}

/* The rank of a pair, from the buckets after its first one, which is full. */
uint32_t bpe_pair_rank_overflow(const struct bpe_pairs *p, uint64_t pair);

/* The bucket of a pair that may merge. For most others the filter shows it, and the result is the
 * bucket that is always free, without a branch, because the answer is unpredictable. */
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
	/* the place with the pair leaves only the rank */
	uint64_t first = bucket[0] ^ ~(pair << BPE_BITS), second = bucket[1] ^ ~(pair << BPE_BITS);
	uint64_t rank = first < second ? first : second;

	if (__builtin_expect((rank > BPE_NO_ID) & (bucket[1] != 0), 0))
		return bpe_pair_rank_overflow(p, pair);
	return rank > BPE_NO_ID ? BPE_NONE : (uint32_t)rank;
}

/* Both at once. */
static inline uint32_t
bpe_pair_rank(const struct bpe_pairs *p, uint32_t left, uint32_t right)
{
	uint64_t pair = bpe_pair(left, right);

	return bpe_pair_answer(p, pair, bpe_pair_ask(p, pair));
}

/* The id of the join of a pair of this rank. */
static inline uint32_t
bpe_joined(const struct bpe_pairs *p, uint32_t rank)
{
	return p->linear ? p->first_joined + rank : p->joined[rank];
}

/* Prefetches the bucket of a pair that is added BPE_AHEAD pairs later. */
enum { BPE_AHEAD = 16 };
static inline void
bpe_pairs_expect(const struct bpe_pairs *p, struct bpe_merge m)
{
	__builtin_prefetch(
	    p->place + 2 * bpe_pair_bucket(p, bpe_pair(m.left, m.right) * p->mix), 1);
}

/* Makes room for ranks below num_ranks. */
void bpe_pairs_init(struct bpe_pairs *p, size_t num_ranks);
void bpe_pairs_release(struct bpe_pairs *p);
/* A pair that has a rank already gets the new one, as in huggingface/tokenizers. */
void bpe_pairs_add(struct bpe_pairs *p, struct bpe_merge m, uint32_t rank, uint32_t joined);

/* True when merging can make it. */
static inline bool
bpe_is_text(const struct bpe_token *t)
{
	return t->bytes && t->len > 0;
}

/* True when a piece is cut into units: it begins with a character of three bytes, or with a space
 * and one. */
static inline bool
bpe_has_units(const unsigned char *s, size_t len)
{
	return len >= 6 && (s[0] >= 0xe0 || s[1] >= 0xe0);
}

/* True when a token is the concatenation of two others. */
static inline bool
bpe_is_join(const struct bpe_token *t, const struct bpe_token *left, const struct bpe_token *right)
{
	return t->len == left->len + right->len && mem_equal(t->bytes, left->bytes, left->len) &&
	    mem_equal(t->bytes + left->len, right->bytes, right->len);
}

/* Enters all tokens that have bytes. -1 with a reason when two are equal; call bpe_names_release
 * then too. */
int bpe_names_init(
    struct bpe_names *n, const struct bpe_token *token, size_t num_tokens, struct err *e);
/* Enters only those that could be cut into units; the tokens must be distinct. */
void bpe_names_init_units(struct bpe_names *n, const struct bpe_token *token, size_t num_tokens);
void bpe_names_release(struct bpe_names *n);
/* The id of the token with these bytes, or BPE_NONE; the hash is bpe_bytes_hash's. */
uint32_t bpe_name(const struct bpe_names *n, const unsigned char *bytes, size_t len, uint64_t hash);
/* Enters a token that a pair of this rank makes: into the table of leaves, if it is two bytes. */
static inline void
bpe_leaf_add(struct bpe *b, const struct bpe_token *t, uint32_t rank)
{
	if (t->len > b->widest)
		b->widest = t->len;
	if (t->len == 2)
		b->leaf[(size_t)t->bytes[0] << 8 | t->bytes[1]] = rank;
}

/* Fewer than eight bytes as a number, without a loop: bytes that are read twice overlap in
 * place. */
static inline uint64_t
bpe_few_bytes(const unsigned char *s, size_t len)
{
	uint32_t low, high;

	if (len == 0)
		return 0;
	if (len < 4)
		return (uint64_t)s[0] | (uint64_t)s[len / 2] << 8 * (len / 2) |
		    (uint64_t)s[len - 1] << 8 * (len - 1);
	memcpy(&low, s, 4);
	memcpy(&high, s + len - 4, 4);
	return low | (uint64_t)high << 8 * (len - 4);
}

/* Eight bytes at a time; the length is included. The address of the table, which differs in every
 * process, is mixed in, so that no file can be crafted whose tokens all collide. */
static inline uint64_t
bpe_hash_words(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	uint64_t h = (len ^ (uintptr_t)n->slot) * BPE_MIX2, v;

	for (; len >= 8; s += 8, len -= 8) {
		memcpy(&v, s, 8);
		h = (h ^ v) * BPE_MIX;
		h ^= h >> 32;
	}
	return h;
}

/* Adds the remaining bytes, as a number. */
static inline uint64_t
bpe_hash_end(uint64_t h, uint64_t last)
{
	h = (h ^ last) * BPE_MIX;
	return h ^ h >> 32;
}

/* The hash of bytes after which seven more may be read. */
static inline uint64_t
bpe_name_hash(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	uint64_t last;

	memcpy(&last, s + (len & ~(size_t)7), 8);
	return bpe_hash_end(bpe_hash_words(n, s, len), last & (((uint64_t)1 << 8 * (len & 7)) - 1));
}

/* The same for bytes after which none may be read. */
static inline uint64_t
bpe_bytes_hash(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	size_t words = len & ~(size_t)7;

	return bpe_hash_end(bpe_hash_words(n, s, len), bpe_few_bytes(s + words, len - words));
}

/* Both at once. */
static inline uint32_t
bpe_find_name(const struct bpe_names *n, const unsigned char *s, size_t len)
{
	return bpe_name(n, s, len, bpe_bytes_hash(n, s, len));
}

/* bpe_name by the hash alone: other bytes match once in 2^32 times; unless `alike`, a name never
 * matches another one. */
static inline uint32_t
bpe_likely_name(const struct bpe_names *n, uint64_t hash)
{
	size_t i = (size_t)hash & n->mask;

	while (n->slot[i] && n->slot[i] >> 32 != hash >> 32)
		i = (i + 1) & n->mask;
	return (uint32_t)n->slot[i] - 1;
}

/* Makes a rank file's pairs; names must be complete. */
void bpe_parts_of_ranks(struct bpe *b);

void bpe_cuts_init(struct bpe_cuts *c, const struct bpe_token *token, size_t num_tokens);
void bpe_cuts_release(struct bpe_cuts *c);
/* True when a token can cross the place between two three-byte characters, given the three bytes
 * before and after it, or only one side, with 0 for the other number. */
bool bpe_crossed(
    const struct bpe_cuts *c, const unsigned char *place, unsigned before, unsigned after);

/*
 * A short list while it merges. Symbols keep their places; a bit marks the live ones. A key is a
 * rank above its place, so the least one is the next pair: lowest rank, then leftmost. After the
 * places come two more, the neighbours of the ends of the list, so that every pair does the same
 * work, which costs less than mispredicted branches.
 */
enum { BPE_BEFORE_ALL = BPE_LINEAR_MAX, BPE_AFTER_ALL, BPE_PLACES };

struct bpe_list {
	uint32_t id[BPE_PLACES], key[BPE_PLACES];
	uint64_t live;
	uint32_t width;    /* places in use, rounded up to a multiple of eight */
	uint32_t place[2]; /* of the two pairs that the last merge made */
	uint64_t pair[2];
	const uint64_t *bucket[2];
};

/* Starts the list of a piece of 1 to BPE_LINEAR_MAX bytes, not yet merged. */
void bpe_list_bytes(const struct bpe *b, struct bpe_list *l, const unsigned char *bytes, size_t n);
/* Merges several lists in parallel, at most BPE_LISTS. */
enum { BPE_LISTS = 16 };
void bpe_merge_lists(const struct bpe *b, struct bpe_list *l, size_t count);
/* Writes the remaining ids; returns their number. */
size_t bpe_list_ids(const struct bpe_list *l, uint32_t *id);

/* The two methods of merging, in place; each returns the number of ids. linear needs n <=
 * BPE_LINEAR_MAX. */
size_t bpe_merge_linear(const struct bpe *b, uint32_t *id, size_t n);
/* The same from the bytes of a piece of at most BPE_LINEAR_MAX. */
size_t bpe_merge_bytes(const struct bpe *b, const unsigned char *bytes, size_t n, uint32_t *id);
/* width[i] becomes the number of symbols of id i. n > 0. */
size_t bpe_merge_heap(
    const struct bpe *b, struct bpe_scratch *s, uint32_t *id, uint32_t *width, size_t n);
void bpe_scratch_release(struct bpe_scratch *s);

/* The bytes of a piece of any length, and the receiver of its tokens, at least one per call. */
struct bpe_long {
	const unsigned char *bytes;
	size_t n;
	void (*take)(void *ctx, const uint32_t *token, size_t n);
	void *ctx;
};

/* Lists of any length by the heap, on stretches (bpe_long.c): from a reader; in place, returning
 * the number of ids; from bytes. */
void bpe_merge_list(const struct bpe *b, struct bpe_scratch *s, const struct window_list *list);
size_t bpe_merge_long(const struct bpe *b, struct bpe_scratch *s, uint32_t *id, size_t n);
void bpe_merge_long_bytes(const struct bpe *b, struct bpe_scratch *s, const struct bpe_long *piece);

#endif
