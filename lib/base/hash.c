/* hash.c - XXH3-64, MD5 and CRC-32C */
#include "lib/base/hash.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t
hash_xxh3(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

struct hash_stream {
	XXH3_state_t *state;
};

struct hash_stream *
hash_stream_new(void)
{
	struct hash_stream *h = mem_alloc(1, sizeof *h);

	h->state = XXH3_createState();
	if (!h->state)
		BUG("XXH3_createState failed");
	XXH3_64bits_reset(h->state);
	return h;
}

void
hash_stream_add(struct hash_stream *h, const void *bytes, size_t len)
{
	XXH3_64bits_update(h->state, bytes, len);
}

uint64_t
hash_stream_free(struct hash_stream *h)
{
	uint64_t sum = XXH3_64bits_digest(h->state);

	XXH3_freeState(h->state);
	free(h);
	return sum;
}

static uint32_t
rotl(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

/* One 64-byte block; the sine table of RFC 1321 is floor(2^32 |sin(i + 1)|). */
static void
md5_block(uint32_t s[4], const unsigned char *p)
{
	static const int shift[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 },
		{ 6, 10, 15, 21 } };
	uint32_t a = s[0], b = s[1], c = s[2], d = s[3], w[16];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 |
		    (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24;
	for (int i = 0; i < 64; i++) {
		uint32_t f, t = (uint32_t)(4294967296.0 * fabs(sin(i + 1)));
		int g;

		switch (i / 16) {
		case 0:  f = (b & c) | (~b & d); g = i; break;
		case 1:  f = (d & b) | (~d & c); g = (5 * i + 1) % 16; break;
		case 2:  f = b ^ c ^ d;          g = (3 * i + 5) % 16; break;
		default: f = c ^ (b | ~d);       g = 7 * i % 16; break;
		}
		f += a + t + w[g];
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
