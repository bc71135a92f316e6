/* unpack.h - gzip and zstd, one step at a time; recognised by the first bytes of a file */
#ifndef TOK_UNPACK_H
#define TOK_UNPACK_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { UNPACK_HEAD = 6 }; /* bytes that show the format */

struct unpack;

/* Stored bytes in, decoded bytes out; taken and given say how many of each. */
struct unpack_step {
	const unsigned char *in;
	size_t len;
	char *out;
	size_t room, taken, given;
};

/* Looks at the first bytes of a file. *u is NULL for a plain one. -1: a format that is not
 * supported. The name is for messages and borrowed. */
int unpack_new(
    struct unpack **u, const char *name, const unsigned char *head, size_t n, struct err *e);
void unpack_free(struct unpack *u);
/* Members and frames may follow one another. -1: damaged. */
int unpack_more(struct unpack *u, struct unpack_step *s, struct err *e);
/* True inside a member or frame, where the end of the file would be a truncation. */
bool unpack_within(const struct unpack *u);

#endif
