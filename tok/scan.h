/*
 * scan.h - where plain text ends inside a JSON string, 32 bytes at a time
 *
 * Three kinds of byte end it: the quote, the backslash and control characters. A block is compared
 * with all three at once (AVX2), which is what makes finding a member cheaper than reading it from
 * memory. Nothing is read or written behind the ends that the caller gives.
 */
#ifndef TOK_SCAN_H
#define TOK_SCAN_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SCAN_BLOCK = 32, SCAN_SLACK = 160 };

/* For builds whose flags leave AVX2 out; calls are not inlined there. */
#define SCAN_AVX2 __attribute__((target("avx2")))

/* Whether a byte of a string is plain: neither quote, backslash nor control character. */
static inline bool
scan_plain(char c)
{
	return c != '"' && c != '\\' && (unsigned char)c >= 0x20;
}

/* One bit for each byte of the block that ends plain text. */
SCAN_AVX2 static inline uint32_t
scan_mask(__m256i block)
{
	__m256i quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('"'));
	__m256i slash = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\\'));
	/* The unsigned minimum with 0x1f is the byte itself for control characters alone. */
	__m256i control = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block);

	return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, slash), control));
}

/* The first byte in [p, end) that is not plain, or end. */
SCAN_AVX2 static inline const char *
scan_text(const char *p, const char *end)
{
	for (; end - p >= SCAN_BLOCK; p += SCAN_BLOCK) {
		uint32_t mask = scan_mask(_mm256_loadu_si256((const __m256i *)(const void *)p));

		if (mask)
			return p + __builtin_ctz(mask);
	}
	while (p < end && scan_plain(*p))
		p++;
	return p;
}

/* One bit for each of 64 bytes. */
SCAN_AVX2 static inline uint64_t
scan_mask64(const char *p)
{
	uint64_t low = scan_mask(_mm256_loadu_si256((const __m256i *)(const void *)p));
	uint64_t high = scan_mask(_mm256_loadu_si256((const __m256i *)(const void *)(p + SCAN_BLOCK)));

	return high << SCAN_BLOCK | low;
}

/* 64 bytes, whatever they are. */
SCAN_AVX2 static inline void
scan_move64(char *to, const char *from)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + SCAN_BLOCK));

	_mm256_storeu_si256((__m256i *)(void *)to, a);
	_mm256_storeu_si256((__m256i *)(void *)(to + SCAN_BLOCK), b);
}

/*
 * Copies plain bytes and decodes the escapes of two bytes that `simple` knows (0: it does not), until
 * something else comes, which is where it returns; *out moves on by what was written. Up to SCAN_SLACK
 * bytes behind that may be overwritten as well: out must have that room.
 *
 * The places of all marks of a block are known before the first is looked at, so that no load waits
 * for the escape before it; a piece between two of them is copied as 64 bytes, whatever its length.
 */
SCAN_AVX2 static inline const char *
scan_copy(const char *p, const char *end, char **out, const char simple[256])
{
	char *to = *out;

	while (end - p >= SCAN_SLACK) {
		uint64_t mask = scan_mask64(p);
		unsigned from = 0;

		while (mask) {
			unsigned at = (unsigned)__builtin_ctzll(mask);
			char c = p[at] == '\\' ? simple[(unsigned char)p[at + 1]] : '\0';

			scan_move64(to, p + from);
			to += at - from;
			if (!c) {
				*out = to;
				return p + at;
			}
			*to++ = c;
			from = at + 2;
			mask &= ~((uint64_t)3 << at);
		}
		scan_move64(to, p + from);
		to += from < 64 ? 64 - from : 0;
		p += from < 64 ? 64 : from;
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
