/*
 * form.c - the normal forms of Unicode
 *
 * A character is inert when it is the same in the form, has combining class 0 and never joins with
 * what stands before it: the form of a text is then the forms of the parts between inert characters,
 * put together. Parts that need work run from the inert character before to the next one, and are
 * decomposed, ordered and composed by themselves; everything else is copied. Ordering is n log n,
 * because a text may be nothing but marks.
 */
#include "lib/token/form.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
	CODE_POINTS = 0x30000,          /* all above are inert in every form */
	DECOMPOSED_MAX = 32,            /* the longest is 18: U+FDFA */
};

struct form {
	utf8proc_option_t options;
	uint32_t plain;                 /* every character below is inert */
	unsigned char active[CODE_POINTS / 8];
};

/* The full decomposition of one character; returns its length. */
static int
decompose(const struct form *f, int32_t cp, int32_t *out, int cap)
{
	int last = UTF8PROC_BOUNDCLASS_START;
	utf8proc_ssize_t n = utf8proc_decompose_char(cp, out, cap,
	    (utf8proc_option_t)(UTF8PROC_DECOMPOSE | (f->options & UTF8PROC_COMPAT)), &last);

	if (n < 1 || n > cap) {
		out[0] = cp;
		return 1;
	}
	return (int)n;
}

/* What is above the table is inert. */
static void
set_active(struct form *f, int32_t cp)
{
	if (cp < CODE_POINTS)
		f->active[cp / 8] |= (unsigned char)(1 << cp % 8);
}

/* Marks a character, and for composed forms those that its decomposition ends in: they may join with
 * something before them. */
static void
classify(struct form *f, int32_t cp)
{
	const utf8proc_property_t *property = utf8proc_get_property(cp);
	int32_t d[DECOMPOSED_MAX];
	int n;

	if (property->combining_class)
		set_active(f, cp);
	/* nearly all characters have no decomposition of any kind */
	if (property->decomp_seqindex == UINT16_MAX)
		return;
	n = decompose(f, cp, d, DECOMPOSED_MAX);
	if (n == 1 && d[0] == cp)
		return;
	if (f->options & UTF8PROC_COMPOSE) {
		for (int i = 1; i < n; i++)
			set_active(f, d[i]);
		n = (int)utf8proc_normalize_utf32(d, n, f->options);
	}
	if (n != 1 || d[0] != cp)
		set_active(f, cp);
}

/* Hangul is composed by arithmetic and needs no table: its parts are marked here, its syllables
 * stay as they are when composed and are all active when not. */
static void
classify_hangul(struct form *f)
{
	if (f->options & UTF8PROC_COMPOSE) {
		for (int32_t cp = 0x1161; cp < 0x11c3; cp++)
			set_active(f, cp);
		return;
	}
	for (int32_t cp = 0xac00; cp < 0xd7a4; cp++)
		set_active(f, cp);
}

