/*
 * decoder.h - the decoder of a tokenizer.json: how tokens become text
 *
 * Byte-level decoding is concatenation and needs none of this. The other decoders change a list of
 * tokens step by step and join the result.
 */
#ifndef TOKEN_HF_DECODER_H
#define TOKEN_HF_DECODER_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/token/hf/normalize.h"

#include <stdbool.h>
#include <stddef.h>

struct decoder_step;

struct decoder { /* read-only, shared by threads; zero-initialise */
	struct decoder_step *step;
	int count;
	size_t growth; /* how many times longer the steps may make a token; 0: not longer */
	bool bytes;    /* there is a ByteLevel: tokens are given as their bytes */
};

/* Tokens one after the other; ends has the end of each in text. */
struct token_list {
	struct str text;
	size_t *end;
	size_t count, cap;
};

struct decoder_scratch { /* of one thread; zero-initialise */
	struct token_list list[2];
	struct regex_scratch *regex; /* lent by the owner */
};

/* From the member "decoder". NULL or null joins tokens with spaces. decoder_release in every
 * case. */
int decoder_parse(struct decoder *d, const struct json_value *v, struct err *e);
void decoder_release(struct decoder *d);
void decoder_scratch_release(struct decoder_scratch *x);

/* Begins a list, and adds a token to it. */
void decoder_begin(struct decoder_scratch *x);
void decoder_add(struct decoder_scratch *x, const char *token, size_t len);
/* Runs the steps over the list and appends the text to out. */
void decoder_run(const struct decoder *d, struct decoder_scratch *x, struct str *out);

#endif
