/* unicode.h - the class of a code point */
#ifndef TOKEN_UNICODE_H
#define TOKEN_UNICODE_H

#include "lib/token/unicode_class.h"

#include <stddef.h>
#include <stdint.h>

enum { UNICODE_CODE_POINTS = 0x110000 };

/* The class of a code point, by binary search; cp may be any number. */
enum unicode_class unicode_class(uint32_t cp);

/* table[cp] becomes the class of cp; table must be zeroed. */
void unicode_spread(unsigned char table[UNICODE_CODE_POINTS]);

#endif
