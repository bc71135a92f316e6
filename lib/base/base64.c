/*
 * base64.c - base 64 with padding
 *
 * Strict: white space and characters of other alphabets are errors, because the files that hold
 * base 64 are written by programs. Bits that padding leaves over are not looked at.
 */
#include "lib/base/base64.h"

/* The value of a digit, or -1. */
static int
digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters at a time; the last four may end in one or two '='. */
int64_t
base64_decode(const char *text, size_t n, unsigned char *out)
{
	size_t pad = n >= 4 && text[n - 1] == '=' ? 1 + (text[n - 2] == '=') : 0;
	int64_t len = 0;

	if (n % 4)
		return -1;
	for (size_t i = 0; i < n; i += 4) {
		size_t have = i + 4 == n ? 4 - pad : 4;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = k < have ? digit(text[i + k]) : 0;

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		for (size_t k = 0; k + 1 < have; k++)
			out[len++] = (unsigned char)(v >> (16 - 8 * k));
	}
	return len;
}
