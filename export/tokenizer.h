/*
 * tokenizer.h - the tokenizer files of a Hugging Face directory
 *
 * tokenizer.json is complete and tokenizer_config.json names PreTrainedTokenizerFast, the only
 * class that no version of transformers rebuilds from vocabulary and merges. A SentencePiece model
 * becomes BPE with merges derived from its pieces, or Unigram with its scores; GPT-2's vocab.json
 * and merges.txt become byte-level BPE; a tokenizer.json is copied unchanged. Source: spec of
 * tokenizer.json in huggingface/tokenizers; google/sentencepiece for what the pieces mean.
 */
#ifndef EXPORT_TOKENIZER_H
#define EXPORT_TOKENIZER_H

#include "export/extras.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum special { SPECIAL_BOS, SPECIAL_EOS, SPECIAL_UNK, SPECIAL_PAD, SPECIAL_COUNT };

struct tokenizer_files {
	struct str json;                /* tokenizer.json */
	struct str config, special_map; /* tokenizer_config.json and special_tokens_map.json to
					 * copy; empty: to be generated */
	struct extras extras;           /* what else lies with a tokenizer.json */
	int64_t tokens;
	int64_t id[SPECIAL_COUNT]; /* -1: none */
	char *text[SPECIAL_COUNT]; /* NULL: none; owned */
	bool adds_bos;             /* the template begins with BOS */
};

/* Each fills t from files; tokenizer_release in every case. */
/* bos: 1 or 0: the template begins with BOS or not; -1: if the model has one. */
int export_sentencepiece(struct tokenizer_files *t, const char *model, int64_t bos, struct err *e);
int tokenizer_gpt2_files(
    struct tokenizer_files *t, const char *vocab, const char *merges, struct err *e);
int tokenizer_json_files(struct tokenizer_files *t, const char *path, struct err *e);
/* Whether path is a tokenizer.json, or a directory that should hold one. */
bool tokenizer_is_json(const char *path);
void tokenizer_release(struct tokenizer_files *t);
/* tokenizer_config.json and special_tokens_map.json. */
void tokenizer_write_config(
    const struct tokenizer_files *t, int64_t model_max_length, struct str *out);
void tokenizer_write_special(const struct tokenizer_files *t, struct str *out);

/* One entry of "added_tokens". */
void tokenizer_added(
    struct str *out, int64_t id, const char *text, size_t len, bool special, bool normalized);

#endif
