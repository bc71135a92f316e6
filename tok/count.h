/* count.h - the table that `mtok count` prints */
#ifndef TOK_COUNT_H
#define TOK_COUNT_H

#include "tok/encode.h"

#include <stdio.h>

/* TSV with a header line, a row a key: key, documents, sequences, bytes (of text), tokens, bytes_per_token. */
void count_print(const struct encode_config *c, const struct encode_counts *n, FILE *out);

#endif
