/*
 * str.h - a growing byte string
 *
 * Zero-initialise. buf is NULL until something was added, then always ends in a NUL that len does
 * not count; it may hold NULs inside. str_release frees it and makes it empty again; str_detach
 * hands the buffer to the caller, who frees it.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stddef.h>
#include <stdio.h>

struct str {
	char *buf;
	size_t len, cap;
};

void str_reserve(struct str *s, size_t extra);
void str_add(struct str *s, const void *bytes, size_t n);
void str_addc(struct str *s, char c);
void str_adds(struct str *s, const char *z);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a text that begins in the given column, in lines of at most 80 columns; lines after the
 * first begin in the column `left`. */
void str_add_wrapped(struct str *s, const char *text, size_t column, size_t left);
void str_clear(struct str *s); /* keeps the memory */
void str_put(
    struct str *s, FILE *out); /* writes it and clears it; errors are found when out is closed */
void str_release(struct str *s);
char *str_detach(struct str *s); /* never NULL */

/* Appends the shortest decimal that reads back as the same double, with a point or exponent:
 * 0.1, 5.0, 1e-05. */
void str_add_double(struct str *s, double x);

/* Appends n bytes as a quoted JSON string; control characters, quotes and backslashes are
 * escaped. */
void str_add_json(struct str *s, const char *bytes, size_t n);

#endif
