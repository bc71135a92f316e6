/*
 * directory.c - a directory of tokenizer files in place of a file
 *
 * What transformers' AutoTokenizer looks for in a directory, as far as it is supported here. A
 * tokenizer.json comes first; its own kind finds it.
 */
#include "lib/base/io.h"
#include "lib/token/directory.h"
#include "lib/token/hf/hf.h"

#include <string.h>

/* DIR/NAME, if there is such a file, or NULL. */
static const char *
file_in(const char *dir, const char *name, struct mem_pool *pool)
{
	struct str path = { 0 };
	const char *out = NULL;

	str_addf(&path, "%s/%s", dir, name);
	if (io_exists(path.buf))
		out = mem_pool_strndup(pool, path.buf, path.len);
	str_release(&path);
	return out;
}

/* Any other requested type itself decides what it needs. HuggingFaceTokenizer, as AutoTokenizer
 * does, takes whatever the directory has; then the file decides the kind. */
struct directory
directory_find(const struct tokenizer_spec *spec, struct mem_pool *pool, struct str *notes)
{
	struct directory out = { .spec = *spec };
	static const char made[] =
	    "%s: no tokenizer.json: %s, as by AutoTokenizer of transformers 5\n";
	const char *dir = spec->model, *tekken;
	enum hf_source source;

	if ((spec->type && strcmp(spec->type, "HuggingFaceTokenizer") != 0) || !dir ||
	    !io_is_dir(dir) || file_in(dir, "tokenizer.json", pool))
		return out;
	source = hf_source(dir);
	tekken = file_in(dir, "tekken.json", pool);
	if (tekken || source == HF_RANKS) {
		out.spec.type = NULL;
		out.configs = tekken ? NULL : dir;
		out.spec.model = tekken ? tekken : file_in(dir, "tokenizer.model", pool);
		str_addf(notes, "%s: no tokenizer.json: %s is read\n", dir,
		    tekken ? "tekken.json" : "tokenizer.model");
	} else if (source != HF_JSON) {
		str_addf(notes, made, dir,
		    source == HF_PIECES ? "its SentencePiece model is read"
					: "vocab.json and merges.txt are read");
	}
	return out;
}
