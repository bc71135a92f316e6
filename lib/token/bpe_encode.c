/*
 * bpe_encode.c - text to ids: pieces, the cache of pieces, merging
 *
 * The cache has one slot a hash value and no chains: a newer piece simply takes the place of an
 * older one, which bounds the memory and is exact, because the ids of a piece depend on its bytes
 * alone.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
	CACHE_BITS = 16,                /* 65,536 slots of 32 bytes: 2 MiB a worker */
	CACHE_KEY = 15,                 /* longest piece that is remembered */
	CACHE_IDS = 4,
	ENDS = 512,                     /* pieces found at a time */
};

/* A piece and its ids. key[1]'s top byte is the length, so an empty slot matches nothing. */
struct slot {
	uint64_t key[2];
	uint32_t id[CACHE_IDS];         /* BPE_NONE after the last */
};

struct bpe_worker {
	const struct bpe *bpe;
	struct slot *cache;
	struct bpe_scratch scratch;
};

/* All slots are empty: no piece has length 0. */
struct bpe_worker *
bpe_worker_new(const struct bpe *b)
{
	struct bpe_worker *w = mem_zalloc(1, sizeof *w);

	w->bpe = b;
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
	bpe_scratch_release(&w->scratch);
	free(w);
}

/* The method depends on the length alone. */
size_t
bpe_merge(struct bpe_worker *w, uint32_t *id, size_t n)
{
	return n <= BPE_LINEAR_MAX ? bpe_merge_linear(w->bpe, id, n) :
	    bpe_merge_heap(w->bpe, &w->scratch, id, n);
}

/* Without the cache. */
static void
merge_piece(struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out)
{
	int64_t whole = w->bpe->whole_piece ? bpe_find(w->bpe, piece, len) : -1;
	uint32_t *id;

	if (whole >= 0) {
		token_ids_add(out, (uint32_t)whole);
		return;
	}
	token_ids_reserve(out, len);
	id = out->id + out->count;
	for (size_t i = 0; i < len; i++)
		id[i] = w->bpe->byte_id[piece[i]];
	out->count += bpe_merge(w, id, len);
}

/* A piece of at most CACHE_KEY bytes; a newer piece takes the slot of an older one. */
static void
encode_cached(struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out)
{
	unsigned char key[16] = { 0 };
	size_t before = out->count, n;
	uint64_t k[2];
	struct slot *s;

	memcpy(key, piece, len);
	key[CACHE_KEY] = (unsigned char)len;
	memcpy(k, key, sizeof k);
	s = &w->cache[((k[0] * 0x9e3779b97f4a7c15u) ^ ((k[1] ^ k[0] >> 32) * 0x93cd3a2c8198e269u)) >>
	    (64 - CACHE_BITS)];
	if (s->key[0] == k[0] && s->key[1] == k[1]) {
		for (n = 0; n < CACHE_IDS && s->id[n] != BPE_NONE; n++)
			token_ids_add(out, s->id[n]);
		return;
	}
	merge_piece(w, piece, len, out);
	n = out->count - before;
	if (n > CACHE_IDS)
		return;
	memcpy(s->key, k, sizeof k);
	for (size_t i = 0; i < CACHE_IDS; i++)
		s->id[i] = i < n ? out->id[before + i] : BPE_NONE;
}

/* An empty piece has no ids. */
void
bpe_encode_piece(
    struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out)
{
	if (len > 0 && len <= CACHE_KEY)
		encode_cached(w, piece, len, out);
	else if (len > 0)
		merge_piece(w, piece, len, out);
}

/* A block of pieces at a time. */
void
bpe_encode_text(struct bpe_worker *w, const struct pretok *p, const unsigned char *s, size_t n,
    struct token_ids *out)
{
	struct pretok_text t = { s, n, 0 };
	uint32_t end[ENDS];
	size_t from = 0, count;

	while ((count = pretok_ends(p, &t, end, ENDS)) > 0)
		for (size_t i = 0; i < count; from = end[i++])
			bpe_encode_piece(w, s + from, end[i] - from, out);
}
