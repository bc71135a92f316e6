/*
 * notes.h - PREFIX.json: how a dataset was made
 *
 * Written beside a dataset by mtok and by those verbs of mshard that make one. A dataset is
 * complete without; what the notes are for is to tell whether two datasets, or a dataset and a
 * tokenizer, belong together. "tokenizer" is {"type", "hash", "vocab_size", "files"} and, where ids
 * depend on it, "unigram_ties"; the hash is the 16 hexadecimal digits of tokenizer_hash, and equal
 * hashes mean equal ids.
 */
#ifndef DATA_NOTES_H
#define DATA_NOTES_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/data/dataset.h"

#include <stdbool.h>
#include <stdint.h>

#define NOTES_UNKNOWN INT64_MIN

/* Not known, here and below, also means: not the same for all that a dataset was made of. */
struct notes {
	const char *type; /* Megatron-LM's name of the tokenizer; NULL: not known */
	char hash[17];    /* "" when type is NULL */
	int64_t vocab_size;
	/* of a unigram model of SentencePiece; NULL: not known, or there is none */
	const char *unigram_ties;
	const char **file; /* what the tokenizer was read from */
	int num_files;
	int64_t append_eod, special_as_text; /* 0, 1 or NOTES_UNKNOWN */
	int64_t eod_id;                      /* -1: there is none; NOTES_UNKNOWN */
	struct mem_pool pool;                /* owns the strings that were read */
};

/* Fills n: 1 when the notes are there, 0 with everything unknown when there are none, -1 when they
 * cannot be read. notes_release it in every case. */
int notes_read(const char *prefix, struct notes *n, struct err *e);
void notes_release(struct notes *n);
/* Everything unknown. */
void notes_init(struct notes *n);
/* False when both tokenizers are known and their hashes differ. */
bool notes_agree(const struct notes *a, const struct notes *b);
/* What is not the same in both becomes unknown in `into`. */
void notes_merge(struct notes *into, const struct notes *other);
/* The members "tokenizer" to "special_as_text", each with its comma and line feed. */
void notes_add_members(const struct notes *n, struct str *out);

struct notes_input {
	const char *file;       /* a prefix */
	int64_t bytes;          /* of its .bin */
	int64_t first_document; /* a piece begins there; -1: all of it was taken */
};
/* How a dataset was made from others. */
struct notes_origin {
	const char *made_by;
	const struct notes_input *input;
	int num_inputs;
};
/* Appends the text of PREFIX.json, for dataset_writer_describe. */
void notes_text(const struct notes *n, const struct notes_origin *o,
    const struct dataset_counts *counts, struct str *out);
/* Tells a writer to which all has been added. */
void notes_describe(struct dataset_writer *w, const struct notes *n, const struct notes_origin *o);

#endif
