/*
 * mask_list.h - a list of documents, or of spans of them
 *
 * A line is a document number, or document, first token and number of tokens, separated by blanks
 * or tabs. A first line that begins with the word document is a header.
 */
#ifndef SHARD_MASK_LIST_H
#define SHARD_MASK_LIST_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct mask_span {
	int64_t document, first, count; /* count -1: to the end of the document */
};

/* Reads all lines; free() *out. -1 with the line that is wrong. */
int mask_list_parse(const char *text, size_t len, const char *name, struct mask_span **out,
    int64_t *count, struct err *e);

#endif
