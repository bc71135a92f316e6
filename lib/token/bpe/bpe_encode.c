/*
 * bpe_encode.c - text to ids: pieces, the caches of pieces, merging
 *
 * Memory latency dominates, so memory is prefetched and other work is done meanwhile. A piece
 * becomes a probe (key, set), whose set is prefetched and read a block of pieces later. A key is
 * the piece's bytes and its length, so that 16 bytes compare at once; the ids are next to it. A
 * second cache has the longer pieces and those of many ids. A piece that is not in the first cache
 * is late: the text continues without its ids, which are found for many late pieces together, in
 * the second cache or by merging them in parallel, and then inserted. Newer pieces replace older
 * ones, which bounds the memory and is exact, because ids depend only on the bytes of a piece.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"
#include "lib/token/simd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	SETS_BITS = 18, /* of 64 bytes: 16 MiB per worker */
	KEY = 15,       /* longest piece of the first cache */
	IDS = 4,        /* simd_match returns bit 2 for the second key, whose ids begin there */
	LONG_BITS = 16, /* 8-byte slots: 512 KiB */
	RING = 7 << 19, /* bytes: 3.5 MiB */
	/* of both initially: allocating the full pages takes longer than encoding a short text */
	START_BITS = 12,
	LONG_MAX = 128,   /* longest piece of the second cache */
	LONG_UNIT = 2,    /* shifts UNIT above every length */
	RING_BITS = 48,   /* of a slot of it: where the entry is; above them a part of the hash */
	PAIR_BITS = 16,   /* 8-byte slots: 512 KiB */
	GLYPHS = 1 << 16, /* 16-byte slots: 1 MiB, of which a language touches a part */
	ENDS = 256,       /* pieces of a batch */
	BLOCK = 128,      /* pieces probed before those of the previous block are looked up */
	LATES = 64,
	COUNT_SHIFT = 29, /* the number of ids is above the first id's bits */
	UNIT = 0x40,      /* in a key's length: marks a unit, since the same bytes may be a token as
			   * a whole piece */
	HUGE_PAGE = 2 << 20,
};

/* Two pieces and their ids. The last byte of a key is the length, so an empty one matches
 * nothing. */
struct set {
	uint64_t key[4];      /* two of each */
	uint32_t id[2 * IDS]; /* IDS of each; their number in the top bits of the first */
};

/* An entry of the second cache: its ids, then its bytes. */
struct long_piece {
	uint32_t len, count; /* bytes, and above them that it is a unit; ids */
	uint32_t id[];
};

/* By length: the mask of the piece's bytes in a key, and its last bytes. Longer pieces have a key
 * that is in no slot. */
struct key_row {
	uint64_t mask[2], last, pad;
};

/* clang-format off */
#define LOW(n) ((n) >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * ((n) & 7)) - 1)
#define ROW(n) { { LOW(n), (n) < 8 ? 0 : LOW((n) - 8) }, (uint64_t)(n) << 56, 0 }
/* clang-format on */
static const struct key_row key_row[KEY + 2] = { ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5),
	ROW(6), ROW(7), ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15),
	{ { 0, 0 }, UINT64_MAX, 0 } };

/* A query of the first cache. */
struct probe {
	uint64_t key[2];
	size_t set; /* bytes from the first set */
};

/* A piece, or a unit of one, to be encoded. */
struct item {
	const unsigned char *bytes;
	uint32_t len, unit; /* unit: UNIT for a part of a piece, else 0 */
};

/* An item that is not in the first cache. */
struct late {
	struct probe probe;
	struct item item;
	size_t at;     /* ids of the text before it, without late ones */
	uint64_t name; /* its hash */
	uint64_t *slot;
	uint32_t id[LONG_MAX];
	size_t count; /* 0: not known yet */
};

/* A character of three bytes by itself, by code point. */
struct glyph {
	uint32_t id[3];
	uint8_t count;                  /* 0: not known yet */
	uint8_t joins_next, joins_last; /* true when tokens reach from it into its neighbours */
};

