/* directory.h - a directory of tokenizer files in place of a file; for registry.c alone */
#ifndef TOKEN_DIRECTORY_H
#define TOKEN_DIRECTORY_H

#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/token/tokenizer.h"

/* What to open for a spec. */
struct directory {
	struct tokenizer_spec spec;
	const char *configs; /* where configs say what stands around a text; NULL: nowhere */
};

/* Where spec names a directory without tokenizer.json that has tekken.json, or a rank file of the
 * name tokenizer.model: the spec of that, and a line about it in notes; the configs count beside
 * the latter. Any other spec stays as it is: a SentencePiece model, or vocab.json and merges.txt,
 * are read as if there were a tokenizer.json, which is noted too. The paths are the pool's. */
struct directory directory_find(
    const struct tokenizer_spec *spec, struct mem_pool *pool, struct str *notes);

/* Is this text, which names no file, one that a hub of models would know: OWNER/NAME? */
bool directory_is_hub_name(const char *text);

#endif
