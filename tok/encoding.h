/*
 * encoding.h - the request and the counts of an encoding run
 *
 * Used by encode.h, which runs it, and by the parts of a run: its outputs (output.h), the notes
 * beside them (sidecar.h) and the state from which another run continues (resume.h).
 */
#ifndef TOK_ENCODING_H
#define TOK_ENCODING_H

#include "lib/base/opt.h"
#include "lib/token/tokenizer.h"
#include "tok/document.h"

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
	int64_t workers;                  /* 0: one per core */
	int64_t eod_id;                   /* -1: the tokenizer's own */
	int64_t max_document_bytes;       /* of a line */
	struct chat_config chat;          /* what is trained; none: all is */
	int document_by;                  /* enum document_by, of files of text */
	const char *document_separator;   /* of files of text; NULL: none */
	int format;                       /* an enum files_format */
	int64_t log_interval;             /* documents between two notes; 0: none */
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
	/* those of them that an earlier run has read; left out of speeds */
	int64_t input_before, stored_before;
	int num_tokenizers, num_keys;
	struct key_counts *key; /* num_keys a tokenizer */
};

#endif
