/*
 * hf_made.c - a tokenizer.json for a directory without one
 *
 * The vocabulary and merges of a SentencePiece model, or of vocab.json and merges.txt, as JSON; the
 * other members of the generic class of transformers, which other classes rebuild (hf_class.c); and
 * that class's default special tokens. Source: transformers 5.23, SentencePieceExtractor and
 * SpmConverter of convert_slow_tokenizer.py, _convert_from_sentencepiece of
 * tokenization_utils_tokenizers.py, generate_merges of tokenization_utils_base.py.
 */
#include "lib/base/base64.h"
#include "lib/base/io.h"
#include "lib/token/hf/hf.h"
#include "lib/token/spm/spmodel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXTRA_IDS = 100, EXTRA_IDS_MAX = 1 << 16 };

/* A model being written as JSON. */
struct making {
	const struct hf_reading *r;
	const struct spmodel *m;
	struct str *out;
};

static const char *const file_names[] = { "tokenizer.json", "tokenizer.model", "spiece.model",
	"vocab.json", "merges.txt" };
enum file { FILE_JSON, FILE_MODEL, FILE_SPIECE, FILE_VOCAB, FILE_MERGES, FILES };

/* True when the file exists and begins with this byte; -1: any byte. */
static bool
has_file(const char *dir, enum file which, int first)
{
	struct str path = { 0 };
	struct stat st;
	unsigned char byte;
	bool there;
	int fd;

	str_addf(&path, "%s/%s", dir, file_names[which]);
	there = io_exists(path.buf);
	if (there && first >= 0) {
		fd = io_open_regular(path.buf, &st, NULL);
		there = fd >= 0 && io_pread_all(fd, &byte, 1, 0) == 0 && byte == first;
		if (fd >= 0)
			close(fd);
	}
	str_release(&path);
	return there;
}

/* A rank file may have the name of a SentencePiece model, which begins with field 1. */
enum hf_source
hf_source(const char *dir)
{
	enum { PIECES = 0x0a };

	if (has_file(dir, FILE_JSON, -1))
		return HF_JSON;
	if (has_file(dir, FILE_MODEL, PIECES) ||
	    (!has_file(dir, FILE_MODEL, -1) && has_file(dir, FILE_SPIECE, PIECES)))
		return HF_PIECES;
	if (has_file(dir, FILE_MODEL, -1))
		return HF_RANKS;
	return has_file(dir, FILE_VOCAB, -1) && has_file(dir, FILE_MERGES, -1) ? HF_PAIR : HF_JSON;
}

/* Anything but a number in range gives the default. */
int
hf_extra_ids(const struct hf_configs *c)
{
	const struct json_value *v = json_get(hf_config(c, TOKENIZER_CONFIG), "extra_ids");

	return v && v->type == JSON_INT && v->integer >= 0 && v->integer <= EXTRA_IDS_MAX
	    ? (int)v->integer
	    : EXTRA_IDS;
}

/* --- a SentencePiece model -------------------------------------------------------------------- */

/* The text that "added_tokens_decoder" of the configs gives a BPE's placeholder in the generic
 * class, or NULL. */
static const struct json_value *
other_text(const struct making *k, int id)
{
	const struct json_value *list =
	    json_get(hf_config(&k->r->configs, TOKENIZER_CONFIG), "added_tokens_decoder");
	struct str key = { 0 };
	const struct json_value *v;

	if (!list || k->r->row->members || k->m->model == SP_UNIGRAM)
		return NULL;
	str_addf(&key, "%d", id);
	v = json_get(json_get(list, key.buf), "content");
	str_release(&key);
	if (!v || v->type != JSON_STRING || !v->len || spmodel_find(k->m, v->string, v->len) >= 0)
		return NULL;
	return v;
}

/* A piece as JSON. */
static void
add_piece(const struct making *k, int id)
{
	const struct sp_piece *p = &k->m->piece[id];
	const struct json_value *other = other_text(k, id);

	if (other)
		str_add_json(k->out, other->string, other->len);
	else
		str_add_json(k->out, p->text, p->len);
}

/* The pieces with their scores, exactly, and after them the sentinels of T5. */
static void
add_unigram(const struct making *k)
{
	const char *comma = "";

	str_addf(k->out,
	    "{\"type\": \"Unigram\", \"unk_id\": %d, \"byte_fallback\": %s, \"vocab\": [",
	    k->m->unk, k->m->byte_fallback ? "true" : "false");
	for (int i = 0; i < k->m->count; i++, comma = ",") {
		str_addf(k->out, "%s[", comma);
		add_piece(k, i);
		str_addf(k->out, ",%.17g]", (double)k->m->piece[i].score);
	}
	for (int i = k->r->row->unigram ? hf_extra_ids(&k->r->configs) : 0; i-- > 0; comma = ",")
		str_addf(k->out, "%s[\"<extra_id_%d>\",0]", comma, i);
	str_adds(k->out, "]}");
}

