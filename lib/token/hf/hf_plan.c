/*
 * hf_plan.c - reading a tokenizer.json
 *
 * The order follows the dependencies: the decoder and the pre-tokenizer determine whether tokens
 * are bytes, the vocabulary gives ids to names, merges and added tokens are checked against it.
 * Source: the serialised forms in huggingface/tokenizers.
 */
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/token/hf/hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT32_MAX
enum {
	ID_SLACK = 1 << 16, /* ids may be this much above 16 times the number of tokens */
	AFFIX_MAX = 255,    /* bytes: every look-up of a character includes it */
	BLOCK = 64,         /* merges looked up together */
};

/* --- vocabulary ------------------------------------------------------------------------------- */

/* A list that may be missing or null. */
int
hf_list(
    const struct json_value *root, const char *key, const struct json_value **out, struct err *e)
{
	static const struct json_value none = { .type = JSON_ARRAY };
	const struct json_value *v = json_get(root, key);

	*out = v && v->type != JSON_NULL ? v : &none;
	return (*out)->type == JSON_ARRAY ? 0 : err_set(e, "\"%s\" must be a list", key);
}

/* An id is bounded by the number of tokens, since tables are indexed by id. */
static int
take_id(struct hf_reading *r, const struct json_value *v, const char *name, struct err *e)
{
	int64_t limit = 16 * (int64_t)(r->vocab->len + r->added->len) + ID_SLACK;

	if (!v || v->type != JSON_INT)
		return err_set(e, "the id of '%.40s' is not an integer", name);
	if (v->integer < 0 || v->integer >= limit)
		return err_set(e, "the id of '%.40s' is %lld, but there are %zu tokens", name,
		    (long long)v->integer, r->vocab->len + r->added->len);
	if (v->integer >= r->model_size)
		r->model_size = v->integer + 1;
	return 0;
}

/* The largest id decides how large the tables are; added tokens that are new follow the number of
 * tokens. */
static int
measure(struct hf_reading *r, struct err *e)
{
	for (size_t i = 0; i < r->vocab->len; i++)
		if (take_id(r, &r->vocab->item[i], r->vocab->item[i].key, e) < 0)
			return -1;
	for (size_t i = 0; i < r->added->len; i++) {
		const struct json_value *a = &r->added->item[i], *content = json_get(a, "content"),
					*id = json_get(a, "id");

		if (!content || content->type != JSON_STRING)
			return err_set(e, "added_tokens: entry %zu has no \"content\"", i);
		if (i < r->num_listed && (!id || id->type != JSON_INT))
			return err_set(e, "the id of '%.40s' is not an integer", content->string);
	}
	r->size = (int64_t)(r->vocab->len + r->added->len);
	if (r->size < r->model_size)
		r->size = r->model_size;
	/* the tokens of configs may begin after the highest id */
	r->size += (int64_t)(r->added->len - r->num_listed);
	return r->size ? 0 : err_set(e, "it has no tokens");
}

/*
 * Reads the model's tokens, each with its own id. The texts of a token are its bytes when all of it
 * is in the alphabet, and its name when names are needed; there is room for both.
 */
static int
read_texts(struct hf_reading *r, struct err *e)
{
	struct hf *h = r->hf;
	bool bytes = h->splitter.bytes || h->decoder.bytes,
	     names = !h->splitter.bytes || !h->decoder.bytes;

	for (size_t i = 0; i < r->vocab->len; i++) {
		const struct json_value *v = &r->vocab->item[i];
		int64_t id = v->integer, len = -1;
		char *decoded = r->text;

		if (r->in_model[id])
			return err_set(e, "id %lld occurs twice", (long long)id);
		r->in_model[id] = true;
		if (bytes)
			len = alphabet_decode(&h->alphabet, v->key, v->key_len, decoded);
		if (len > 0)
			r->text += len;
		if (h->splitter.bytes && len > 0)
			h->token[id] =
			    (struct bpe_token){ (unsigned char *)decoded, (uint32_t)len };
		if (h->decoder.bytes && len >= 0) {
			h->text[id] = (struct name){ decoded, (uint32_t)len, (uint32_t)id };
		} else if (names || len < 0) {
			memcpy(r->text, v->key, v->key_len);
			h->text[id] = (struct name){ r->text, v->key_len, (uint32_t)id };
			r->text += v->key_len;
		}
	}
	return 0;
}

