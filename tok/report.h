/* report.h - counts in words, tables and JSON */
#ifndef TOK_REPORT_H
#define TOK_REPORT_H

#include "tok/encode.h"

#include <stdio.h>

/*
 * What a run prints on standard output, of the first wish that holds:
 *   writing, json   one line of JSON with what was read and written; without json nothing
 *   json            JSON Lines, one a tokenizer and key, with the histogram of lengths
 *   histogram       TSV: tokenizer, key, from, to (tokens), documents
 *   else            TSV: tokenizer, key, documents, sequences, bytes (of text), tokens,
 *                   bytes_per_token, longest (document, in tokens)
 */
void report_run(const struct encode_config *c, const struct encode *x, double seconds, FILE *out);

/* Appends "3 syntax, 1 bom": the skipped lines by class; nothing when there were none. */
void report_skipped(const struct encode_counts *n, struct str *out);
/* Appends how far a run is, for the line on a terminal. */
void report_progress(const struct encode_counts *n, double seconds, struct str *out);
/* Appends the last line of a run. */
void report_summary(const struct encode_counts *n, double seconds, struct str *out);

#endif
