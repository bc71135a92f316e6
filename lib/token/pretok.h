/*
 * pretok.h - cutting text into the pieces that BPE merges, by hand-written scanners instead of
 * regular expressions
 *
 * Bytes that are not well-formed UTF-8 count as one character each of class other, so that any
 * bytes can be encoded.
 */
#ifndef TOKEN_PRETOK_H
#define TOKEN_PRETOK_H

#include <stddef.h>

struct pretok;                          /* class tables; read-only, shared by threads */

struct pretok *pretok_new(void);
void   pretok_free(struct pretok *p);

/*
 * The end of GPT-2's piece that begins at pos < n; n is the end of the text for the rules that look
 * ahead. Source: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * (openai/gpt-2 encoder.py).
 */
size_t pretok_gpt2(const struct pretok *p, const unsigned char *s, size_t n, size_t pos);

#endif