struct bpe_worker {
	const struct bpe *bpe;
	struct set *sets;
	uint64_t *longs;                /* slots */
	unsigned char *ring;            /* the entries, the newest in place of the oldest */
	uint64_t ring_end;              /* bytes written; a place is a multiple of 8 of them */
	unsigned set_shift, long_shift; /* shifts from a hash to the index of either */
	size_t remembered;              /* pieces, while the caches are small */
	uint64_t *pairs; /* pairs of characters, and whether a token crosses between them */
	struct glyph *glyphs;
	void *block; /* the allocation of all four */
	struct probe probe[ENDS];
	struct late *late;
	size_t num_late;
	struct token_ids *out;    /* for the ids of the text */
	uint32_t *first;          /* the first id of the text still in out */
	const unsigned char *end; /* of the text: no byte after it may be read */
	struct bpe_scratch scratch;
};

/* The uppermost bits are the index of a key's set. */
static inline uint64_t
set_hash(uint64_t low, uint64_t high)
{
	return low * BPE_MIX + high * BPE_MIX2;
}

/* Grows the caches to full size. Sets are moved from the last one on, each to places at or after
 * its own that are already vacated; the few long pieces are dropped. Waiting late pieces lose their
 * slots and are not cached. */
static void
grow(struct bpe_worker *w)
{
	w->set_shift = 64 - SETS_BITS;
	w->long_shift = 64 - LONG_BITS;
	memset(w->longs, 0, ((size_t)1 << START_BITS) * sizeof *w->longs);
	for (size_t i = (size_t)1 << START_BITS; i-- > 0;) {
		struct set old = w->sets[i], *to;

		memset(&w->sets[i], 0, sizeof old);
		for (size_t k = 0; k < 2 && old.key[2 * k + 1]; k++) {
			to = &w->sets[set_hash(old.key[2 * k], old.key[2 * k + 1]) >> w->set_shift];
			memcpy(to->key + (to->key[1] ? 2 : 0), old.key + 2 * k, sizeof to->key / 2);
			memcpy(
			    to->id + (to->key[3] ? IDS : 0), old.id + k * IDS, sizeof to->id / 2);
		}
	}
}

/* The tables are in one zeroed block, on huge pages if possible, because accesses are random. All
 * slots are empty: no piece has length 0. */
