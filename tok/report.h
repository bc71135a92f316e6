/* report.h - counts in words, tables and JSON */
#ifndef TOK_REPORT_H
#define TOK_REPORT_H

#include "tok/encode.h"

#include <stdio.h>

/* TSV with a header line, a row a tokenizer and key: tokenizer, key, documents, sequences, bytes (of
 * text), tokens, bytes_per_token, longest (document, in tokens). */
void report_counts(const struct encode *x, const struct opt_list *keys, FILE *out);
/* The same as JSON Lines, with the histogram of lengths in each. */
void report_counts_json(const struct encode *x, const struct opt_list *keys, FILE *out);
/* TSV of the documents by length: tokenizer, key, from, to (tokens), documents. */
void report_histogram(const struct encode *x, const struct opt_list *keys, FILE *out);
/* One line of JSON: what a run has read and written. */
void report_run_json(const struct encode *x, const struct opt_list *keys, double seconds, FILE *out);

/* Appends "3 syntax, 1 bom": the skipped lines by class; nothing when there were none. */
void report_skipped(const struct encode_counts *n, struct str *out);
/* Appends how far a run is, for the line on a terminal. */
void report_progress(const struct encode_counts *n, double seconds, struct str *out);
/* Appends the last line of a run. */
void report_summary(const struct encode_counts *n, double seconds, struct str *out);

#endif
