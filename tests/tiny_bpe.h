/*
 * tiny_bpe.h - makes a small byte-level BPE: vocab.json and merges.txt with random merges
 *
 * Tokens 0..255 are the bytes in the order of GPT-2's list; each merge joins two earlier tokens;
 * <|endoftext|> comes last.
 */
#ifndef TESTS_TINY_BPE_H
#define TESTS_TINY_BPE_H

#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"

#include <string.h>

enum { TINY_MERGES = 200, TINY_TOKENS = 256 + TINY_MERGES };

struct tiny_bpe {
	char name[TINY_TOKENS][64]; /* in the alphabet of the files */
	unsigned char bytes[TINY_TOKENS][32];
	size_t len[TINY_TOKENS];
	int count, left[TINY_TOKENS], right[TINY_TOKENS];
};

/* The character that stands for a byte. */
static inline void
tiny_letter(int byte, char out[5])
{
	uint32_t cp = 0x100;

	for (int b = 0; b <= byte; b++) {
		int plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

		if (b == byte && plain)
			cp = (uint32_t)b;
		else if (b < byte && !plain)
			cp++;
	}
	out[utf8_encode(cp, (unsigned char *)out)] = '\0';
}

/* Whether a token with these bytes exists. */
static inline int
tiny_has(const struct tiny_bpe *t, const unsigned char *bytes, size_t len)
{
	for (int i = 0; i < t->count; i++)
		if (t->len[i] == len && !memcmp(t->bytes[i], bytes, len))
			return 1;
	return 0;
}

static inline void
tiny_make(struct tiny_bpe *t, struct mt19937 *rng)
{
	memset(t, 0, sizeof *t);
	for (; t->count < 256; t->count++) {
		t->bytes[t->count][0] = (unsigned char)t->count;
		t->len[t->count] = 1;
		tiny_letter(t->count, t->name[t->count]);
	}
	while (t->count < TINY_TOKENS) {
		/* Half of the parts are among a few letters, so that merges meet. */
		int a = mt19937_interval(rng, 1)
		    ? 'a' + (int)mt19937_interval(rng, 3)
		    : (int)mt19937_interval(rng, (uint64_t)t->count - 1);
		int b = mt19937_interval(rng, 1)
		    ? 'a' + (int)mt19937_interval(rng, 3)
		    : (int)mt19937_interval(rng, (uint64_t)t->count - 1);
		unsigned char joined[64];

		memcpy(joined, t->bytes[a], t->len[a]);
		memcpy(joined + t->len[a], t->bytes[b], t->len[b]);
		if (t->len[a] + t->len[b] > 8 || tiny_has(t, joined, t->len[a] + t->len[b]))
			continue;
		memcpy(t->bytes[t->count], joined, t->len[a] + t->len[b]);
		t->len[t->count] = t->len[a] + t->len[b];
		memcpy(t->name[t->count], t->name[a], strlen(t->name[a]));
		memcpy(t->name[t->count] + strlen(t->name[a]), t->name[b], strlen(t->name[b]));
		t->left[t->count] = a;
		t->right[t->count] = b;
		t->count++;
	}
}

/* Writes the two files. */
static inline int
tiny_write(const struct tiny_bpe *t, const char *vocab, const char *merges, struct err *e)
{
	struct str v = { 0 }, m = { 0 };
	int rc;

	str_adds(&v, "{");
	str_adds(&m, "#version: 0.2\n");
	for (int i = 0; i < t->count; i++) {
		str_add_json(&v, t->name[i], strlen(t->name[i]));
		str_addf(&v, ": %d, ", i);
		if (i >= 256)
			str_addf(&m, "%s %s\n", t->name[t->left[i]], t->name[t->right[i]]);
	}
	str_addf(&v, "\"<|endoftext|>\": %d}\n", t->count);
	rc = outfile_write(vocab, v.buf, v.len, e);
	if (rc == 0)
		rc = outfile_write(merges, m.buf, m.len, e);
	str_release(&v);
	str_release(&m);
	return rc;
}

#endif
