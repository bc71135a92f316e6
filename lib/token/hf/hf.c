/*
 * hf.c - HuggingFaceTokenizer: a tokenizer.json, or a directory that holds one
 *
 * The ids are those of transformers' tokenizer(text), as in Megatron-LM: the template's ids around
 * the text's, unless they are switched off. When only a known expression cuts the text and the
 * model is byte-level, no text is copied and bpe_encode_text does the work. Source:
 * tokenizers/src/tokenizer of huggingface/tokenizers.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = { "HuggingFaceTokenizer", NULL };
static const char file_name[] = "tokenizer.json";

struct hf_worker {
	const struct hf *hf;
	struct bpe_worker *bpe;
	struct symbols_worker *symbols;
	struct unigram_worker *unigram;
	struct normal_scratch normal;
	struct split_scratch split;
	struct decoder_scratch decoder;
	struct regex_scratch *regex;
	struct str letters;    /* a piece in the alphabet */
	struct token_ids *out; /* of the current call */
};

/* True for a directory, or a file that begins with a brace. */
static bool
hf_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	size_t i = 0;

	if (!spec->model)
		return false;
	while (i < n && memchr(" \t\r\n", head[i], 4))
		i++;
	return i < n ? head[i] == '{' : n == 0 && io_is_dir(spec->model);
}

/* The tree is needed only until the plan is made. */
static int
load(struct tokenizer *t, const struct tokenizer_spec *spec, const char *path, const char *dir,
    struct err *e)
{
	struct json *j;
	struct err why;
	char *text;
	size_t len;
	int rc;

	if (tokenizer_read_file(t, path, &text, &len, e) < 0)
		return -1;
	j = json_parse_file(text, len, path, e);
	free(text);
	if (!j)
		return -1;
	rc = hf_plan(t, spec, &(struct hf_files){ HF_JSON, json_root(j), dir }, &why);
	if (rc < 0)
		err_set(e, "%s: %s", path, why.msg);
	json_free(j);
	return rc;
}

/* The model is the file itself or its directory, which also has the configs; so has the directory
 * of a file with the usual name. hf_close frees what was made before a failure. */
static int
hf_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	size_t name = sizeof file_name - 1, n = spec->model ? strlen(spec->model) : 0;
	const char *model = spec->model;
	enum hf_source source;
	struct str path = { 0 };
	char *dir = NULL;
	int rc;

	t->impl = mem_zalloc(1, sizeof(struct hf));
	if (!model)
		return err_set(
		    e, "%s needs --tokenizer-model: a %s or its directory", t->type, file_name);
	str_adds(&path, model);
	if (io_is_dir(model)) {
		str_addf(&path, "/%s", file_name);
		dir = mem_strdup(model);
	} else if (!strcmp(model, file_name)) {
		dir = mem_strdup(".");
	} else if (n > name && model[n - name - 1] == '/' && !strcmp(model + n - name, file_name)) {
		dir = mem_strndup(model, n - name);
	}
	source = dir ? hf_source(dir) : HF_JSON;
	if (source == HF_JSON)
		rc = load(t, spec, path.buf, dir, e);
	else
		rc = hf_plan(t, spec, &(struct hf_files){ source, NULL, dir }, e);
	t->escaped =
	    !((struct hf *)t->impl)->decoder.bytes && !((struct hf *)t->impl)->splitter.bytes;
	str_release(&path);
	free(dir);
	return rc;
}

/* Also for a partly opened tokenizer. */
static void
hf_close(struct tokenizer *t)
{
	struct hf *h = t->impl;

	if (!h)
		return;
	added_free(h->raw);
	added_free(h->normalized);
	normalizer_release(&h->normalizer);
	splitter_release(&h->splitter);
	decoder_release(&h->decoder);
	bpe_free(h->bpe);
	symbols_free(h->symbols);
	unigram_free(h->unigram);
	token_ids_release(&h->before);
	token_ids_release(&h->after);
	mem_pool_release(&h->pool);
	free(h->text);
	free(h->control);
	free(h->token);
	free(h->name);
	free(h);
}

