/*
 * form.c - the normal forms of Unicode
 *
 * A character is inert when the form leaves it unchanged, it has combining class 0, and it never
 * composes with the text before it. The form of a text is then the concatenation of the forms of
 * the parts between inert characters. Parts that need work run from the inert character before to
 * the next one, and are decomposed, ordered and composed by themselves; everything else is copied.
 * Ordering is n log n, because a text may consist of marks only.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/form.h"
#include "lib/token/unicode_forms.h"

#include <stdlib.h>
#include <string.h>

/* A character in progress: above its 21 bits, how many characters of the text it stands for, and
 * above those its class. No character is composed of more than four. */
enum { USED_AT = 21, CLASS_AT = 24, POINT = 0x1fffff, USED = 7 << USED_AT };

struct form {
	bool composed, compat;
	uint32_t plain;                               /* every character below is inert */
	unsigned char special[FORMS_CODE_POINTS / 8]; /* has a class or parts */
	unsigned char active[FORMS_CODE_POINTS / 8];
};

/* Composes decomposed and ordered characters in place; returns how many are left. A mark composes
 * with the last starter unless one of its class or above is between them; the result is a starter.
 * Source: UAX 15, D117. */
static size_t
compose(uint32_t *cp, size_t n)
{
	size_t out = 0, starter = SIZE_MAX;
	unsigned last = 0; /* the class of the last that stayed; 0: the starter itself */

	for (size_t i = 0; i < n; i++) {
		unsigned class = cp[i] >> CLASS_AT;
		uint32_t whole = starter != SIZE_MAX && (last == 0 || last < class)
		    ? unicode_compose(cp[starter] & POINT, cp[i] & POINT)
		    : 0;

		if (whole) {
			cp[starter] = whole | ((cp[starter] & USED) + (cp[i] & USED));
			continue;
		}
		if (class == 0)
			starter = out;
		last = class;
		cp[out++] = cp[i];
	}
	return out;
}

/* Adds the classes of n characters. */
static void
add_classes(uint32_t *cp, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cp[i] |= (uint32_t)unicode_mark_class(cp[i]) << CLASS_AT;
}

/* Code points above the sets are in none. */
static bool
in_set(const unsigned char *set, uint32_t cp)
{
	return cp < FORMS_CODE_POINTS && set[cp / 8] >> cp % 8 & 1;
}

static void
set_active(struct form *f, uint32_t cp)
{
	if (cp < FORMS_CODE_POINTS)
		f->active[cp / 8] |= (unsigned char)(1 << cp % 8);
}

/* About a millisecond. Composed forms also mark the characters that a decomposition ends in: they
 * may compose with a character before them. */
struct form *
form_new(enum form_kind kind)
{
	struct form *f = mem_zalloc(1, sizeof *f);

	f->composed = kind == FORM_NFC || kind == FORM_NFKC;
	f->compat = kind == FORM_NFKC || kind == FORM_NFKD;
	f->plain = kind == FORM_NFC ? 0x300 : 0x80;
	unicode_mark_special(f->special);
	for (uint32_t cp = 0; cp < FORMS_CODE_POINTS; cp++) {
		uint32_t d[FORMS_PARTS];
		size_t n;

		if (!in_set(f->special, cp))
			continue;
		n = (size_t)unicode_decompose(cp, f->compat, d);
		if (f->composed && (n != 1 || d[0] != cp)) {
			for (size_t i = 1; i < n; i++)
				set_active(f, d[i]);
			add_classes(d, n);
			n = compose(d, n);
		}
		if (n != 1 || d[0] != cp || unicode_mark_class(cp))
			set_active(f, cp);
	}
	return f;
}

/* No thread may be using it. */
void
form_free(struct form *f)
{
	free(f);
}

/* The scratch is empty afterwards and may be reused. */
void
form_scratch_release(struct form_scratch *x)
{
	free(x->cp);
	free(x->sort);
	memset(x, 0, sizeof *x);
}

/* As defined at the top of the file. */
static bool
inert(const struct form *f, uint32_t cp)
{
	return cp < f->plain || !in_set(f->active, cp);
}

