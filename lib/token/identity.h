/*
 * identity.h - the tokenizer in the names of Megatron-LM's index maps
 *
 * The names cover a path and the arguments of the tokenizer's constructor as strings, so the same
 * files under another path count as another tokenizer.
 */
#ifndef TOKEN_IDENTITY_H
#define TOKEN_IDENTITY_H

#include "lib/token/tokenizer.h"

enum { TOKENIZER_ARGUMENTS = 8 };

struct tokenizer_identity {
	const char *path;                    /* NULL: none; the spec's or static */
	char *argument[TOKENIZER_ARGUMENTS]; /* "key=value", in the order of the call */
	int count;
};

/* Empty when the spec names no tokenizer. Examines the first bytes of the model when the spec has
 * no type; -1 when the type is unknown. tokenizer_identity_release frees the arguments; the path is
 * borrowed. */
int tokenizer_identity(
    const struct tokenizer_spec *spec, struct tokenizer_identity *out, struct err *e);
void tokenizer_identity_release(struct tokenizer_identity *id);

#endif
