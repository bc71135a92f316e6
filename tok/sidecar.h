/* sidecar.h - PREFIX_KEY_document.json: how a dataset was made, for people and for later checks */
#ifndef TOK_SIDECAR_H
#define TOK_SIDECAR_H

#include "tok/encoding.h"
#include "tok/input.h"

struct sidecar {
	const struct encode_config *c;
	const struct tokenizer *tokenizer;
	const struct input_list *files;
	const struct input *input;
	const struct encode_counts *counts;
	int64_t eod, bos; /* bos -1: no text begins with it */
};

/* Appends the text for key number `key`. mask: the name of its mask; NULL: it has none. */
void sidecar_text(const struct sidecar *s, int key, const char *mask, struct str *out);

#endif
