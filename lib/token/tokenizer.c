/*
 * tokenizer.c - the registry of kinds, and what all kinds share
 *
 * A kind is asked by name when the user gave a type, else each is shown the files in the order of
 * the registry, and the first that knows them opens them. Range checks, hashes and file names are
 * dealt with here once.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/directory.h"
#include "lib/token/hf/hf.h"
#include "lib/token/impl.h"
#include "lib/token/regex.h"
#include "lib/token/spm/charsmap.h"
#include "lib/token/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tokenizer_kind *const kinds[] = {
	&tokenizer_sentencepiece,
	&tokenizer_tiktoken, /* before the other kind of JSON object */
	&tokenizer_hf,
	&tokenizer_gpt2,
	&tokenizer_null,
};

const char *const unigram_ties_names[] = {
	[UNIGRAM_TIES_0_2_2] = "0.2.2", [UNIGRAM_TIES_0_2_1] = "0.2.1", NULL
};

enum { NUM_KINDS = sizeof kinds / sizeof *kinds, HEAD_BYTES = 64 };

/* Doubles, so that appending one by one is linear. */
void
token_ids_reserve(struct token_ids *l, size_t extra)
{
	if (l->count + extra <= l->cap)
		return;
	l->cap = 2 * l->cap > l->count + extra ? 2 * l->cap : l->count + extra + 64;
	l->id = mem_realloc(l->id, l->cap, sizeof *l->id);
}

/* Room is doubled when it is used up; nothing can fail. */
void
token_ids_add(struct token_ids *l, uint32_t id)
{
	token_ids_reserve(l, 1);
	l->id[l->count++] = id;
}

/* The list is empty afterwards and may be used again. */
void
token_ids_release(struct token_ids *l)
{
	free(l->id);
	memset(l, 0, sizeof *l);
}

/*
 * The first bytes of the model file, at most HEAD_BYTES; none when no model file was given or it is
 * a directory, which kinds of several files have to expect.
 */
static int
read_head(const struct tokenizer_spec *spec, unsigned char *head, size_t *n, struct err *e)
{
	FILE *f;

	*n = 0;
	if (!spec->model || io_is_dir(spec->model))
		return 0;
	f = fopen(spec->model, "rb");
	if (!f && errno == ENOENT && directory_is_hub_name(spec->model))
		return err_set(e,
		    "cannot open '%s': there is no such file or directory; nothing is downloaded "
		    "from a hub: "
		    "give a directory with its tokenizer.json",
		    spec->model);
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
	err_set(e, "tokenizer type '%s' is not built in; there are %s", name, s.buf);
	str_release(&s);
	return -1;
}

/* From the name, or from what the files hold. */
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
	return err_set(e, "%s: not a tokenizer file that is known here",
	    spec->model ? spec->model : spec->vocab);
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
		rc = hf_around(t, found.configs, e);
	mem_pool_release(&paths);
	if (rc < 0) {
		tokenizer_close(t);
		return NULL;
	}
	hash_text(t->hash, t->hash_text);
	return t;
}

/* Also for a tokenizer that was opened halfway. */
void
tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	if (t->kind)
		t->kind->close(t);
	for (int i = 0; i < t->num_files; i++)
		free(t->file[i]);
	str_release(&t->notes);
	free(t);
}

/* The hash of a second file starts from that of the first. */
int
tokenizer_read_file(struct tokenizer *t, const char *path, char **out, size_t *len, struct err *e)
{
	struct hash_stream *h;
	uint64_t before = t->hash;

	if (t->num_files == TOKENIZER_FILES)
		BUG("more than %d tokenizer files", TOKENIZER_FILES);
	if (io_read_file(path, TOKENIZER_FILE_MAX, out, len, e) < 0)
		return -1;
	h = hash_stream_new();
	if (t->num_files)
		hash_stream_add(h, &before, sizeof before);
	hash_stream_add(h, *out, *len);
	t->hash = hash_stream_free(h);
	t->file[t->num_files++] = mem_strdup(path);
	return 0;
}

/* Megatron-LM's name of the kind, also when it was found by looking at the files; static. */
const char *
tokenizer_type(const struct tokenizer *t)
{
	return t->type;
}

/* Ids are 0 to this less 1, without the padding that a model adds. */
int64_t
tokenizer_vocab_size(const struct tokenizer *t)
{
	return t->vocab_size;
}

/* -1 when the tokenizer has no such token. */
int64_t
tokenizer_special(const struct tokenizer *t, enum tokenizer_special which)
{
	return t->special[which];
}

/* Static, in lower case; not the token's text. */
const char *
tokenizer_special_name(enum tokenizer_special which)
{
	static const char *const names[TOKENIZER_SPECIALS] = { "unk", "bos", "eos", "pad" };

	return names[which];
}

