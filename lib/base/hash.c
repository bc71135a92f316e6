/*
 * hash.c - XXH3-64, MD5, CRC-32C and CRC-32
 *
 * Sums for three purposes: XXH3 guards data against damage and is fast enough to run over
 * every checkpoint; MD5 is here only because the names of index maps are defined by it; the
 * CRCs because other formats carry them. None of them is meant to withstand an adversary.
 */
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The whole in one call; equal to a stream fed with the same bytes in any portions. Seed 0. */
uint64_t
hash_xxh3(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint64_t
hash_xxh3_seeded(const void *bytes, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, len, seed);
}

/* The most significant digit comes first. */
char *
hash_text(uint64_t sum, char out[17])
{
	snprintf(out, 17, "%016llx", (unsigned long long)sum);
	return out;
}

/* Capitals, signs and spaces are refused, so that a sum has only one spelling. */
const char *
hash_read(const char *text, uint64_t *sum)
{
	static const char digits[] = "0123456789abcdef";

	*sum = 0;
	if (strspn(text, digits) < 16)
		return NULL;
	for (const char *end = text + 16; text < end; text++)
		*sum = *sum << 4 | (uint64_t)(strchr(digits, *text) - digits);
	return text;
}

/* Hides the library's type, so that xxhash.h is included nowhere else. */
struct hash_stream {
	XXH3_state_t *state;
};

/* The library allocates the state itself, for alignment; it fails only when memory runs out. */
struct hash_stream *
hash_stream_new(void)
{
	struct hash_stream *h = mem_alloc(1, sizeof *h);

	h->state = XXH3_createState();
	if (!h->state)
		mem_none("the state of a checksum");
	XXH3_64bits_reset(h->state);
	return h;
}

/* How the bytes are divided over calls does not change the sum. */
void
hash_stream_add(struct hash_stream *h, const void *bytes, size_t len)
{
	XXH3_64bits_update(h->state, bytes, len);
}

uint64_t
hash_stream_next(struct hash_stream *h)
{
	uint64_t sum = XXH3_64bits_digest(h->state);

	XXH3_64bits_reset(h->state);
	return sum;
}

/* The sum and the end of the stream are one call: no caller needs one without the other. */
uint64_t
hash_stream_free(struct hash_stream *h)
{
	uint64_t sum = XXH3_64bits_digest(h->state);

	XXH3_freeState(h->state);
	free(h);
	return sum;
}

/* n is from 1 to 31 here: a shift by 32 would be undefined. */
static uint32_t
rotl(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

/* One 64-byte block; sine is RFC 1321's table of floor(2^32 |sin(i + 1)|). */
static void
md5_block(uint32_t s[4], const unsigned char *p)
{
	static const uint32_t sine[64] = { 0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee,
		0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1,
		0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
		0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6,
		0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
		0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60,
		0xbebfbc70, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5,
		0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3,
		0x8f0ccc92, 0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
		0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391 };
	static const int shift[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 },
		{ 6, 10, 15, 21 } };
	uint32_t a = s[0], b = s[1], c = s[2], d = s[3], w[16];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 |
		    (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24;
	for (int i = 0; i < 64; i++) {
		uint32_t f;
		int g;

		switch (i / 16) {
		case 0:
			f = (b & c) | (~b & d);
			g = i;
			break;
		case 1:
			f = (d & b) | (~d & c);
			g = (5 * i + 1) % 16;
			break;
		case 2:
			f = b ^ c ^ d;
			g = (3 * i + 5) % 16;
			break;
		default:
			f = c ^ (b | ~d);
			g = 7 * i % 16;
			break;
		}
		f += a + sine[i] + w[g];
		a = d;
		d = c;
		c = b;
		b += rotl(f, shift[i / 16][i % 4]);
	}
	s[0] += a;
	s[1] += b;
	s[2] += c;
	s[3] += d;
}

/*
 * RFC 1321. The tail holds the rest of the data, the bit 1 and the length in bits; it takes a
 * second block when fewer than nine bytes are left in the first. out is 32 lower-case digits and a
 * NUL.
 */
void
hash_md5_hex(const void *bytes, size_t len, char out[33])
{
	uint32_t s[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	const unsigned char *p = bytes;
	unsigned char tail[128] = { 0 };
	size_t rest = len % 64, end = rest < 56 ? 64 : 128;

	for (size_t i = 0; i + 64 <= len; i += 64)
		md5_block(s, p + i);
	if (rest)
		memcpy(tail, p + len - rest, rest);
	tail[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		tail[end - 8 + (size_t)i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < end; i += 64)
		md5_block(s, tail + i);
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", s[i / 4] >> (8 * (i % 4)) & 0xff);
}

/*
 * Castagnoli's polynomial, bits reflected, as in RFC 3720. Bit by bit without a table: nothing
 * large goes through it.
 */
uint32_t
hash_crc32c(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint32_t crc = ~0u;

	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

uint32_t
hash_crc32(uint32_t before, const void *bytes, size_t len)
{
	return (uint32_t)crc32_z(before, bytes, len);
}
