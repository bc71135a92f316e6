/*
 * alphabet.h - the printable characters that stand for bytes in the files of byte-level BPE
 *
 * Printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up in their order: so 'Ġ'
 * is a space. Source: bytes_to_unicode of openai/gpt-2 encoder.py.
 */
#ifndef TOKEN_ALPHABET_H
#define TOKEN_ALPHABET_H

#include "lib/base/str.h"

#include <stddef.h>
#include <stdint.h>

enum { ALPHABET_END = 0x144 }; /* every character is below this */

struct alphabet {
	int16_t byte_of[ALPHABET_END]; /* by code point; -1: outside the alphabet */
	char utf8[256][3];             /* by byte: the character, NUL-ended */
};

void alphabet_init(struct alphabet *a);
/* Writes the bytes that a token's name stands for; out holds len. Returns how many, or -1 when a
 * character is outside the alphabet. */
int64_t alphabet_decode(const struct alphabet *a, const char *name, size_t len, char *out);
/* Appends the name of n bytes. */
void alphabet_encode(const struct alphabet *a, const char *s, size_t n, struct str *out);

#endif
