/* options.h - the option tables of mtok's verbs */
#ifndef TOK_OPTIONS_H
#define TOK_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/token/tokenizer.h"

struct info_config {
	struct tokenizer_spec tokenizer; /* first: the tokenizer's option rows rely on it */
	const char *check;
	bool pieces, json;
};

extern const struct opt encode_opts[], count_opts[], decode_opts[], train_opts[], info_opts[];

/* What most runs of a verb have, for --help. */
#define COMMON_TOKENIZER "tokenizer-model vocab-file merge-file"
#define COMMON_ENCODE \
	"input json-keys output-prefix append-eod " COMMON_TOKENIZER \
	" prepend-bos workers on-error part resume force"
#define COMMON_COUNT "input json-keys " COMMON_TOKENIZER " compare workers on-error histogram json"
#define COMMON_DECODE "ids " COMMON_TOKENIZER " json skip-special"
#define COMMON_TRAIN \
	"input json-keys output vocab-size model-type character-coverage user-defined-symbols " \
	"input-sentence-size workers force"
#define COMMON_INFO COMMON_TOKENIZER " check pieces json"

/* Options of preprocess_data that mtok does not have, with what to do instead. */
extern const struct opt_foreigners encode_foreign;

/* Adds operands to a list of inputs; the list's memory is the pool's. */
void options_add_operands(struct opt_list *input, struct mem_pool *pool, int argc, char **argv);

#endif
