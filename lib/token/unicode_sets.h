/* unicode_sets.h - the sets of code points that components of a tokenizer.json use, as in the
 * reference */
#ifndef TOKEN_UNICODE_SETS_H
#define TOKEN_UNICODE_SETS_H

#include "lib/token/points.h"

#include <stdbool.h>
#include <stdint.h>

enum unicode_set {
	UNICODE_NUMERIC,
	UNICODE_PUNCTUATION,
	UNICODE_WORD,
	UNICODE_ACCENT,
	UNICODE_WHITE,
	UNICODE_SETS
};

/* By binary search; cp may be any number. */
bool unicode_in(enum unicode_set set, uint32_t cp);

/* Adds the set. */
void unicode_set_points(enum unicode_set set, struct points *out);

/* The small letter of a code point, or itself. U+0130 has two, which the caller handles. */
uint32_t unicode_lower(uint32_t cp);

#endif
