/*
 * dialect.h - regular expressions as Oniguruma understands them, written for PCRE2
 *
 * Source: Oniguruma's doc/RE (Ruby syntax) and pcre2pattern(3). ^ and $ mean lines, . with the
 * option m a line feed too; \s is the property White_Space and \w letters, marks, numbers,
 * connectors and Other_Alphabetic, for \b too; \p{Script} is the property Script and not
 * Script_Extensions. General categories and scripts are those of Unicode 16.0, as in Oniguruma: to
 * PCRE2's own, of 14.0 or later, a table adds and removes what has changed since.
 */
#ifndef TOKEN_DIALECT_H
#define TOKEN_DIALECT_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stddef.h>

/* Appends the expression, for PCRE2 with UTF, UCP and MULTILINE. A part that cannot be expressed
 * exactly is an error that names it: intersections, inverted sets inside sets, some properties and
 * POSIX brackets, intervals with a plus, letters by category in a set that ignores case. */
int dialect_translate(const char *pattern, size_t len, struct str *out, struct err *e);

#endif
