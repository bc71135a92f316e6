/*
 * spmtext.h - text as SentencePiece models see it
 *
 * Inside the encoder the blank mark U+2581 is the byte 0x20 when the model escapes blanks, since
 * the two are then equivalent: English text keeps its bytes. Everything else is well-formed UTF-8,
 * because the normaliser replaces malformed bytes.
 */
#ifndef TOKEN_SPM_SPMTEXT_H
#define TOKEN_SPM_SPMTEXT_H

#include "lib/token/simd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPM_BLANK = 0x20, SPM_MARK = 0x2581, BYTE_BLOCK = SIMD_BLOCK, CODE_PAGES = 0x1100 };

/* Bytes after a text that may be read (but are not used). */
enum { SPM_PADDING = BYTE_BLOCK + 16 };

/* The character at p of well-formed text; *len is its length. */
static inline uint32_t
spm_character(const unsigned char *p, size_t *len)
{
	uint32_t c = p[0];

	if (c < 0x80) {
		*len = 1;
		return c;
	}
	if (c < 0xe0) {
		*len = 2;
		return (c & 0x1f) << 6 | (p[1] & 0x3f);
	}
	if (c < 0xf0) {
		*len = 3;
		return (c & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	}
	*len = 4;
	return (c & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 |
	    (p[3] & 0x3f);
}

/* A set of bytes that is tested a block at a time. Fill it, then call byte_set_close. */
struct byte_set {
	bool in[256];
	struct simd_set bits;
};

void byte_set_close(struct byte_set *s);

/* Bit i tells whether block[i] is in the set. */
static inline uint64_t
byte_set_find(const struct byte_set *s, const unsigned char block[BYTE_BLOCK])
{
	return simd_find(&s->bits, block);
}

/* A number for each code point, 0 for most: pages of 256, of which the empty ones are one. */
struct code_map {
	uint16_t page[CODE_PAGES];
	uint32_t (*block)[256]; /* block 0 is all 0 */
	int blocks;
};

void code_map_init(struct code_map *m);
void code_map_set(struct code_map *m, uint32_t cp, uint32_t value);
void code_map_release(struct code_map *m);

static inline uint32_t
code_map_get(const struct code_map *m, uint32_t cp)
{
	return m->block[m->page[cp >> 8]][cp & 255];
}

#endif
