/*
 * simd.h - 64 bytes of text as bit masks of classes: bit i is byte i
 *
 * With AVX2, the build's baseline on x86-64, with NEON, which every aarch64 has, or in plain C: the
 * masks are the same. Only ASCII has classes here; a byte that is neither letter, digit nor white
 * space is in none of the masks, and bytes from 0x80 on are in high.
 */
#ifndef TOKEN_SIMD_H
#define TOKEN_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SIMD_BLOCK = 64 };

/* A set of bytes: bit h & 7 of row[h >> 3][l] is for the byte with the high half h and the low half
 * l. */
struct simd_set {
	unsigned char row[2][16];
};

struct simd_masks {
	uint64_t letter, upper, lower, digit, white, space, newline, apostrophe, high;
};

#ifdef __AVX2__
#include <immintrin.h>

/* Which of 32 bytes are from first to last. */
static inline uint64_t
simd_range(__m256i v, unsigned char first, unsigned char last)
{
	__m256i x = _mm256_sub_epi8(v, _mm256_set1_epi8((char)first));
	__m256i low = _mm256_min_epu8(x, _mm256_set1_epi8((char)(last - first)));

	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, x));
}

/* The same for a range of small letters, capitals too. */
static inline uint64_t
simd_range_folded(__m256i v, unsigned char first, unsigned char last)
{
	return simd_range(_mm256_or_si256(v, _mm256_set1_epi8(0x20)), first, last);
}

static inline uint64_t
simd_equal(__m256i v, unsigned char c)
{
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8((char)c)));
}

/* One bit for each of 32 bytes: a row by the low half of the byte, then a bit of it by the high
 * half. */
static inline uint64_t
simd_in_set(__m256i v, const struct simd_set *set)
{
	const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201u);
	__m256i row0 = _mm256_broadcastsi128_si256(
	    _mm_loadu_si128((const __m128i *)(const void *)set->row[0]));
	__m256i row1 = _mm256_broadcastsi128_si256(
	    _mm_loadu_si128((const __m128i *)(const void *)set->row[1]));
	__m256i low = _mm256_and_si256(v, _mm256_set1_epi8(15));
	__m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(7));
	__m256i row =
	    _mm256_blendv_epi8(_mm256_shuffle_epi8(row0, low), _mm256_shuffle_epi8(row1, low), v);
	__m256i bit = _mm256_shuffle_epi8(bits, high);

	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(row, bit), bit));
}

#define SIMD_BOTH(f, ...) (f(a, __VA_ARGS__) | f(b, __VA_ARGS__) << 32)

/* All masks of the block at s. */
static inline struct simd_masks
simd_classify(const unsigned char s[SIMD_BLOCK])
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)s);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(s + 32));
	struct simd_masks m;

	m.letter = SIMD_BOTH(simd_range_folded, 'a', 'z');
	m.upper = SIMD_BOTH(simd_range, 'A', 'Z');
	m.lower = SIMD_BOTH(simd_range, 'a', 'z');
	m.digit = SIMD_BOTH(simd_range, '0', '9');
	m.space = SIMD_BOTH(simd_equal, ' ');
	m.white = m.space | SIMD_BOTH(simd_range, '\t', '\r');
	m.newline = SIMD_BOTH(simd_equal, '\n') | SIMD_BOTH(simd_equal, '\r');
	m.apostrophe = SIMD_BOTH(simd_equal, '\'');
	m.high =
	    (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
	return m;
}

/* The bytes of the block that are in the set. */
static inline uint64_t
simd_find(const struct simd_set *set, const unsigned char s[SIMD_BLOCK])
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)s);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(s + 32));

	return SIMD_BOTH(simd_in_set, set);
}

/* Which of two keys of 16 bytes match: bit 0 the first, bit 2 the second. */
static inline unsigned
simd_match(const uint64_t two[4], const uint64_t key[2])
{
	__m256i wanted =
	    _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)key));
	__m256i equal =
	    _mm256_cmpeq_epi64(wanted, _mm256_loadu_si256((const __m256i *)(const void *)two));
	unsigned halves = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(equal));

	return halves & halves >> 1 & 5;
}

/* The least of n numbers, n a multiple of eight; UINT32_MAX for n = 0. */
static inline uint32_t
simd_least(const uint32_t *x, size_t n)
{
	__m256i least = _mm256_set1_epi32(-1);
	__m128i half;

	for (size_t i = 0; i < n; i += 8)
		least = _mm256_min_epu32(
		    least, _mm256_loadu_si256((const __m256i *)(const void *)(x + i)));
	half = _mm_min_epu32(_mm256_castsi256_si128(least), _mm256_extracti128_si256(least, 1));
	half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0x4e));
	half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(half);
}

#elif defined __ARM_NEON && defined __AARCH64EL__
#include <arm_neon.h>

/* One bit for each byte of a block of which all bits are set; no bit where none is. */
static inline uint64_t
simd_bits(const uint8x16_t v[4])
{
	const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
	uint8x16_t low = vpaddq_u8(vandq_u8(v[0], bits), vandq_u8(v[1], bits));
	uint8x16_t high = vpaddq_u8(vandq_u8(v[2], bits), vandq_u8(v[3], bits));
	uint8x16_t both = vpaddq_u8(low, high);

	return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(both, both)), 0);
}

