/*
 * bpe.c - byte-pair merging of one piece
 *
 * Pairs live in a hash table of integers, so no string is touched while merging. The list of
 * symbols of a long piece is linked by index, and its heap holds rank and position in one 64-bit
 * number: comparing numbers is comparing ranks, then positions. The cache has one slot a hash value
 * and no chains: a newer piece simply takes the place of an older one, which bounds the memory and
 * is exact, because the ids of a piece depend on its bytes alone.
 */
#include "lib/token/bpe.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
	CACHE_BITS = 16,                /* 65,536 slots of 32 bytes: 2 MiB a worker */
	CACHE_KEY = 15,                 /* longest piece that is remembered */
	CACHE_IDS = 4,
};

#define NONE UINT32_MAX

/* Fibonacci hashing; the constants are 2^64 divided by the golden ratio and by the square root of
 * 3, made odd. */
#define MIX_A 0x9e3779b97f4a7c15u
#define MIX_B 0x93cd3a2c8198e269u

struct pair {
	uint64_t key;                   /* left << 32 | right; all ones: free */
	uint32_t rank, joined;
};

struct bpe {
	uint32_t byte_id[256];
	struct pair *table;             /* open addressing, at most half full */
	unsigned shift;                 /* 64 less the bits of the table's size */
	size_t mask;
};

/* A piece and its ids. key[1]'s top byte is the length, so an empty slot matches nothing. */
struct slot {
	uint64_t key[2];
	uint32_t id[CACHE_IDS];         /* NONE after the last */
};

/* A symbol of a long piece; the list is linked by index. rank is that of the pair (this, next). */
struct symbol {
	uint32_t id, prev, next, rank, joined;
};

struct bpe_worker {
	struct slot *cache;
	struct symbol *symbol;
	uint64_t *heap;                 /* rank << 32 | index of the left symbol */
	uint32_t *ids;
	size_t cap, heap_len, heap_cap;
};

/* Merges are added afterwards; the table never grows, so capacity must be enough. */
struct bpe *
bpe_new(const uint32_t byte_id[256], size_t capacity)
{
	struct bpe *b = mem_zalloc(1, sizeof *b);
	unsigned bits = 4;

	while (((size_t)1 << bits) < 2 * capacity + 1)
		bits++;
	memcpy(b->byte_id, byte_id, sizeof b->byte_id);
	b->shift = 64 - bits;
	b->mask = ((size_t)1 << bits) - 1;
	b->table = mem_alloc(b->mask + 1, sizeof *b->table);
	memset(b->table, 0xff, (b->mask + 1) * sizeof *b->table);
	return b;
}

/* NULL is fine. Workers hold nothing of it. */
void
bpe_free(struct bpe *b)
{
	if (!b)
		return;
	free(b->table);
	free(b);
}

/* The slot that holds the pair, or the free one where it would go. */
static struct pair *
lookup(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t key = (uint64_t)left << 32 | right;
	size_t i = (size_t)(key * MIX_A >> b->shift);

	while (b->table[i].key != key && b->table[i].key != UINT64_MAX)
		i = (i + 1) & b->mask;
	return &b->table[i];
}

/* A pair that is there already keeps its rank. */
bool
bpe_add(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t joined)
{
	struct pair *p = lookup(b, left, right);

	if (p->key != UINT64_MAX)
		return false;
	*p = (struct pair){ (uint64_t)left << 32 | right, rank, joined };
	return true;
}

/*
 * All slots are empty: no piece has length 0. The cache fills with ids of one vocabulary, so a
 * worker must not be used with a second one.
 */
struct bpe_worker *
bpe_worker_new(void)
{
	struct bpe_worker *w = mem_zalloc(1, sizeof *w);

	w->cache = mem_zalloc((size_t)1 << CACHE_BITS, sizeof *w->cache);
	return w;
}

/* NULL is fine. The encoder that it was used with is not touched. */
void
bpe_worker_free(struct bpe_worker *w)
{
	if (!w)
		return;
	free(w->cache);
	free(w->symbol);
	free(w->heap);
	free(w->ids);
	free(w);
}

/* Quadratic, but the fastest for what nearly all pieces are: a dozen bytes. */
size_t
bpe_merge_linear(const struct bpe *b, const unsigned char *piece, size_t len, uint32_t *out)
{
	uint32_t rank[BPE_LINEAR_MAX];

	for (size_t i = 0; i < len; i++)
		out[i] = b->byte_id[piece[i]];
	/* Free slots have rank NONE, so a pair that may not merge never wins. */
	for (size_t i = 0; i + 1 < len; i++)
		rank[i] = lookup(b, out[i], out[i + 1])->rank;
	while (len > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < len; i++)
			if (rank[i] < rank[best])
				best = i;
		if (rank[best] == NONE)
			break;
		out[best] = lookup(b, out[best], out[best + 1])->joined;
		memmove(out + best + 1, out + best + 2, (len - best - 2) * sizeof *out);
		if (best + 2 < len)
			memmove(rank + best, rank + best + 1, (len - best - 2) * sizeof *rank);
		len--;
		if (best + 1 < len)
			rank[best] = lookup(b, out[best], out[best + 1])->rank;
		if (best > 0)
			rank[best - 1] = lookup(b, out[best - 1], out[best])->rank;
	}
	return len;
}