/* Names and texts of the model's tokens are entered in parallel: they are independent. */
struct vocab_sides {
	struct hf_reading *r;
	int rc[2];
	struct err why[2];
};

static void
read_side(void *ctx, int side)
{
	struct vocab_sides *v = ctx;

	v->rc[side] = side == 0 ? names_add_members(&v->r->names, v->r->vocab, &v->why[side])
				: read_texts(v->r, &v->why[side]);
}

/* Enters the model's tokens. Their names stay in the tree, which outlives the reading. */
static int
read_vocab(struct hf_reading *r, struct err *e)
{
	struct vocab_sides v = { .r = r };
	struct hf *h = r->hf;
	size_t len = 0;

	names_init(&r->names, r->vocab->len + r->added->len);
	r->in_model = mem_zalloc((size_t)r->size, sizeof *r->in_model);
	h->text = mem_zalloc_whole((size_t)r->size, sizeof *h->text);
	h->control = mem_zalloc((size_t)r->size, sizeof *h->control);
	h->token = h->splitter.bytes ? mem_zalloc_whole((size_t)r->size, sizeof *h->token) : NULL;
	for (size_t i = 0; i < r->vocab->len; i++)
		len += r->vocab->item[i].key_len;
	r->text = mem_pool_alloc(&h->pool, len + 1, h->splitter.bytes == h->decoder.bytes ? 1 : 2);
	pool_run(r->pool, 2, read_side, &v);
	for (int side = 0; side < 2; side++)
		if (v.rc[side] < 0)
			return err_set(e, "%s", v.why[side].msg);
	return 0;
}

/* --- merges ----------------------------------------------------------------------------------- */

/* The two names of a merge: "a b" or ["a", "b"]. */
static int
merge_parts(const struct json_value *v, struct name part[2], struct err *e)
{
	const char *space = v->type == JSON_STRING ? memchr(v->string, ' ', v->len) : NULL;

	if (v->type == JSON_ARRAY && v->len == 2 && v->item[0].type == JSON_STRING &&
	    v->item[1].type == JSON_STRING) {
		for (int i = 0; i < 2; i++)
			part[i] = (struct name){ v->item[i].string, (uint32_t)v->item[i].len, 0 };
		return 0;
	}
	if (!space || memchr(space + 1, ' ', v->len - (size_t)(space + 1 - v->string)))
		return err_set(e, "not two tokens");
	part[0] = (struct name){ v->string, (uint32_t)(space - v->string), 0 };
	part[1] = (struct name){ space + 1, (uint32_t)(v->len - part[0].len - 1), 0 };
	return 0;
}

/* Looks up the parts of some merges by name. A merge of a byte-level model with a part outside the
 * alphabet can never apply and gets NEVER on its left. Returns the first one whose part is not a
 * token. */
static size_t
find_merges(const struct hf_reading *r, struct bpe_merge *merge, struct name *part, size_t count,
    struct err *e)
{
	const struct hf *h = r->hf;

	names_find_all(&r->names, part, 2 * count);
	for (size_t i = 0; i < count; i++, part += 2) {
		const struct name *unknown = part[0].id == UINT32_MAX ? &part[0] : &part[1];

		if (unknown->id == UINT32_MAX) {
			err_set(e, "'%.*s' is not in the vocabulary", (int)unknown->len,
			    unknown->bytes);
			return i;
		}
		merge[i] = (struct bpe_merge){ part[0].id, part[1].id };
		if (h->splitter.bytes &&
		    !(h->token[part[0].id].bytes && h->token[part[1].id].bytes))
			merge[i].left = NEVER;
	}
	return count;
}

