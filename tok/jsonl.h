/*
 * jsonl.h - one line of JSON Lines, one or several wanted members
 *
 * Accepts what Python's json.loads accepts: the last of several members with one name counts, keys
 * may be written with escapes and in any order, NaN and Infinity are numbers. Unlike Python it
 * refuses unpaired surrogate escapes in wanted text. The whole line is checked, the wanted strings
 * are decoded; \u0000 stays.
 */
#ifndef TOK_JSONL_H
#define TOK_JSONL_H

#include "lib/base/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jsonl_class {
	JSONL_OK,
	JSONL_BLANK,
	JSONL_SYNTAX,
	JSONL_MISSING_KEY,
	JSONL_WRONG_TYPE,
	JSONL_NOT_OBJECT,
	JSONL_LONE_SURROGATE,
	JSONL_BAD_UTF8,
	JSONL_BOM,
	JSONL_TOO_LONG,
	JSONL_REFUSED /* by the tokenizer */,
	/* of chat.h */
	JSONL_BAD_CHAT,
	JSONL_BAD_SPAN,
	JSONL_CONTROL,
	JSONL_CLASSES,
};

/* "ok", "blank", "syntax", "missing-key", ... */
extern const char *const jsonl_class_name[JSONL_CLASSES];

struct jsonl_text {
	const char *bytes; /* in the line or in the parser's memory; valid until the next line */
	size_t len;
};

struct jsonl;

/* Borrows the names. A line of more than max_bytes is refused unread. */
struct jsonl *jsonl_new(const struct opt_list *keys, int64_t max_bytes);
void jsonl_free(struct jsonl *j);

/* Parses one line (without or with its line end). Every class but JSONL_OK and JSONL_BLANK has a
 * detail. */
enum jsonl_class jsonl_parse(struct jsonl *j, const char *line, size_t len);
const char *jsonl_detail(const struct jsonl *j);

/* The same of a document of plain text, of any number of lines: it is the one string of the first
 * member. JSONL_OK, JSONL_BLANK, JSONL_BAD_UTF8 or JSONL_TOO_LONG. */
enum jsonl_class jsonl_take_text(struct jsonl *j, const char *text, size_t len);

/* Begins a walk over the strings of wanted member `key`, after JSONL_OK: one for a string, any
 * number for a list. A list is read again, since its strings would take more in memory than in the
 * line. */
void jsonl_walk(struct jsonl *j, int key);
/* The next string of the walk, valid until the next call; false after the last, and before any
 * walk over the line. */
bool jsonl_next(struct jsonl *j, struct jsonl_text *text);
/* After JSONL_OK: true when all these strings are in memory of j, so that the line is no longer
 * needed. */
bool jsonl_has_copied(const struct jsonl *j);

#endif
