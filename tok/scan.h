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

enum { SCAN_BLOCK = 32 };

/* Whether a byte of a string is plain: neither quote, backslash nor control character. */
static inline bool
scan_plain(char c)
{
	return c != '"' && c != '\\' && (unsigned char)c >= 0x20;
}

/* One bit for each byte of the block that ends plain text. */
static inline uint32_t
scan_mask(__m256i block)
{
	__m256i quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('"'));
	__m256i slash = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\\'));
	/* The unsigned minimum with 0x1f is the byte itself for control characters alone. */
	__m256i control = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block);

	return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, slash), control));
}

/* The first byte in [p, end) that is not plain, or end. */
static inline const char *
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

/* The same, and copies the plain bytes to *out, which moves on by as many. Up to SCAN_BLOCK bytes
 * behind them may be overwritten as well: out must have that room. */
static inline const char *
scan_copy(const char *p, const char *end, char **out)
{
	char *to = *out;

	for (; end - p >= SCAN_BLOCK; p += SCAN_BLOCK, to += SCAN_BLOCK) {
		__m256i block = _mm256_loadu_si256((const __m256i *)(const void *)p);
		uint32_t mask = scan_mask(block);

		_mm256_storeu_si256((__m256i *)(void *)to, block);
		if (mask) {
			*out = to + __builtin_ctz(mask);
			return p + __builtin_ctz(mask);
		}
	}
	while (p < end && scan_plain(*p))
		*to++ = *p++;
	*out = to;
	return p;
}

#endif
