/*
 * bpe_encode.c - text to ids: pieces, the caches of pieces, merging
 *
 * Two phases, so that the memory of the caches is on its way while other work is done: a batch of
 * pieces becomes items (key, slot), whose slots are prefetched; then each item is looked up and, if
 * it is new, merged and remembered. A key is the piece's bytes and its length, so that 16 bytes
 * compare at once; the ids stand beside it. A second cache has the longer pieces and those of many
 * ids. Newer pieces take the place of older ones, which bounds the memory and is exact, because ids
 * depend on the bytes of a piece alone.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	SETS_BITS = 18,                 /* of two 32-byte slots: 16 MiB a worker */
	KEY = 15,                       /* longest piece of the first cache */
	IDS = 4,
	LONG_BITS = 16,                 /* 64-byte slots: 4 MiB */
	LONG_KEY = 31,
	LONG_IDS = 7,
	PAIR_BITS = 16,                 /* 8-byte slots: 512 KiB */
	GLYPHS = 1 << 16,               /* 16-byte slots: 1 MiB, of which a language touches a part */
	ENDS = 256,                     /* pieces of a batch */
	LAG = 24,                       /* pieces between a prefetch and its use */
	MANY = 7,                       /* in place of their number: look into the second cache */
	COUNT_SHIFT = 61,               /* the number of ids stands above the last one's bits */
	UNIT = 0x40,                    /* in a key's length: the same bytes as a whole piece may be an odd token */
	HUGE_PAGE = 2 << 20,
};

/* A piece and its ids. The last byte of the key is the length, so an empty slot matches nothing. */
struct slot {
	uint64_t key[2];
	uint64_t ids[2];                /* four of 32 bits; their number in the top bits of the last */
};

struct set {
	struct slot way[2];
};

struct long_slot {
	uint64_t key[4];
	uint32_t id[LONG_IDS], count;
};

/* By length: which bytes of a key are the piece's, and what its last ones are. Longer pieces have a key
 * that is in no slot. */
struct key_row {
	uint64_t mask[2], last, pad;
};

#define LOW(n) ((n) >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * ((n) & 7)) - 1)
#define ROW(n) { { LOW(n), (n) < 8 ? 0 : LOW((n) - 8) }, (uint64_t)(n) << 56, 0 }
static const struct key_row key_row[KEY + 2] = { ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6),
	ROW(7), ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15),
	{ { 0, 0 }, UINT64_MAX, 0 } };

/* A piece, or a unit of one, that is to be encoded. */
struct item {
	uint64_t key[2];
	const unsigned char *bytes;
	uint32_t len, set, unit;        /* unit: 0, or UNIT for what is not a whole piece */
};

/* A character of three bytes by itself, by code point. */
struct glyph {
	uint32_t id[3];
	uint8_t count;                  /* 0: not known yet */
	uint8_t joins_next, joins_last; /* whether tokens reach from it into its neighbours */
};

struct bpe_worker {
	const struct bpe *bpe;
	struct set *sets;
	struct long_slot *longs;
	uint64_t *pairs;                /* two characters and whether a token crosses between them */
	struct glyph *glyphs;
	void *block;                    /* what the four lie in */
	struct item *item;              /* whole pieces */
	size_t num_items;
	const unsigned char *end;       /* of the text: nothing behind it may be read */
	struct bpe_scratch scratch;
};

