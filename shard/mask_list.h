/*
 * mask_list.h - a list of documents, or of spans of them
 *
 * A line is a document number, or document, first token and number of tokens, separated by blanks
 * or tabs. A first line that begins with the word document is a header. A table that begins with
 * the word iteration is one of `mshard where`: its columns corpus, document, first and count are
 * read.
 */
#ifndef SHARD_MASK_LIST_H
#define SHARD_MASK_LIST_H

#include "lib/base/err.h"
#include "lib/data/dataset.h"

#include <stddef.h>
#include <stdint.h>

struct mask_span {
	int64_t document, first, count; /* count -1: to the end of the document */
	long line;                      /* of the list, from 1 */
};

/* The list; free() *span. */
struct mask_list {
	struct mask_span *span;
	int64_t count;
};
/* Reads all lines, of a table those of a corpus; NULL: none is named. -1 with the line that is
 * wrong. */
int mask_list_parse(const char *text, size_t len, const char *name, const char *corpus,
    struct mask_list *out, struct err *e);

/* Reads and parses a file; a document that the dataset does not have is an error with its line. */
int mask_list_read(const char *path, const char *corpus, const struct dataset *d,
    struct mask_list *out, struct err *e);

#endif
