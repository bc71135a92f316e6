/* json_lines.h - the lines of a text that are not blank, and the members that one may have */
#ifndef DATA_JSON_LINES_H
#define DATA_JSON_LINES_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"

/* Begins with the text and number 0. */
struct json_lines {
	const char *text, *end; /* what is left */
	int64_t number;         /* of the line that was taken last, from 1 */
};

/* Takes the next line that has more than white space of JSON; false after the last one. A byte
 * order mark before the first one is passed over. */
bool json_lines_next(struct json_lines *l, const char **line, size_t *len);
/* -1 where an object has a member that is not in the list, which NULL ends. what: "a prompt". */
int json_lines_members(
    const struct json_value *v, const char *const *known, const char *what, struct err *e);
/* The member "id", a string or a whole number, as it was written, in the pool; *out stays as it is
 * where there is none. */
int json_lines_id(
    const struct json_value *v, struct mem_pool *pool, const char **out, struct err *e);

#endif
