/*
 * hf_config.c - tokens that only the configs beside a tokenizer.json name
 *
 * transformers adds them when it opens a directory: first "added_tokens_decoder" of
 * tokenizer_config.json, or without it added_tokens.json, in the order of their ids; then the special
 * tokens. A text that the vocabulary has keeps its id; a new one gets the next free id, whatever the
 * file says. Source: PreTrainedTokenizerFast of transformers 4.57 and TokenizersBackend of 5.23,
 * which agree in this.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/hf.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 1 << 26, CONFIGS = 3, TOKENS_MAX = 1 << 16 };
enum config { TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS };

static const char *const file_names[CONFIGS] = { "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json" };

/* In the order in which they get their ids. */
static const char *const special_keys[] = { "bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
	"cls_token", "mask_token", "additional_special_tokens", "extra_special_tokens" };

/* A token of a config. */
struct config_token {
	const struct json_value *members;       /* its other members; NULL: it was a string */
	const char *content;
	size_t len;
	int64_t order;                          /* the id of the file, which only sorts */
	bool special;
};

struct config_tokens {
	struct hf_reading *r;
	struct json *file[CONFIGS];
	struct config_token *token;
	size_t count;
	enum config from;                       /* the file of the token that is being added */
	bool used[CONFIGS];                     /* tokens came from it */
};

/* A string, or an object with "content"; anything else is no token here. */
static int
add_token(struct config_tokens *c, const struct json_value *v, int64_t order, bool special, struct err *e)
{
	const struct json_value *content = v->type == JSON_OBJECT ? json_get(v, "content") : v;

	if (!content || content->type != JSON_STRING || content->len == 0)
		return 0;
	if (c->count == TOKENS_MAX)
		return err_set(e, "more than %d tokens in the configs", TOKENS_MAX);
	c->token = mem_realloc(c->token, c->count + 1, sizeof *c->token);
	c->token[c->count++] = (struct config_token){ v->type == JSON_OBJECT ? v : NULL, content->string, content->len,
		order, special };
	c->used[c->from] = true;
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
	const struct json *config = c->file[TOKENIZER_CONFIG];
	const struct json_value *list = json_get(config ? json_root(config) : NULL, "added_tokens_decoder");
	int rc = 0;

	c->from = TOKENIZER_CONFIG;
	for (size_t i = 0; list && list->type == JSON_OBJECT && i < list->len && rc == 0; i++)
		rc = add_token(c, &list->item[i], strtoll(list->item[i].key, NULL, 10), false, e);
	if (!list && c->file[ADDED_TOKENS]) {
		c->from = ADDED_TOKENS;
		list = json_root(c->file[ADDED_TOKENS]);
		for (size_t i = 0; list->type == JSON_OBJECT && i < list->len && rc == 0; i++) {
			const struct json_value *v = &list->item[i];
			struct json_value text = { .type = JSON_STRING, .string = v->key, .len = v->key_len };

			rc = add_token(c, &text, v->type == JSON_INT ? v->integer : 0, false, e);
		}
	}
	if (c->count)
		qsort(c->token, c->count, sizeof *c->token, compare_order);
	return rc;
}

/* One token, or a list or an object of several; the first config that has the member counts. */
static int
collect_special(struct config_tokens *c, const char *key, struct err *e)
{
	const struct json_value *v = NULL;
	int rc = 0;

	for (c->from = TOKENIZER_CONFIG; c->from <= SPECIAL_TOKENS_MAP; c->from++)
		if (c->file[c->from] && (v = json_get(json_root(c->file[c->from]), key)))
			break;
	if (!v)
		return 0;
	if (v->type == JSON_STRING || (v->type == JSON_OBJECT && json_get(v, "content")))
		return add_token(c, v, 0, true, e);
	for (size_t i = 0; (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && i < v->len && rc == 0; i++)
		rc = add_token(c, &v->item[i], 0, true, e);
	return rc;
}

/* The entry as "added_tokens" of a tokenizer.json would have it. */
static void
write_entry(const struct config_token *t, int64_t id, struct str *out)
{
	static const char *const members[] = { "single_word", "lstrip", "rstrip", "normalized", "special" };

	str_addf(out, "%s{\"id\": %lld, \"content\": ", out->len > 1 ? ", " : "", (long long)id);
	str_add_json(out, t->content, t->len);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const struct json_value *v = json_get(t->members, members[i]);
		bool last = i + 1 == sizeof members / sizeof *members, set = v && v->type == JSON_BOOL && v->boolean;

		if ((v && v->type == JSON_BOOL) || last)
			str_addf(out, ", \"%s\": %s", members[i], set || (last && t->special) ? "true" : "false");
	}
	str_addc(out, '}');
}

