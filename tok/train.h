/* train.h - a SentencePiece model from JSON Lines, without flattening them to text first, or from
 * files of text */
#ifndef TOK_TRAIN_H
#define TOK_TRAIN_H

#include "lib/base/opt.h"
#include "lib/base/str.h"

#include <stdint.h>

/* Members have spm_train's names and meanings. */
struct train_config {
	struct opt_list input, json_keys; /* no input: standard input */
	const char *files_from;           /* NULL: no list of inputs */
	int document_by;                  /* enum document_by, of files of text */
	const char *document_separator;   /* of files of text; NULL: none */
	int format;                       /* an enum files_format */
	const char *output;
	int64_t vocab_size, max_sentence_length, input_sentence_size, max_sentencepiece_length,
	    workers;
	int64_t max_document_bytes; /* of a line */
	int64_t unk_id, bos_id, eos_id, pad_id;
	int model_type, normalization_rule_name;
	int64_t seed_sentencepiece_size, num_sub_iterations;
	double character_coverage, shrinking_factor;
	const char *unk_piece, *bos_piece, *eos_piece, *pad_piece, *unk_surface, *required_chars,
	    *normalization_rule_tsv;
	bool sentencepiece_defaults;
	bool byte_fallback, split_digits, allow_whitespace_only_pieces;
	bool keep_extra_whitespaces, no_add_dummy_prefix, no_split_by_whitespace,
	    no_split_by_unicode_script;
	bool no_split_by_number, treat_whitespace_as_suffix, use_all_vocab,
	    no_shuffle_input_sentence, train_extremely_large_corpus;
	bool hard_vocab_limit_off;
	struct opt_list user_defined_symbols, control_symbols;
	int on_error;
	bool force, verbose;
};

extern const char *const train_model_types[], *const train_normalizations[];
enum { TRAIN_NMT_NFKC, TRAIN_IDENTITY = 4 }; /* indices of the latter */

/* pieces: of the model, which may be fewer than vocab_size asks for. */
struct train_counts {
	int64_t documents, sentences, bytes, skipped, pieces;
	struct str lost; /* a line about text that does not come back; the caller's to release */
};

/*
 * Settles the options whose defaults depend on sentencepiece_defaults. Without it they are those of
 * the models of Llama and llm-jp: decoding returns any text, line feeds and runs of blanks
 * included, but for U+2581, which is the models' blank. normalization: that option was given.
 */
void tokenizer_train_defaults(struct train_config *c, bool normalization);

/* Checks what can be checked before anything is read: the output is named and new. */
int tokenizer_train_check(const struct train_config *c, struct err *e);

/*
 * Trains and writes the model whole. A document is cut into sentences at line feeds, and a sentence
 * that is longer than max_sentence_length at the last blank (or character) before, where spm_train
 * would drop it.
 */
int tokenizer_train_run(const struct train_config *c, struct train_counts *counts, struct err *e);

#endif
