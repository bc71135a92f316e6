/*
 * regex.h - the patterns of tokenizer.json: strings, and regular expressions through PCRE2
 *
 * Expressions are written for Oniguruma, whose classes differ a little from PCRE2's: they are
 * translated, or refused if that is impossible. PCRE2's limits of steps, depth and memory apply, so
 * that no text can exhaust the machine.
 */
#ifndef TOKEN_REGEX_H
#define TOKEN_REGEX_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct regex;         /* read-only, shared by threads */
struct regex_scratch; /* of one thread */

struct regex *regex_new(const char *pattern, size_t len, struct err *e);
/* The pattern is literal text of at least one byte. */
struct regex *regex_new_string(const char *text, size_t len);
bool regex_is_string(const struct regex *r);
void regex_free(struct regex *r); /* NULL is fine */

struct regex_scratch *regex_scratch_new(void);
void regex_scratch_free(struct regex_scratch *m);

/* A text that is being searched, well-formed UTF-8 unless the pattern is a string: set s and n,
 * zero the rest. */
struct regex_walk {
	const char *s;
	size_t n, pos;
	size_t start, end; /* the last match, in bytes from s */
	size_t guard;      /* 1 + end of the last match, where no empty one may follow */
};

/* Goes to the next match: 1, or 0 when there is none, or -1 when a limit is reached. Matches do not
 * overlap; they may be empty, though not directly after another. */
int regex_next(const struct regex *r, struct regex_scratch *m, struct regex_walk *w, struct err *e);

/* Appends the version of the linked library, such as "10.42". */
void regex_version(struct str *out);

#endif