/* The entries of what the file's own added tokens do not have, as a JSON list. */
static void
write_entries(const struct config_tokens *c, struct str *out)
{
	const struct json_value *vocab = c->r->vocab, *added = c->r->added;
	struct names known = { 0 }, listed = { 0 };
	int64_t next = (int64_t)vocab->len;
	struct err e;

	names_init(&known, vocab->len + c->count);
	names_init(&listed, added->len + c->count);
	/* a vocabulary that has a token twice is refused later */
	(void)names_add_members(&known, vocab, &e);
	for (size_t i = 0; i < added->len; i++) {
		const struct json_value *id = json_get(&added->item[i], "id"), *content = json_get(&added->item[i], "content");

		if (!id || id->type != JSON_INT || !content || content->type != JSON_STRING)
			continue;
		names_add(&listed, content->string, content->len, (uint32_t)i);
		next = id->integer >= next && id->integer < UINT32_MAX ? id->integer + 1 : next;
	}
	str_addc(out, '[');
	for (size_t i = 0; i < c->count; i++) {
		const struct config_token *t = &c->token[i];
		int64_t id = names_find(&known, t->content, t->len);

		if (names_add(&listed, t->content, t->len, 0) < 0)
			write_entry(t, id < 0 ? next++ : id, out);
	}
	str_addc(out, ']');
	names_release(&known);
	names_release(&listed);
}

/* The file's entries and the new ones become one list. */
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

/* Those that are there. */
static int
read_configs(struct config_tokens *c, const char *dir, struct err *e)
{
	for (int i = 0; i < CONFIGS; i++) {
		char path[4096];

		if (snprintf(path, sizeof path, "%s/%s", dir, file_names[i]) >= (int)sizeof path || !io_exists(path))
			continue;
		c->file[i] = json_read(path, CONFIG_MAX, e);
		if (!c->file[i])
			return -1;
	}
	return 0;
}

/* A file that gave tokens counts for the hash: ids depend on it. */
static int
count_files(const struct config_tokens *c, struct tokenizer *t, const char *dir, struct err *e)
{
	for (int i = 0; i < CONFIGS; i++) {
		struct str path = { 0 };
		char *text = NULL;
		size_t len;
		int rc;

		if (!c->used[i])
			continue;
		str_addf(&path, "%s/%s", dir, file_names[i]);
		rc = tokenizer_read_file(t, path.buf, &text, &len, e);
		str_release(&path);
		if (rc < 0)
			return -1;
		free(text);
	}
	return 0;
}

/* Classes of transformers act on these, each in its own way; the file's own components stand here. */
static void
add_notes(const struct config_tokens *c, struct tokenizer *t, const char *dir)
{
	static const char *const ignored[] = { "add_bos_token", "add_eos_token", "add_prefix_space" };
	const struct json *config = c->file[TOKENIZER_CONFIG];

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
		const struct json_value *v = json_get(config ? json_root(config) : NULL, ignored[i]);

		if (v && v->type == JSON_BOOL)
			str_addf(&t->notes, "%s/%s: \"%s\" is ignored: tokenizer.json itself decides\n", dir,
			    file_names[TOKENIZER_CONFIG], ignored[i]);
	}
}

/* Without new tokens everything stays as it was. */
int
hf_config_tokens(struct hf_reading *r, struct tokenizer *t, const char *dir, struct err *e)
{
	struct config_tokens c = { .r = r };
	struct str text = { 0 };
	int rc = read_configs(&c, dir, e);

	if (rc == 0) {
		add_notes(&c, t, dir);
		rc = collect_added(&c, e);
	}
	for (size_t i = 0; i < sizeof special_keys / sizeof *special_keys && rc == 0; i++)
		rc = collect_special(&c, special_keys[i], e);
	if (rc == 0 && c.count) {
		write_entries(&c, &text);
		rc = join(&c, &text, e);
	}
	if (rc > 0)
		rc = count_files(&c, t, dir, e);
	for (int i = 0; i < CONFIGS; i++)
		json_free(c.file[i]);
	free(c.token);
	str_release(&text);
	return rc;
}
