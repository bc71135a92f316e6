/*
 * notes.h - PREFIX.json: how a dataset was made
 *
 * mtok, and the verbs of mshard that make a dataset, write it next to the dataset. A dataset is
 * complete without it; the notes tell whether two datasets, or a dataset and a tokenizer, belong
 * together. "tokenizer" is {"type", "hash", "vocab_size", "files"} and, where ids depend on it,
 * "unigram_ties" and "tokenizer_like"; the hash is the 16 hexadecimal digits of tokenizer_hash, and
 * equal hashes mean equal ids.
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

/* Here and below, unknown also means different among the inputs of a dataset. */
struct notes {
	const char *type; /* Megatron-LM's name of the tokenizer; NULL: unknown */
	char hash[17];    /* "" when type is NULL */
	int64_t vocab_size;
	/* for a unigram model of SentencePiece; NULL: unknown, or not such a model */
	const char *unigram_ties;
	/* the release of transformers where releases differ; NULL: unknown, or they do not */
	const char *tokenizer_like;
	const char **file; /* the files of the tokenizer */
	int num_files;
	int64_t append_eod, special_as_text; /* 0, 1 or NOTES_UNKNOWN */
	int64_t eod_id, bos_id; /* -1: there is none, none was prepended; or NOTES_UNKNOWN */
	const char *mask;       /* the last part of the prefix of its mask; NULL: it has none */
	struct mem_pool pool;   /* owns the strings */
};

/* Fills n: 1 when the notes exist, 0 with everything unknown when they do not, -1 when they cannot
 * be read. Call notes_release in every case. */
int notes_read(const char *prefix, struct notes *n, struct err *e);
void notes_release(struct notes *n);
/* The member mask alone, whatever the others are; NULL: none. The pool owns it. */
int notes_read_mask(const char *prefix, struct mem_pool *pool, const char **mask, struct err *e);
/* Sets everything to unknown. */
void notes_init(struct notes *n);
/* False when both tokenizers are known and their hashes differ. */
bool notes_agree(const struct notes *a, const struct notes *b);
/* What differs between the two becomes unknown in `into`. */
void notes_merge(struct notes *into, const struct notes *other);
/* Appends the members "tokenizer" to "special_as_text", "bos_id" where it is known, and "mask"
 * where there is one, each with its comma and newline. */
void notes_add_members(const struct notes *n, struct str *out);

struct notes_input {
	const char *file;       /* a prefix */
	int64_t bytes;          /* of its .bin */
	int64_t first_document; /* where a piece begins; -1: the whole input was taken */
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
/* Gives the text to a writer that has everything. */
void notes_describe(struct dataset_writer *w, const struct notes *n, const struct notes_origin *o);

#endif
