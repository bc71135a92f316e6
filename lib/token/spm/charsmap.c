/*
 * charsmap.c - the compiled normalisation of a SentencePiece model
 *
 * Source: the blob of google/sentencepiece normalizer.cc (size of the trie in bytes, its units,
 * replacements ended by NULs), the units of darts-clone, and spm_precompiled for how the reference
 * applies it. Every index is checked, because a file may hold any bytes.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/charsmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { GRAPHEME_MAX = 6 }; /* bytes; longer ones are handled by character */

struct charsmap {
	uint32_t *unit;
	size_t units;
	char *text; /* replacements; a NUL is added at the end */
	size_t text_len;
};

/* Little-endian as on all machines that this builds for; the copy is only for alignment. */
struct charsmap *
charsmap_new(const unsigned char *bytes, size_t len, struct err *e)
{
	struct charsmap *m;
	uint32_t trie;

	if (len < 4 || (memcpy(&trie, bytes, 4), trie % 4 || trie > len - 4 || trie == 0)) {
		err_set(e, "precompiled_charsmap: the size of its trie does not fit its length");
		return NULL;
	}
	m = mem_zalloc(1, sizeof *m);
	m->units = trie / 4;
	m->unit = mem_alloc(m->units, 4);
	memcpy(m->unit, bytes + 4, trie);
	m->text_len = len - 4 - trie;
	m->text = mem_strndup((const char *)bytes + 4 + trie, m->text_len);
	return m;
}

/* No thread may be using it. */
void
charsmap_free(struct charsmap *m)
{
	if (!m)
		return;
	free(m->unit);
	free(m->text);
	free(m);
}

