/*
 * resume.h - PREFIX.resume: how far a run over many files has come
 *
 * Text, one item per line. The first lines describe the run: tokenizer, options, inputs with their
 * sizes and times; a run is resumed only when they are the same to the letter. The others say how
 * much of the input has been written, how long the temporary files are, and what was counted. The
 * file is replaced whole, after the files that it describes are on the disk, so it never claims
 * more than there is.
 */
#ifndef TOK_RESUME_H
#define TOK_RESUME_H

#include "lib/base/lock.h"
#include "lib/base/str.h"
#include "tok/encoding.h"

/* Where the next batch begins. */
struct resume_place {
	int64_t file, offset; /* index, decoded byte */
	int64_t lines;        /* of the file that were read before it */
	int64_t first;        /* byte at which the reading of the file began */
};

/* What has been written for a key. */
struct resume_key {
	int64_t bin_bytes, sequences, documents;
};

struct resume_state {
	struct resume_place at;
	struct resume_key *key; /* num_keys, the owner's */
	int64_t error_bytes;
	bool committing; /* everything is written; files are being put under their names */
};

/* PREFIX.resume; free() it. */
char *resume_path(const char *prefix);
/* The lines that must not change between two runs. */
void resume_describe(const struct encode_config *c, const struct tokenizer *t, int64_t eod,
    const struct input_list *files, struct str *out);
/* lock: of the output, an error if it is lost before the name changes. */
int resume_write(const char *path, const struct str *what, const struct resume_state *s,
    const struct encode_counts *n, struct lock *lock, struct err *e);
/* 1 with state and counts filled, 0 when there is no such file, -1 when it belongs to another
 * run. */
int resume_read(const char *path, const struct str *what, struct resume_state *s,
    struct encode_counts *n, struct err *e);

#endif
