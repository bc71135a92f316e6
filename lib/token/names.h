/*
 * names.h - the strings of a vocabulary and their ids
 *
 * A hash table that borrows the strings: they must outlive it. Strings are bytes with a length.
 */
#ifndef TOKEN_NAMES_H
#define TOKEN_NAMES_H

#include "lib/base/json.h"

#include <stddef.h>
#include <stdint.h>

struct name {
	const char *bytes; /* NULL: a free slot */
	uint32_t len, id;
};

struct names {
	struct name *slot; /* open addressing, at most half full */
	size_t mask;
};

/* Room for count strings. */
void names_init(struct names *n, size_t count);
void names_release(struct names *n);
/* The id that the string already has, or -1 when it was new and now has this one. */
int64_t names_add(struct names *n, const char *s, size_t len, uint32_t id);
/* Adds the members of a vocabulary, each a token with its id, which is not checked. A token that
 * exists already is an error that names it. The text of the JSON must outlive the names. */
int names_add_members(struct names *n, const struct json_value *vocab, struct err *e);
/* The id, or -1. */
int64_t names_find(const struct names *n, const char *s, size_t len);
/* Sets the ids of count names, UINT32_MAX for unknown ones: faster than one by one. */
void names_find_all(const struct names *n, struct name *name, size_t count);

#endif