/* The merges that may make a piece, the shorter left part first: a text each, or a list where a
 * part has a blank. Those of a lower id come first, whatever the scores. */
static void
add_merges(const struct making *k, int id, const char **comma)
{
	const struct sp_piece *p = &k->m->piece[id];
	struct str both = { 0 };

	for (size_t i = 1; i < p->len; i++) {
		if (((unsigned char)p->text[i] & 0xc0) == 0x80 ||
		    spmodel_find(k->m, p->text, i) < 0 ||
		    spmodel_find(k->m, p->text + i, p->len - i) < 0)
			continue;
		str_adds(k->out, *comma);
		*comma = ",";
		if (memchr(p->text, ' ', p->len)) {
			str_addc(k->out, '[');
			str_add_json(k->out, p->text, i);
			str_addc(k->out, ',');
			str_add_json(k->out, p->text + i, p->len - i);
			str_addc(k->out, ']');
			continue;
		}
		str_clear(&both);
		str_add(&both, p->text, i);
		str_addc(&both, ' ');
		str_add(&both, p->text + i, p->len - i);
		str_add_json(k->out, both.buf, both.len);
	}
	str_release(&both);
}

static void
add_bpe(const struct making *k)
{
	const struct spmodel *m = k->m;
	const char *comma = "";

	str_adds(k->out, "{\"type\": \"BPE\", \"fuse_unk\": true, \"unk_token\": ");
	if (m->unk >= 0)
		add_piece(k, m->unk);
	else
		str_adds(k->out, "null");
	str_addf(
	    k->out, ", \"byte_fallback\": %s, \"vocab\": {", m->byte_fallback ? "true" : "false");
	for (int i = 0; i < m->count; i++) {
		str_adds(k->out, i ? "," : "");
		add_piece(k, i);
		str_addf(k->out, ":%d", i);
	}
	str_adds(k->out, "}, \"merges\": [");
	comma = "";
	for (int i = 0; i < m->count; i++)
		add_merges(k, i, &comma);
	str_adds(k->out, "]}");
}

/* True when a piece is itself an added token: control and user-defined ones are, unless the configs
 * list it or name their own tokens. */
static bool
is_added(const struct making *k, const struct sp_piece *p)
{
	const struct json_value *config = hf_config(&k->r->configs, TOKENIZER_CONFIG),
				*list = json_get(config, "added_tokens_decoder");

	if ((p->type != SP_CONTROL && p->type != SP_USER_DEFINED) ||
	    json_get(config, "additional_special_tokens") ||
	    json_get(config, "extra_special_tokens"))
		return false;
	for (size_t i = 0; list && list->type == JSON_OBJECT && i < list->len; i++) {
		const struct json_value *text = json_get(&list->item[i], "content");

		if (text && text->type == JSON_STRING && text->len == p->len &&
		    !memcmp(text->string, p->text, p->len))
			return false;
	}
	return true;
}

/* The added tokens, control pieces as special ones: those that keep their text and id, or those
 * that lost them and get new ones. */
static void
add_added(const struct making *k, bool lost)
{
	const char *comma = "";

	str_adds(k->out, "[");
	for (int i = 0; i < k->m->count; i++) {
		const struct sp_piece *p = &k->m->piece[i];

		if (!is_added(k, p) || lost != (other_text(k, i) != NULL))
			continue;
		str_addf(k->out,
		    "%s{\"id\": %d, \"normalized\": false, \"special\": %s, \"content\": ", comma,
		    i, p->type == SP_CONTROL ? "true" : "false");
		str_add_json(k->out, p->text, p->len);
		str_addc(k->out, '}');
		comma = ",";
	}
	str_addc(k->out, ']');
}

/* The model's own rules of characters, and a blank as U+2581: the generic class has no dummy
 * prefix. */
