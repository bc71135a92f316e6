/*
 * errors.h - the list of bad lines that were skipped: one row of tab-separated columns each
 *
 * Columns: file, line (from 1), offset (of the line in the file, decoded), class, reason. Tabs and
 * other control characters of a name or a reason become '?'.
 */
#ifndef TOK_ERRORS_H
#define TOK_ERRORS_H

#include "lib/base/io.h"
#include "tok/jsonl.h"

struct error_row {
	const char *file;
	int64_t line, offset;
	enum jsonl_class class;
	const char *why;
};

/* Begins the list with its header line. resume: under a name that a later run finds, keeping the
 * first `keep` bytes. */
int errors_open(struct outfile *o, const char *path, bool resume, int64_t keep, struct err *e);
/* A failed write is found by outfile_commit. */
void errors_add(struct outfile *o, const struct error_row *row);

#endif
