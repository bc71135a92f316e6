/*
 * hf_rows.h - the classes of transformers: which one a directory's configs name, and what it builds
 *
 * The generic class takes a tokenizer.json as it is; the others take its vocabulary, merges and,
 * mostly, its post-processor, and build the rest anew. For the files of lib/token/hf alone.
 */
#ifndef TOKEN_HF_HF_ROWS_H
#define TOKEN_HF_HF_ROWS_H

#include "lib/token/hf/hf_configs.h"
#include "lib/token/tokenizer_impl.h"

#include <stdbool.h>

/* What a directory has: a tokenizer.json, a SentencePiece model, vocab.json and merges.txt, or
 * ranks to which classes do not matter. */
enum hf_source { HF_JSON, HF_PIECES, HF_PAIR, HF_RANKS };

/* A class; the model types are words between blanks. */
struct class_row {
	const char *name, *model_types;
	/* members of the file that it builds anew, as JSON with words after @; NULL: none */
	const char *members;
	const char *tokens;       /* special tokens that it has by default, likewise */
	bool space;               /* add_prefix_space by default */
	bool bos;                 /* bos alone stands before a text: always, or by default without a
				   * tokenizer.json */
	bool unigram;             /* its model; else a BPE */
	bool pair;                /* it reads vocab.json and merges.txt */
	const char *first, *last; /* special tokens around every text, by their keys; or NULL */
};

extern const struct class_row hf_generic_row;

/* The class by the rules of AutoTokenizer; static. root is the tokenizer.json, NULL without one.
 * NULL with a reason where there is none and the class is not built here. */
const struct class_row *hf_row(struct tokenizer *t, const struct hf_configs *c, enum hf_source from,
    const struct json_value *root, struct err *e);

#endif
