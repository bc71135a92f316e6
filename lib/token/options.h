/*
 * options.h - the option rows that choose a tokenizer, the same for every tool
 *
 * The rows write into a struct tokenizer_spec at the offset 0: a config struct that has them begins
 * with its spec. TOKENIZER_FILE_OPTS are those that name files; TOKENIZER_OPTS are all of them.
 */
#ifndef TOKEN_OPTIONS_H
#define TOKEN_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/token/fim.h"
#include "lib/token/tokenizer.h"

/* clang-format off */
#define TOKENIZER_STRING(field) .type = OPT_STRING, .off = offsetof(struct tokenizer_spec, field)
#define TOKENIZER_FILE_OPTS \
	{ .type = OPT_GROUP, .help = "Tokenizer" }, \
	{ .name = "tokenizer-type", TOKENIZER_STRING(type), .unit = "TYPE", \
	  .help = "Megatron-LM's name, such as GPT2BPETokenizer; default: from the files" }, \
	{ .name = "tokenizer-model", TOKENIZER_STRING(model), .unit = "FILE", \
	  .help = "SentencePiece model, tokenizer.json or its directory, or tiktoken rank file" }, \
	{ .name = "vocab-file", TOKENIZER_STRING(vocab), .unit = "FILE", \
	  .help = "GPT-2's vocab.json" }, \
	{ .name = "vocab", TOKENIZER_STRING(vocab), .unit = "FILE", \
	  .help = "the same as --vocab-file" }, \
	{ .name = "merge-file", TOKENIZER_STRING(merges), .unit = "FILE", \
	  .help = "GPT-2's merges.txt" }
#define TOKENIZER_AT(field) .off = offsetof(struct tokenizer_spec, field)
#define TOKENIZER_OPTS \
	TOKENIZER_FILE_OPTS, \
	{ .name = "vocab-size", .type = OPT_INT, TOKENIZER_AT(vocab_size), .min = 1, \
	  .max = 2147483647, \
	  .help = "number of ids of a NullTokenizer, whose texts are ids, or of a " \
	  "TikTokenizer's JSON list" }, \
	{ .name = "unigram-ties", .type = OPT_CHOICE, TOKENIZER_AT(unigram_ties), \
	  .choices = unigram_ties_names, .def = "0.2.2", \
	  .help = "SentencePiece unigram models: of two equally likely cuts take that of the " \
	  "library's version 0.2.2 " \
	      "and later, or of 0.2.1 and before" }, \
	{ .name = "tokenizer-like", .type = OPT_CHOICE, TOKENIZER_AT(like), \
	  .choices = tokenizer_like_names, .def = "transformers-5.24", \
	  .help = "the release whose AutoTokenizer a directory's ids follow where releases " \
	  "differ" }, \
	{ .name = "special-as-text", .type = OPT_FLAG, TOKENIZER_AT(special_as_text), \
	  .help = "take special strings such as <|endoftext|> inside the text as ordinary text" }, \
	{ .name = "tokenizer-hf-no-include-special-tokens", .type = OPT_FLAG, \
	  TOKENIZER_AT(hf_no_include_special_tokens), \
	  .help = "tokenizer.json or a directory: leave out the special tokens that its " \
	  "post-processor or its configs put around a text" }, \
	{ .name = "tiktoken-pattern", TOKENIZER_STRING(tiktoken_pattern), .unit = "NAME", \
	  .help = "how a TikTokenizer cuts text: v1, v2, gpt2, cl100k, o200k or qwen2; by " \
	  "default found from the file" }, \
	{ .name = "tiktoken-num-special-tokens", .type = OPT_INT, \
	  TOKENIZER_AT(tiktoken_num_special_tokens), .min = 1, \
	  .max = 2147483647, .def = "1000", .unit = "N", \
	  .help = "ids before the ranks of a TikTokenizer's JSON list" }, \
	{ .name = "tiktoken-special-tokens", .type = OPT_LIST, \
	  TOKENIZER_AT(tiktoken_special_tokens), .unit = "TEXT", \
	  .help = "names of a TikTokenizer's special tokens, in the order of their ids" }
/* The rows of a struct fim_options, at an offset in the verb's own config. */
#define FIM_AT(base, field) .off = (base) + offsetof(struct fim_options, field)
#define FIM_RATE(option, base, field, lowest, value, text) \
	{ .name = option, .type = OPT_NUMBER, FIM_AT(base, field), .min = lowest, .max = 1, \
	  .def = value, .help = text }
#define FIM_WORD(option, base, field, word, value, text) \
	{ .name = option, .type = OPT_STRING, FIM_AT(base, field), .unit = word, .def = value, \
	  .help = text }
#define FIM_OPTS(base) \
	{ .type = OPT_GROUP, .help = "Fill in the middle" }, \
	{ .name = "fim-data", .type = OPT_FLAG, FIM_AT(base, on), \
	  .help = "rearrange documents as training with this option does" }, \
	FIM_RATE("fim-rate", base, rate, 0, "0.5", "documents that are rearranged"), \
	FIM_RATE("fim-spm-rate", base, spm_rate, 0, "0.5", \
	    "of these, those whose end comes first"), \
	FIM_WORD("fim-split-sample", base, token[FIM_SPLIT], "TOKEN", NULL, \
	    "a document with this token is rearranged in the parts between"), \
	FIM_RATE("fim-fragment-rate", base, fragment_rate, -1, "-1", \
	    "parts that are rearranged; below 0: as many as documents"), \
	FIM_WORD("fim-no-prefix", base, no_prefix, "TEXT", NULL, \
	    "documents, or parts, that begin with TEXT stay as they are"), \
	FIM_WORD("fim-prefix-token", base, token[FIM_PREFIX], "TOKEN", "<fim_prefix>", \
	    "before the beginning"), \
	FIM_WORD("fim-middle-token", base, token[FIM_MIDDLE], "TOKEN", "<fim_middle>", \
	    "before the middle"), \
	FIM_WORD("fim-suffix-token", base, token[FIM_SUFFIX], "TOKEN", "<fim_suffix>", \
	    "before the end"), \
	FIM_WORD("fim-pad-token", base, token[FIM_PAD], "TOKEN", "<fim_pad>", \
	    "fills a sample that became shorter"), \
	FIM_WORD("fim-eod-token", base, token[FIM_EOD], "TOKEN", "<|endoftext|>", \
	    "where documents end")
/* clang-format on */

#endif