/* There is exactly one of the three encoders; the expressions of all steps share one scratch. */
static void *
hf_worker_new(const struct tokenizer *t)
{
	struct hf_worker *w = mem_zalloc(1, sizeof *w);

	w->hf = t->impl;
	w->bpe = w->hf->bpe ? bpe_worker_new(w->hf->bpe) : NULL;
	w->symbols = w->hf->symbols ? symbols_worker_new(w->hf->symbols) : NULL;
	w->unigram = w->hf->unigram ? unigram_worker_new(w->hf->unigram) : NULL;
	w->regex = w->normal.regex = w->split.regex = w->decoder.regex = regex_scratch_new();
	return w;
}

/* NULL is fine. */
static void
hf_worker_free(void *scratch)
{
	struct hf_worker *w = scratch;

	if (!w)
		return;
	bpe_worker_free(w->bpe);
	symbols_worker_free(w->symbols);
	unigram_worker_free(w->unigram);
	normal_scratch_release(&w->normal);
	split_scratch_release(&w->split);
	decoder_scratch_release(&w->decoder);
	regex_scratch_free(w->regex);
	str_release(&w->letters);
	free(w);
}

/* Passes a piece to the model whose symbols are characters. */
static int
encode_characters(struct hf_worker *w, const char *s, size_t n, struct err *e)
{
	if (w->unigram)
		return unigram_encode(w->unigram, s, n, w->out, e);
	symbols_encode(w->symbols, s, n, w->out);
	return 0;
}

/* A piece of a byte-level vocabulary that lacks some bytes: its symbols are letters. */
static int
encode_letters(struct hf_worker *w, const char *s, size_t n, struct err *e)
{
	str_clear(&w->letters);
	alphabet_encode(&w->hf->alphabet, s, n, &w->letters);
	return encode_characters(w, w->letters.buf, w->letters.len, e);
}

/* Runs the model on the piece, or on the pieces that the last scanner cuts it into. */
static int
encode_piece(void *ctx, const struct span *piece, struct err *e)
{
	struct hf_worker *w = ctx;
	const struct splitter *p = &w->hf->splitter;
	const unsigned char *s = (const unsigned char *)piece->s;

	if (piece->n > INT32_MAX)
		return err_set(
		    e, "a piece of %zu bytes: at most 2147483647 can be encoded", piece->n);
	if (w->bpe && p->last)
		bpe_encode_text(w->bpe, p->last, s, piece->n, w->out);
	else if (w->bpe)
		bpe_encode_piece(w->bpe, s, piece->n, w->out);
	else if (!p->bytes)
		return encode_characters(w, piece->s, piece->n, e);
	else if (!p->last)
		return encode_letters(w, piece->s, piece->n, e);
	else
		for (size_t pos = 0, end; pos < piece->n; pos = end) {
			end = pretok_next(p->last, s, piece->n, pos);
			if (encode_letters(w, piece->s + pos, end - pos, e) < 0)
				return -1;
		}
	return 0;
}

/* The bytes of the first character of a text that is not empty. */
static size_t
first_character(const struct span *text)
{
	uint32_t cp;
	int len = utf8_decode((const unsigned char *)text->s, text->n, &cp);

	return len ? (size_t)len : 1;
}

/* Encodes a part between added tokens of the raw text. */
static int
encode_part(struct hf_worker *w, struct span *part, struct err *e)
{
	const struct hf *h = w->hf;
	const struct split_sink sink = { encode_piece, w };
	struct added_walk walk;
	enum added_result found;

	if (normalizer_run(&h->normalizer, &w->normal, part, e) < 0)
		return -1;
	walk = (struct added_walk){ .s = part->s, .n = part->n };
	do {
		struct span text;

		found = added_next(h->normalized, &walk, e);
		if (found == ADDED_FAILED)
			return -1;
		text = (struct span){ part->s + walk.start, walk.end - walk.start,
			part->first > walk.start ? part->first - walk.start : 0 };
		if (text.n && splitter_run(&h->splitter, &w->split, &text, &sink, e) < 0)
			return -1;
		if (found == ADDED_TOKEN)
			token_ids_add(w->out, walk.id);
	} while (found);
	normal_scratch_trim(&w->normal);
	return 0;
}

