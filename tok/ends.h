/*
 * ends.h - where the documents of a file end, found in pieces of any size
 *
 * A document by line is a line without its end, which is LF or CR LF. By blank lines it is what
 * lies between runs of lines of blanks and tabs alone, without the line end before such a run. By
 * separator it is what lies between two lines that equal the separator. Else it is the file. All
 * other bytes belong to documents as they are.
 */
#ifndef TOK_ENDS_H
#define TOK_ENDS_H

#include <stdbool.h>
#include <stddef.h>

enum document_by { BY_FILE, BY_BLANK_LINE, BY_LINE, BY_SEPARATOR };

/* A rule, and what was read of a line; a rule alone is the start of one. */
struct ends {
	enum document_by by;
	const char *separator; /* with BY_SEPARATOR */
	size_t most;           /* bytes of a blank line: a longer one is part of a document */
	size_t seen;           /* bytes of the line, as long as it may end a document */
	bool other;            /* it cannot */
	bool cr;               /* its last byte is a CR */
};

/* Reads text from *at on, to the end of the first line that ends a document. Returns the bytes of
 * that line which belong to none; 0 where the text ends first: the next call takes what follows
 * it. */
size_t ends_next(struct ends *s, const char *text, size_t len, size_t *at);
/* The same of the line that was read, where the file ends without a line feed. */
size_t ends_last(const struct ends *s);
/* The most bytes of what was read last that may turn out to belong to none. */
size_t ends_open(const struct ends *s);

#endif