/* The list of merges, read as two halves in parallel; good is the number of valid merges in
 * each. */
struct merge_sides {
	const struct hf_reading *r;
	const struct json_value *list;
	size_t from[3], good[2];
	struct err why[2];
};

static void
find_side(void *ctx, int side)
{
	struct merge_sides *m = ctx;
	struct name part[2 * BLOCK];
	size_t *at = &m->good[side], end = m->from[side + 1], some = 0, good = 0;

	for (*at = m->from[side]; *at < end && good == some; *at += good) {
		size_t whole = 0;

		some = end - *at < BLOCK ? end - *at : BLOCK;
		while (whole < some &&
		    merge_parts(&m->list->item[*at + whole], &part[2 * whole], &m->why[side]) == 0)
			whole++;
		good = find_merges(m->r, m->r->merge + *at, part, whole, &m->why[side]);
	}
}

/* The rank is the position. Merges that can never apply are left out. */
static int
read_merges(struct hf_reading *r, struct err *e)
{
	struct merge_sides m = { .r = r };

	if (hf_list(r->model, "merges", &m.list, e) < 0)
		return -1;
	r->merge = mem_zalloc_whole(m.list->len, sizeof *r->merge);
	m.from[1] = m.list->len / 2;
	m.from[2] = m.list->len;
	pool_run(r->pool, 2, find_side, &m);
	for (int side = 0; side < 2; side++)
		if (m.good[side] < m.from[side + 1])
			return err_set(e, "model: merge %zu: %s", m.good[side], m.why[side].msg);
	for (size_t i = 0; i < m.list->len; i++)
		if (r->merge[i].left != NEVER)
			r->merge[r->num_merges++] = r->merge[i];
	return 0;
}

/* --- model ------------------------------------------------------------------------------------ */

/* The reason why merging cannot be set up, with the faulty merge. */
static int
refused(const struct hf_reading *r, size_t bad, const char *why, struct err *e)
{
	const struct name *text = r->hf->text;

	if (bad >= r->num_merges)
		return err_set(e, "model: %s", why);
	return err_set(e, "model: the merge of '%.*s' and '%.*s': %s",
	    (int)text[r->merge[bad].left].len, text[r->merge[bad].left].bytes,
	    (int)text[r->merge[bad].right].len, text[r->merge[bad].right].bytes, why);
}

/* The tokens by name, for a model whose symbols are characters. */
static void
copy_names(struct hf_reading *r)
{
	struct hf *h = r->hf;

	h->name = mem_zalloc((size_t)r->size, sizeof *h->name);
	for (size_t i = 0; i < r->vocab->len; i++) {
		const struct json_value *v = &r->vocab->item[i];
		const struct name *text = &h->text[v->integer];
		const char *copy = text->bytes;

		if (text->len != v->key_len || memcmp(copy, v->key, v->key_len) != 0)
			copy = mem_pool_strndup(&h->pool, v->key, v->key_len);
		h->name[v->integer] = (struct name){ copy, v->key_len, (uint32_t)v->integer };
	}
}

/* Reads the members of a model whose symbols are characters. */
static int
read_symbols(struct hf_reading *r, bool whole_piece, struct err *e)
{
	struct symbols_spec s = { .num_tokens = (size_t)r->size,
		.merge = r->merge,
		.num_merges = r->num_merges,
		.unk = -1,
		.whole_piece = whole_piece };
	const char *unk;
	struct err why;
	size_t bad;

	if (json_bool(r->model, "fuse_unk", false, &s.fuse_unk, e) < 0 ||
	    json_bool(r->model, "byte_fallback", false, &s.byte_fallback, e) < 0 ||
	    json_string(r->model, "continuing_subword_prefix", "", &s.prefix, e) < 0 ||
	    json_string(r->model, "end_of_word_suffix", "", &s.suffix, e) < 0 ||
	    json_string(r->model, "unk_token", NULL, &unk, e) < 0)
		return -1;
	if (strlen(s.prefix) > AFFIX_MAX || strlen(s.suffix) > AFFIX_MAX)
		return err_set(e, "model: a prefix or suffix of more than %d bytes", AFFIX_MAX);
	if (unk) {
		s.unk = names_find(&r->names, unk, strlen(unk));
		if (s.unk < 0 || !r->in_model[s.unk])
			return err_set(e, "model: unk_token '%.40s' is not in the vocabulary", unk);
	}
	copy_names(r);
	s.token = r->hf->name;
	r->hf->symbols = symbols_new(&s, &bad, &why);
	return r->hf->symbols ? 0 : refused(r, bad, why.msg, e);
}

