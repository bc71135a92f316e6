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

/* Where spec names a directory without tokenizer.json: the spec of what else is in it, tekken.json,
 * tokenizer.model or vocab.json with merges.txt, and a line about that in notes; the configs count
 * beside the last two. Any other spec stays as it is. The paths are the pool's. */
struct directory directory_find(
    const struct tokenizer_spec *spec, struct mem_pool *pool, struct str *notes);

/* Is this text, which names no file, one that a hub of models would know: OWNER/NAME? */
bool directory_is_hub_name(const char *text);

#endif
