/* utf8.h - strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point at s (n >= 1 bytes); returns its length 1..4, or 0 when it is
 * malformed. */
int utf8_decode(const unsigned char *s, size_t n, uint32_t *cp);
/* Writes 1..4 bytes; returns how many. cp must be a scalar value. */
int utf8_encode(uint32_t cp, unsigned char out[4]);
/* White space of a str of Python: str.isspace, and \s of its expressions. */
bool utf8_is_space(uint32_t cp);
/* Offset of the first malformed byte, or n when all of it is well formed. */
size_t utf8_check(const unsigned char *s, size_t n);
/* True when all of it is well formed; runs at memory speed. */
bool utf8_valid(const char *s, size_t n);
/*
 * Writes the text as one line that is safe on a terminal: malformed bytes as \xff, control
 * characters (C0, DEL, C1) as \n, \t, \x1b or \u0085, likewise line separators and marks that
 * change the direction of writing. Writes as many whole characters as fit into size bytes with a
 * NUL, and returns their bytes. Safe in a signal handler.
 */
size_t utf8_escape(const char *bytes, size_t n, char *out, size_t size);
/* Appends the text with U+FFFD for each longest part that begins a character without being one, as
 * Python's errors="replace" does. */
void utf8_repair(const char *bytes, size_t n, struct str *out);

#endif