/* Which of 16 bytes are from first to last. */
static inline uint8x16_t
simd_range(uint8x16_t v, unsigned char first, unsigned char last)
{
	return vcleq_u8(vsubq_u8(v, vdupq_n_u8(first)), vdupq_n_u8((unsigned char)(last - first)));
}

/* The same for a range of small letters, capitals too. */
static inline uint8x16_t
simd_range_folded(uint8x16_t v, unsigned char first, unsigned char last)
{
	return simd_range(vorrq_u8(v, vdupq_n_u8(0x20)), first, last);
}

static inline uint8x16_t
simd_equal(uint8x16_t v, unsigned char c)
{
	return vceqq_u8(v, vdupq_n_u8(c));
}

/* A row by the low half of the byte and its highest bit, then a bit of it by the high half. */
static inline uint8x16_t
simd_in_set(uint8x16_t v, const struct simd_set *set)
{
	const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
	const uint8x16x2_t rows = { { vld1q_u8(set->row[0]), vld1q_u8(set->row[1]) } };
	uint8x16_t low = vandq_u8(v, vdupq_n_u8(15));
	uint8x16_t upper = vandq_u8(vshrq_n_u8(v, 3), vdupq_n_u8(16));
	uint8x16_t high = vandq_u8(vshrq_n_u8(v, 4), vdupq_n_u8(7));

	return vtstq_u8(vqtbl2q_u8(rows, vorrq_u8(low, upper)), vqtbl1q_u8(bits, high));
}

#define SIMD_EACH(f, ...) \
	simd_bits((const uint8x16_t[]){ f(v[0], __VA_ARGS__), f(v[1], __VA_ARGS__), \
	    f(v[2], __VA_ARGS__), f(v[3], __VA_ARGS__) })

/* All masks of the block at s. */
static inline struct simd_masks
simd_classify(const unsigned char s[SIMD_BLOCK])
{
	const uint8x16_t v[] = { vld1q_u8(s), vld1q_u8(s + 16), vld1q_u8(s + 32),
		vld1q_u8(s + 48) };
	struct simd_masks m;

	m.letter = SIMD_EACH(simd_range_folded, 'a', 'z');
	m.upper = SIMD_EACH(simd_range, 'A', 'Z');
	m.lower = SIMD_EACH(simd_range, 'a', 'z');
	m.digit = SIMD_EACH(simd_range, '0', '9');
	m.space = SIMD_EACH(simd_equal, ' ');
	m.white = m.space | SIMD_EACH(simd_range, '\t', '\r');
	m.newline = SIMD_EACH(simd_equal, '\n') | SIMD_EACH(simd_equal, '\r');
	m.apostrophe = SIMD_EACH(simd_equal, '\'');
	m.high = SIMD_EACH(simd_range, 0x80, 0xff);
	return m;
}

/* The bytes of the block that are in the set. */
static inline uint64_t
simd_find(const struct simd_set *set, const unsigned char s[SIMD_BLOCK])
{
	const uint8x16_t v[] = { vld1q_u8(s), vld1q_u8(s + 16), vld1q_u8(s + 32),
		vld1q_u8(s + 48) };

	return SIMD_EACH(simd_in_set, set);
}

#else

/* The bytes of the block that are in the set. */
static inline uint64_t
simd_find(const struct simd_set *set, const unsigned char s[SIMD_BLOCK])
{
	uint64_t m = 0;

	for (int i = 0; i < SIMD_BLOCK; i++)
		m |= (uint64_t)(set->row[s[i] >> 7][s[i] & 15] >> (s[i] >> 4 & 7) & 1) << i;
	return m;
}

/* All masks of the block at s. */
static inline struct simd_masks
simd_classify(const unsigned char s[SIMD_BLOCK])
{
	struct simd_masks m;

	memset(&m, 0, sizeof m);
	for (int i = 0; i < SIMD_BLOCK; i++) {
		m.upper |= (uint64_t)(s[i] >= 'A' && s[i] <= 'Z') << i;
		m.lower |= (uint64_t)(s[i] >= 'a' && s[i] <= 'z') << i;
		m.letter |= (uint64_t)((s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'z') << i;
		m.digit |= (uint64_t)(s[i] >= '0' && s[i] <= '9') << i;
		m.space |= (uint64_t)(s[i] == ' ') << i;
		m.white |= (uint64_t)(s[i] == ' ' || (s[i] >= '\t' && s[i] <= '\r')) << i;
		m.newline |= (uint64_t)(s[i] == '\n' || s[i] == '\r') << i;
		m.apostrophe |= (uint64_t)(s[i] == '\'') << i;
		m.high |= (uint64_t)(s[i] >= 0x80) << i;
	}
	return m;
}

#endif

/* With NEON too: compilers make vectors of the loop, and four comparisons need none. */
#ifndef __AVX2__
/* The least of n numbers, n a multiple of eight; UINT32_MAX for n = 0. */
static inline uint32_t
simd_least(const uint32_t *x, size_t n)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < n; i++)
		least = x[i] < least ? x[i] : least;
	return least;
}

/* Which of two keys of 16 bytes match: bit 0 the first, bit 2 the second. */
static inline unsigned
simd_match(const uint64_t two[4], const uint64_t key[2])
{
	return (two[0] == key[0] && two[1] == key[1]) | (two[2] == key[0] && two[3] == key[1]) << 2;
}
#endif

#endif
