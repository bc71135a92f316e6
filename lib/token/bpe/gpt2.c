/*
 * gpt2.c - GPT-2's byte-level BPE: vocab.json and merges.txt
 *
 * Tokens are written in an alphabet that gives every byte a printable character. Both files are
 * checked against each other: ids without gaps, all 256 bytes present, both parts and the join of
 * every merge in the vocabulary. Source: openai/gpt-2 encoder.py; ids as Hugging Face's
 * GPT2TokenizerFast gives them.
 */
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/token/alphabet.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/names.h"
#include "lib/token/pretok.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static const char *const types[] = { "GPT2BPETokenizer", NULL };
static const char end_of_text[] = "<|endoftext|>";

struct token {
	const char *bytes;
	uint32_t len;
	bool special;
};

struct gpt2 {
	char *bytes, *end;      /* of all tokens */
	struct token *token;    /* the text of each id */
	struct bpe_token *text; /* the same for those that merging can make */
	struct bpe *bpe;
	struct pretok *pretok;
	int64_t end_of_text; /* -1: not in the vocabulary */
	bool special_as_text;
};

/* The merges during reading. */
struct merges {
	const struct names *names;
	const struct str *text;
	struct name *part; /* two per merge */
	struct bpe_merge *merge;
	size_t count;
};

/* True for two text files without a model. */
static bool
gpt2_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	(void)head, (void)n;
	return spec->vocab && spec->merges && !spec->model;
}

/*
 * Fills the tokens and the names; ids must be 0 .. count - 1, each once: with as many ids as
 * members, all below their number and distinct, there is no gap. A token has the bytes of its name
 * in the alphabet. A name with any other character is its own text and not part of BPE.
 */
static int
read_vocab(struct tokenizer *t, struct names *n, const struct json_value *root, struct err *e)
{
	struct gpt2 *g = t->impl;
	struct alphabet a;
	size_t len = 0;

	if (root->type != JSON_OBJECT || root->len == 0)
		return err_set(e, "not an object of tokens and their ids");
	t->vocab_size = (int64_t)root->len;
	names_init(n, root->len);
	g->token = mem_zalloc_whole(root->len, sizeof *g->token);
	for (size_t i = 0; i < root->len; i++)
		len += root->item[i].key_len;
	g->bytes = g->end = mem_zalloc_whole(len, 1);
	alphabet_init(&a);
	for (size_t i = 0; i < root->len; i++) {
		const struct json_value *v = &root->item[i];
		int64_t decoded;

		if (v->type != JSON_INT)
			return err_set(e, "the id of '%.40s' is not an integer", v->key);
		if (v->integer < 0 || v->integer >= t->vocab_size)
			return err_set(e, "the id of '%.40s' is %lld, but there are %lld tokens",
			    v->key, (long long)v->integer, (long long)t->vocab_size);
		if (g->token[v->integer].bytes)
			return err_set(e, "id %lld occurs twice", (long long)v->integer);
		decoded = alphabet_decode(&a, v->key, v->key_len, g->end);
		if (decoded < 0)
			memcpy(g->end, v->key, v->key_len);
		g->token[v->integer] = (struct token){ g->end,
			decoded < 0 ? v->key_len : (uint32_t)decoded, decoded < 0 };
		g->end += g->token[v->integer].len;
	}
	if (names_add_members(n, root, e) < 0)
		return -1;
	g->end_of_text = names_find(n, end_of_text, sizeof end_of_text - 1);
	if (g->end_of_text >= 0)
		g->token[g->end_of_text].special = true;
	t->special[TOKENIZER_EOS] = t->special[TOKENIZER_BOS] = t->special[TOKENIZER_UNK] =
	    g->end_of_text;
	return 0;
}

/* The line number of a position in the text. */
static long
line_of(const struct str *text, const char *at)
{
	long line = 1;

	for (const char *s = text->buf; s < at; s++)
		line += *s == '\n';
	return line;
}

/* merges.txt: the first line may be "#version..."; each of the others is "left right", and its rank
 * is their order. Merging uses the ids of both parts. The fault of an earlier line is reported
 * first. */
