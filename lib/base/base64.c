/*
 * base64.c - base 64 with padding
 *
 * Strict: white space and characters of other alphabets are errors, because the files that hold
 * base 64 are written by programs. Bits that padding leaves over are not looked at.
 */
#include "lib/base/base64.h"

/* One more than the value of a digit; 0 for what is none. */
static const unsigned char digit[256] = {
	['A'] = 1, ['B'] = 2, ['C'] = 3, ['D'] = 4, ['E'] = 5, ['F'] = 6, ['G'] = 7, ['H'] = 8, ['I'] = 9,
	['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
	['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27,
	['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
	['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45,
	['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
	['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
	['/'] = 64,
};

/* Padding is not told from digits here. */
size_t
base64_span(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && (digit[(unsigned char)text[i]] || text[i] == '='))
		i++;
	return i;
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
			unsigned d = k < have ? digit[(unsigned char)text[i + k]] : 1;

			if (d == 0)
				return -1;
			v = v << 6 | (d - 1);
		}
		for (size_t k = 0; k + 1 < have; k++)
			out[len++] = (unsigned char)(v >> (16 - 8 * k));
	}
	return len;
}
