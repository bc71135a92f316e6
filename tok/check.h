/* check.h - ids that another program gave to some texts, for `mtok info --check` */
#ifndef TOK_CHECK_H
#define TOK_CHECK_H

#include "lib/base/err.h"
#include "lib/token/tokenizer.h"

#include <stdint.h>

/* Encodes the texts of a file of JSON Lines, each with "text" and "ids", and compares: the number
 * of texts, of which there is at least one; or -1 with the first line that differs or is malformed.
 */
int64_t check_ids(const struct tokenizer *t, const char *path, struct err *e);
/* The same for len bytes of such lines; path is for messages. */
int64_t check_lines(
    const struct tokenizer *t, const char *text, size_t len, const char *path, struct err *e);

#endif
