/*
 * pretok.c - cutting text into the pieces that BPE merges
 *
 * One class a code point in a flat table of 1.1 MB, of which a text touches a few pages. The table
 * comes from unicode_table.h, which is part of the tree: the ids must not depend on the Unicode
 * version of the machine's libraries. Scanners of other models (cl100k, o200k, Qwen2) go beside
 * pretok_gpt2.
 */
#include "lib/token/pretok.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/unicode_table.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000 };

struct pretok {
	unsigned char class[CODE_POINTS];
};

/* Spreads the ranges over a flat table: a fraction of a millisecond, and one load a character
 * afterwards. */
struct pretok *
pretok_new(void)
{
	struct pretok *p = mem_zalloc(1, sizeof *p);

	for (size_t i = 0; i < sizeof unicode_table / sizeof *unicode_table; i++)
		memset(p->class + unicode_table[i].first, unicode_table[i].class,
		    unicode_table[i].last - unicode_table[i].first + 1);
	return p;
}

/* NULL is fine. */
void
pretok_free(struct pretok *p)
{
	free(p);
}

/*
 * The class of the character at pos and its length in bytes. A byte that is no UTF-8 is a character
 * of its own in the class of the others, so any bytes can be cut.
 */
static enum unicode_class
class_at(const struct pretok *p, const unsigned char *s, size_t n, size_t pos, size_t *len)
{
	uint32_t cp = s[pos];
	int m = 1;

	if (cp >= 0x80)
		m = utf8_decode(s + pos, n - pos, &cp);
	*len = m ? (size_t)m : 1;
	return m ? (enum unicode_class)p->class[cp] : CLASS_OTHER;
}

/* GPT-2 puts marks with the others. */
static enum unicode_class
gpt2_class(const struct pretok *p, const unsigned char *s, size_t n, size_t pos, size_t *len)
{
	enum unicode_class c = class_at(p, s, n, pos, len);

	return c == CLASS_MARK ? CLASS_OTHER : c;
}

/*
 * The length of 's 't 're 've 'm 'll 'd at pos, or 0. Lower case only, as in the expression; 'S is
 * an apostrophe and a letter.
 */
static size_t
contraction(const unsigned char *s, size_t n, size_t pos)
{
	if (s[pos] != '\'' || pos + 1 >= n)
		return 0;
	if (memchr("stmd", s[pos + 1], 4))
		return 2;
	if (pos + 2 < n &&
	    (!memcmp(s + pos + 1, "re", 2) || !memcmp(s + pos + 1, "ve", 2) ||
		!memcmp(s + pos + 1, "ll", 2)))
		return 3;
	return 0;
}

/* The end of a run of white space: all of it at the end of the text, else without its last
 * character if it has another. */
static size_t
white_run(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	size_t end = pos, last = pos, len;

	while (end < n && gpt2_class(p, s, n, end, &len) == CLASS_SPACE) {
		last = end;
		end += len;
	}
	return end == n || last == pos ? end : last;
}

/* The alternatives of the regular expression, in their order. */
size_t
pretok_gpt2(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	size_t len = contraction(s, n, pos), at = pos;
	enum unicode_class c;

	if (len)
		return pos + len;
	if (s[at] == ' ' && at + 1 < n)
		at++;
	c = gpt2_class(p, s, n, at, &len);
	if (c == CLASS_SPACE)
		return white_run(p, s, n, pos);
	for (at += len; at < n && gpt2_class(p, s, n, at, &len) == c; at += len)
		;
	return at;
}
