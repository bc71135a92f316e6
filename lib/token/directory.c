/*
 * directory.c - a directory of tokenizer files in place of a file
 *
 * What transformers' AutoTokenizer looks for in a directory, as far as there is a tokenizer here
 * for it. A tokenizer.json comes first, and is found by its own kind.
 */
#include "lib/base/io.h"
#include "lib/token/directory.h"

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

/* A type that was asked for decides by itself what it needs. */
struct directory
directory_find(const struct tokenizer_spec *spec, struct mem_pool *pool, struct str *notes)
{
	struct directory out = { .spec = *spec };
	const char *dir = spec->model, *tekken, *model, *vocab, *merges;

	if (spec->type || !dir || !io_is_dir(dir) || file_in(dir, "tokenizer.json", pool))
		return out;
	tekken = file_in(dir, "tekken.json", pool);
	model = tekken ? tekken : file_in(dir, "tokenizer.model", pool);
	vocab = file_in(dir, "vocab.json", pool);
	merges = file_in(dir, "merges.txt", pool);
	out.configs = !tekken && (model || (vocab && merges)) ? dir : NULL;
	if (model) {
		out.spec.model = model;
		str_addf(notes, "%s: there is no tokenizer.json, so %s is read by itself\n", dir,
		    tekken ? "tekken.json" : "tokenizer.model");
	} else if (vocab && merges) {
		out.spec.model = NULL;
		out.spec.vocab = vocab;
		out.spec.merges = merges;
		str_addf(notes,
		    "%s: there is no tokenizer.json, so vocab.json and merges.txt are read by "
		    "themselves\n",
		    dir);
	}
	return out;
}

/* One slash between two words of letters, digits and "-_.". */
bool
directory_is_hub_name(const char *text)
{
	static const char words[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t owner = strspn(text, words), name;

	if (owner == 0 || *text == '.' || text[owner] != '/')
		return false;
	name = strspn(text + owner + 1, words);
	return name > 0 && text[owner + 1 + name] == '\0';
}