/* The tables in one zeroed block on huge pages, if the system has them: pages are touched at random. */
static void
tables_init(struct bpe_worker *w)
{
	size_t sets = ((size_t)1 << SETS_BITS) * sizeof *w->sets;
	size_t longs = ((size_t)1 << LONG_BITS) * sizeof *w->longs;
	size_t pairs = ((size_t)1 << PAIR_BITS) * sizeof *w->pairs;
	size_t glyphs = GLYPHS * sizeof *w->glyphs, size = sets + longs + pairs + glyphs;
	unsigned char *at;

	w->block = mem_zalloc(size + HUGE_PAGE, 1);
	at = (unsigned char *)(((uintptr_t)w->block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
	madvise(at, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	w->sets = (struct set *)(void *)at;
	w->longs = (struct long_slot *)(void *)(at + sets);
	w->pairs = (uint64_t *)(void *)(at + sets + longs);
	w->glyphs = (struct glyph *)(void *)(at + sets + longs + pairs);
}

/* All slots are empty: no piece has length 0. */
struct bpe_worker *
bpe_worker_new(const struct bpe *b)
{
	struct bpe_worker *w = mem_zalloc(1, sizeof *w);

	w->bpe = b;
	w->item = mem_zalloc(ENDS, sizeof *w->item);
	tables_init(w);
	return w;
}

/* NULL is fine. The encoder that it was used with is not touched. */
void
bpe_worker_free(struct bpe_worker *w)
{
	if (!w)
		return;
	free(w->block);
	free(w->item);
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

/* Without a cache. out has room for as many ids as bytes. */
static size_t
merge_item(struct bpe_worker *w, const struct item *m, uint32_t *out)
{
	const struct bpe *b = w->bpe;

	if (!m->unit && m->len <= b->odd_max) {
		uint32_t id = bpe_name(&b->odd, m->bytes, m->len);

		if (id != BPE_NONE) {
			*out = id;
			return 1;
		}
	}
	if (m->len <= BPE_LINEAR_MAX)
		return bpe_merge_bytes(b, m->bytes, m->len, out);
	for (uint32_t i = 0; i < m->len; i++)
		out[i] = b->byte_id[m->bytes[i]];
	return bpe_merge_heap(b, &w->scratch, out, m->len);
}

/* The key of the second cache, and its slot. */
static struct long_slot *
long_slot(const struct bpe_worker *w, const struct item *m, uint64_t key[4])
{
	unsigned char padded[LONG_KEY + 1] = { 0 };
	uint64_t h;

	memcpy(padded, m->bytes, m->len);
	padded[LONG_KEY] = (unsigned char)(m->len | m->unit);
	memcpy(key, padded, sizeof padded);
	h = (key[0] ^ key[2] << 1) * BPE_MIX + (key[1] ^ key[3] << 1) * BPE_MIX2;
	return &w->longs[(h ^ h >> 32) * BPE_MIX >> (64 - LONG_BITS)];
}

/* Merges, and remembers in the second cache if it fits there and more than `spare` ids came out. */
static size_t
merge_long(struct bpe_worker *w, const struct item *m, size_t spare, uint32_t *out)
{
	size_t n = merge_item(w, m, out);
	struct long_slot *s;
	uint64_t key[4];

	if (n <= spare || n > LONG_IDS)
		return n;
	s = long_slot(w, m, key);
	memcpy(s->key, key, sizeof key);
	memcpy(s->id, out, n * sizeof *out);
	s->count = (uint32_t)n;
	return n;
}

/* A piece that belongs in the second cache: longer than the first's keys, or of more ids. */
static size_t
encode_long(struct bpe_worker *w, const struct item *m, uint32_t *out)
{
	struct long_slot *s;
	uint64_t key[4];

	if (m->len > LONG_KEY)
		return merge_item(w, m, out);
	s = long_slot(w, m, key);
	if (memcmp(s->key, key, sizeof key))
		return merge_long(w, m, 0, out);
	memcpy(out, s->id, s->count * sizeof *out);
	return s->count;
}

/* Into the set: an empty way, else the second. What came first is mostly what comes often. */
static void
remember(struct set *set, const uint64_t key[2], const uint32_t *id, size_t n)
{
	struct slot *s = &set->way[set->way[0].key[1] != 0];

	memcpy(s->key, key, sizeof s->key);
	memset(s->ids, 0, sizeof s->ids);
	if (n <= IDS)
		memcpy(s->ids, id, n * sizeof *id);
	s->ids[1] |= (uint64_t)(n <= IDS ? n : MANY) << COUNT_SHIFT;
}

/* A piece that is not in its set. */
static size_t
encode_new(struct bpe_worker *w, const struct item *m, uint32_t *out)
{
	size_t n;

	if (m->len > KEY)
		return encode_long(w, m, out);
	n = merge_long(w, m, IDS, out);
	remember(&w->sets[m->set], m->key, out, n);
	return n;
}

/* Looks one item up; to has room for the bytes of the item and IDS more: all of a slot's ids are
 * copied, whatever their number. Both ways are compared, since which it is cannot be foreseen. */
static inline size_t
encode_item(struct bpe_worker *w, const struct item *m, uint32_t *to)
{
	const struct slot *s = w->sets[m->set].way;
	uint64_t first = (s[0].key[0] ^ m->key[0]) | (s[0].key[1] ^ m->key[1]);
	uint64_t second = (s[1].key[0] ^ m->key[0]) | (s[1].key[1] ^ m->key[1]);
	uint64_t last;

	if (__builtin_expect((first != 0) & (second != 0), 0))
		return encode_new(w, m, to);
	s += first != 0;
	last = s->ids[1] & (((uint64_t)1 << COUNT_SHIFT) - 1);
	if (__builtin_expect(s->ids[1] >> COUNT_SHIFT == MANY, 0))
		return encode_long(w, m, to);
	memcpy(to, &s->ids[0], sizeof last);
	memcpy(to + 2, &last, sizeof last);
	return s->ids[1] >> COUNT_SHIFT;
}

/* Encodes the batch. */
static void
encode_items(struct bpe_worker *w, struct token_ids *out)
{
	const struct item *last;
	uint32_t *to;

	if (w->num_items == 0)
		return;
	last = &w->item[w->num_items - 1];
	/* no more ids than bytes; items stand one behind the other in the text */
	token_ids_reserve(out, (size_t)(last->bytes + last->len - w->item->bytes) + IDS);
	to = out->id + out->count;
	for (size_t i = 0; i < w->num_items; i++)
		to += encode_item(w, &w->item[i], to);
	out->count = (size_t)(to - out->id);
	w->num_items = 0;
}

/* Bytes, key, slot and prefetch of an item of which key holds the first 16 bytes. */
static inline void
item_set(const struct bpe_worker *w, struct item *m, const unsigned char *s, size_t len, const uint64_t key[2])
{
	const struct key_row *row = &key_row[len < KEY + 1 ? len : KEY + 1];
	uint64_t low = key[0] & row->mask[0];
	uint64_t high = (key[1] & row->mask[1]) | row->last | (uint64_t)m->unit << 56;

	m->bytes = s;
	m->len = (uint32_t)len;
	m->key[0] = low;
	m->key[1] = high;
	m->set = (uint32_t)((low * BPE_MIX + high * BPE_MIX2) >> (64 - SETS_BITS));
	__builtin_prefetch(&w->sets[m->set]);
}

/* A piece or a unit, which m->unit says. Sixteen bytes are read where the text has them. */
static inline void
item_init(const struct bpe_worker *w, struct item *m, const unsigned char *s, size_t len)
{
	uint64_t key[2] = { 0 };

	memcpy(key, s, w->end - s >= 16 ? 16 : len < 16 ? len : 16);
	item_set(w, m, s, len, key);
}

/* Whether a token crosses between the two three-byte characters at s; answers are remembered. */
static bool
crossed(struct bpe_worker *w, const unsigned char *s)
{
	uint64_t v = 0, *slot;

	memcpy(&v, s, 6);
	slot = &w->pairs[v * BPE_MIX >> (64 - PAIR_BITS)];
	if (*slot >> 1 != v)
		*slot = v << 1 | bpe_crossed(&w->bpe->cuts, s + 3, 3, 3);
	return *slot & 1;
}

/* Learns a character's ids and what it can join with. */
static void
glyph_init(struct bpe_worker *w, struct glyph *g, const unsigned char *s)
{
	g->count = (uint8_t)bpe_merge_bytes(w->bpe, s, 3, g->id);
	g->joins_next = bpe_crossed(&w->bpe->cuts, s + 3, 3, 0);
	g->joins_last = bpe_crossed(&w->bpe->cuts, s, 0, 3);
}

/* The character of three bytes at s, or NULL when there is none before the end. */
static inline const struct glyph *
glyph_at(struct bpe_worker *w, const unsigned char *s, const unsigned char *end)
{
	struct glyph *g;
	uint32_t v;

	if (end - s < 3)
		return NULL;
	v = (uint32_t)s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16;
	if ((v & 0xc0c0f0) != 0x8080e0)
		return NULL;
	g = &w->glyphs[(v & 0xf) << 12 | (v >> 2 & 0xfc0) | (v >> 16 & 0x3f)];
	if (g->count == 0)
		glyph_init(w, g, s);
	return g;
}

/* The ids of a unit; the only character of it if it has but one. */
static inline uint32_t *
put_unit(struct bpe_worker *w, const unsigned char *s, const unsigned char *end,
    const struct glyph *only, uint32_t *to)
{
	/* Without odd tokens units are like pieces and share the cache with them. */
	struct item m = { .unit = w->bpe->odd_max ? UNIT : 0 };

	if (only) {
		memcpy(to, only->id, sizeof only->id);
		return to + only->count;
	}
	item_init(w, &m, s, (size_t)(end - s));
	return to + encode_item(w, &m, to);
}

/* A piece of three-byte characters, unit by unit. Anything else in it is never cut off. */
static void
encode_units(struct bpe_worker *w, const unsigned char *s, const unsigned char *end,
    struct token_ids *out)
{
	const struct glyph *here = glyph_at(w, s, end), *next;
	const unsigned char *unit = s;
	uint32_t *to;

	token_ids_reserve(out, (size_t)(end - s) + IDS);
	to = out->id + out->count;
	for (; s < end; here = next) {
		const unsigned char *last = s;

		s += here ? 3 : 1;
		next = glyph_at(w, s, end);
		if (!here || (s < end && (!next || (here->joins_next && next->joins_last &&
		    crossed(w, last)))))
			continue;
		to = put_unit(w, unit, s, unit == last ? here : NULL, to);
		unit = s;
	}
	if (unit < end)
		to = put_unit(w, unit, end, NULL, to);
	out->count = (size_t)(to - out->id);
}

/* Whether a piece is to be cut: it has a character of three bytes at its beginning, or behind a space,
 * and is no token as a whole that merging would miss. */
static inline bool
has_units(const struct bpe *b, const unsigned char *s, size_t len)
{
	return len >= 6 && (s[0] >= 0xe0 || s[1] >= 0xe0) &&
	    (len > b->odd_max || bpe_name(&b->odd, s, len) == BPE_NONE);
}

/* Puts a piece into the batch, or encodes it at once if it is of units. */
static inline void
add_piece(struct bpe_worker *w, const unsigned char *s, size_t len, struct token_ids *out)
{
	if (has_units(w->bpe, s, len)) {
		encode_items(w, out);
		encode_units(w, s, s + len, out);
		return;
	}
	item_init(w, &w->item[w->num_items++], s, len);
}

/* An empty piece has no ids. */
void
bpe_encode_piece(
    struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out)
{
	if (len == 0)
		return;
	w->end = piece + len;
	add_piece(w, piece, len, out);
	encode_items(w, out);
}

/* An item of a piece behind which there are 16 bytes of text; false if it is to be cut. */
static inline bool
plain_item(const struct bpe_worker *w, struct item *m, const unsigned char *s, size_t len)
{
	uint64_t key[2];

	memcpy(key, s, sizeof key);
	/* the length last: in a text of ASCII it is all that cannot be foreseen */
	if ((key[0] & 0x8080) && len >= 6 && (s[0] >= 0xe0 || s[1] >= 0xe0))
		return false;
	item_set(w, m, s, len, key);
	return true;
}

/* Encodes pieces of which all have 16 bytes of text from their beginning on, up to the first that is to
 * be cut; returns how many. A piece is looked up LAG pieces after its slot was asked for. */
static inline size_t
encode_plain(struct bpe_worker *w, const unsigned char *s, size_t from, const uint32_t *end, size_t count,
    struct token_ids *out)
{
	struct item *m = w->item;
	size_t i, k;
	uint32_t *to;

	token_ids_reserve(out, end[count - 1] - from + IDS);
	to = out->id + out->count;
	for (i = 0; i < count; from = end[i++]) {
		if (!plain_item(w, &m[i], s + from, end[i] - from))
			break;
		if (i >= LAG)
			to += encode_item(w, &m[i - LAG], to);
	}
	for (k = i > LAG ? i - LAG : 0; k < i; k++)
		to += encode_item(w, &m[k], to);
	out->count = (size_t)(to - out->id);
	return i;
}

/* A batch of pieces at a time. */
void
bpe_encode_text(struct bpe_worker *w, const struct pretok *p, const unsigned char *s, size_t n,
    struct token_ids *out)
{
	struct pretok_text t = { s, n, 0 };
	uint32_t end[ENDS];
	size_t from = 0, count;

	w->end = s + n;
	while ((count = pretok_ends(p, &t, end, ENDS)) > 0) {
		size_t i = 0;

		if (n - end[count - 1] >= 16)
			i = encode_plain(w, s, from, end, count, out);
		if (i > 0)
			from = end[i - 1];
		for (; i < count; from = end[i++])
			add_piece(w, s + from, end[i] - from, out);
		encode_items(w, out);
	}
}
