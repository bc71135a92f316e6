/*
 * tokenizer.c - shared by all kinds of tokenizers
 *
 * Range checks, hashes and file names, for all kinds.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

const char *const unigram_ties_names[] = {
	[UNIGRAM_TIES_0_2_2] = "0.2.2", [UNIGRAM_TIES_0_2_1] = "0.2.1", NULL
};

const char *const tokenizer_like_names[] = { [TOKENIZER_LIKE_5_24] = "transformers-5.24",
	[TOKENIZER_LIKE_5_23] = "transformers-5.23",
	[TOKENIZER_LIKE_4_57] = "transformers-4.57",
	NULL };

/* Also for a partly opened tokenizer. */
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

/* The hash of each file is seeded with that of the one before. */
int
tokenizer_read_file(struct tokenizer *t, const char *path, char **out, size_t *len, struct err *e)
{
	struct hash_stream *h;
	uint64_t before = t->hash;

	if (t->num_files == TOKENIZER_FILES)
		BUG("more than %d tokenizer files", TOKENIZER_FILES);
	if (io_read_regular(path, TOKENIZER_FILE_MAX, out, len, e) < 0)
		return -1;
	h = hash_stream_new();
	if (t->num_files)
		hash_stream_add(h, &before, sizeof before);
	hash_stream_add(h, *out, *len);
	t->hash = hash_stream_free(h);
	t->file[t->num_files++] = mem_strdup(path);
	return 0;
}

/* Megatron-LM's name of the kind, also when it was determined from the files; static. */
const char *
tokenizer_type(const struct tokenizer *t)
{
	return t->type;
}

/* Ids are below this; the padding that a model adds is not included. */
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
 * Covers the bytes of all files in order, or a substitute for a kind without files. Corpora and
 * checkpoints record it to identify the tokenizer.
 */
const char *
tokenizer_hash(const struct tokenizer *t)
{
	return t->hash_text;
}

/* The template of a tokenizer.json or a directory's configs may add it; callers must not add
 * another. */
bool
tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

/* Callers must not add that id at the end of a document again. */
int64_t
tokenizer_after(const struct tokenizer *t)
{
	return t->after;
}

const char *
tokenizer_unigram_ties(const struct tokenizer *t)
{
	return t->unigram_ties;
}

const char *
tokenizer_like(const struct tokenizer *t)
{
	return t->like;
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

/* The path as the user gave it; valid as long as t. */
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

/* A linear search: no kind has an index from bytes to ids that covers all its pieces. */
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

/* One per thread; the tokenizer must outlive it. Kinds without scratch memory leave impl NULL. */
struct tokenizer_worker *
tokenizer_worker_new(const struct tokenizer *t)
{
	struct tokenizer_worker *w = mem_zalloc(1, sizeof *w);

	w->tokenizer = t;
	if (t->kind->worker_new)
		w->impl = t->kind->worker_new(t);
	return w;
}

/* Call it before tokenizer_close, since the kind frees its part. NULL is allowed. */
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

/* The limit keeps byte counts and ids of all kinds within 32 bits. The ids around a text are added
 * even when the text is empty, as in transformers. */
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

/* Converts 64-bit ids of datasets and users to ids of the vocabulary. */
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

/* Ids are checked here, so kinds need not do so. */
int
tokenizer_decode(struct tokenizer_worker *w, const struct token_ids *ids, bool skip_special,
    struct str *out, struct err *e)
{
	const struct tokenizer *t = w->tokenizer;
	struct token_ids kept = { 0 };

	for (size_t i = 0; i < ids->count; i++)
		if (ids->id[i] >= t->vocab_size)
			return outside(t, ids->id[i], e);
	if (!skip_special) {
		t->kind->decode(w, ids->id, ids->count, out);
		return 0;
	}
	for (size_t i = 0; i < ids->count; i++)
		if (t->kind->piece(t, ids->id[i]).type != PIECE_CONTROL)
			token_ids_add(&kept, ids->id[i]);
	t->kind->decode(w, kept.id, kept.count, out);
	token_ids_release(&kept);
	return 0;
}
