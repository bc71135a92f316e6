/* count.h - counts in words */
#ifndef TOK_COUNT_H
#define TOK_COUNT_H

#include "tok/encode.h"

#include <stdio.h>

/* TSV with a header line, a row a key: key, documents, sequences, bytes (of text), tokens,
 * bytes_per_token. */
void count_print(const struct encode_config *c, const struct encode_counts *n, FILE *out);
/* Appends "3 syntax, 1 bom": the skipped lines by class; nothing when there were none. */
void count_skipped(const struct encode_counts *n, struct str *out);

#endif
