/* unicode.h - the classes and properties of code points */
#ifndef TOKEN_UNICODE_H
#define TOKEN_UNICODE_H

#include "lib/token/points.h"
#include "lib/token/unicode_class.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNICODE_CODE_POINTS = POINTS_LAST + 1 };

/* The class of a code point, by binary search; cp may be any number. */
enum unicode_class unicode_class(uint32_t cp);

/* Adds the code points of a general category, by one or two letters, or of a script by its long
 * name, all in small letters. False when the tables do not have it. */
bool unicode_property(const char *name, struct points *out);
/* The value of an ASCII_Hex_Digit, or -1. */
int unicode_hex_digit(char c);
/* Adds the 25 characters of White_Space. */
void unicode_white(struct points *out);

#endif