/* Reads the members of a Unigram. */
static int
read_unigram(struct hf_reading *r, struct err *e)
{
	struct unigram_spec s = { .num_tokens = r->vocab->len, .score = r->score };

	if (json_int(r->model, "unk_id", -1, &s.unk, e) < 0 ||
	    json_bool(r->model, "byte_fallback", false, &s.byte_fallback, e) < 0)
		return -1;
	if (s.unk < -1 || s.unk >= (int64_t)r->vocab->len)
		return err_set(e, "model: \"unk_id\" %lld: must be an id below %zu",
		    (long long)s.unk, r->vocab->len);
	copy_names(r);
	s.token = r->hf->name;
	r->hf->unigram = unigram_new(&s);
	return 0;
}

/* A byte-level model without affixes uses the fast encoder if all 256 bytes are tokens: only then
 * can it encode every text. */
static int
read_bpe(struct hf_reading *r, struct err *e)
{
	struct hf *h = r->hf;
	const char *prefix, *suffix;
	bool whole_piece, fast;
	struct err why;
	size_t bad;

	if (read_merges(r, e) < 0 ||
	    json_bool(r->model, "ignore_merges", false, &whole_piece, e) < 0 ||
	    json_string(r->model, "continuing_subword_prefix", "", &prefix, e) < 0 ||
	    json_string(r->model, "end_of_word_suffix", "", &suffix, e) < 0)
		return -1;
	fast = h->splitter.bytes && !*prefix && !*suffix;
	for (int b = 0; fast && b < 256; b++) {
		const char *letter = h->alphabet.utf8[b];

		fast = names_find(&r->names, letter, strlen(letter)) >= 0;
	}
	if (!fast)
		return read_symbols(r, whole_piece, e);
	h->bpe = bpe_new(&(struct bpe_spec){ .token = h->token,
			     .num_tokens = (size_t)r->size,
			     .merge = r->merge,
			     .num_merges = r->num_merges,
			     .whole_piece = whole_piece,
			     .pool = r->pool },
	    &bad, &why);
	return h->bpe ? 0 : refused(r, bad, why.msg, e);
}

/* A BPE's vocabulary: an object of tokens and their ids. */
static int
find_bpe(struct hf_reading *r, struct err *e)
{
	double dropout;

	if (json_double(r->model, "dropout", 0, &dropout, e) < 0)
		return -1;
	if (dropout != 0)
		return err_set(
		    e, "model: dropout %g is not supported: ids would be random", dropout);
	r->vocab = json_get(r->model, "vocab");
	return r->vocab && r->vocab->type == JSON_OBJECT
	    ? 0
	    : err_set(e, "model: \"vocab\" must be an object of tokens and their ids");
}

/*
 * A score as the reference reads it: the digits as an integer, rounded, then divided by a power of
 * ten, rounded again, which is a unit in the last place off for one score in four. Exact sums could
 * tie where these do not. The digits are those of the shortest form, which is what programs write.
 * Source: f64_from_parts of serde-rs/json src/de.rs.
 */
