/* info.h - what `mtok info` prints */
#ifndef TOK_INFO_H
#define TOK_INFO_H

#include "tok/options.h"

#include <stdio.h>

/* Prints what the options ask for, after the texts of c->check, or fails with the first of these
 * that differs. By default "key TAB value" lines: type, vocab_size, unk_id, bos_id, eos_id, pad_id
 * (-1: none), hash, like where releases of transformers differ, file..., and checked, the number of
 * those texts. json: the same as one line of JSON; files is a list. pieces: TSV with a header line:
 * id, piece (a JSON string), score, type. */
int info_report(const struct tokenizer *t, const struct info_config *c, FILE *out, struct err *e);

#endif
