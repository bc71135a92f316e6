/*
 * hf_added.c - the added tokens of a tokenizer.json, and the template of its post-processor
 *
 * Added tokens are checked against the vocabulary: a file whose ids contradict it, for which
 * huggingface/tokenizers would assign new ids, is refused. Of post-processors only the special
 * tokens around a text matter.
 */
#include "lib/base/mem.h"
#include "lib/token/hf/component.h"
#include "lib/token/hf/hf.h"

#include <stdlib.h>
#include <string.h>

/* Bounds for how much longer the normalised texts of added tokens may be than those of the file,
 * and for the number of tokens around a text: few bytes of a file can repeat both. */
enum { GROWTH_MAX = 16, GROWTH_SLACK = 1 << 16, TEMPLATE_MAX = 4096 };

/* --- added tokens ----------------------------------------------------------------------------- */

/* One entry of "added_tokens"; *normalized tells the set that it belongs to. */
static int
read_added(struct hf_reading *r, const struct json_value *v, struct added_token *a,
    bool *normalized, struct err *e)
{
	const struct json_value *content = json_get(v, "content");
	int64_t id = json_get(v, "id")->integer, known;
	bool special;

	*a = (struct added_token){
		.text = content->string, .len = content->len, .id = (uint32_t)id
	};
	if (json_bool(v, "special", false, &special, e) < 0 ||
	    json_bool(v, "single_word", false, &a->single_word, e) < 0 ||
	    json_bool(v, "lstrip", false, &a->lstrip, e) < 0 ||
	    json_bool(v, "rstrip", false, &a->rstrip, e) < 0 ||
	    json_bool(v, "normalized", !special, normalized, e) < 0)
		return -1;
	known = names_add(&r->names, content->string, content->len, (uint32_t)id);
	if (known >= 0 && known != id)
		return err_set(
		    e, "id %lld, but %lld in the vocabulary", (long long)id, (long long)known);
	if (known < 0 && r->hf->text[id].bytes)
		return err_set(e, "id %lld belongs to another token", (long long)id);
	if (known < 0)
		r->hf->text[id] =
		    (struct name){ mem_pool_strndup(&r->hf->pool, content->string, content->len),
			    (uint32_t)content->len, (uint32_t)id };
	r->hf->control[id] |= special;
	a->skip = special && r->spec->special_as_text;
	return 0;
}

/* A token that is searched for in normalised text is itself normalised. */
static int
normalize_added(const struct hf_reading *r, struct added_token *a, struct normal_scratch *x,
    struct mem_pool *pool, struct err *e)
{
	struct span text = { a->text, a->len, true };

	if (normalizer_run(&r->hf->normalizer, x, &text, e) < 0)
		return -1;
	a->text = mem_pool_strndup(pool, text.s, text.n);
	a->len = text.n;
	return 0;
}

/* Makes two sets, of which either may be empty. */
int
hf_added(struct hf_reading *r, struct err *e)
{
	struct added_token *set[2];
	struct normal_scratch x = { .regex = regex_scratch_new() };
	struct mem_pool pool = { 0 };
	size_t count[2] = { 0 }, given = 0, made = 0;
	struct err why;
	int rc = 0;

	for (int k = 0; k < 2; k++)
		set[k] = mem_alloc(r->added->len, sizeof **set);
	for (size_t i = 0; i < r->added->len && rc == 0; i++) {
		const struct json_value *v = &r->added->item[i];
		struct added_token a;
		bool normalized;

		if (read_added(r, v, &a, &normalized, &why) < 0 ||
		    (normalized && normalize_added(r, &a, &x, &pool, &why) < 0))
			rc = err_set(
			    e, "added token '%.40s': %s", json_get(v, "content")->string, why.msg);
		else
			set[normalized][count[normalized]++] = a;
		given += json_get(v, "content")->len;
		made += rc == 0 ? a.len : 0;
		if (rc == 0 && made > GROWTH_MAX * given + GROWTH_SLACK)
			rc = err_set(e,
			    "added tokens: the normalizer makes them more than %d times longer",
			    GROWTH_MAX);
	}
	if (rc == 0) {
		r->hf->raw = added_new(set[0], count[0]);
		r->hf->normalized = added_new(set[1], count[1]);
	}
	for (int k = 0; k < 2; k++)
		free(set[k]);
	normal_scratch_release(&x);
	regex_scratch_free(x.regex);
	mem_pool_release(&pool);
	return rc;
}