static void
add_generic(const struct making *k)
{
	const struct sp_normalizer *n = &k->m->normalizer;

	str_adds(k->out, "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
	if (n->charsmap_len) {
		str_adds(k->out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
		base64_encode(k->out, n->charsmap, n->charsmap_len);
		str_adds(k->out, "\"},");
	}
	str_addf(k->out,
	    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\u2581\"}]}, "
	    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
	    "\"pattern\": {\"String\": \"\u2581\"}, \"content\": \" \"}%s]}",
	    k->m->byte_fallback ? ", {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}" : "");
}

/* The special tokens of the generic class: those that the model names, by their new texts. */
static void
add_specials(const struct making *k)
{
	const struct {
		const char *key;
		int id;
	} specials[] = { { "bos", k->m->bos }, { "eos", k->m->eos }, { "unk", k->m->unk } };

	str_adds(k->out, "{\"extra_special_tokens\": ");
	add_added(k, true);
	for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
		if (specials[i].id < 0)
			continue;
		str_addf(k->out, ", \"%s_token\": ", specials[i].key);
		add_piece(k, specials[i].id);
	}
	str_addc(k->out, '}');
}

/* A list of the file and the special tokens. A class that leaves the choice open takes this model's
 * kind. */
static int
write_pieces(const struct hf_reading *r, struct tokenizer *t, const char *path, struct str *out,
    struct err *e)
{
	struct spmodel m = { 0 };
	struct making k = { r, &m, out };
	char *bytes;
	size_t len;
	int rc;

	if (tokenizer_read_file(t, path, &bytes, &len, e) < 0)
		return -1;
	rc = spmodel_parse(&m, bytes, len, path, e);
	if (rc == 0) {
		str_adds(out, "[{\"added_tokens\": ");
		add_added(&k, false);
		str_adds(out, ", ");
		add_generic(&k);
		str_adds(out, ", \"model\": ");
		if (r->row->members ? r->row->unigram : m.model == SP_UNIGRAM)
			add_unigram(&k);
		else
			add_bpe(&k);
		str_adds(out, "}, ");
		add_specials(&k);
		str_adds(out, "]");
	}
	spmodel_release(&m);
	free(bytes);
	return rc;
}

/* --- vocab.json and merges.txt ---------------------------------------------------------------- */

/* The lines but the version, each with its two tokens. */
static void
write_merges(const char *text, size_t len, struct str *out)
{
	const char *comma = "";

	for (size_t i = 0, end; i < len; i = end + 1) {
		const char *feed = memchr(text + i, '\n', len - i);
		size_t n;

		end = feed ? (size_t)(feed - text) : len;
		n = end - i - (end > i && text[end - 1] == '\r');
		if (n >= 8 && !memcmp(text + i, "#version", 8))
			continue;
		str_adds(out, comma);
		str_add_json(out, text + i, n);
		comma = ",";
	}
}

static int
write_pair(const struct hf_reading *r, struct tokenizer *t, struct str path[2], struct str *out,
    struct err *e)
{
	char *vocab = NULL, *merges = NULL;
	struct json *whole = NULL;
	size_t vocab_len, merges_len;

	if (!r->row->pair)
		return err_set(e, "%s: the class '%s' is not made of vocab.json and merges.txt",
		    r->configs.dir, r->row->name);
	if (tokenizer_read_file(t, path[0].buf, &vocab, &vocab_len, e) == 0 &&
	    tokenizer_read_file(t, path[1].buf, &merges, &merges_len, e) == 0)
		whole = json_parse(vocab, vocab_len, path[0].buf, e);
	if (whole) {
		str_adds(out, "[{\"model\": {\"type\": \"BPE\", \"vocab\": ");
		str_add(out, vocab, vocab_len);
		str_adds(out, ", \"merges\": [");
		write_merges(merges, merges_len, out);
		str_adds(out, "]}}, {}]");
	}
	json_free(whole);
	free(vocab);
	free(merges);
	return whole ? 0 : -1;
}

/* The class determines ids, so its configs count. */
int
hf_made(struct hf_reading *r, struct tokenizer *t, const struct json_value **root, struct err *e)
{
	const char *dir = r->configs.dir;
	struct str path[FILES] = { 0 }, text = { 0 };
	int rc;

	for (int i = 0; i < FILES; i++)
		str_addf(&path[i], "%s/%s", dir, file_names[i]);
	if (r->source == HF_PAIR)
		rc = write_pair(r, t, path + FILE_VOCAB, &text, e);
	else
		rc = write_pieces(r, t,
		    path[has_file(dir, FILE_MODEL, -1) ? FILE_MODEL : FILE_SPIECE].buf, &text, e);
	if (rc == 0)
		r->made = json_parse(text.buf, text.len, dir, e);
	str_release(&text);
	for (int i = 0; i < FILES; i++)
		str_release(&path[i]);
	if (!r->made)
		return -1;
	*root = json_root(r->made)->item;
	r->class_tokens = &json_root(r->made)->item[1];
	r->configs.used[TOKENIZER_CONFIG] = r->configs.used[MODEL_CONFIG] = true;
	return 0;
}