static int
read_merges(struct merges *m, const char *path, struct err *e)
{
	const struct str *text = m->text;
	int rc = 0;

	for (size_t i = 0, next; i < text->len && rc == 0; i = next) {
		const char *s = text->buf + i, *end = memchr(s, '\n', text->len - i), *space;
		size_t len = end ? (size_t)(end - s) : text->len - i, left, right;

		next = i + len + 1;
		if (len && s[len - 1] == '\r')
			len--;
		if (len == 0 || (i == 0 && len >= 8 && !memcmp(s, "#version", 8)))
			continue;
		space = memchr(s, ' ', len);
		left = space ? (size_t)(space - s) : 0;
		right = space ? len - left - 1 : 0;
		if (left == 0 || right == 0 || memchr(space + 1, ' ', right)) {
			rc = err_at(e, path, line_of(text, s),
			    "it must be two tokens separated by a space");
			continue;
		}
		m->part[2 * m->count] = (struct name){ s, (uint32_t)left, 0 };
		m->part[2 * m->count++ + 1] = (struct name){ space + 1, (uint32_t)right, 0 };
	}
	names_find_all(m->names, m->part, 2 * m->count);
	for (size_t i = 0; i < 2 * m->count; i++)
		if (m->part[i].id == UINT32_MAX)
			return err_at(e, path, line_of(text, m->part[i].bytes),
			    "'%.*s' is not in the vocabulary", (int)m->part[i].len,
			    m->part[i].bytes);
	for (size_t i = 0; i < m->count; i++)
		m->merge[i] = (struct bpe_merge){ m->part[2 * i].id, m->part[2 * i + 1].id };
	return rc;
}

/* Reads the merges, after the vocabulary. Special tokens have no text. */
static int
open_merges(struct tokenizer *t, const struct names *n, const char *path, struct err *e)
{
	struct gpt2 *g = t->impl;
	struct str text = { 0 };
	struct merges m = { .names = n, .text = &text };
	size_t lines = 1, bad;
	struct err why;
	int rc;

	g->text = mem_zalloc_whole((size_t)t->vocab_size, sizeof *g->text);
	for (int64_t i = 0; i < t->vocab_size; i++)
		if (!g->token[i].special)
			g->text[i] = (struct bpe_token){ (const unsigned char *)g->token[i].bytes,
				g->token[i].len };
	if (tokenizer_read_file(t, path, &text.buf, &text.len, e) < 0)
		return -1;
	for (size_t i = 0; i < text.len; i++)
		lines += text.buf[i] == '\n';
	m.part = mem_zalloc_whole(2 * lines, sizeof *m.part);
	m.merge = mem_zalloc_whole(lines, sizeof *m.merge);
	rc = read_merges(&m, path, e);
	if (rc == 0)
		g->bpe = bpe_new(&(struct bpe_spec){ .token = g->text,
				     .num_tokens = (size_t)t->vocab_size,
				     .merge = m.merge,
				     .num_merges = m.count },
		    &bad, &why);
	if (rc == 0 && !g->bpe && bad < m.count) {
		const char *s = m.part[2 * bad].bytes;

		rc = err_at(
		    e, path, line_of(&text, s), "'%.*s': %s", (int)strcspn(s, "\r\n"), s, why.msg);
	} else if (rc == 0 && !g->bpe) {
		rc = err_set(e, "%s: %s", t->file[0], why.msg);
	}
	free(m.merge);
	free(m.part);
	str_release(&text);
	return rc;
}

/* vocab.json first; its tree is kept until the merges are read, because the names point into it.
 * The class tables are built last, after everything that can fail. */