static double
reference_score(double x)
{
	char text[40], *fraction;
	long precision = 15, exponent;
	int64_t digits;

	snprintf(text, sizeof text, "%.15e", fabs(x));
	if (strtod(text, NULL) != fabs(x))
		snprintf(text, sizeof text, "%.*e", (int)++precision, fabs(x));
	/* drop the point of "d.ddde-dd", so that the digits are one integer */
	fraction = strchr(text, '.');
	if (!fraction)
		return x;
	*fraction = *text;
	digits = strtoll(fraction, &fraction, 10);
	exponent = strtol(fraction + 1, NULL, 10) - precision;
	for (; digits && digits % 10 == 0; exponent++)
		digits /= 10;
	if (exponent < -308 || exponent >= 0)
		return x;
	snprintf(text, sizeof text, "1e%ld", -exponent);
	return copysign((double)digits / strtod(text, NULL), x);
}

/* A Unigram's vocabulary, a list of pairs of token and score whose places are the ids, as an
 * object. */
static int
find_unigram(struct hf_reading *r, struct err *e)
{
	const struct json_value *list;

	if (hf_list(r->model, "vocab", &list, e) < 0)
		return -1;
	r->score = mem_alloc(list->len, sizeof *r->score);
	r->list = (struct json_value){ .type = JSON_OBJECT, .len = list->len };
	r->list.item = mem_alloc(list->len, sizeof *r->list.item);
	for (size_t i = 0; i < list->len; i++) {
		const struct json_value *pair = &list->item[i], *text = pair->item;

		if (pair->type != JSON_ARRAY || pair->len != 2 || text->type != JSON_STRING ||
		    (pair->item[1].type != JSON_INT && pair->item[1].type != JSON_FLOAT))
			return err_set(
			    e, "model: entry %zu of \"vocab\" is not a token with its score", i);
		r->score[i] = json_number(&pair->item[1]);
		if (!r->made)
			r->score[i] = reference_score(r->score[i]);
		r->list.item[i] = (struct json_value){ .type = JSON_INT,
			.key = text->string,
			.key_len = (uint32_t)text->len,
			.integer = (int64_t)i };
	}
	r->vocab = &r->list;
	return 0;
}

/* A kind of model: how its vocabulary is found, and how the rest is read once the tokens are
 * entered. */
struct hf_model {
	const char *type;
	int (*find)(struct hf_reading *r, struct err *e);
	int (*read)(struct hf_reading *r, struct err *e);
};

static const struct hf_model models[] = { { "BPE", find_bpe, read_bpe },
	{ "Unigram", find_unigram, read_unigram } };

/* The kind of model. Older files without a "type" have a BPE's members or a Unigram's list. */
static const struct hf_model *
find_model(struct hf_reading *r, const struct json_value *root, struct err *e)
{
	const struct json_value *vocab;
	const char *type;

	r->model = json_get(root, "model");
	if (!r->model || r->model->type != JSON_OBJECT) {
		err_set(e, "\"model\" must be an object");
		return NULL;
	}
	vocab = json_get(r->model, "vocab");
	if (json_string(r->model, "type", vocab && vocab->type == JSON_ARRAY ? "Unigram" : "BPE",
		&type, e) < 0)
		return NULL;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		if (!strcmp(models[i].type, type)) {
			if (models[i].find(r, e) < 0 ||
			    hf_list(root, "added_tokens", &r->added, e) < 0)
				return NULL;
			r->num_listed = r->added->len;
			return &models[i];
		}
	err_set(e, "model '%s' is not supported", type);
	return NULL;
}

/* --- the whole file --------------------------------------------------------------------------- */

/* Notes the members about batches of inference, which are ignored. */
static void
add_notes(struct tokenizer *t, const struct json_value *root)
{
	static const char *const ignored[] = { "truncation", "padding" };

	for (int i = 0; i < 2; i++) {
		const struct json_value *v = json_get(root, ignored[i]);

		if (v && v->type != JSON_NULL)
			str_addf(&t->notes, "%s: \"%s\" is ignored\n", t->file[0], ignored[i]);
	}
}

