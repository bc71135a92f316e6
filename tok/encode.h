/*
 * encode.h - JSON Lines to datasets, or to counts
 *
 * Follows Megatron-LM's preprocess_data.py: one dataset a key, documents in the order of the lines,
 * a string is one sequence, a list is one document of several, an eod goes after the last sequence
 * of a document that is not empty, an empty document has no sequence but its entry. The bytes
 * written do not depend on the number of workers.
 */
#ifndef TOK_ENCODE_H
#define TOK_ENCODE_H

#include "lib/base/opt.h"
#include "lib/token/tokenizer.h"
#include "tok/jsonl.h"

#include <stdint.h>

enum on_error { ON_ERROR_STOP, ON_ERROR_SKIP };

struct encode_config {
	struct tokenizer_spec tokenizer;        /* first: the tokenizer's option rows rely on it */
	struct opt_list input, json_keys;       /* no input: standard input */
	const char *output_prefix;              /* NULL: count only */
	int64_t workers;                        /* 0: one a core */
	int64_t eod_id;                         /* -1: the tokenizer's own */
	int64_t log_interval;                   /* documents between two lines; 0: none */
	int on_error;
	bool append_eod, force;
	const char *version;                    /* for the notes beside the dataset */
};

struct key_counts {
	int64_t sequences, tokens, bytes;       /* bytes of text, decoded */
};

struct encode_counts {
	int64_t documents, blank, input_bytes;  /* input_bytes: of the lines, uncompressed */
	int64_t bad[JSONL_CLASSES];             /* skipped lines by class */
	int num_keys;
	struct key_counts *key;
};

struct encode;

/* Checks everything that can be checked before the first line: tokenizer, eod, inputs, targets.
 * NULL: nothing was written. */
struct encode *encode_open(const struct encode_config *c, struct err *e);
/* Does the work and commits the datasets; progress (may be NULL) is called by this thread now and
 * then. -1: no dataset appears under its name, except those of keys that were committed before a
 * commit failed. */
int encode_run(struct encode *x, void (*progress)(void *ctx, const struct encode_counts *),
    void *ctx, struct err *e);
const struct encode_counts *encode_counts(const struct encode *x);
void encode_close(struct encode *x);

#endif
