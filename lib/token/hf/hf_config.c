/*
 * hf_config.c - the configs of a tokenizer.json, and tokens that only they name
 *
 * transformers adds them when it opens a directory: first "added_tokens_decoder" of
 * tokenizer_config.json, or without it added_tokens.json, in the order of their ids; then the
 * special tokens. A text in the vocabulary keeps its id; a new one gets the next free id
 * (hf_added.c), even if the file has another. Source: PreTrainedTokenizerFast of transformers 4.57
 * and TokenizersBackend of 5.23, which agree in this. Where a class rebuilds the tokenizer, the
 * special tokens that it has by default come last.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/hf/hf.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 1 << 26, TOKENS_MAX = 1 << 16 };

static const char *const file_names[HF_CONFIGS] = { "tokenizer_config.json",
	"special_tokens_map.json", "added_tokens.json", "config.json" };

/* In the order of their ids. */
static const char *const special_keys[] = { "bos_token", "eos_token", "unk_token", "sep_token",
	"pad_token", "cls_token", "mask_token", "model_specific_special_tokens",
	"additional_special_tokens", "extra_special_tokens", "old_special_tokens" };

/* A token of a config. */
struct config_token {
	const struct json_value *members; /* its other members; NULL: it was a string */
	const char *content;
	size_t len;
	int64_t order; /* the id in the file, used only for sorting */
	bool special;
	bool raw; /* searched for before the normalizer, whatever the members say */
};

struct config_tokens {
	struct hf_reading *r;
	struct config_token *token;
	size_t count;
	bool *from; /* the `used` mark of the current token's file */
};

/* --- the files -------------------------------------------------------------------------------- */

/* Reads the existing ones. */
int
hf_configs_read(struct hf_configs *c, const char *dir, struct err *e)
{
	c->dir = dir;
	for (int i = 0; dir && i < HF_CONFIGS; i++) {
		struct str path = { 0 };
		int there;

		str_addf(&path, "%s/%s", dir, file_names[i]);
		there = io_there(path.buf, e);
		if (there > 0)
			c->file[i] = json_read_regular(path.buf, CONFIG_MAX, e);
		str_release(&path);
		if (there < 0 || (there > 0 && !c->file[i]))
			return -1;
	}
	return 0;
}

/* Also after a failure. */
void
hf_configs_release(struct hf_configs *c)
{
	for (int i = 0; i < HF_CONFIGS; i++)
		json_free(c->file[i]);
}

/* May be NULL, of which json_get finds no members. */
const struct json_value *
hf_config(const struct hf_configs *c, enum hf_config_file which)
{
	return c->file[which] ? json_root(c->file[which]) : NULL;
}

/* Static. */
const char *
hf_config_name(enum hf_config_file which)
{
	return file_names[which];
}

/* In their order. */
int
hf_configs_count(const struct hf_configs *c, struct tokenizer *t, struct err *e)
{
	for (int i = 0; i < HF_CONFIGS; i++) {
		struct str path = { 0 };
		char *text = NULL;
		size_t len;
		int rc;

		if (!c->used[i] || !c->file[i])
			continue;
		str_addf(&path, "%s/%s", c->dir, file_names[i]);
		rc = tokenizer_read_file(t, path.buf, &text, &len, e);
		str_release(&path);
		if (rc < 0)
			return -1;
		free(text);
	}
	return 0;
}

/* --- the tokens ------------------------------------------------------------------------------- */

/* A string, or an object with "content"; anything else is not a token here. */
static int
add_token(
    struct config_tokens *c, const struct json_value *v, int64_t order, bool special, struct err *e)
{
	const struct json_value *content = v->type == JSON_OBJECT ? json_get(v, "content") : v;

	if (!content || content->type != JSON_STRING || content->len == 0)
		return 0;
	if (c->count == TOKENS_MAX)
		return err_set(e, "more than %d tokens in the configs", TOKENS_MAX);
	c->token = mem_realloc(c->token, c->count + 1, sizeof *c->token);
	c->token[c->count++] = (struct config_token){ v->type == JSON_OBJECT ? v : NULL,
		content->string, content->len, order, special, false };
	*c->from = true;
	return 0;
}

