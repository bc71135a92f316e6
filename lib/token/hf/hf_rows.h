/*
 * hf_rows.h - the classes of transformers: which one a directory's configs name, and what it builds
 *
 * The generic class takes a tokenizer.json as it is; the others take its vocabulary, merges and,
 * mostly, its post-processor, and rebuild the rest. Only for the files of lib/token/hf.
 */
#ifndef TOKEN_HF_HF_ROWS_H
#define TOKEN_HF_HF_ROWS_H

#include "lib/token/hf/hf_configs.h"
#include "lib/token/tokenizer_impl.h"

#include <stdbool.h>

/* What a directory has: a tokenizer.json, a SentencePiece model, vocab.json and merges.txt, or
 * ranks, for which classes do not matter. */
enum hf_source { HF_JSON, HF_PIECES, HF_PAIR, HF_RANKS };

/* A class; the model types are words between blanks. */
struct class_row {
	const char *name, *model_types;
	/* members of the file that it rebuilds, as JSON with words after @; NULL: none */
	const char *members;
	const char *tokens;       /* its default special tokens, likewise */
	bool space;               /* add_prefix_space by default */
	bool bos;                 /* bos alone stands before a text: always, or by default without a
				   * tokenizer.json */
	bool unigram;             /* its model is a Unigram; else a BPE */
	bool pair;                /* it reads vocab.json and merges.txt */
	const char *first, *last; /* special tokens around every text, by their keys; or NULL */
	/* Version 4 made the template from "add_bos_token" and "add_eos_token", and whether bos was
	 * the default; it made the tokenizer anew of other files if "add_prefix_space" was set. */
	bool switches, old_bos, anew;
	const char *old_tokens; /* its default special tokens in version 4; NULL: the same */
};

extern const struct class_row hf_generic_row;

/* The class by the rules of transformers 4.57, of a directory with tokenizer.json: the one that the
 * configs name. NULL with a reason when they name only a model type. */
const struct class_row *hf_old_row(struct tokenizer *t, const struct hf_configs *c, struct err *e);

/* The class by the rules of AutoTokenizer; static. root is the tokenizer.json, NULL without one.
 * NULL with a reason when there is none and the class is not supported. */
const struct class_row *hf_row(struct tokenizer *t, const struct hf_configs *c, enum hf_source from,
    const struct json_value *root, struct err *e);

#endif
