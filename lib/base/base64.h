/* base64.h - base 64 with padding (RFC 4648, section 4) */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "lib/base/str.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Writes the bytes that n characters stand for; out holds n / 4 * 3. Returns how many, or -1 when
 * the text is no base 64: a length that four does not divide, a character outside the alphabet,
 * padding elsewhere than at the end.
 */
int64_t base64_decode(const char *text, size_t n, unsigned char *out);
/* How many of the n characters at text are of the alphabet or '=', up to the first that is not. */
size_t base64_span(const char *text, size_t n);
/* Appends the text that stands for n bytes, padded. */
void base64_encode(struct str *out, const void *bytes, size_t n);

#endif