/* About a millisecond: the tables of the library are asked for every character once. */
struct form *
form_new(enum form_kind kind)
{
	static const unsigned char compat[] = { [FORM_NFKC] = 1, [FORM_NFKD] = 1 };
	struct form *f = mem_zalloc(1, sizeof *f);
	bool composed = kind == FORM_NFC || kind == FORM_NFKC;

	f->options = (utf8proc_option_t)(UTF8PROC_STABLE |
	    (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
	    (compat[kind] ? UTF8PROC_COMPAT : 0));
	for (int32_t cp = 0; cp < CODE_POINTS; cp++)
		if ((cp < 0xac00 || cp >= 0xd7a4) && (cp < 0xd800 || cp >= 0xe000))
			classify(f, cp);
	classify_hangul(f);
	f->plain = kind == FORM_NFC ? 0x300 : 0x80;
	return f;
}

/* No thread may still use it. */
void
form_free(struct form *f)
{
	free(f);
}

/* Leaves an empty scratch that may be used again. */
void
form_scratch_release(struct form_scratch *x)
{
	free(x->cp);
	free(x->sort);
	memset(x, 0, sizeof *x);
}

/* In the sense of the paragraph above. */
static bool
inert(const struct form *f, uint32_t cp)
{
	return cp < f->plain || cp >= CODE_POINTS || !(f->active[cp / 8] >> cp % 8 & 1);
}

/* By combining class, then place: what a comparison of whole numbers gives. */
static int
compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Puts marks [first, last) into canonical order. A key holds class, place and character. */
static void
order_marks(struct form_scratch *x, size_t first, size_t last)
{
	size_t n = last - first;

	if (n < 2)
		return;
	if (n > x->sort_cap) {
		x->sort_cap = 2 * n;
		x->sort = mem_realloc(x->sort, x->sort_cap, sizeof *x->sort);
	}
	for (size_t i = 0; i < n; i++) {
		int32_t cp = x->cp[first + i];
		uint64_t class = (uint64_t)utf8proc_get_property(cp)->combining_class;

		x->sort[i] = class << 53 | (uint64_t)i << 21 | (uint32_t)cp;
	}
	qsort(x->sort, n, sizeof *x->sort, compare_keys);
	for (size_t i = 0; i < n; i++)
		x->cp[first + i] = (int32_t)(x->sort[i] & 0x1fffff);
}

/* Room for n more characters. */
static void
reserve(struct form_scratch *x, size_t n)
{
	if (n <= x->cap)
		return;
	x->cap = 2 * n;
	x->cp = mem_realloc(x->cp, x->cap, sizeof *x->cp);
}

/* Appends the form of a part. */
static void
apply_part(const struct form *f, struct form_scratch *x, const unsigned char *s, size_t n, struct str *out)
{
	size_t count = 0, run = 0;

	for (size_t i = 0; i < n;) {
		uint32_t cp;
		int len = utf8_decode(s + i, n - i, &cp);

		i += len ? (size_t)len : 1;
		reserve(x, count + DECOMPOSED_MAX);
		count += (size_t)decompose(f, len ? (int32_t)cp : 0xfffd, x->cp + count, DECOMPOSED_MAX);
	}
	for (size_t i = 0; i <= count; i++)
		if (i == count || !utf8proc_get_property(x->cp[i])->combining_class) {
			order_marks(x, run, i);
			run = i + 1;
		}
	if (f->options & UTF8PROC_COMPOSE)
		count = (size_t)utf8proc_normalize_utf32(x->cp, (utf8proc_ssize_t)count, f->options);
	for (size_t i = 0; i < count; i++) {
		unsigned char bytes[4];

		str_add(out, bytes, (size_t)utf8_encode((uint32_t)x->cp[i], bytes));
	}
}

/* The first active character at or after pos, or n; *before is the character in front of it, which
 * may join with it. */
static size_t
find_active(const struct form *f, const unsigned char *s, size_t n, size_t pos, size_t *before)
{
	size_t i = pos, previous = pos;

	while (i < n) {
		uint64_t eight;
		uint32_t cp;
		int len;

		if (n - i >= 8 && (memcpy(&eight, s + i, 8), (eight & 0x8080808080808080u) == 0)) {
			i += 8;
			previous = i - 1;
			continue;
		}
		len = utf8_decode(s + i, n - i, &cp);
		if (len == 0 || !inert(f, cp))
			break;
		previous = i;
		i += (size_t)len;
	}
	*before = previous;
	return i;
}

/* The first inert character after pos, or n. */
static size_t
find_inert(const struct form *f, const unsigned char *s, size_t n, size_t pos)
{
	while (pos < n) {
		uint32_t cp;
		int len = utf8_decode(s + pos, n - pos, &cp);

		if (len && inert(f, cp))
			break;
		pos += len ? (size_t)len : 1;
	}
	return pos;
}

/* Active characters can turn out to be in order; then the text is copied as it is, which is right
 * too. */
bool
form_apply(const struct form *f, struct form_scratch *x, const char *s, size_t n, struct str *out)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t done = 0, before, at = find_active(f, u, n, 0, &before);

	if (at == n)
		return false;
	while (at < n) {
		size_t end = find_inert(f, u, n, at);

		str_add(out, s + done, before - done);
		apply_part(f, x, u + before, end - before, out);
		done = end;
		at = find_active(f, u, n, end, &before);
	}
	str_add(out, s + done, n - done);
	return true;
}

/* Two versions: the tables have one of their own. */
void
form_version(struct str *out)
{
	str_addf(out, "utf8proc %s (Unicode %s)", utf8proc_version(), utf8proc_unicode_version());
}
