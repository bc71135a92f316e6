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

/* Options of preprocess_data that mtok does not have, with what to do instead. */
extern const struct opt_foreigners encode_foreign;

/* Adds operands to a list of inputs; the list's memory is the pool's. */
void options_add_operands(struct opt_list *input, struct mem_pool *pool, int argc, char **argv);

#endif
