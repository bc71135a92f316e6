/* decode.h - token ids back to text */
#ifndef TOK_DECODE_H
#define TOK_DECODE_H

#include "lib/token/tokenizer.h"

#include <stdio.h>

struct decode_config {
	struct tokenizer_spec tokenizer; /* first: the tokenizer's option rows rely on it */
	struct opt_list ids;             /* decimal; together one document */
	bool skip_special;
	bool json; /* JSON Lines; what is not UTF-8 becomes U+FFFD */
};

/* Writes every document of a dataset to out, one after the other, each followed by a line feed. */
int decode_dataset(const struct decode_config *c, const struct tokenizer *t, const char *prefix,
    FILE *out, struct err *e);
/* The same for c->ids, and for lines of decimal ids separated by blanks or commas. */
int decode_ids(const struct decode_config *c, const struct tokenizer *t, FILE *out, struct err *e);
int decode_lines(
    const struct decode_config *c, const struct tokenizer *t, FILE *in, FILE *out, struct err *e);

#endif