static int
gpt2_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	struct gpt2 *g = mem_zalloc(1, sizeof *g);
	struct names n = { 0 };
	struct json *j;
	struct err why;
	char *text;
	size_t len;
	int rc;

	t->impl = g;
	if (!spec->vocab || !spec->merges)
		return err_set(e, "%s needs --vocab-file and --merge-file", t->type);
	g->special_as_text = spec->special_as_text;
	if (tokenizer_read_file(t, spec->vocab, &text, &len, e) < 0)
		return -1;
	j = json_parse_file(text, len, spec->vocab, e);
	free(text);
	if (!j)
		return -1;
	rc = read_vocab(t, &n, json_root(j), &why) < 0 ? err_set(e, "%s: %s", spec->vocab, why.msg)
						       : open_merges(t, &n, spec->merges, e);
	json_free(j);
	names_release(&n);
	if (rc == 0)
		g->pretok = pretok_new(PRETOK_GPT2);
	return rc;
}

/* Also for a partly opened tokenizer: every part may be missing. */
static void
gpt2_close(struct tokenizer *t)
{
	struct gpt2 *g = t->impl;

	if (!g)
		return;
	free(g->bytes);
	bpe_free(g->bpe);
	pretok_free(g->pretok);
	free(g->token);
	free(g->text);
	free(g);
}

/*
 * Each thread needs its own cache and scratch memory; the rest of the tokenizer is read-only and
 * shared.
 */
static void *
gpt2_worker_new(const struct tokenizer *t)
{
	return bpe_worker_new(((const struct gpt2 *)t->impl)->bpe);
}

/* NULL is allowed. */
static void
gpt2_worker_free(void *scratch)
{
	bpe_worker_free(scratch);
}

/* The special string in the text, or NULL. Its first character is rare in nearly every text. */
static const char *
find_special(const char *text, size_t len)
{
	enum { LEN = sizeof end_of_text - 1 };
	const char *end = text + len, *s = text;

	while (end - s >= LEN && (s = memchr(s, end_of_text[0], (size_t)(end - s) - LEN + 1)) &&
	    memcmp(s, end_of_text, LEN))
		s++;
	return s && end - s >= LEN ? s : NULL;
}

/* Cuts the text at the special string; the parts are encoded separately. */
static int
gpt2_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	const struct gpt2 *g = w->tokenizer->impl;
	size_t special = sizeof end_of_text - 1;
	const char *hit;

	(void)e;
	while (g->end_of_text >= 0 && !g->special_as_text && (hit = find_special(text, len))) {
		bpe_encode_text(
		    w->impl, g->pretok, (const unsigned char *)text, (size_t)(hit - text), out);
		token_ids_add(out, (uint32_t)g->end_of_text);
		len -= (size_t)(hit - text) + special;
		text = hit + special;
	}
	bpe_encode_text(w->impl, g->pretok, (const unsigned char *)text, len, out);
	return 0;
}

/* The bytes are one piece of the text, wherever the pattern would cut them. */
static int
gpt2_encode_piece(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	(void)e;
	bpe_encode_piece(w->impl, (const unsigned char *)text, len, out);
	return 0;
}

/* Bytes are passed on unchanged, even incomplete characters. */
static void
gpt2_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out)
{
	const struct gpt2 *g = w->tokenizer->impl;
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += g->token[ids[i]].len;
	str_reserve(out, len);
	for (size_t i = 0; i < count; i++) {
		memcpy(out->buf + out->len, g->token[ids[i]].bytes, g->token[ids[i]].len);
		out->len += g->token[ids[i]].len;
	}
	out->buf[out->len] = '\0';
}

/* The bytes of the token, not its name in the file. */
static struct tokenizer_piece
gpt2_piece(const struct tokenizer *t, int64_t id)
{
	const struct token *k = &((const struct gpt2 *)t->impl)->token[id];

	return (struct tokenizer_piece){ k->bytes, k->len, 0,
		k->special ? PIECE_CONTROL : PIECE_NORMAL };
}

const struct tokenizer_kind tokenizer_gpt2 = {
	.types = types,
	.detect = gpt2_detect,
	.open = gpt2_open,
	.close = gpt2_close,
	.worker_new = gpt2_worker_new,
	.worker_free = gpt2_worker_free,
	.encode = gpt2_encode,
	.encode_piece = gpt2_encode_piece,
	.decode = gpt2_decode,
	.piece = gpt2_piece,
};