/* Sifts the item up from the end. Room is doubled, and kept for the pieces after this one. */
static void
heap_push(struct bpe_worker *w, uint64_t item)
{
	size_t i = w->heap_len++;

	if (w->heap_len > w->heap_cap) {
		w->heap_cap = 2 * w->heap_len;
		w->heap = mem_realloc(w->heap, w->heap_cap, sizeof *w->heap);
	}
	for (; i > 0 && w->heap[(i - 1) / 2] > item; i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = item;
}

/* Takes the smallest item: lowest rank, then leftmost. */
static uint64_t
heap_pop(struct bpe_worker *w)
{
	uint64_t top = w->heap[0], last = w->heap[--w->heap_len];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < w->heap_len) {
		if (child + 1 < w->heap_len && w->heap[child + 1] < w->heap[child])
			child++;
		if (last <= w->heap[child])
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

/*
 * Looks the pair (i, next) up again and queues it if it may merge; what stands in the heap for the
 * old pair is recognised by its rank when it comes up.
 */
static void
rank_pair(const struct bpe *b, struct bpe_worker *w, uint32_t i)
{
	struct symbol *s = &w->symbol[i];
	const struct pair *p;

	s->rank = NONE;
	if (s->next == NONE)
		return;
	p = lookup(b, s->id, w->symbol[s->next].id);
	s->rank = p->rank;
	s->joined = p->joined;
	if (s->rank != NONE)
		heap_push(w, (uint64_t)s->rank << 32 | i);
}

/*
 * Joins symbol i with the one after it, whose place is left unused and without rank, so that the
 * heap's entries for it die.
 */
static void
join(struct bpe_worker *w, uint32_t i)
{
	struct symbol *s = &w->symbol[i], *gone = &w->symbol[s->next];

	s->id = s->joined;
	s->next = gone->next;
	gone->rank = NONE;
	if (s->next != NONE)
		w->symbol[s->next].prev = i;
}

/* Makes room for a piece of len symbols. */
static void
grow(struct bpe_worker *w, size_t len)
{
	if (len <= w->cap)
		return;
	w->cap = len;
	w->symbol = mem_realloc(w->symbol, len, sizeof *w->symbol);
	w->ids = mem_realloc(w->ids, len, sizeof *w->ids);
}

/* Entries of pairs that have changed stay in the heap and are dropped when they come up. */
size_t
bpe_merge_heap(const struct bpe *b, struct bpe_worker *w, const unsigned char *piece, size_t len,
    uint32_t *out)
{
	size_t n = 0;

	if (len == 0)
		return 0;
	grow(w, len);
	w->heap_len = 0;
	for (uint32_t i = 0; i < len; i++)
		w->symbol[i] = (struct symbol){ b->byte_id[piece[i]], i ? i - 1 : NONE,
			i + 1 < len ? i + 1 : NONE, NONE, 0 };
	for (uint32_t i = 0; i + 1 < len; i++)
		rank_pair(b, w, i);
	while (w->heap_len) {
		uint64_t top = heap_pop(w);
		uint32_t i = (uint32_t)top;

		/* A pair that changed since it was queued has another rank now, or none. */
		if (w->symbol[i].rank != top >> 32)
			continue;
		join(w, i);
		rank_pair(b, w, i);
		if (w->symbol[i].prev != NONE)
			rank_pair(b, w, w->symbol[i].prev);
	}
	for (uint32_t i = 0; i != NONE; i = w->symbol[i].next)
		out[n++] = w->symbol[i].id;
	return n;
}

/* Widens ids and appends them. */
static void
append(struct token_ids *out, const uint32_t *ids, size_t n)
{
	token_ids_reserve(out, n);
	for (size_t i = 0; i < n; i++)
		out->id[out->count++] = ids[i];
}

/* A piece of at most CACHE_KEY bytes, through the cache; a newer piece takes the slot of an older
 * one. */
static void
encode_cached(const struct bpe *b, struct bpe_worker *w, const unsigned char *piece, size_t len,
    struct token_ids *out)
{
	unsigned char key[16] = { 0 };
	uint32_t ids[CACHE_KEY];
	uint64_t k[2];
	struct slot *s;
	size_t n;

	memcpy(key, piece, len);
	key[CACHE_KEY] = (unsigned char)len;
	memcpy(k, key, sizeof k);
	s = &w->cache[((k[0] * MIX_A) ^ ((k[1] ^ k[0] >> 32) * MIX_B)) >> (64 - CACHE_BITS)];
	if (s->key[0] == k[0] && s->key[1] == k[1]) {
		for (n = 0; n < CACHE_IDS && s->id[n] != NONE; n++)
			;
		append(out, s->id, n);
		return;
	}
	n = bpe_merge_linear(b, piece, len, ids);
	append(out, ids, n);
	if (n > CACHE_IDS)
		return;
	memcpy(s->key, k, sizeof k);
	for (size_t i = 0; i < CACHE_IDS; i++)
		s->id[i] = i < n ? ids[i] : NONE;
}

/* Chooses the method by the length alone, so results never depend on the worker. */
void
bpe_encode(const struct bpe *b, struct bpe_worker *w, const unsigned char *piece, size_t len,
    struct token_ids *out)
{
	uint32_t ids[BPE_LINEAR_MAX];

	if (len == 0)
		return;
	if (len == 1) {
		token_ids_add(out, b->byte_id[*piece]);
	} else if (len <= CACHE_KEY) {
		encode_cached(b, w, piece, len, out);
	} else if (len <= BPE_LINEAR_MAX) {
		append(out, ids, bpe_merge_linear(b, piece, len, ids));
	} else {
		grow(w, len);
		append(out, w->ids, bpe_merge_heap(b, w, piece, len, w->ids));
	}
}