/* The offset of a unit to its children. */
static uint32_t
offset(uint32_t unit)
{
	return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* The units by the base of their parent, and the state of the bases. */
struct bases {
	/* by base, by unit: the next unit to visit; 0: none */
	uint32_t *child, *sibling;
	size_t *height; /* by base: bytes of the longest key from there on */
	uint32_t *path; /* bases that are open */
	bool *open, *done;
};

/* A key continues from there by at least that many bytes. */
static void
raise_to(struct bases *b, uint32_t base, size_t height)
{
	if (b->height[base] < height)
		b->height[base] = height;
}

/* A path from the root's base goes forward while it can, and otherwise back. False: it has a
 * cycle. */
static bool
walk_bases(struct bases *b, const uint32_t *unit, size_t bases, uint32_t root)
{
	size_t depth = 1;

	b->path[0] = root;
	b->open[root] = true;
	while (depth > 0) {
		uint32_t base = b->path[depth - 1], j = b->child[base], next = j ^ offset(unit[j]);

		if (j == 0) {
			b->open[base] = false;
			b->done[base] = true;
			if (--depth > 0)
				raise_to(b, b->path[depth - 1], b->height[base] + 1);
			continue;
		}
		b->child[base] = b->sibling[j];
		if (next >= bases) {
			raise_to(b, base, 1);
		} else if (b->open[next]) {
			return false;
		} else if (b->done[next]) {
			raise_to(b, base, b->height[next] + 1);
		} else {
			b->path[depth++] = next;
			b->open[next] = true;
		}
	}
	return true;
}

/*
 * The child by byte c of the unit at i is at i ^ offset ^ c and has c as its label: so its number
 * without its label is i ^ offset, the base of i. Each unit is one edge between two bases, and the
 * walk is linear in the array.
 */
size_t
charsmap_depth(const uint32_t *unit, size_t units)
{
	size_t bases = (units + 255) / 256 * 256, height = 0;
	struct bases b = { .child = mem_zalloc(bases, sizeof *b.child),
		.sibling = mem_zalloc(units, sizeof *b.sibling),
		.height = mem_zalloc(bases, sizeof *b.height),
		.path = mem_alloc(bases, sizeof *b.path),
		.open = mem_zalloc(bases, sizeof *b.open),
		.done = mem_zalloc(bases, sizeof *b.done) };
	uint32_t root = offset(unit[0]);

	for (uint32_t j = 1; j < units; j++) {
		uint32_t label = unit[j] & (1u << 31 | 0xff);

		if (label == 0 || label > 0xff)
			continue;
		b.sibling[j] = b.child[j ^ label];
		b.child[j ^ label] = j;
	}
	if (root < bases)
		height = walk_bases(&b, unit, bases, root) ? b.height[root] : SIZE_MAX;
	free(b.child);
	free(b.sibling);
	free(b.height);
	free(b.path);
	free(b.open);
	free(b.done);
	return height;
}

/*
 * The replacement of the shortest key that s begins with, or NULL. A unit's low byte with the top
 * bit is its label, bit 8 means that a value follows, a unit of 31 bits.
 */
static const char *
find(const struct charsmap *m, const unsigned char *s, size_t n)
{
	size_t at = offset(m->unit[0]);

	for (size_t i = 0; i < n && s[i]; i++) {
		uint32_t unit, value;

		at ^= s[i];
		if (at >= m->units)
			return NULL;
		unit = m->unit[at];
		if ((unit & (1u << 31 | 0xff)) != s[i])
			return NULL;
		at ^= offset(unit);
		if (!(unit >> 8 & 1))
			continue;
		if (at >= m->units)
			return NULL;
		value = m->unit[at] & 0x7fffffff;
		return value < m->text_len ? m->text + value : NULL;
	}
	return NULL;
}

/* The replacement of these bytes, if there is one and it is text; or NULL. */
static const char *
replacement(const struct charsmap *m, const char *s, size_t n, size_t *len)
{
	const char *to = find(m, (const unsigned char *)s, n);

	*len = to ? strlen(to) : 0;
	return to && utf8_check((const unsigned char *)to, *len) == *len ? to : NULL;
}

/* A part of the text and what it becomes, in order; returns false to stop. */
struct part {
	const char *from, *to; /* the same when it stays */
	size_t from_len, to_len;
};
typedef bool part_fn(void *ctx, const struct part *p);

/* Handles a grapheme, [s, s + n). */
static inline bool
walk_grapheme(const struct charsmap *m, const char *s, size_t n, part_fn *fn, void *ctx)
{
	struct part p = { s, NULL, n, 0 };

	if (n < GRAPHEME_MAX && (p.to = replacement(m, s, n, &p.to_len)))
		return fn(ctx, &p);
	for (size_t i = 0; i < n; i += p.from_len) {
		uint32_t cp;
		int len = utf8_decode((const unsigned char *)s + i, n - i, &cp);

		p.from = s + i;
		p.from_len = len ? (size_t)len : 1;
		p.to = replacement(m, p.from, p.from_len, &p.to_len);
		if (!p.to) {
			p.to = p.from;
			p.to_len = p.from_len;
		}
		if (!fn(ctx, &p))
			return false;
	}
	return true;
}

/* Graphemes follow utf8proc's rules, those of UAX 29. */
static inline void
walk(const struct charsmap *m, const char *s, size_t n, part_fn *fn, void *ctx)
{
	utf8proc_int32_t state = 0;
	uint32_t cp, previous = 0;
	size_t start = 0;

	for (size_t i = 0; i < n; previous = cp) {
		int len = utf8_decode((const unsigned char *)s + i, n - i, &cp);

		if (len == 0)
			cp = 0xfffd;
		if (i > start &&
		    utf8proc_grapheme_break_stateful((int32_t)previous, (int32_t)cp, &state)) {
			if (!walk_grapheme(m, s + start, i - start, fn, ctx))
				return;
			start = i;
		}
		i += len ? (size_t)len : 1;
	}
	walk_grapheme(m, s + start, n - start, fn, ctx);
}

struct applying {
	struct str *out;
	size_t limit;
};

static bool
apply_part(void *ctx, const struct part *p)
{
	struct applying *x = ctx;

	if (x->out->len > x->limit)
		return false;
	str_add(x->out, p->to, p->to_len);
	return true;
}

/* The limit is looked at before each part, so it may be exceeded by one. */
void
charsmap_apply(const struct charsmap *m, const char *s, size_t n, size_t limit, struct str *out)
{
	walk(m, s, n, apply_part, &(struct applying){ out, limit });
}

/*
 * The reference replaces character by character: each new one reads one of the old ones, those that
 * there are too many of read none and come from the last one read, and the last new character also
 * reads the old ones that are left. If a part disappears, that is the one before it, and none at
 * the beginning of the text. Source: normalizers/precompiled.rs and
 * NormalizedString::transform_range.
 */
struct firsts {
	const char *s;
	size_t n, first, read; /* of the text */
	size_t out;            /* bytes from the first ones */
	/* the last new character, which may still read more */
	size_t bytes;
	int64_t takes;
	bool done;
};

/* Ends the last new character. */
static void
end_character(struct firsts *x)
{
	uint32_t cp;

	if (x->bytes == 0)
		return;
	x->done |= x->read >= x->first + (x->takes == 0);
	x->out += x->done ? 0 : x->bytes;
	for (; x->takes > 0 && x->read < x->n; x->takes--) {
		int len = utf8_decode((const unsigned char *)x->s + x->read, x->n - x->read, &cp);

		x->read += len ? (size_t)len : 1;
	}
	x->bytes = 0;
}

static size_t
characters(const char *s, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	return count;
}

static bool
follow_part(void *ctx, const struct part *p)
{
	struct firsts *x = ctx;
	size_t old = characters(p->from, p->from_len), new = characters(p->to, p->to_len), k = 0;

	for (size_t i = 0, len; i < p->to_len && !x->done; i += len, k++) {
		uint32_t cp;

		end_character(x);
		len = (size_t)utf8_decode((const unsigned char *)p->to + i, p->to_len - i, &cp);
		len = len ? len : 1;
		x->bytes = len;
		x->takes = k < old;
	}
	if (x->bytes && new < old)
		x->takes += (int64_t)(old - new);
	return !x->done;
}

size_t
charsmap_first(const struct charsmap *m, const char *s, size_t n, size_t first)
{
	struct firsts x = { .s = s, .n = n, .first = first };

	walk(m, s, n, follow_part, &x);
	end_character(&x);
	return x.out;
}

/* Two versions, because the tables have their own. */
void
charsmap_version(struct str *out)
{
	str_addf(out, "utf8proc %s (Unicode %s)", utf8proc_version(), utf8proc_unicode_version());
}