/* Everything but the ids of the special tokens. */
static int
read_parts(struct hf_reading *r, struct err *e)
{
	const struct json_value *root = &r->root;
	struct hf *h = r->hf;
	const struct hf_model *model;

	if (normalizer_parse(&h->normalizer, json_get(root, "normalizer"), e) < 0 ||
	    splitter_parse(&h->splitter, json_get(root, "pre_tokenizer"), e) < 0 ||
	    decoder_parse(&h->decoder, json_get(root, "decoder"), e) < 0 ||
	    !(model = find_model(r, root, e)) || (r->configs.dir && hf_config_tokens(r, e) < 0) ||
	    measure(r, e) < 0 || read_vocab(r, e) < 0 || model->read(r, e) < 0 ||
	    hf_added(r, e) < 0)
		return -1;
	h->check_text = h->normalizer.count || h->splitter.count || !h->bpe;
	if (r->spec->hf_no_include_special_tokens)
		return 0;
	return (hf_is_old(r) ? r->row->switches : r->row->bos || r->row->first || r->row->last)
	    ? 0
	    : hf_template(r, json_get(root, "post_processor"), e);
}

/* Records the release where releases differ: in what they make of a SentencePiece model for the
 * generic class, and version 4 of a tokenizer.json for the others or with configs that say more.
 * The hash tells those from 5.23 apart, whose ids it had before there was a choice. */
static void
note_release(struct hf_reading *r, struct tokenizer *t)
{
	const char *name = tokenizer_like_names[r->spec->like];
	bool pieces = r->source == HF_PIECES && !r->row->members,
	     old = r->source == HF_JSON && hf_config(&r->configs, TOKENIZER_CONFIG);

	if (!pieces && !old)
		return;
	t->like = name;
	if (hf_is_old(r) || (pieces && r->spec->like == TOKENIZER_LIKE_5_24))
		t->release = name;
	if (pieces)
		str_addf(&t->notes,
		    "%s: the ids are those of %s; 5.24 follows the model's own settings, such as "
		    "its dummy prefix, and 5.23 does not: --tokenizer-like chooses\n",
		    r->configs.dir, name);
}

/* Finds the class and its configs, and makes the tree when there is none. */
static int
choose_class(struct hf_reading *r, struct tokenizer *t, const struct json_value *root,
    const char *dir, struct err *e)
{
	if (root && root->type != JSON_OBJECT)
		return err_set(e, "not an object");
	if (hf_configs_read(&r->configs, dir, e) < 0)
		return -1;
	if (hf_is_old(r) && !root)
		return err_set(
		    e, "%s: no tokenizer.json: --tokenizer-like transformers-4.57 needs one", dir);
	r->row = hf_is_old(r) ? hf_old_row(t, &r->configs, e)
			      : hf_row(t, &r->configs, r->source, root, e);
	if (!r->row)
		return -1;
	note_release(r, t);
	return !root && hf_made(r, t, &root, e) < 0 ? -1 : hf_class(r, t, root, e);
}

/* The names are freed after the special tokens are found. */
int
hf_plan(struct tokenizer *t, const struct tokenizer_spec *spec, const struct hf_files *files,
    struct err *e)
{
	struct hf_reading r = {
		.hf = t->impl, .spec = spec, .source = files->source, .pool = pool_new(2)
	};
	int rc = -1;

	alphabet_init(&r.hf->alphabet);
	if (choose_class(&r, t, files->root, files->dir, e) == 0 && read_parts(&r, e) == 0) {
		t->vocab_size = r.size;
		if (files->root)
			add_notes(t, files->root);
		hf_added_notes(&r, t);
		rc = hf_special(&r, t, e);
		if (rc == 0 && !spec->hf_no_include_special_tokens)
			hf_around(&r, t);
		if (rc == 0)
			rc = hf_configs_count(&r.configs, t, e);
	}
	pool_free(r.pool);
	names_release(&r.names);
	free(r.in_model);
	free(r.merge);
	free(r.score);
	free(r.list.item);
	free(r.joined.item);
	json_free(r.extra);
	hf_class_release(&r);
	hf_configs_release(&r.configs);
	return rc;
}
