/*
 * base64.c - base 64 with padding
 *
 * Strict: white space and characters of other alphabets are errors, because programs write the
 * files that hold base 64. The bits that padding leaves over are ignored.
 */
#include "lib/base/base64.h"

/* One more than the value of a digit; 0 for every other character. */
static const unsigned char digit[256] = {
	['A'] = 1,
	['B'] = 2,
	['C'] = 3,
	['D'] = 4,
	['E'] = 5,
	['F'] = 6,
	['G'] = 7,
	['H'] = 8,
	['I'] = 9,
	['J'] = 10,
	['K'] = 11,
	['L'] = 12,
	['M'] = 13,
	['N'] = 14,
	['O'] = 15,
	['P'] = 16,
	['Q'] = 17,
	['R'] = 18,
	['S'] = 19,
	['T'] = 20,
	['U'] = 21,
	['V'] = 22,
	['W'] = 23,
	['X'] = 24,
	['Y'] = 25,
	['Z'] = 26,
	['a'] = 27,
	['b'] = 28,
	['c'] = 29,
	['d'] = 30,
	['e'] = 31,
	['f'] = 32,
	['g'] = 33,
	['h'] = 34,
	['i'] = 35,
	['j'] = 36,
	['k'] = 37,
	['l'] = 38,
	['m'] = 39,
	['n'] = 40,
	['o'] = 41,
	['p'] = 42,
	['q'] = 43,
	['r'] = 44,
	['s'] = 45,
	['t'] = 46,
	['u'] = 47,
	['v'] = 48,
	['w'] = 49,
	['x'] = 50,
	['y'] = 51,
	['z'] = 52,
	['0'] = 53,
	['1'] = 54,
	['2'] = 55,
	['3'] = 56,
	['4'] = 57,
	['5'] = 58,
	['6'] = 59,
	['7'] = 60,
	['8'] = 61,
	['9'] = 62,
	['+'] = 63,
	['/'] = 64,
};

/* Padding counts as a digit here. */
size_t
base64_span(const char *text, size_t n)
{
	size_t i = 0;

	while (n - i >= 4 && digit[(unsigned char)text[i]] && digit[(unsigned char)text[i + 1]] &&
	    digit[(unsigned char)text[i + 2]] && digit[(unsigned char)text[i + 3]])
		i += 4;
	while (i < n && (digit[(unsigned char)text[i]] || text[i] == '='))
		i++;
	return i;
}

/* The value of four digits, or a number above 24 bits when one of them is not a digit. */
static inline uint32_t
four_digits(const char *text)
{
	uint32_t a = digit[(unsigned char)text[0]] - 1u, b = digit[(unsigned char)text[1]] - 1u;
	uint32_t c = digit[(unsigned char)text[2]] - 1u, d = digit[(unsigned char)text[3]] - 1u;

	return (a | b | c | d) > 63 ? UINT32_MAX : a << 18 | b << 12 | c << 6 | d;
}

/* Four characters at a time; the last four may end in one or two '=', which count as zeroes. */
int64_t
base64_decode(const char *text, size_t n, unsigned char *out)
{
	size_t pad = n >= 4 && text[n - 1] == '=' ? 1 + (text[n - 2] == '=') : 0;
	unsigned char *to = out;
	uint32_t v;

	if (n % 4)
		return -1;
	for (size_t i = 0; i + (pad > 0) * 4 < n; i += 4, to += 3) {
		v = four_digits(text + i);
		if (v >> 24)
			return -1;
		to[0] = (unsigned char)(v >> 16);
		to[1] = (unsigned char)(v >> 8);
		to[2] = (unsigned char)v;
	}
	if (pad == 0)
		return to - out;
	v = four_digits((char[4]){ text[n - 4], text[n - 3], pad == 2 ? 'A' : text[n - 2], 'A' });
	if (v >> 24)
		return -1;
	*to++ = (unsigned char)(v >> 16);
	if (pad == 1)
		*to++ = (unsigned char)(v >> 8);
	return to - out;
}

/* The bits that are left over are the high ends of the last digits. */
void
base64_encode(struct str *out, const void *bytes, size_t n)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t bits = (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) |
		    (left > 2 ? b[i + 2] : 0);
		char text[4] = { digits[bits >> 18], digits[bits >> 12 & 63],
			left > 1 ? digits[bits >> 6 & 63] : '=',
			left > 2 ? digits[bits & 63] : '=' };

		str_add(out, text, sizeof text);
	}
}
