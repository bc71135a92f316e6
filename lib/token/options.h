/*
 * options.h - the option rows that choose a tokenizer, the same for every tool
 *
 * The rows write into a struct tokenizer_spec at the offset 0: a config struct that has them begins
 * with its spec. TOKENIZER_FILE_OPTS are those that name files; TOKENIZER_OPTS are all of them.
 */
#ifndef TOKEN_OPTIONS_H
#define TOKEN_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/token/tokenizer.h"

#define TOKENIZER_STRING(field) .type = OPT_STRING, .off = offsetof(struct tokenizer_spec, field)
#define TOKENIZER_FILE_OPTS \
	{ .type = OPT_GROUP, .help = "Tokenizer" }, \
	{ .name = "tokenizer-type", TOKENIZER_STRING(type), .unit = "TYPE", \
	  .help = "Megatron-LM's name, such as GPT2BPETokenizer; by default the files tell" }, \
	{ .name = "tokenizer-model", TOKENIZER_STRING(model), .unit = "FILE", .help = "SentencePiece model" }, \
	{ .name = "vocab-file", TOKENIZER_STRING(vocab), .unit = "FILE", .help = "GPT-2's vocab.json" }, \
	{ .name = "vocab", TOKENIZER_STRING(vocab), .unit = "FILE", .help = "the same as --vocab-file" }, \
	{ .name = "merge-file", TOKENIZER_STRING(merges), .unit = "FILE", .help = "GPT-2's merges.txt" }
#define TOKENIZER_OPTS \
	TOKENIZER_FILE_OPTS, \
	{ .name = "vocab-size", .type = OPT_INT, .off = offsetof(struct tokenizer_spec, vocab_size), .min = 1, \
	  .max = 2147483647, .help = "number of ids of a NullTokenizer, whose texts are ids already" }, \
	{ .name = "special-as-text", .type = OPT_FLAG, .off = offsetof(struct tokenizer_spec, special_as_text), \
	  .help = "take special strings such as <|endoftext|> inside the text as ordinary text" }

#endif