/* By combining class, then position, in one integer comparison. */
static int
compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Puts marks [first, last) into canonical order. A key holds class, place and the mark with what it
 * stands for. */
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
		uint32_t cp = x->cp[first + i];

		x->sort[i] = (uint64_t)(cp >> CLASS_AT) << 56 | (uint64_t)i << CLASS_AT |
		    (cp & (USED | POINT));
	}
	qsort(x->sort, n, sizeof *x->sort, compare_keys);
	for (size_t i = 0; i < n; i++)
		x->cp[first + i] = (uint32_t)(x->sort[i] & (USED | POINT)) |
		    (uint32_t)(x->sort[i] >> 56) << CLASS_AT;
}

/* Puts the form of a part into the scratch; returns the number of its characters. The first one of
 * a decomposition stands for the character of the text, the others for none. */
static size_t
make_part(const struct form *f, struct form_scratch *x, const unsigned char *s, size_t n)
{
	size_t count = 0, run = 0;

	for (size_t i = 0; i < n;) {
		uint32_t cp;
		int len = utf8_decode(s + i, n - i, &cp);

		i += len ? (size_t)len : 1;
		if (count + FORMS_PARTS > x->cap) {
			x->cap = 2 * (count + FORMS_PARTS);
			x->cp = mem_realloc(x->cp, x->cap, sizeof *x->cp);
		}
		if (len && !in_set(f->special, cp)) {
			x->cp[count++] = cp | 1 << USED_AT;
		} else {
			size_t parts =
			    (size_t)unicode_decompose(len ? cp : 0xfffd, f->compat, x->cp + count);

			add_classes(x->cp + count, parts);
			x->cp[count] |= 1 << USED_AT;
			count += parts;
		}
	}
	for (size_t i = 0; i <= count; i++)
		if (i == count || x->cp[i] >> CLASS_AT == 0) {
			order_marks(x, run, i);
			run = i + 1;
		}
	return f->composed ? compose(x->cp, count) : count;
}

/* Appends the form of a part. */
static void
apply_part(
    const struct form *f, struct form_scratch *x, const unsigned char *s, size_t n, struct str *out)
{
	size_t count = make_part(f, x, s, n);

	for (size_t i = 0; i < count; i++) {
		unsigned char bytes[4];

		str_add(out, bytes, (size_t)utf8_encode(x->cp[i] & POINT, bytes));
	}
}

/* The first active character at or after pos, or n; *before is the character before it, which
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

/* If the active characters turn out to be in order, the text is copied unchanged, which is also
 * right. A part ends at the first inert character. */
bool
form_apply(const struct form *f, struct form_scratch *x, const char *s, size_t n, struct str *out)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t done = 0, before, at = find_active(f, u, n, 0, &before);

	if (at == n)
		return false;
	while (at < n) {
		size_t end = at;

		while (end < n) {
			uint32_t cp;
			int len = utf8_decode(u + end, n - end, &cp);

			if (len && inert(f, cp))
				break;
			end += len ? (size_t)len : 1;
		}
		str_add(out, s + done, before - done);
		apply_part(f, x, u + before, end - before, out);
		done = end;
		at = find_active(f, u, n, end, &before);
	}
	str_add(out, s + done, n - done);
	return true;
}

/*
 * The reference reads, for each character of the result, as many characters of the text as it
 * stands for; it comes from the first of them, or from the last one read before if it stands for
 * none. What follows the next inert character cannot change that. Source:
 * NormalizedString::transform_range of huggingface/tokenizers, and its copy of
 * unicode-normalization.
 */
size_t
form_first(const struct form *f, struct form_scratch *x, const char *s, size_t n, size_t first)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t end = first, count, read = 0, out = 0;
	uint32_t cp;
	int len;

	for (; end < n && (len = utf8_decode(u + end, n - end, &cp)) > 0 && !inert(f, cp);
	     end += (size_t)len)
		;
	count = make_part(f, x, u, end);
	for (size_t i = 0; i < count; i++) {
		unsigned char bytes[4];
		unsigned used = (x->cp[i] & USED) >> USED_AT;

		if (read >= first + (used == 0))
			break;
		out += (size_t)utf8_encode(x->cp[i] & POINT, bytes);
		for (; used > 0 && read < end; used--) {
			len = utf8_decode(u + read, end - read, &cp);
			read += len ? (size_t)len : 1;
		}
	}
	return out;
}