/*
 * Over the bytes of all files in their order, or what a kind without files puts in their place:
 * what corpora and checkpoints record to recognise the tokenizer again.
 */
const char *
tokenizer_hash(const struct tokenizer *t)
{
	return t->hash_text;
}

/* The template of a tokenizer.json or a directory's configs may do so; whoever wants one bos need
 * not add another. */
bool
tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

/* Whoever wants that id at the end of a document need not add it. */
int64_t
tokenizer_after(const struct tokenizer *t)
{
	return t->after;
}

/* The kind sets it. */
const char *
tokenizer_unigram_ties(const struct tokenizer *t)
{
	return t->unigram_ties;
}

/* One line for each part of the files that has no effect here. */
void
tokenizer_notes(const struct tokenizer *t, struct str *out)
{
	str_add(out, t->notes.buf, t->notes.len);
}

/* 0 for kinds without files. */
int
tokenizer_num_files(const struct tokenizer *t)
{
	return t->num_files;
}

/* The path as the user gave it; lives as long as t. */
const char *
tokenizer_file(const struct tokenizer *t, int i)
{
	return t->file[i];
}

/* An id out of range is a bug here, unlike in tokenizer_decode, whose ids come from files. */
struct tokenizer_piece
tokenizer_piece_at(const struct tokenizer *t, int64_t id)
{
	if (id < 0 || id >= t->vocab_size)
		BUG("id %lld of a vocabulary of %lld", (long long)id, (long long)t->vocab_size);
	return t->kind->piece(t, id);
}

/* No kind keeps an index from bytes to ids that serves all its pieces. */
int64_t
tokenizer_find_piece(const struct tokenizer *t, const char *bytes, size_t len)
{
	int64_t found = -1;

	for (int64_t i = 0; i < t->vocab_size; i++) {
		struct tokenizer_piece p = t->kind->piece(t, i);

		if (p.len != len || !mem_equal(p.bytes, bytes, len))
			continue;
		if (p.type == PIECE_CONTROL)
			return i;
		found = found < 0 ? i : found;
	}
	return found;
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

/* One a thread; the tokenizer must outlive it. Kinds without scratch memory have none in it. */
struct tokenizer_worker *
tokenizer_worker_new(const struct tokenizer *t)
{
	struct tokenizer_worker *w = mem_zalloc(1, sizeof *w);

	w->tokenizer = t;
	if (t->kind->worker_new)
		w->impl = t->kind->worker_new(t);
	return w;
}

/* Before tokenizer_close, since the kind is asked to free its part. NULL is fine. */
void
tokenizer_worker_free(struct tokenizer_worker *w)
{
	if (!w)
		return;
	if (w->tokenizer->kind->worker_free)
		w->tokenizer->kind->worker_free(w->impl);
	free(w);
}

/* The reason why an id cannot be decoded. */
static int
outside(const struct tokenizer *t, int64_t id, struct err *e)
{
	return err_set(e, "id %lld is outside the vocabulary of %lld", (long long)id,
	    (long long)t->vocab_size);
}

/* The limit keeps byte counts and ids of all kinds within 32 bits. What stands around a text is
 * there even when the text is empty, as in transformers. */
int
tokenizer_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	const struct tokenizer *t = w->tokenizer;

	if (len > INT32_MAX)
		return err_set(
		    e, "a text of %zu bytes: at most 2147483647 can be encoded at once", len);
	if (t->before >= 0)
		token_ids_add(out, (uint32_t)t->before);
	if (t->kind->encode(w, text, len, out, e) < 0)
		return -1;
	if (t->after >= 0)
		token_ids_add(out, (uint32_t)t->after);
	return 0;
}

/* The border between 64-bit ids of datasets and of users, and what is an id here. */
int
tokenizer_check_ids(const struct tokenizer *t, const int64_t *ids, size_t count,
    struct token_ids *out, struct err *e)
{
	token_ids_reserve(out, count);
	for (size_t i = 0; i < count; i++) {
		if (ids[i] < 0 || ids[i] >= t->vocab_size)
			return outside(t, ids[i], e);
		out->id[out->count++] = (uint32_t)ids[i];
	}
	return 0;
}

/* Ids are checked here, so that no kind has to. */
int
tokenizer_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, bool skip_special,
    struct str *out, struct err *e)
{
	const struct tokenizer *t = w->tokenizer;
	struct token_ids kept = { 0 };

	for (size_t i = 0; i < count; i++)
		if (ids[i] >= t->vocab_size)
			return outside(t, ids[i], e);
	if (!skip_special) {
		t->kind->decode(w, ids, count, out);
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		if (t->kind->piece(t, ids[i]).type != PIECE_CONTROL)
			token_ids_add(&kept, ids[i]);
	t->kind->decode(w, kept.id, kept.count, out);
	token_ids_release(&kept);
	return 0;
}
