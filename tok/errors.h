/*
 * errors.h - the list of bad lines that were skipped: one row of tab-separated columns each
 *
 * Columns: file, line (from 1), offset (of the line in the file, decoded), class, reason. Tabs and
 * other control characters of a name or a reason become '?'.
 */
#ifndef TOK_ERRORS_H
#define TOK_ERRORS_H

#include "lib/base/outfile.h"
#include "tok/jsonl.h"

struct error_row {
	const char *file;
	int64_t line, offset;
	enum jsonl_class class;
	const char *why;
};

/* resume: under a name that a later run finds, keeping the first `keep` bytes. */
struct error_start {
	bool resume;
	struct lock *lock; /* of the output: an error if it is lost before the file changes */
	int64_t keep;
};

/* Begins the list with its header line, or continues it. */
int errors_open(struct outfile *o, const char *path, const struct error_start *from, struct err *e);
/* 0 when the list may be made: nothing has its name or, if replace, a list has. */
int errors_check_target(const char *path, bool replace, struct err *e);
/* What the first line of a file shows of its format, to be added to the reason: "; ..." or "". line
 * has a byte where the class is not JSONL_BLANK. */
const char *errors_advice(enum jsonl_class class, bool plain, const char *line);
/* A failed write is found by target_commit. */
void errors_add(struct outfile *o, const struct error_row *row);

#endif
