/* base64.h - base 64 with padding (RFC 4648, section 4) */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "lib/base/str.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Writes the bytes that n characters stand for; out holds n / 4 * 3. Returns how many, or -1 when
 * the text is not base 64: its length is not a multiple of four, a character is outside the
 * alphabet, or padding is anywhere but at the end.
 */
int64_t base64_decode(const char *text, size_t n, unsigned char *out);
/* The number of characters at text, of n, before the first that is neither in the alphabet nor
 * '='. */
size_t base64_span(const char *text, size_t n);
/* Appends the text that stands for n bytes, padded. */
void base64_encode(struct str *out, const void *bytes, size_t n);

#endif
