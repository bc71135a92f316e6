/* simd.c - blocks of text as masks (lib/token/simd.h, tok/scan.h) against the definition of each
 * class, byte by byte */
#include "lib/token/simd.h"
#include "lib/base/rng.h"
#include "tests/check.h"
#include "tok/scan.h"

#include <ctype.h>

/* The bits of place `at`, which has the byte c. */
static void
is_classified(const struct simd_masks *m, int at, int c)
{
	CHECK((m->letter >> at & 1) == (c < 0x80 && isalpha(c)));
	CHECK((m->upper >> at & 1) == (c < 0x80 && isupper(c)));
	CHECK((m->lower >> at & 1) == (c < 0x80 && islower(c)));
	CHECK((m->digit >> at & 1) == (c < 0x80 && isdigit(c)));
	CHECK((m->white >> at & 1) == (c < 0x80 && isspace(c)));
	CHECK((m->space >> at & 1) == (c == ' '));
	CHECK((m->newline >> at & 1) == (c == '\n' || c == '\r'));
	CHECK((m->apostrophe >> at & 1) == (c == '\''));
	CHECK((m->high >> at & 1) == (c >= 0x80));
}

/* Each byte value at each place of a block, among letters. */
static void
classes(void)
{
	unsigned char s[SIMD_BLOCK];

	for (int at = 0; at < SIMD_BLOCK; at++)
		for (int c = 0; c < 256; c++) {
			struct simd_masks m;

			memset(s, 'x', sizeof s);
			s[at] = (unsigned char)c;
			m = simd_classify(s);
			is_classified(&m, at, c);
			CHECK((scan_mask((const char *)s) >> at & 1) ==
			    (c == '"' || c == '\\' || c < 0x20));
		}
}

/* Blocks and sets of random bytes, at any address. */
static void
random_blocks(void)
{
	unsigned char buffer[SIMD_BLOCK + 16];
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int round = 0; round < 1000; round++) {
		unsigned char *s = buffer + mt19937_next(&rng) % 16;
		struct simd_set set;
		struct simd_masks m;
		uint64_t found;

		for (size_t i = 0; i < sizeof set; i++)
			set.row[i / 16][i % 16] = (unsigned char)mt19937_next(&rng);
		for (int i = 0; i < SIMD_BLOCK; i++)
			s[i] = (unsigned char)mt19937_next(&rng);
		m = simd_classify(s);
		found = simd_find(&set, s);
		for (int i = 0; i < SIMD_BLOCK; i++) {
			is_classified(&m, i, s[i]);
			CHECK((found >> i & 1) ==
			    (set.row[s[i] >> 7][s[i] & 15] >> (s[i] >> 4 & 7) & 1));
		}
	}
}

static void
keys(void)
{
	uint64_t two[4] = { 1, 2, 3, 4 };

	CHECK(simd_match(two, (uint64_t[]){ 1, 2 }) == 1);
	CHECK(simd_match(two, (uint64_t[]){ 3, 4 }) == 4);
	CHECK(simd_match(two, (uint64_t[]){ 1, 4 }) == 0);
	CHECK(simd_match(two, (uint64_t[]){ 3, 2 }) == 0);
	two[2] = 1;
	two[3] = 2;
	CHECK(simd_match(two, (uint64_t[]){ 1, 2 }) == 5);
}

static void
least(void)
{
	uint32_t x[24];

	CHECK(simd_least(x, 0) == UINT32_MAX);
	for (int at = 0; at < 24; at++) {
		memset(x, 0xff, sizeof x);
		x[at] = 0x80000000u + (uint32_t)at;
		CHECK(simd_least(x, 24) == 0x80000000u + (uint32_t)at);
	}
}

/* Text of every length, with and without a mark at every position: where plain text ends, and what
 * is copied up to there. */
static void
scans(void)
{
	static const char simple[256] = { ['n'] = '\n' };
	char text[300], out[300 + SCAN_SLACK];

	for (int len = 0; len < 300; len += 7)
		for (int at = 0; at <= len; at++) {
			const char *end = text + len;
			char *to = out;

			memset(text, 'a', sizeof text);
			if (at < len)
				text[at] = '"';
			CHECK(scan_text(text, end) == text + at);
			CHECK(scan_copy(text, end, &to, simple) == text + at && to == out + at &&
			    !memcmp(out, text, (size_t)at));
			if (at + 1 >= len)
				continue;
			memcpy(text + at, "\\n", 2);
			to = out;
			CHECK(scan_copy(text, end, &to, simple) == end && to == out + len - 1);
			CHECK(out[at] == '\n' &&
			    !memcmp(out + at + 1, text + at + 2, (size_t)(len - at - 2)));
		}
}

int
main(void)
{
	classes();
	random_blocks();
	keys();
	least();
	scans();
	return check_done();
}
