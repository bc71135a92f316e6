/*
 * tiktoken.c - TikTokenizer: rank files of tiktoken and Llama, Megatron-LM's JSON list, tekken.json
 *
 * What Encoding.encode(text, allowed_special="all") gives: special tokens are found first, and the
 * text between them is cut by the file's pattern and merged by rank.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe/rankfile.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static const char *const types[] = { "TikTokenizer", NULL };

struct tiktoken {
	struct rankfile file;
	struct tokenizer_piece *special; /* by id; bytes NULL: not special */
	struct bpe *bpe;
	struct pretok *pretok;
	struct added *added; /* NULL: special strings are text */
};

/* By the contents of the file. */
static bool
tiktoken_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	return spec->model && rankfile_detect(spec->model, head, n);
}

/* The names of special tokens give their roles; the first existing one counts. */
static void
find_special(struct tokenizer *t)
{
	static const char *const names[TOKENIZER_SPECIALS][4] = {
		[TOKENIZER_UNK] = { "<unk>" },
		[TOKENIZER_BOS] = { "<|begin_of_text|>", "<s>" },
		[TOKENIZER_EOS] = { "<|end_of_text|>", "<|endoftext|>", "</s>" },
		[TOKENIZER_PAD] = { "<pad>", "<|finetune_right_pad|>" },
	};
	const struct rankfile *f = &((struct tiktoken *)t->impl)->file;

	for (int s = 0; s < TOKENIZER_SPECIALS; s++)
		for (const char *const *name = names[s]; *name && t->special[s] < 0; name++)
			for (size_t i = 0; i < f->num_special; i++)
				if (f->special[i].len == strlen(*name) &&
				    !strcmp(f->special[i].text, *name))
					t->special[s] = f->special[i].id;
}

/* Reads the file and sets up merging; the reason has no path. */
static int
load(struct tokenizer *t, const struct tokenizer_spec *spec, const char *text, size_t len,
    struct err *e)
{
	struct tiktoken *k = t->impl;
	const struct rankfile *f = &k->file;

	if (rankfile_read(&k->file, text, len, spec, e) < 0)
		return -1;
	if (f->guess && !spec->tiktoken_pattern && !spec->tiktoken_special_tokens.count)
		str_addf(&t->notes,
		    "%s: taken for %s by its number of ranks; --tiktoken-pattern and "
		    "--tiktoken-special-tokens override this\n",
		    t->file[0], f->guess);
	k->special = mem_zalloc((size_t)f->size, sizeof *k->special);
	for (size_t i = 0; i < f->num_special; i++) {
		uint32_t id = f->special[i].id;

		if (f->token[id].bytes)
			return err_set(
			    e, "id %u of '%s' belongs to another token", id, f->special[i].text);
		k->special[id] = (struct tokenizer_piece){ f->special[i].text, f->special[i].len, 0,
			PIECE_CONTROL };
	}
	k->bpe = bpe_new(&(struct bpe_spec){ .token = f->token,
			     .num_tokens = (size_t)f->size,
			     .ranks = true,
			     .whole_piece = true },
	    NULL, e);
	if (!k->bpe)
		return -1;
	t->vocab_size = f->size;
	find_special(t);
	if (!spec->special_as_text)
		k->added = added_new(f->special, f->num_special);
	k->pretok = pretok_new(f->scanner);
	return 0;
}

/* tiktoken_close frees what was made before a failure. */
static int
tiktoken_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	/* Megatron-LM's scripts use either option for the file. */
	const char *path = spec->model ? spec->model : spec->vocab;
	struct tiktoken *k = mem_zalloc(1, sizeof *k);
	struct err why;
	char *text;
	size_t len;
	int rc;

	t->impl = k;
	if (!path)
		return err_set(e,
		    "%s needs --tokenizer-model: a rank file, a JSON list of tokens, or a "
		    "tekken.json",
		    t->type);
	if (tokenizer_read_file(t, path, &text, &len, e) < 0)
		return -1;
	rc = load(t, spec, text, len, &why);
	free(text);
	return rc < 0 ? err_at(e, path, k->file.line, "%s", why.msg) : 0;
}

/* Also for a partly opened tokenizer. */
static void
tiktoken_close(struct tokenizer *t)
{
	struct tiktoken *k = t->impl;

	if (!k)
		return;
	bpe_free(k->bpe);
	pretok_free(k->pretok);
	added_free(k->added);
	free(k->special);
	rankfile_release(&k->file);
	free(k);
}

/* The cache of pieces and the scratch of merging. */
static void *
tiktoken_worker_new(const struct tokenizer *t)
{
	return bpe_worker_new(((const struct tiktoken *)t->impl)->bpe);
}

/* NULL is fine. */
static void
tiktoken_worker_free(void *scratch)
{
	bpe_worker_free(scratch);
}

/* The parts between special tokens are encoded separately. */
static int
tiktoken_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	const struct tiktoken *k = w->tokenizer->impl;
	struct added_walk walk = { .s = text, .n = len };
	enum added_result found;

	do {
		found = added_next(k->added, &walk, e);
		if (found == ADDED_FAILED)
			return -1;
		bpe_encode_text(w->impl, k->pretok, (const unsigned char *)text + walk.start,
		    walk.end - walk.start, out);
		if (found)
			token_ids_add(out, walk.id);
	} while (found);
	return 0;
}

/* The bytes are one piece of the text, wherever the pattern would cut them. */
static int
tiktoken_encode_piece(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	(void)e;
	bpe_encode_piece(w->impl, (const unsigned char *)text, len, out);
	return 0;
}

/* An id may be neither a token nor special: a hole, which has no text. */
static struct tokenizer_piece
tiktoken_piece(const struct tokenizer *t, int64_t id)
{
	const struct tiktoken *k = t->impl;
	const struct bpe_token *b = &k->file.token[id];

	if (k->special[id].bytes)
		return k->special[id];
	return b->bytes
	    ? (struct tokenizer_piece){ (const char *)b->bytes, b->len, 0, PIECE_NORMAL }
	    : (struct tokenizer_piece){ "", 0, 0, PIECE_UNUSED };
}

/* Bytes are passed on unchanged, even incomplete characters. */
static void
tiktoken_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out)
{
	for (size_t i = 0; i < count; i++) {
		struct tokenizer_piece p = tiktoken_piece(w->tokenizer, ids[i]);

		str_add(out, p.bytes, p.len);
	}
}

const struct tokenizer_kind tokenizer_tiktoken = {
	.types = types,
	.detect = tiktoken_detect,
	.open = tiktoken_open,
	.close = tiktoken_close,
	.worker_new = tiktoken_worker_new,
	.worker_free = tiktoken_worker_free,
	.encode = tiktoken_encode,
	.encode_piece = tiktoken_encode_piece,
	.decode = tiktoken_decode,
	.piece = tiktoken_piece,
};
