/*
 * hf_made.c - a tokenizer.json for a directory without one
 *
 * The vocabulary and merges of a SentencePiece model, or of vocab.json and merges.txt, as JSON; the
 * other members of the generic class of transformers, which other classes rebuild (hf_class.c); and
 * that class's default special tokens. Source: transformers 5.23 and 5.24, SentencePieceExtractor
 * and SpmConverter of convert_slow_tokenizer.py, _convert_from_sentencepiece of
 * tokenization_utils_tokenizers.py, generate_merges of tokenization_utils_base.py. The generic
 * class of 5.24 follows the model's own settings; until 5.23 it had no dummy prefix, and its merges
 * were those of the other classes.
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

/* These stand for themselves in an expression. */
static const char words[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

/* A model being written as JSON. */
struct making {
	const struct hf_reading *r;
	const struct spmodel *m;
	struct str *out;
	bool follows;                    /* the generic class of 5.24 */
	const struct json_value **other; /* by id: the text that the configs give it, or NULL */
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

/* The id that a key of "added_tokens_decoder" names, or -1. */
static int
listed_id(const struct making *k, const struct json_value *entry)
{
	char *end;
	long id = strtol(entry->key, &end, 10);

	return entry->key_len && !*end && id >= 0 && id < k->m->count ? (int)id : -1;
}

/* Finds the texts that "added_tokens_decoder" of the configs gives a BPE's placeholders in the
 * generic class. A text that is a piece's own is free only in 5.24, and if that piece is listed. */
static void
find_others(struct making *k)
{
	const struct json_value *list =
	    json_get(hf_config(&k->r->configs, TOKENIZER_CONFIG), "added_tokens_decoder");
	size_t n = list && list->type == JSON_OBJECT ? list->len : 0;
	bool *listed = mem_zalloc((size_t)k->m->count, sizeof *listed);

	k->other = mem_zalloc((size_t)k->m->count, sizeof *k->other);
	if (k->r->row->members || k->m->model == SP_UNIGRAM)
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (listed_id(k, &list->item[i]) >= 0)
			listed[listed_id(k, &list->item[i])] = true;
	for (size_t i = 0; i < n; i++) {
		const struct json_value *v = json_get(&list->item[i], "content");
		int id = listed_id(k, &list->item[i]), known;

		if (id < 0 || !v || v->type != JSON_STRING || !v->len)
			continue;
		known = spmodel_find(k->m, v->string, v->len);
		k->other[id] = known < 0 || (known != id && k->follows && listed[known]) ? v : NULL;
	}
	free(listed);
}

/* A piece as JSON. */
static void
add_piece(const struct making *k, int id)
{
	const struct sp_piece *p = &k->m->piece[id];
	const struct json_value *other = k->other[id];

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

/* True when a piece may be part of a merge: any, or in 5.24 the normal ones. */
static bool
merges(const struct making *k, const char *text, size_t len)
{
	int id = spmodel_find(k->m, text, len);

	return id >= 0 && (!k->follows || (k->m->piece[id].type == SP_NORMAL && !k->other[id]));
}

/* The merges that may make a piece, the shorter left part first: a text each, or a list where a
 * part has a blank. */
static void
add_merges(const struct making *k, int id, const char **comma)
{
	const struct sp_piece *p = &k->m->piece[id];
	struct str both = { 0 };

	if (k->follows && !merges(k, p->text, p->len))
		return;
	for (size_t i = 1; i < p->len; i++) {
		if (((unsigned char)p->text[i] & 0xc0) == 0x80 || !merges(k, p->text, i) ||
		    !merges(k, p->text + i, p->len - i))
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

/* A piece in the order of merges. */
struct ranked {
	float score;
	int id;
};

static int
compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Those of a lower id come first, whatever the scores; in 5.24, those of a larger score. */
static void
add_all_merges(const struct making *k)
{
	struct ranked *order = mem_alloc((size_t)k->m->count, sizeof *order);
	const char *comma = "";

	for (int i = 0; i < k->m->count; i++)
		order[i] = (struct ranked){ k->follows ? k->m->piece[i].score : 0, i };
	qsort(order, (size_t)k->m->count, sizeof *order, compare_ranked);
	for (int i = 0; i < k->m->count; i++)
		add_merges(k, order[i].id, &comma);
	free(order);
}

/* True when the model has user-defined pieces, which 5.24 isolates. */
static bool
isolates(const struct making *k)
{
	for (int i = 0; k->follows && i < k->m->count; i++)
		if (k->m->piece[i].type == SP_USER_DEFINED)
			return true;
	return false;
}

static void
add_bpe(const struct making *k)
{
	const struct spmodel *m = k->m;

	str_addf(k->out,
	    "{\"type\": \"BPE\", \"fuse_unk\": true, \"ignore_merges\": %s, "
	    "\"unk_token\": ",
	    isolates(k) ? "true" : "false");
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
	add_all_merges(k);
	str_adds(k->out, "]}");
}

/* True when a piece is itself an added token: control and, until 5.23, user-defined ones are,
 * unless the configs list it or name their own tokens. */
static bool
is_added(const struct making *k, const struct sp_piece *p)
{
	const struct json_value *config = hf_config(&k->r->configs, TOKENIZER_CONFIG),
				*list = json_get(config, "added_tokens_decoder");

	if ((p->type != SP_CONTROL && (p->type != SP_USER_DEFINED || k->follows)) ||
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

		if (!is_added(k, p) || lost != (k->other[i] != NULL))
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

/* The user-defined pieces as alternatives, the longest first. */
struct defined {
	struct str text;
	size_t characters;
	int id;
};

static int
compare_defined(const void *a, const void *b)
{
	const struct defined *x = a, *y = b;

	if (x->characters != y->characters)
		return x->characters > y->characters ? -1 : 1;
	return x->id - y->id;
}

/* A step that isolates them. */
static void
add_isolation(const struct making *k)
{
	struct defined *all = mem_zalloc((size_t)k->m->count, sizeof *all);
	struct str pattern = { 0 };
	size_t count = 0;

	for (int i = 0; i < k->m->count; i++) {
		const struct sp_piece *p = &k->m->piece[i];
		const struct json_value *other = k->other[i];
		const char *s = other ? other->string : p->text;
		size_t n = other ? other->len : p->len;
		struct defined *d = &all[count];

		if (p->type != SP_USER_DEFINED)
			continue;
		d->id = i;
		for (size_t j = 0; j < n; j++) {
			unsigned char c = (unsigned char)s[j];

			d->characters += (c & 0xc0) != 0x80;
			if (c < 0x80 && c > 0x1f && !memchr(words, c, sizeof words - 1))
				str_addc(&d->text, '\\');
			str_addc(&d->text, (char)c);
		}
		count++;
	}
	qsort(all, count, sizeof *all, compare_defined);
	for (size_t i = 0; i < count; i++) {
		str_adds(&pattern, i ? "|" : "");
		str_add(&pattern, all[i].text.buf, all[i].text.len);
		str_release(&all[i].text);
	}
	str_adds(k->out,
	    "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"invert\": false, "
	    "\"pattern\": {\"Regex\": ");
	str_add_json(k->out, pattern.buf, pattern.len);
	str_adds(k->out, "}}");
	str_release(&pattern);
	free(all);
}

/* What 5.24 does with blanks, by the model's settings. "legacy" puts a dummy prefix before each
 * part between added tokens, and also where the text begins with U+2581. */
static void
add_settings(const struct making *k)
{
	const struct json_value *legacy =
	    json_get(hf_config(&k->r->configs, TOKENIZER_CONFIG), "legacy");
	const struct sp_normalizer *n = &k->m->normalizer;
	bool each = !legacy || (legacy->type == JSON_BOOL && legacy->boolean);

	if (n->remove_extra_whitespaces)
		str_adds(k->out,
		    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\A +| +\\\\z\"}, "
		    "\"content\": \"\"}, {\"type\": \"Replace\", \"pattern\": {\"Regex\": "
		    "\" {2,}\"}, \"content\": \" \"}, ");
	if (n->escape_whitespaces)
		str_adds(k->out,
		    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
		    "\"\u2581\"}, ");
	str_adds(k->out,
	    n->add_dummy_prefix && each
		? "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\A\u2581\"}, \"content\": "
		  "\"\u2581\u2581\"}"
		: "{\"type\": \"Sequence\", \"normalizers\": []}");
	str_adds(k->out, "]}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
	if (n->add_dummy_prefix)
		str_addf(k->out,
		    "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": "
		    "\"%s\", \"split\": false}%s",
		    each ? "always" : "first", isolates(k) ? ", " : "");
	if (isolates(k))
		add_isolation(k);
	str_addf(k->out,
	    "]}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
	    "\"pattern\": {\"String\": \"\u2581\"}, \"content\": \" \"}%s%s%s]}",
	    k->m->byte_fallback ? ", {\"type\": \"ByteFallback\"}" : "",
	    k->m->byte_fallback || n->add_dummy_prefix ? ", {\"type\": \"Fuse\"}" : "",
	    n->add_dummy_prefix ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
				  "\"stop\": 0}"
				: "");
}

/* The model's own rules of characters, and a blank as U+2581: until 5.23 the generic class had no
 * dummy prefix. */
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
	if (k->follows) {
		add_settings(k);
		return;
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
write_pieces(
    struct hf_reading *r, struct tokenizer *t, const char *path, struct str *out, struct err *e)
{
	struct spmodel m = { 0 };
	struct making k = { r, &m, out, !r->row->members && r->spec->like == TOKENIZER_LIKE_5_24 };
	char *bytes;
	size_t len;
	int rc;

	if (tokenizer_read_file(t, path, &bytes, &len, e) < 0)
		return -1;
	rc = spmodel_parse(&m, bytes, len, path, e);
	if (rc == 0) {
		find_others(&k);
		r->raw_configs = k.follows && m.normalizer.add_dummy_prefix;
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
	free(k.other);
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
