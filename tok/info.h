/* info.h - what `mtok info` prints */
#ifndef TOK_INFO_H
#define TOK_INFO_H

#include "lib/token/tokenizer.h"

#include <stdio.h>

/* "key TAB value" lines: type, vocab_size, unk_id, bos_id, eos_id, pad_id (-1: none), hash,
 * file... */
void info_print(const struct tokenizer *t, FILE *out);
/* The same as one line of JSON; files is a list. */
void info_json(const struct tokenizer *t, FILE *out);
/* TSV with a header line: id, piece (a JSON string), score, type. */
void info_pieces(const struct tokenizer *t, FILE *out);

#endif
