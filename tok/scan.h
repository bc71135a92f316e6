/*
 * scan.h - where plain text ends inside a JSON string, 64 bytes at a time
 *
 * Three kinds of byte end it: the quote, the backslash and control characters. A block is compared
 * with all three at once (lib/token/simd.h), which makes finding a member cheaper than reading it
 * from memory. Nothing is read or written past the ends that the caller gives.
 */
#ifndef TOK_SCAN_H
#define TOK_SCAN_H

#include "lib/token/simd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SCAN_SLACK = 160 };

/* A row for each low half of a byte: control characters (high half 0 or 1), '"' and '\\'. */
static const struct simd_set scan_ends = {
	{ { 3, 3, 3 | 1 << 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 | 1 << 5, 3, 3, 3 } },
};

/* True when a byte of a string is plain: neither quote, backslash nor control character. */
static inline bool
scan_plain(char c)
{
	return c != '"' && c != '\\' && (unsigned char)c >= 0x20;
}

/* One bit for each of 64 bytes that ends plain text. */
static inline uint64_t
scan_mask(const char *p)
{
	return simd_find(&scan_ends, (const unsigned char *)p);
}

/* The first byte in [p, end) that is not plain, or end. */
static inline const char *
scan_text(const char *p, const char *end)
{
	for (; end - p >= SIMD_BLOCK; p += SIMD_BLOCK) {
		uint64_t mask = scan_mask(p);

		if (mask)
			return p + __builtin_ctzll(mask);
	}
	while (p < end && scan_plain(*p))
		p++;
	return p;
}

/*
 * Copies plain bytes and decodes the escapes of two bytes that `simple` knows (0: it does not), and
 * returns where something else begins; *out advances by what was written. Up to SCAN_SLACK bytes
 * after that may be overwritten as well: out must have that room.
 *
 * The places of all marks of a block are known before the first is looked at, so that no load waits
 * for the escape before it; a piece between two of them is copied as 64 bytes, whatever its length.
 */
static inline const char *
scan_copy(const char *p, const char *end, char **out, const char simple[256])
{
	char *to = *out;

	while (end - p >= SCAN_SLACK) {
		uint64_t mask = scan_mask(p);
		unsigned from = 0;

		while (mask) {
			unsigned at = (unsigned)__builtin_ctzll(mask);
			char c = p[at] == '\\' ? simple[(unsigned char)p[at + 1]] : '\0';

			memcpy(to, p + from, SIMD_BLOCK);
			to += at - from;
			if (!c) {
				*out = to;
				return p + at;
			}
			*to++ = c;
			from = at + 2;
			mask &= ~((uint64_t)3 << at);
		}
		memcpy(to, p + from, SIMD_BLOCK);
		to += from < SIMD_BLOCK ? SIMD_BLOCK - from : 0;
		p += from < SIMD_BLOCK ? SIMD_BLOCK : from;
	}
	while (p < end) {
		if (scan_plain(*p)) {
			*to++ = *p++;
			continue;
		}
		if (*p != '\\' || end - p < 2 || !simple[(unsigned char)p[1]])
			break;
		*to++ = simple[(unsigned char)p[1]];
		p += 2;
	}
	*out = to;
	return p;
}

#endif
