/*
 * registry.c - the kinds of tokenizers, and which of them opens what
 *
 * A type from the user selects the kind by name; otherwise the kinds examine the files in the order
 * of the registry, and the first that recognises them opens them.
 */
#include "lib/base/hash.h"
#include "lib/base/hub.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/directory.h"
#include "lib/token/hf/hf.h"
#include "lib/token/regex.h"
#include "lib/token/spm/charsmap.h"
#include "lib/token/tokenizer_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct tokenizer_kind *const kinds[] = {
	&tokenizer_sentencepiece,
	&tokenizer_tiktoken, /* before the other kind of JSON object */
	&tokenizer_hf,
	&tokenizer_gpt2,
	&tokenizer_null,
};

enum { NUM_KINDS = sizeof kinds / sizeof *kinds, HEAD_BYTES = 64 };

/*
 * The first bytes of the model file, at most HEAD_BYTES; none when no model file was given or it is
 * a directory, which kinds with several files must handle.
 */
static int
read_head(const struct tokenizer_spec *spec, unsigned char *head, size_t *n, struct err *e)
{
	struct stat st;
	FILE *f;
	int fd;

	*n = 0;
	if (!spec->model || io_is_dir(spec->model))
		return 0;
	if (hub_check(spec->model, "a directory with its tokenizer.json", e) < 0)
		return -1;
	fd = io_open_regular(spec->model, &st, e);
	if (fd < 0)
		return -1;
	f = fdopen(fd, "rb");
	if (!f)
		return err_sys(e, "open", spec->model);
	*n = fread(head, 1, HEAD_BYTES, f);
	if (ferror(f)) {
		fclose(f);
		return err_sys(e, "read", spec->model);
	}
	fclose(f);
	return 0;
}

/* Every type name, for messages. */
static int
unknown_type(const char *name, struct err *e)
{
	struct str s = { 0 };

	for (int k = 0; k < NUM_KINDS; k++)
		for (const char *const *type = kinds[k]->types; *type; type++)
			str_addf(&s, "%s%s", s.len ? ", " : "", *type);
	err_set(e, "unknown tokenizer type '%s': must be one of %s", name, s.buf);
	str_release(&s);
	return -1;
}

/* By the name, or by the contents of the files. */
int
tokenizer_choose(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	unsigned char head[HEAD_BYTES];
	size_t n;

	for (int k = 0; spec->type && k < NUM_KINDS; k++)
		for (const char *const *type = kinds[k]->types; *type; type++)
			if (!strcmp(*type, spec->type)) {
				t->kind = kinds[k];
				t->type = *type;
				return 0;
			}
	if (spec->type)
		return unknown_type(spec->type, e);
	if (!spec->model && !spec->vocab)
		return err_set(
		    e, "no tokenizer: give --tokenizer-model, or --vocab-file and --merge-file");
	if (read_head(spec, head, &n, e) < 0)
		return -1;
	for (int k = 0; k < NUM_KINDS; k++)
		if (kinds[k]->detect(spec, head, n)) {
			t->kind = kinds[k];
			t->type = kinds[k]->types[0];
			return 0;
		}
	return err_set(
	    e, "%s: not a known tokenizer file", spec->model ? spec->model : spec->vocab);
}

/* Specials are absent until the kind sets them. */
struct tokenizer *
tokenizer_open(const struct tokenizer_spec *spec, struct err *e)
{
	struct tokenizer *t = mem_zalloc(1, sizeof *t);
	struct mem_pool paths = { 0 };
	struct directory found = directory_find(spec, &paths, &t->notes);
	int rc;

	t->before = t->after = -1;
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		t->special[i] = -1;
	rc = tokenizer_choose(t, &found.spec, e);
	if (rc == 0)
		rc = t->kind->open(t, &found.spec, e);
	if (rc == 0 && found.configs && !spec->hf_no_include_special_tokens)
		rc = hf_around_directory(t, found.configs, e);
	mem_pool_release(&paths);
	if (rc < 0) {
		tokenizer_close(t);
		return NULL;
	}
	if (t->release)
		t->hash = hash_xxh3_seeded(t->release, strlen(t->release), t->hash);
	hash_text(t->hash, t->hash_text);
	return t;
}

/* Graphemes follow the Unicode version of a library, unlike classes of characters and normal
 * forms. */
void
tokenizer_libraries(struct str *out)
{
	str_adds(out, ", PCRE2 ");
	regex_version(out);
	str_adds(out, ", ");
	charsmap_version(out);
}
