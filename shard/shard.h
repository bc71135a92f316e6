/*
 * shard.h - what mshard does to datasets
 *
 * Products go to the given stream; the caller flushes and checks it. All return 0, or -1 with the
 * reason. A prefix names PREFIX.idx and PREFIX.bin. Notes for people are added, a line each, to the
 * config's `said`.
 */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include "lib/base/opt.h"
#include "lib/data/notes.h"
#include "lib/token/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Progress of long work: the bytes done and the total. */
struct shard_meter {
	void (*tell)(uint64_t done, uint64_t total); /* NULL: not shown */
	uint64_t done, total;
};
void shard_tell(struct shard_meter *m, uint64_t bytes); /* adds bytes to those done */
/* dataset_add_documents in steps, with the meter updated after each. */
int shard_add_documents(struct dataset_writer *w, const struct dataset *d, const int64_t range[2],
    struct shard_meter *m, struct err *e);

/* Cuts .bin or .idx from the name of a file of a pair. */
char *shard_prefix(char *name);
/* Checks --output of the verbs that make datasets: neither a stream nor the name of a file; -1 is
 * wrong usage. */
int shard_check_output(const char *prefix, struct err *e);
/* Opens an input. Its tokens are read, never mapped: most verbs pass over them once. */
struct dataset *shard_open(const char *prefix, struct err *e);

/* Counts and the histogram of sequence lengths: rows "dataset item value", with or without a header
 * line, or one JSON object on a line. */
enum info_form { INFO_HEAD, INFO_ROWS, INFO_JSON };
int shard_info(const char *prefix, enum info_form form, FILE *out, struct err *e);

struct verify_config {
	struct tokenizer_spec spec;        /* first: the tokenizer's option rows rely on it */
	int64_t vocab_size;                /* ids must be in [0, vocab_size); 0: not checked */
	bool xxh;                          /* check PREFIX.xxh, or write it if it is missing */
	bool seal;                         /* write PREFIX.sum if it is missing */
	const struct tokenizer *tokenizer; /* the one of spec; NULL: none */
	void (*progress)(uint64_t done, uint64_t total);
};
/* Checks everything that opening does, the checksums of PREFIX.sum if there are any, and what the
 * config adds. Prints "PREFIX: ok, ...". */
int shard_verify(const struct verify_config *c, const char *prefix, FILE *out, struct err *e);

/* The checksums of both files. */
struct checksums {
	uint64_t idx, bin;
};
/* 1 with those of PREFIX.xxh, 0 when it does not exist, -1 when it is invalid. */
int checksums_read(const char *prefix, struct checksums *c, struct err *e);
int checksums_write(const char *prefix, const struct checksums *c, struct err *e);

struct head_config {
	struct tokenizer_spec spec;        /* first */
	int64_t count, document;           /* the number of documents, and the first of them */
	const struct tokenizer *tokenizer; /* prints text; NULL: ids */
};
/* Documents as rows "document sequence tokens ids"; the last may be past the end, the first may
 * not. */
int shard_head(const struct head_config *c, const char *prefix, FILE *out, struct err *e);
/* Opens the tokenizer of a spec; *t NULL: the options name none. -1 is wrong usage. */
int shard_tokenizer(const struct tokenizer_spec *spec, struct tokenizer **t, struct err *e);
/* Appends the text of ids as a JSON string, of at most so many bytes of it. */
struct shard_ids {
	const int64_t *id;
	int64_t count;
};
int shard_add_text(const struct tokenizer *t, const struct shard_ids *ids, size_t most,
    struct str *out, struct err *e);
/* Appends ids separated by blanks, or their text as a JSON string, and a line feed. */
int shard_add_ids(
    const struct tokenizer *t, const int64_t *ids, int64_t count, struct str *out, struct err *e);

struct cat_config {
	const char *output;
	bool force;          /* replace existing files */
	bool widen;          /* types may differ; the result has the narrowest that holds all */
	bool mix_tokenizers; /* merge even if the tokenizers differ */
	const char *made_by;
	struct str *said;
	void (*progress)(uint64_t done, uint64_t total);
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_cat_check(const struct cat_config *c, struct err *e);
/* Merges datasets, in order, in constant memory, and writes the notes of the result. */
int shard_cat(const struct cat_config *c, int count, char **prefix, struct err *e);

struct split_config {
	const char *output;        /* the pieces are output_00000 and so on */
	int64_t documents, tokens; /* at most this many per piece; 0: no such limit */
	const char *proportion;    /* shares of the documents, "90,5,5" */
	/* a file of mask_list.h, whose documents are left out of the one piece, output; corpus: of
	 * its rows, where it is a table of where */
	const char *without, *corpus;
	bool force;
	const char *made_by;
	void (*progress)(uint64_t done, uint64_t total);
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_split_check(const struct split_config *c, struct err *e);
/* Cuts between documents: rows "dataset documents sequences tokens". */
int shard_split(const struct split_config *c, const char *prefix, FILE *out, struct err *e);

struct mask_config {
	const char *documents; /* the file of mask_list.h */
	const char *corpus;    /* of its rows, where it is a table of where */
	bool force;            /* take more out of a mask that exists */
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_mask_check(const struct mask_config *c, struct err *e);
/* Writes the mask of a dataset, without the documents or spans of a list: a row "dataset mask
 * tokens counted". */
int shard_mask(const struct mask_config *c, const char *prefix, FILE *out, struct err *e);

struct repair_config {
	const char *output; /* NULL: in_place */
	bool in_place, force;
	const char *made_by;
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_repair_check(const struct repair_config *c, struct err *e);
/* Prints a line for each repair, or that there was nothing to repair. */
int shard_repair(const struct repair_config *c, const char *prefix, FILE *out, struct err *e);

/* How a writer waits for the lock of its dataset: a few seconds, with a note. */
extern const struct lock_terms shard_lock;
/* Whether both prefixes are those of one dataset. */
bool shard_same(const char *prefix, const char *other);

#endif
