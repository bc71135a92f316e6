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

/* Appends the replacement, if there is one and it is text. */
static bool
replace(const struct charsmap *m, const char *s, size_t n, struct str *out)
{
	const char *to = find(m, (const unsigned char *)s, n);
	size_t len = to ? strlen(to) : 0;

	if (!to || utf8_check((const unsigned char *)to, len) != len)
		return false;
	str_add(out, to, len);
	return true;
}

/* Handles a grapheme, [s, s + n); stops inside one that exceeds the limit. */
static void
apply_grapheme(const struct charsmap *m, const char *s, size_t n, size_t limit, struct str *out)
{
	if (n < GRAPHEME_MAX && replace(m, s, n, out))
		return;
	for (size_t i = 0; i < n && out->len <= limit;) {
		uint32_t cp;
		int len = utf8_decode((const unsigned char *)s + i, n - i, &cp);
		size_t step = len ? (size_t)len : 1;

		if (!replace(m, s + i, step, out))
			str_add(out, s + i, step);
		i += step;
	}
}

/* Graphemes follow utf8proc's rules, those of UAX 29. */
void
charsmap_apply(const struct charsmap *m, const char *s, size_t n, size_t limit, struct str *out)
{
	utf8proc_int32_t state = 0;
	uint32_t cp, previous = 0;
	size_t start = 0;

	for (size_t i = 0; i < n && out->len <= limit; previous = cp) {
		int len = utf8_decode((const unsigned char *)s + i, n - i, &cp);

		if (len == 0)
			cp = 0xfffd;
		if (i > start &&
		    utf8proc_grapheme_break_stateful((int32_t)previous, (int32_t)cp, &state)) {
			apply_grapheme(m, s + start, i - start, limit, out);
			start = i;
		}
		i += len ? (size_t)len : 1;
	}
	apply_grapheme(m, s + start, n - start, limit, out);
}

/* Two versions, because the tables have their own. */
void
charsmap_version(struct str *out)
{
	str_addf(out, "utf8proc %s (Unicode %s)", utf8proc_version(), utf8proc_unicode_version());
}