static int
compare_order(const void *a, const void *b)
{
	const struct config_token *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* "added_tokens_decoder": {"ID": token}, or the file {"text": ID}. */
static int
collect_added(struct config_tokens *c, struct err *e)
{
	struct hf_configs *f = &c->r->configs;
	const struct json_value *list =
	    json_get(hf_config(f, TOKENIZER_CONFIG), "added_tokens_decoder");
	int rc = 0;

	c->from = &f->used[TOKENIZER_CONFIG];
	for (size_t i = 0; list && list->type == JSON_OBJECT && i < list->len && rc == 0; i++)
		rc = add_token(c, &list->item[i], strtoll(list->item[i].key, NULL, 10), false, e);
	for (size_t i = 0; i < c->count; i++)
		c->token[i].raw = c->r->raw_configs;
	if (!list && f->file[ADDED_TOKENS]) {
		c->from = &f->used[ADDED_TOKENS];
		list = hf_config(f, ADDED_TOKENS);
		for (size_t i = 0; list->type == JSON_OBJECT && i < list->len && rc == 0; i++) {
			const struct json_value *v = &list->item[i];
			struct json_value text = {
				.type = JSON_STRING, .string = v->key, .len = v->key_len
			};

			rc = add_token(c, &text, v->type == JSON_INT ? v->integer : 0, false, e);
		}
	}
	if (c->count)
		qsort(c->token, c->count, sizeof *c->token, compare_order);
	return rc;
}

/* Of the two that name special tokens. */
const struct json_value *
hf_config_member(const struct hf_configs *c, const char *key, enum hf_config_file *which)
{
	for (int i = TOKENIZER_CONFIG; i <= SPECIAL_TOKENS_MAP; i++) {
		const struct json_value *v = json_get(hf_config(c, i), key);

		*which = (enum hf_config_file)i;
		if (v)
			return v;
	}
	return NULL;
}

/* Adds one token, or a list or an object of several: from the configs, else from the class, which
 * has marked its configs. A class adds no extra tokens where the configs name any. */
static int
collect_special(struct config_tokens *c, const char *key, struct err *e)
{
	struct hf_configs *f = &c->r->configs;
	enum hf_config_file which, other;
	const struct json_value *v = hf_config_member(f, key, &which);
	bool more = hf_config_member(f, "additional_special_tokens", &other) ||
	    hf_config_member(f, "extra_special_tokens", &other);
	int rc = 0;

	c->from = &f->used[which];
	if (!v && !(more && !strcmp(key, "extra_special_tokens"))) {
		v = json_get(c->r->class_tokens, key);
		c->from = &f->used[TOKENIZER_CONFIG];
	}
	if (!v)
		return 0;
	if (v->type == JSON_STRING || (v->type == JSON_OBJECT && json_get(v, "content")))
		return add_token(c, v, 0, true, e);
	for (size_t i = 0;
	     (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && i < v->len && rc == 0; i++)
		rc = add_token(c, &v->item[i], 0, true, e);
	return rc;
}

/* The entry in the form of "added_tokens" of a tokenizer.json, without an id. */
static void
write_entry(const struct config_token *t, struct str *out)
{
	static const char *const members[] = { "single_word", "lstrip", "rstrip", "normalized",
		"special" };

	str_addf(out, "%s{\"content\": ", out->len > 1 ? ", " : "");
	str_add_json(out, t->content, t->len);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const struct json_value *v = json_get(t->members, members[i]);
		bool last = i + 1 == sizeof members / sizeof *members,
		     set = v && v->type == JSON_BOOL && v->boolean;

		if (t->raw && !strcmp(members[i], "normalized"))
			str_adds(out, ", \"normalized\": false");
		else if ((v && v->type == JSON_BOOL) || last)
			str_addf(out, ", \"%s\": %s", members[i],
			    set || (last && t->special) ? "true" : "false");
	}
	str_addc(out, '}');
}

/* The entries that the file's added tokens lack, as a JSON list. */
static void
write_entries(const struct config_tokens *c, struct str *out)
{
	const struct json_value *added = c->r->added;
	struct names listed = { 0 };

	names_init(&listed, added->len + c->count);
	for (size_t i = 0; i < added->len; i++) {
		const struct json_value *content = json_get(&added->item[i], "content");

		if (content && content->type == JSON_STRING)
			names_add(&listed, content->string, content->len, 0);
	}
	str_addc(out, '[');
	for (size_t i = 0; i < c->count; i++)
		if (names_add(&listed, c->token[i].content, c->token[i].len, 0) < 0)
			write_entry(&c->token[i], out);
	str_addc(out, ']');
	names_release(&listed);
}

/* Joins the file's entries and the new ones: 1, or 0 when there are no new ones. */
static int
join(struct config_tokens *c, const struct str *text, struct err *e)
{
	struct hf_reading *r = c->r;
	const struct json_value *more;
	struct json_value *item;

	r->extra = json_parse(text->buf, text->len, "configs", e);
	if (!r->extra)
		return -1;
	more = json_root(r->extra);
	if (more->len == 0)
		return 0;
	item = mem_alloc(r->added->len + more->len, sizeof *item);
	if (r->added->len)
		memcpy(item, r->added->item, r->added->len * sizeof *item);
	memcpy(item + r->added->len, more->item, more->len * sizeof *item);
	r->joined = (struct json_value){ .type = JSON_ARRAY, .len = r->added->len + more->len };
	r->joined.item = item;
	r->added = &r->joined;
	return 1;
}

/* Without new tokens nothing changes. */
int
hf_config_tokens(struct hf_reading *r, struct err *e)
{
	bool used[HF_CONFIGS];
	struct config_tokens c = { .r = r };
	struct str text = { 0 };
	int rc;

	memcpy(used, r->configs.used, sizeof used);
	rc = collect_added(&c, e);
	for (size_t i = 0; i < sizeof special_keys / sizeof *special_keys && rc == 0; i++)
		rc = collect_special(&c, special_keys[i], e);
	if (rc == 0 && c.count) {
		write_entries(&c, &text);
		rc = join(&c, &text, e);
	}
	if (rc == 0)
		memcpy(r->configs.used, used, sizeof used);
	free(c.token);
	str_release(&text);
	return rc < 0 ? -1 : 0;
}
