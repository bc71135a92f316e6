/* directory.h - a directory of tokenizer files in place of a file; for registry.c alone */
#ifndef TOKEN_DIRECTORY_H
#define TOKEN_DIRECTORY_H

#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/token/tokenizer.h"

/* What to open for a spec. */
struct directory {
	struct tokenizer_spec spec;
	const char *configs; /* the directory whose configs name the tokens around a text; NULL:
			      * none */
};

/* Where spec names a directory, with no type or HuggingFaceTokenizer, without tokenizer.json that
 * has tekken.json, or a rank file named tokenizer.model: the spec of that file, and a line about it
 * in notes; with the latter the configs count. Any other spec stays unchanged: a SentencePiece
 * model, or vocab.json and merges.txt, are read as a tokenizer.json would be, which is noted too.
 * The pool owns the paths. */
struct directory directory_find(
    const struct tokenizer_spec *spec, struct mem_pool *pool, struct str *notes);

#endif
