/*
 * utf8.c - strict UTF-8
 *
 * Strict as the Unicode standard (table 3-7) has it: no overlong forms, no surrogates, nothing
 * above U+10FFFF. Text that passes needs no further check.
 */
#include "lib/base/utf8.h"

#include <string.h>

/*
 * Needs n >= 1. Returns the length, or 0 for anything but a complete well-formed character, where
 * *cp is not set. 0xc0, 0xc1 and 0xf5 to 0xff begin no character; the table of least values catches
 * the other overlong forms.
 */
int
utf8_decode(const unsigned char *s, size_t n, uint32_t *cp)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = s[0];
	int len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (len == 0 || (size_t)len > n)
		return 0;
	if (len > 1)
		c &= 0x7fu >> len;
	for (int i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*cp = c;
	return len;
}

/* cp must be a scalar value: it is not checked. */
int
utf8_encode(uint32_t cp, unsigned char out[4])
{
	if (cp < 0x80) {
		out[0] = (unsigned char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (unsigned char)(0xc0 | cp >> 6);
		out[1] = (unsigned char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (unsigned char)(0xe0 | cp >> 12);
		out[1] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (unsigned char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | cp >> 18);
	out[1] = (unsigned char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (unsigned char)(0x80 | (cp & 0x3f));
	return 4;
}

bool
utf8_is_space(uint32_t cp)
{
	static const uint32_t ranges[][2] = { { 0x09, 0x0d }, { 0x1c, 0x20 }, { 0x85, 0x85 },
		{ 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
		{ 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 } };

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (cp <= ranges[i][1])
			return cp >= ranges[i][0];
	return false;
}

/*
 * Eight bytes of ASCII are checked at a time, since most text is ASCII.
 */
size_t
utf8_check(const unsigned char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		uint64_t eight;
		uint32_t cp;
		int len;

		if (n - i >= 8 && (memcpy(&eight, s + i, 8), (eight & 0x8080808080808080u) == 0)) {
			i += 8;
			continue;
		}
		len = utf8_decode(s + i, n - i, &cp);
		if (len == 0)
			return i;
		i += (size_t)len;
	}
	return n;
}

/* Ranges of characters that are escaped. */
static bool
is_hidden(uint32_t c)
{
	static const uint32_t range[][2] = { { 0, 0x1f }, { 0x7f, 0x9f }, { 0x200e, 0x200f },
		{ 0x2028, 0x202e }, { 0x2066, 0x2069 } };

	for (size_t i = 0; i < sizeof range / sizeof *range; i++)
		if (c >= range[i][0] && c <= range[i][1])
			return true;
	return false;
}

/* The lowest digits of c in base 16. */
static int
put_escape(char letter, uint32_t c, int digits, char out[8])
{
	out[0] = '\\';
	out[1] = letter;
	for (int i = 0; i < digits; i++)
		out[2 + i] = "0123456789abcdef"[c >> 4 * (digits - 1 - i) & 15];
	return 2 + digits;
}

/* Without printf, which is not safe in a signal handler. */
size_t
utf8_escape(const char *bytes, size_t n, char *out, size_t size)
{
	static const char plain[] = "\n\t\r", letters[] = "ntr";
	size_t at = 0, used;

	for (size_t i = 0; i < n; i += used) {
		const char *p = bytes + i, *known;
		uint32_t c = (unsigned char)*p;
		int len = utf8_decode((const unsigned char *)p, n - i, &c), put = len;
		char e[8];

		used = len ? (size_t)len : 1;
		if (len && !is_hidden(c))
			memcpy(e, p, (size_t)len);
		else if (c && (known = strchr(plain, (int)c)))
			put = put_escape(letters[known - plain], 0, 0, e);
		else
			put = len < 2 ? put_escape('x', c, 2, e) : put_escape('u', c, 4, e);
		if (at + (size_t)put + 1 > size)
			break;
		memcpy(out + at, e, (size_t)put);
		at += (size_t)put;
	}
	out[at] = '\0';
	return at;
}

/* How many bytes of n begin no character but may stand for one: as many as begin a well-formed one,
 * at least 1 (Unicode 15, section 3.9, table 3-8). */
static size_t
ill_formed(const unsigned char *s, size_t n)
{
	unsigned char low = s[0] == 0xe0 ? 0xa0
	    : s[0] == 0xf0               ? 0x90
					 : 0x80,
		      high = s[0] == 0xed ? 0x9f
	    : s[0] == 0xf4                ? 0x8f
					  : 0xbf;
	size_t len = s[0] < 0xc2 || s[0] > 0xf4 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4, i = 1;

	for (; i < len && i < n && s[i] >= low && s[i] <= high; i++) {
		low = 0x80;
		high = 0xbf;
	}
	return i;
}

void
utf8_repair(const char *bytes, size_t n, struct str *out)
{
	const unsigned char *s = (const unsigned char *)bytes;

	for (size_t i = 0; i < n;) {
		size_t good = utf8_check(s + i, n - i);

		str_add(out, bytes + i, good);
		i += good;
		if (i < n) {
			str_adds(out, "\xef\xbf\xbd");
			i += ill_formed(s + i, n - i);
		}
	}
}