/* --- post-processor --------------------------------------------------------------------------- */

/* The ids of a special token of a template, which its map has under the token's name. */
static int
add_template_token(const struct hf_reading *r, const struct json_value *tokens,
    const struct json_value *special, struct token_ids *out, struct err *e)
{
	const struct json_value *name = json_get(special, "id"), *ids;

	if (!name || name->type != JSON_STRING)
		return err_set(e, "a token without an id");
	ids = json_get(json_get(tokens, name->string), "ids");
	if (!ids || ids->type != JSON_ARRAY)
		return err_set(e, "no ids of '%.40s'", name->string);
	if (ids->len > TEMPLATE_MAX - out->count)
		return err_set(e, "more than %d tokens", TEMPLATE_MAX);
	for (size_t i = 0; i < ids->len; i++) {
		if (ids->item[i].type != JSON_INT || ids->item[i].integer < 0 ||
		    ids->item[i].integer >= r->size)
			return err_set(e, "an id of '%.40s' is not a token", name->string);
		token_ids_add(out, (uint32_t)ids->item[i].integer);
	}
	return 0;
}

/* Inserts ids before the existing ones. */
static void
prepend(struct token_ids *list, struct token_ids *front)
{
	for (size_t i = 0; i < list->count; i++)
		token_ids_add(front, list->id[i]);
	token_ids_release(list);
	*list = *front;
}

/* "single": special tokens before and after the one Sequence. */
static int
read_template(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	const struct json_value *single, *tokens = json_get(v, "special_tokens");
	struct token_ids front = { 0 };
	int sequences = 0, rc = 0;

	if (hf_list(v, "single", &single, e) < 0)
		return -1;
	if (single->len > TEMPLATE_MAX)
		return err_set(e, "more than %d entries in \"single\"", TEMPLATE_MAX);
	for (size_t i = 0; i < single->len && rc == 0; i++) {
		const struct json_value *special = json_get(&single->item[i], "SpecialToken");

		sequences += json_get(&single->item[i], "Sequence") != NULL;
		if (special)
			rc = add_template_token(
			    r, tokens, special, sequences ? &r->hf->after : &front, e);
	}
	prepend(&r->hf->before, &front);
	if (rc == 0 && r->hf->before.count > TEMPLATE_MAX)
		return err_set(e, "more than %d tokens", TEMPLATE_MAX);
	return rc < 0 || sequences == 1
	    ? rc
	    : err_set(e, "%d sequences in \"single\"; 1 is supported", sequences);
}

/* A member [text, id] of a RobertaProcessing or BertProcessing. */
static int
read_pair(const struct hf_reading *r, const struct json_value *v, const char *key,
    struct token_ids *out, struct err *e)
{
	const struct json_value *pair = json_get(v, key);

	if (!pair || pair->type != JSON_ARRAY || pair->len != 2 || pair->item[1].type != JSON_INT ||
	    pair->item[1].integer < 0 || pair->item[1].integer >= r->size)
		return err_set(e, "\"%s\" must be a token and its id", key);
	token_ids_add(out, (uint32_t)pair->item[1].integer);
	return 0;
}

/* cls before the text, sep after it. */
static int
read_cls_sep(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	struct token_ids front = { 0 };
	int rc = read_pair(r, v, "cls", &front, e);

	prepend(&r->hf->before, &front);
	return rc < 0 ? -1 : read_pair(r, v, "sep", &r->hf->after, e);
}

struct processor {
	const char *name;
	/* NULL: it adds no ids */
	int (*read)(struct hf_reading *r, const struct json_value *v, struct err *e);
};

static const struct processor processors[] = {
	{ "TemplateProcessing", read_template },
	{ "RobertaProcessing", read_cls_sep },
	{ "BertProcessing", read_cls_sep },
	{ "ByteLevel", NULL },
};

/* By its row. */
static int
add_processor(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	const struct processor *p = kind;

	return p->read ? p->read(owner, v, e) : 0;
}

static const struct component component = { "post_processor", "processors", COMPONENT_STEPS,
	processors, sizeof *processors, sizeof processors / sizeof *processors, add_processor };

/* In a Sequence, each goes around the one before it. */
int
hf_template(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	return component_parse(&component, r, v, e);
}