/* Appends a list. */
static void
append(struct token_ids *out, const struct token_ids *list)
{
	for (size_t i = 0; i < list->count; i++)
		token_ids_add(out, list->id[i]);
}

/* A byte-level model without other steps accepts any bytes. */
static int
hf_encode(struct tokenizer_worker *worker, const char *text, size_t len, struct token_ids *out,
    struct err *e)
{
	struct hf_worker *w = worker->impl;
	const struct hf *h = w->hf;
	struct added_walk walk = { .s = text, .n = len };
	enum added_result found;
	size_t bad;

	bad = h->check_text ? utf8_check((const unsigned char *)text, len) : len;
	if (bad < len)
		return err_set(e, "invalid UTF-8 at byte %zu of the text", bad + 1);
	w->out = out;
	append(out, &h->before);
	do {
		struct span part;

		found = added_next(h->raw, &walk, e);
		if (found == ADDED_FAILED)
			return -1;
		part = (struct span){ text + walk.start, walk.end - walk.start, 0 };
		if (h->splitter.origin && walk.start == 0 && part.n)
			part.first = first_character(&part);
		if (part.n && encode_part(w, &part, e) < 0)
			return -1;
		if (found == ADDED_TOKEN)
			token_ids_add(out, walk.id);
	} while (found);
	append(out, &h->after);
	return 0;
}

/* Past the steps that cut a text: the bytes are one piece. */
static int
hf_encode_piece(struct tokenizer_worker *worker, const char *text, size_t len,
    struct token_ids *out, struct err *e)
{
	struct hf_worker *w = worker->impl;
	const unsigned char *s = (const unsigned char *)text;

	w->out = out;
	if (w->bpe) {
		bpe_encode_piece(w->bpe, s, len, out);
		return 0;
	}
	if (w->hf->splitter.bytes)
		return encode_letters(w, text, len, e);
	if (utf8_check(s, len) < len)
		return err_set(e, "not UTF-8");
	str_clear(&w->letters);
	for (size_t i = 0; i < len; i++)
		if (text[i] == ' ')
			str_adds(&w->letters, "\xe2\x96\x81");
		else
			str_addc(&w->letters, text[i]);
	return encode_characters(w, w->letters.buf, w->letters.len, e);
}

/* Concatenation for byte-level, the decoder's steps for others. A hole has no text. */
static void
hf_decode(struct tokenizer_worker *worker, const uint32_t *ids, size_t count, struct str *out)
{
	struct hf_worker *w = worker->impl;
	const struct hf *h = w->hf;
	bool plain = h->decoder.bytes && h->decoder.count == 1;

	if (!plain)
		decoder_begin(&w->decoder);
	for (size_t i = 0; i < count; i++) {
		const struct name *t = &h->text[ids[i]];

		if (plain)
			str_add(out, t->bytes, t->len);
		else if (t->bytes)
			decoder_add(&w->decoder, t->bytes, t->len);
	}
	if (!plain)
		decoder_run(&h->decoder, &w->decoder, out);
}

/* Names are the decoded texts, not those of the alphabet. */
static struct tokenizer_piece
hf_piece(const struct tokenizer *t, int64_t id)
{
	const struct hf *h = t->impl;
	const struct name *text = &h->text[id];
	enum piece_type type = h->control[id] ? PIECE_CONTROL
	    : text->bytes                     ? PIECE_NORMAL
					      : PIECE_UNUSED;

	return (struct tokenizer_piece){ text->bytes ? text->bytes : "", text->len, 0, type };
}

const struct tokenizer_kind tokenizer_hf = {
	.types = types,
	.detect = hf_detect,
	.open = hf_open,
	.close = hf_close,
	.worker_new = hf_worker_new,
	.worker_free = hf_worker_free,
	.encode = hf_encode,
	.encode_piece = hf_encode_piece,
	.decode = hf_decode,
	.piece = hf_piece,
};
