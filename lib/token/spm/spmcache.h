/*
 * spmcache.h - the ids of recent units, one cache per worker
 *
 * A unit of up to 15 bytes is its own key, with its length. Two entries share a line of 64 bytes;
 * the newer one is first and the older is overwritten next, so the memory never grows. A unit of
 * more ids than fit an entry takes the whole line: the second entry continues it, with a key that
 * no unit has. The ids are valid for running scores below the bound; for merges there is no bound.
 */
#ifndef TOKEN_SPM_SPMCACHE_H
#define TOKEN_SPM_SPMCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { UNIT_MAX = 15, CACHE_BITS = 18, CACHE_LINES = 1 << CACHE_BITS };

/* Ids per entry and per line; CACHED_PAD more are written after them. */
enum { NARROW_MAX = 6, WIDE_MAX = 3, CACHED_MAX = 2 * NARROW_MAX, CACHED_PAD = 2 };

/* Bits of a bound, above the count. */
enum { UNIT_BEGINS_UNK = 6, UNIT_ENDS_UNK = 7 };

struct unit_key {
	uint64_t low, high; /* bytes, then 0; the length in the last byte */
};

struct unit_entry {
	struct unit_key key; /* length 0: empty */
	union {
		uint16_t narrow[NARROW_MAX]; /* for vocabularies below 2^16 */
		uint32_t wide[WIDE_MAX];
	} id;
	uint32_t bound; /* a float, except for its low byte: the count of ids and two bits */
};

/* The narrow ids of an entry with its bound, and the same as ids. */
typedef uint16_t unit_narrow_ids __attribute__((vector_size(16)));
typedef uint32_t unit_wide_ids __attribute__((vector_size(32)));

struct unit_cache {
	struct unit_entry (*line)[2];
};

/* By length: the mask of the unit's bytes, and the last byte of its key. */
/* clang-format off */
#define UNIT_LOW(n) ((n) >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * ((n) & 7)) - 1)
#define UNIT_ROW(n) { UNIT_LOW(n), (n) < 8 ? 0 : UNIT_LOW((n) - 8), (uint64_t)(n) << 56, 0 }
/* clang-format on */
static const struct unit_row {
	uint64_t low, high, len, pad;
} unit_row[UNIT_MAX + 1] = { UNIT_ROW(0), UNIT_ROW(1), UNIT_ROW(2), UNIT_ROW(3), UNIT_ROW(4),
	UNIT_ROW(5), UNIT_ROW(6), UNIT_ROW(7), UNIT_ROW(8), UNIT_ROW(9), UNIT_ROW(10), UNIT_ROW(11),
	UNIT_ROW(12), UNIT_ROW(13), UNIT_ROW(14), UNIT_ROW(15) };

/* The key of len <= UNIT_MAX bytes; 16 are read. */
static inline struct unit_key
unit_key(const unsigned char *p, size_t len)
{
	const struct unit_row *row = &unit_row[len];
	struct unit_key k;

	memcpy(&k, p, sizeof k);
	k.low &= row->low;
	k.high = (k.high & row->high) | row->len;
	return k;
}

/* The line of a key. */
static inline struct unit_entry *
unit_line(const struct unit_cache *c, struct unit_key k)
{
	uint64_t h = k.low ^ (k.high * 0xd6e8feb86659fd93u);

	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
	return c->line[h >> (64 - CACHE_BITS)];
}

/* True when this is the entry of the key. */
static inline bool
unit_is(const struct unit_entry *e, struct unit_key k)
{
	return ((e->key.low ^ k.low) | (e->key.high ^ k.high)) == 0;
}

/* The number of ids of an entry's unit. */
static inline size_t
unit_count(const struct unit_entry *e)
{
	return e->bound & ((1 << UNIT_BEGINS_UNK) - 1);
}

/* The bound of an entry, never more than the one entered. */
static inline float
unit_bound(const struct unit_entry *e)
{
	uint32_t bits = e->bound & ~(uint32_t)0xff;
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

#endif