struct bpe_worker *
bpe_worker_new(const struct bpe *b)
{
	struct bpe_worker *w = mem_zalloc(1, sizeof *w);
	size_t sets = ((size_t)1 << SETS_BITS) * sizeof *w->sets;
	size_t longs = ((size_t)1 << LONG_BITS) * sizeof *w->longs + RING;
	size_t pairs = ((size_t)1 << PAIR_BITS) * sizeof *w->pairs;
	size_t glyphs = GLYPHS * sizeof *w->glyphs, size = sets + longs + pairs + glyphs;
	unsigned char *at;

	w->bpe = b;
	w->late = mem_zalloc(LATES, sizeof *w->late);
	w->block = mem_zalloc(size + HUGE_PAGE, 1);
	at = (unsigned char *)(((uintptr_t)w->block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
	madvise(at, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	w->sets = (struct set *)(void *)at;
	w->longs = (uint64_t *)(void *)(at + sets);
	w->ring = at + sets + longs - RING;
	w->pairs = (uint64_t *)(void *)(at + sets + longs);
	w->glyphs = (struct glyph *)(void *)(at + sets + longs + pairs);
	w->set_shift = w->long_shift = 64 - START_BITS;
	return w;
}

/* NULL is allowed. The encoder stays. */
void
bpe_worker_free(struct bpe_worker *w)
{
	if (!w)
		return;
	free(w->block);
	free(w->late);
	bpe_scratch_release(&w->scratch);
	free(w);
}

/* The method depends only on the length. */
size_t
bpe_merge(struct bpe_worker *w, uint32_t *id, size_t n)
{
	return n <= BPE_LINEAR_MAX ? bpe_merge_linear(w->bpe, id, n)
				   : bpe_merge_long(w->bpe, &w->scratch, id, n);
}

/* Their number is known after they are read. */
void
bpe_merge_symbols(struct bpe_worker *w, const struct window_list *list)
{
	bpe_merge_list(w->bpe, &w->scratch, list);
}

/* True when an item may be a token without merging. */
static inline bool
may_be_whole(const struct bpe *b, const struct item *m)
{
	return b->whole_piece && !m->unit && m->len <= b->names.longest;
}

/* The entry of a place; NULL when a newer one is there. */
static const struct long_piece *
long_at(const struct bpe_worker *w, uint64_t slot)
{
	uint64_t place = (slot & (((uint64_t)1 << RING_BITS) - 1)) * 8;

	if (slot == 0 || place + RING < w->ring_end)
		return NULL;
	return (const struct long_piece *)(const void *)(w->ring + place % RING);
}

/* Writes an entry, as a whole before the end of the ring. Place 0 stays unused. */
static void
remember_long(struct bpe_worker *w, const struct late *l)
{
	size_t ids = l->count * sizeof *l->id, len = l->item.len;
	size_t size = (sizeof(struct long_piece) + ids + len + 7) & ~(size_t)7;
	struct long_piece *p;

	if (w->ring_end == 0)
		w->ring_end = 8;
	if (w->ring_end % RING + size > RING)
		w->ring_end += RING - w->ring_end % RING;
	p = (struct long_piece *)(void *)(w->ring + w->ring_end % RING);
	p->len = l->item.len | l->item.unit << LONG_UNIT;
	p->count = (uint32_t)l->count;
	memcpy(p->id, l->id, ids);
	memcpy(p->id + l->count, l->item.bytes, len);
	*l->slot = l->name >> RING_BITS << RING_BITS | w->ring_end / 8;
	w->ring_end += size;
}

/* Copies the ids of the entry that has the item's bytes; false if there is none. */
static bool
recall_long(const struct bpe_worker *w, struct late *l)
{
	const struct long_piece *p = long_at(w, *l->slot);

	if (!p || (*l->slot ^ l->name) >> RING_BITS ||
	    p->len != (l->item.len | l->item.unit << LONG_UNIT) ||
	    memcmp(p->id + p->count, l->item.bytes, l->item.len) != 0)
		return false;
	l->count = p->count;
	memcpy(l->id, p->id, p->count * sizeof *p->id);
	return true;
}

/* Enters an item into its cache. In a set, into an empty way, else into the second: the first is
 * usually the more frequent. */
static void
remember(struct bpe_worker *w, const struct late *l)
{
	struct set *set = (struct set *)(void *)((unsigned char *)w->sets + l->probe.set);
	size_t way = set->key[1] != 0;
	uint32_t *id = set->id + way * IDS;

	w->remembered++;
	if (l->item.len <= KEY && l->count <= IDS) {
		memcpy(set->key + 2 * way, l->probe.key, sizeof l->probe.key);
		memset(id, 0, IDS * sizeof *id);
		memcpy(id, l->id, l->count * sizeof *id);
		id[0] |= (uint32_t)l->count << COUNT_SHIFT;
	} else {
		remember_long(w, l);
	}
}

/* Merges at most BPE_LISTS late items and caches them. */
static void
merge_late(struct bpe_worker *w, struct late *const *late, size_t count)
{
	struct bpe_list list[BPE_LISTS];

	for (size_t i = 0; i < count; i++)
		bpe_list_bytes(w->bpe, &list[i], late[i]->item.bytes, late[i]->item.len);
	bpe_merge_lists(w->bpe, list, count);
	for (size_t i = 0; i < count; i++) {
		late[i]->count = bpe_list_ids(&list[i], late[i]->id);
		remember(w, late[i]);
	}
}

/* Merges one that is too long for a list. */
static void
merge_alone(struct bpe_worker *w, struct late *l)
{
	for (uint32_t i = 0; i < l->item.len; i++)
		l->id[i] = w->bpe->byte_id[l->item.bytes[i]];
	l->count = bpe_merge_long(w->bpe, &w->scratch, l->id, l->item.len);
	remember(w, l);
}

/* Finds the ids of a late item without merging; false if it must be merged. */
static bool
know_late(struct bpe_worker *w, struct late *l)
{
	const struct bpe *b = w->bpe;
	uint32_t whole;

	if (recall_long(w, l))
		return true;
	whole = may_be_whole(b, &l->item) ? bpe_name(&b->names, l->item.bytes, l->item.len, l->name)
					  : BPE_NONE;
	if (whole == BPE_NONE)
		return false;
	l->id[0] = whole;
	l->count = 1;
	remember(w, l);
	return true;
}

/* Finds the ids of the late items and inserts them, from the last one on; to is the end of the
 * other ids, and the end of all is returned. */
static uint32_t *
settle(struct bpe_worker *w, uint32_t *to)
{
	struct late *open[BPE_LISTS];
	uint32_t *from = to, *end;
	size_t count = 0;

	for (size_t i = 0; i < w->num_late; i++) {
		const struct long_piece *p = long_at(w, *w->late[i].slot);

		if (p)
			__builtin_prefetch(p);
	}
	for (size_t i = 0; i < w->num_late; i++) {
		struct late *l = &w->late[i];

		if (know_late(w, l))
			continue;
		if (l->item.len > BPE_LINEAR_MAX)
			merge_alone(w, l);
		else
			open[count++] = l;
		if (count == BPE_LISTS) {
			merge_late(w, open, count);
			count = 0;
		}
	}
	merge_late(w, open, count);
	for (size_t i = 0; i < w->num_late; i++)
		to += w->late[i].count;
	end = to;
	for (size_t i = w->num_late; i-- > 0;) {
		const struct late *l = &w->late[i];
		size_t tail = (size_t)(from - w->first) - l->at;

		from -= tail;
		to -= tail;
		memmove(to, from, tail * sizeof *to);
		to -= l->count;
		memcpy(to, l->id, l->count * sizeof *to);
	}
	w->num_late = 0;
	return end;
}

/* Hands on the ids before a place, including the late ones, if they are many; returns the place of
 * the next ids, which has at least as much room as before. */
static uint32_t *
pass_ids(struct bpe_worker *w, uint32_t *to)
{
	struct token_ids *out = w->out;

	if (!out->pass || to - out->id < TOKEN_IDS_PART)
		return to;
	out->count = (size_t)(settle(w, to) - out->id);
	token_ids_pass(out, 0);
	w->first = out->id;
	return out->id;
}

/* The destination of a huge item's tokens. */
struct huge {
	struct bpe_worker *w;
	uint32_t *to;
};

/* Takes the tokens of a stretch: at most one per byte, for which there is room. */
static void
take_huge(void *ctx, const uint32_t *token, size_t n)
{
	struct huge *h = ctx;

	memcpy(h->to, token, n * sizeof *token);
	h->to = pass_ids(h->w, h->to + n);
}

/* An item of more than LONG_MAX bytes. */
static uint32_t *
merge_huge(struct bpe_worker *w, const struct item *m, uint32_t *to)
{
	struct huge h = { w, to };

	if (may_be_whole(w->bpe, m) &&
	    (*to = bpe_find_name(&w->bpe->names, m->bytes, m->len)) != BPE_NONE)
		return to + 1;
	bpe_merge_long_bytes(
	    w->bpe, &w->scratch, &(struct bpe_long){ m->bytes, m->len, take_huge, &h });
	return h.to;
}

/* An item that missed the first cache. Its slot in the second is prefetched. Returns the place
 * after the known ids. */
static uint32_t *
add_late(struct bpe_worker *w, const struct item *m, const struct probe *p, uint32_t *to)
{
	struct late *l;

	if (m->len > LONG_MAX)
		return merge_huge(w, m, to);
	if (w->num_late == LATES)
		to = settle(w, to);
	l = &w->late[w->num_late++];
	l->probe = *p;
	l->item = *m;
	l->at = (size_t)(to - w->first);
	l->name = bpe_bytes_hash(&w->bpe->names, m->bytes, m->len);
	l->slot = &w->longs[l->name * BPE_MIX2 >> w->long_shift];
	__builtin_prefetch(l->slot);
	if (may_be_whole(w->bpe, m))
		__builtin_prefetch(&w->bpe->names.slot[l->name & w->bpe->names.mask]);
	return to;
}

/* Makes a probe and prefetches its set; key holds the first 16 bytes of the piece. */
static inline void
probe_set(
    const struct bpe_worker *w, struct probe *p, const uint64_t key[2], size_t len, uint32_t unit)
{
	const struct key_row *row = &key_row[len < KEY + 1 ? len : KEY + 1];
	uint64_t low = key[0] & row->mask[0];
	uint64_t high = (key[1] & row->mask[1]) | row->last | (uint64_t)unit << 56;

	p->key[0] = low;
	p->key[1] = high;
	p->set = set_hash(low, high) >> w->set_shift << 6;
	__builtin_prefetch((const unsigned char *)w->sets + p->set);
}

/* Looks a probe up. to has room for IDS ids, all of which are copied. Both ways are compared, since
 * a branch would be unpredictable. NULL: it is late. */
static inline uint32_t *
look_up(const unsigned char *sets, const struct probe *p, uint32_t *to)
{
	const struct set *set = (const struct set *)(const void *)(sets + p->set);
	unsigned match = simd_match(set->key, p->key);
	const uint32_t *id = set->id + (match & IDS);
	uint32_t first = id[0];

	if (__builtin_expect(match == 0, 0))
		return NULL;
	memcpy(to, id, IDS * sizeof *id);
	to[0] = first & (((uint32_t)1 << COUNT_SHIFT) - 1);
	return to + (first >> COUNT_SHIFT);
}

/* Encodes one item. Sixteen bytes are read if the text has them. */
static uint32_t *
encode_item(struct bpe_worker *w, const struct item *m, uint32_t *to)
{
	uint64_t key[2] = { 0 };
	struct probe p;
	uint32_t *next;

	memcpy(key, m->bytes, w->end - m->bytes >= 16 ? 16 : m->len < 16 ? m->len : 16);
	probe_set(w, &p, key, m->len, m->unit);
	next = look_up((const unsigned char *)w->sets, &p, to);
	return next ? next : add_late(w, m, &p, to);
}

/* True when a token crosses between the two three-byte characters at s; answers are cached. */
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

/* The character of three bytes at s, or NULL when there is none before the end. A new one's ids,
 * and what it can join with, are learnt. */
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
	if (g->count == 0) {
		g->count = (uint8_t)bpe_merge_bytes(w->bpe, s, 3, g->id);
		g->joins_next = bpe_crossed(&w->bpe->cuts, s + 3, 3, 0);
		g->joins_last = bpe_crossed(&w->bpe->cuts, s, 0, 3);
	}
	return g;
}

/* Appends the ids of a unit; only is its character if it has just one. */
static inline uint32_t *
put_unit(struct bpe_worker *w, const unsigned char *s, const unsigned char *end,
    const struct glyph *only, uint32_t *to)
{
	/* Without whole-piece tokens, units are like pieces and share the cache. */
	struct item m = { s, (uint32_t)(end - s), w->bpe->whole_piece ? UNIT : 0 };

	if (only) {
		memcpy(to, only->id, sizeof only->id);
		return to + only->count;
	}
	return encode_item(w, &m, to);
}

/* A piece of three-byte characters, unit by unit. Other characters in it are never cut off. */
static uint32_t *
encode_units(struct bpe_worker *w, const unsigned char *s, const unsigned char *end, uint32_t *to)
{
	const struct glyph *here = glyph_at(w, s, end), *next;
	const unsigned char *unit = s;

	for (; s < end; here = next) {
		const unsigned char *last = s;

		s += here ? 3 : 1;
		next = glyph_at(w, s, end);
		if (!here ||
		    (s < end &&
			(!next || (here->joins_next && next->joins_last && crossed(w, last)))))
			continue;
		to = pass_ids(w, put_unit(w, unit, s, unit == last ? here : NULL, to));
		unit = s;
	}
	return unit < end ? put_unit(w, unit, end, NULL, to) : to;
}

/* Encodes one piece of any kind. One that has units is cut if it is not itself a token. */
static uint32_t *
encode_piece(struct bpe_worker *w, const unsigned char *s, size_t len, uint32_t *to)
{
	const struct bpe_names *units = &w->bpe->units;
	struct item m = { s, (uint32_t)len, 0 };

	if (bpe_has_units(s, len) &&
	    (len > units->longest || bpe_find_name(units, s, len) == BPE_NONE))
		return encode_units(w, s, s + len, to);
	return encode_item(w, &m, to);
}

/* An empty piece has no ids. */
void
bpe_encode_piece(
    struct bpe_worker *w, const unsigned char *piece, size_t len, struct token_ids *out)
{
	if (len == 0)
		return;
	token_ids_pass(out, 0);
	w->end = piece + len;
	w->out = out;
	token_ids_reserve(out, len + IDS);
	w->first = out->id + out->count;
	out->count = (size_t)(settle(w, encode_piece(w, piece, len, w->first)) - out->id);
}

/* Consecutive pieces of a text. */
struct batch {
	const unsigned char *text;
	const uint32_t *end; /* end[-1]: where the first begins */
	/* plain: the number of pieces with 16 bytes of text from their beginning on */
	size_t count, plain;
};

/* Makes probes of plain pieces up to the first one that may have units; returns its index, or
 * block_end. */
static size_t
probe_block(struct bpe_worker *w, const struct batch *b, size_t i, size_t block_end)
{
	uint32_t from = b->end[(ptrdiff_t)i - 1];

	for (; i < block_end; from = b->end[i++]) {
		const unsigned char *s = b->text + from;
		uint32_t len = b->end[i] - from;
		uint64_t key[2];

		memcpy(key, s, sizeof key);
		/* the length last: in ASCII text it is the only unpredictable condition */
		if ((key[0] & 0x8080) && bpe_has_units(s, len))
			break;
		probe_set(w, &w->probe[i], key, len, 0);
	}
	return i;
}

/* Looks up the probes of pieces i .. block_end - 1. */
static uint32_t *
look_up_block(struct bpe_worker *w, const struct batch *b, size_t i, size_t block_end, uint32_t *to)
{
	const unsigned char *sets = (const unsigned char *)w->sets;

	for (; i < block_end; i++) {
		uint32_t *next = look_up(sets, &w->probe[i], to);

		if (__builtin_expect(!next, 0)) {
			uint32_t from = b->end[(ptrdiff_t)i - 1];

			next = add_late(w, &(struct item){ b->text + from, b->end[i] - from, 0 },
			    &w->probe[i], to);
		}
		to = next;
	}
	return to;
}

/* Encodes blocks of plain pieces and the pieces between them. */
static uint32_t *
encode_batch(struct bpe_worker *w, const struct batch *b, uint32_t *to)
{
	size_t done = 0, i = 0;

	while (i < b->count) {
		size_t block_end = i + BLOCK < b->plain ? i + BLOCK : b->plain,
		       next = probe_block(w, b, i, block_end);

		if (next > i && next == block_end) {
			to = look_up_block(w, b, done, i, to);
			done = i;
			i = next;
			continue;
		}
		to = look_up_block(w, b, done, next, to);
		to = encode_piece(w, b->text + b->end[(ptrdiff_t)next - 1],
		    b->end[next] - b->end[(ptrdiff_t)next - 1], to);
		i = done = next + 1;
	}
	return look_up_block(w, b, done, i, to);
}

/* Encodes a batch of pieces at a time, with its late pieces together. An empty text may have no
 * room for ids. */
void
bpe_encode_text(struct bpe_worker *w, const struct pretok *p, const unsigned char *s, size_t n,
    struct token_ids *out)
{
	struct pretok_text t = { s, n, 0 };
	uint32_t end[1 + ENDS] = { 0 }, *to;
	struct batch b = { .text = s, .end = end + 1 };
	size_t before;

	if (n == 0)
		return;
	token_ids_reserve(out, 1);
	w->end = s + n;
	w->out = out;
	w->first = out->id + out->count;
	while ((b.count = pretok_ends(p, &t, end + 1, ENDS)) > 0) {
		for (b.plain = b.count; b.plain > 0 && n - end[b.plain - 1] < 16;)
			b.plain--;
		if (w->remembered >= (size_t)1 << START_BITS && w->set_shift == 64 - START_BITS)
			grow(w);
		/* no more ids than bytes, and room for those of late pieces */
		before = (size_t)(w->first - out->id);
		token_ids_reserve(out, end[b.count] - end[0] + LATES * LONG_MAX + IDS);
		w->first = out->id + before;
		to = pass_ids(w, encode_batch(w, &b, out->id + out->count));
		out->count = (size_t)(to - out->id);
		end[0] = end[b.count];
	}
	out->count = (size_t)(settle(w, out->id + out->count) - out->id);
}
