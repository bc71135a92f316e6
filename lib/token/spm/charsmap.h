/*
 * charsmap.h - the compiled normalisation of a SentencePiece model, as tokenizer.json carries it
 *
 * A double-array trie from byte strings to replacements. It is applied as in
 * huggingface/tokenizers: to each whole grapheme of less than six bytes, else to its characters one
 * by one; of the keys that the text begins with, the shortest counts.
 */
#ifndef TOKEN_SPM_CHARSMAP_H
#define TOKEN_SPM_CHARSMAP_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct charsmap; /* read-only, shared by threads */

/* From the bytes of "precompiled_charsmap". */
struct charsmap *charsmap_new(const unsigned char *bytes, size_t len, struct err *e);
void charsmap_free(struct charsmap *m); /* NULL is fine */

/* The bytes of the longest key of a trie, SIZE_MAX when it has a cycle. A unit's children are as in
 * spmnorm.c; byte 0 has no child. */
size_t charsmap_depth(const uint32_t *unit, size_t units);

/* Appends n bytes of well-formed UTF-8 with the replacements made. Stops when out exceeds limit,
 * which a few bytes of text may cause. */
void charsmap_apply(
    const struct charsmap *m, const char *s, size_t n, size_t limit, struct str *out);

/* The leading bytes of the result that come from the first `first` bytes of the text, a whole
 * number of characters, by the offsets that huggingface/tokenizers keeps. */
size_t charsmap_first(const struct charsmap *m, const char *s, size_t n, size_t first);

/* Appends the versions of the library that cuts graphemes and of its tables. */
void charsmap_version(struct str *out);

#endif
