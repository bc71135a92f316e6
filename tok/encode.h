/*
 * encode.h - JSON Lines to datasets, or to counts
 *
 * Follows Megatron-LM's preprocess_data.py: one dataset a key, documents in the order of the lines,
 * a string is one sequence, a list is one document of several, an eod goes after the last sequence
 * of a document that is not empty, an empty document has no sequence but its entry. The bytes
 * written do not depend on the number of workers, nor on whether the run was stopped and went on.
 */
#ifndef TOK_ENCODE_H
#define TOK_ENCODE_H

#include "lib/base/opt.h"
#include "lib/token/tokenizer.h"
#include "tok/document.h"
#include "tok/files.h"

#include <stdint.h>

enum on_error { ON_ERROR_STOP, ON_ERROR_SKIP };

struct encode_config {
	struct tokenizer_spec tokenizer;  /* first: the tokenizer's option rows rely on it */
	struct opt_list input, json_keys; /* no input: standard input */
	struct opt_list compare;          /* more tokenizer files, when counting */
	const char *files_from;           /* NULL: no list of inputs */
	const char *part;                 /* I/N; NULL: everything */
	const char *output_prefix;        /* NULL: count only */
	const char *error_list;           /* NULL: PREFIX.errors.tsv, or none when counting */
	const char *eod_token;            /* NULL: eod_id */
	int64_t workers;                  /* 0: one a core */
	int64_t eod_id;                   /* -1: the tokenizer's own */
	int64_t max_document_bytes;       /* of a line */
	int64_t log_interval;             /* documents between two lines; 0: none */
	double resume_interval;           /* seconds between two marks */
	int on_error;
	bool append_eod, prepend_bos, split_sentences, keep_newlines, resume, force;
	bool json, histogram; /* how results are printed; for the caller */
	int stop_fd;          /* readable when the run is to end; -1: nothing stops it */
	const char *version;  /* for the notes beside the dataset */
};

struct encode_counts {
	int64_t documents, blank, input_bytes; /* input_bytes: of the lines, uncompressed */
	int64_t bad[JSONL_CLASSES];            /* skipped lines by class */
	int64_t stored, stored_total; /* bytes of the files read, and to read (-1: not known) */
	/* those of them that an earlier run has read; for speeds */
	int64_t input_before, stored_before;
	int num_tokenizers, num_keys;
	struct key_counts *key; /* num_keys a tokenizer */
};

struct encode;

/* Checks everything that can be checked before the first line: tokenizer, eod, inputs, targets.
 * NULL: nothing was written. The configuration must outlive it. */
struct encode *encode_open(const struct encode_config *c, struct err *e);
/* Does the work and commits the datasets; progress (may be NULL) is called now and then,
 * by one thread at a time. -1: no dataset appears under its name, except those of keys that were
 * committed before a commit failed. */
int encode_run(struct encode *x, void (*progress)(void *ctx, const struct encode_counts *),
    void *ctx, struct err *e);
const struct encode_counts *encode_counts(const struct encode *x);
/* The type and first file of a tokenizer, for the rows of counts. */
const struct tokenizer *encode_tokenizer(const struct encode *x, int i);
/* Whether stop_fd ended the run, and whether --resume can go on from there. */
bool encode_interrupted(const struct encode *x);
bool encode_can_resume(const struct encode *x);
void encode_close(struct encode *x);

#endif
