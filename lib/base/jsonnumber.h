/* jsonnumber.h - numbers that JSON allows and simdjson does not; for the files of json.h alone */
#ifndef BASE_JSONNUMBER_H
#define BASE_JSONNUMBER_H

#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Appends a JSON text in which every number fits a type: an integer outside 64 bits becomes a
 * double, a number that no double reaches the largest double of its sign. Text that is not a number
 * by JSON's grammar stays as it is. Returns whether anything was changed.
 */
bool json_fit_numbers(const char *text, size_t len, struct str *out);
/* Appends a text of Python's json, which writes NaN, Infinity and -Infinity, with each of these as
 * a string. Returns whether there was one. */
bool json_quote_words(const char *text, size_t len, struct str *out);

#endif
