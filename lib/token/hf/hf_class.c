/*
 * hf_class.c - a tokenizer.json with the members that a class of transformers rebuilds
 *
 * Before version 5 those classes kept the file's members, and those of Llama and Gemma rebuilt the
 * template from "add_bos_token" and "add_eos_token", which version 5 ignores when there is a
 * tokenizer.json.
 */
#include "lib/base/mem.h"
#include "lib/token/hf/hf.h"

#include <stdlib.h>
#include <string.h>

/* --- the members ------------------------------------------------------------------------------ */

/* A member; missing or null gives def. */
static bool
truth(const struct json_value *v, const char *key, bool def)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type == JSON_BOOL ? m->boolean : def;
}

/* The unknown token as a JSON string: the config's, or the default. */
static void
add_unk(struct str *out, const struct json_value *config)
{
	const struct json_value *v = json_get(config, "unk_token");

	if (v && v->type == JSON_OBJECT)
		v = json_get(v, "content");
	if (v && v->type == JSON_STRING)
		str_add_json(out, v->string, v->len);
	else
		str_adds(out, "\"<unk>\"");
}

/* The file's character rules, or null. */
static void
add_precompiled(struct str *out, const struct json_value *root)
{
	const struct json_value *v = json_get(root, "normalizer"),
				*list = json_get(v, "normalizers");
	size_t n = list && list->type == JSON_ARRAY ? list->len : 0;

	for (size_t i = 0; i < n; i++)
		if (json_get(&list->item[i], "precompiled_charsmap")) {
			v = &list->item[i];
			break;
		}
	v = json_get(v, "precompiled_charsmap");
	if (!v || v->type != JSON_STRING) {
		str_adds(out, "null");
		return;
	}
	str_adds(out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": ");
	str_add_json(out, v->string, v->len);
	str_addc(out, '}');
}

/* True when the configs name a sentinel of T5, where version 4 adds none. */
static bool
has_sentinel(const struct hf_configs *c)
{
	enum hf_config_file which;
	const struct json_value *list = hf_config_member(c, "additional_special_tokens", &which);

	for (size_t i = 0; list && list->type == JSON_ARRAY && i < list->len; i++) {
		const struct json_value *v = &list->item[i];

		if (v->type == JSON_OBJECT)
			v = json_get(v, "content");
		if (v && v->type == JSON_STRING && strstr(v->string, "<extra_id_"))
			return true;
	}
	return false;
}

/* Expands the members or tokens of a row. */
static void
expand(struct str *out, const struct hf_configs *c, const struct class_row *row, const char *text,
    const struct json_value *root)
{
	const struct json_value *config = hf_config(c, TOKENIZER_CONFIG);
	bool space = truth(config, "add_prefix_space", row->space),
	     legacy = truth(config, "legacy", false);
	struct str precompiled = { 0 }, extra = { 0 }, unk = { 0 };

	add_precompiled(&precompiled, root);
	add_unk(&unk, config);
	for (int i = 0; i < hf_extra_ids(c); i++)
		str_addf(&extra, "%s\"<extra_id_%d>\"", i ? ", " : "", i);

	const struct {
		const char *word, *text;
	} words[] = {
		{ "@space", space ? "true" : "false" },
		{ "@strip", space ? "1" : "0" },
		{ "@first", space ? "\"first\"" : "\"never\"" },
		{ "@scheme",
		    !space       ? "\"never\""
			: legacy ? "\"always\""
				 : "\"first\"" },
		{ "@unk", unk.buf },
		{ "@precompiled", precompiled.buf },
		{ "@extra_ids", extra.buf ? extra.buf : "" },
		{ "@old_ids", extra.buf && !has_sentinel(c) ? extra.buf : "" },
	};

	for (const char *s = text; *s;) {
		size_t i = 0, n = sizeof words / sizeof *words;

		while (i < n && strncmp(s, words[i].word, strlen(words[i].word)) != 0)
			i++;
		if (i == n) {
			str_addc(out, *s++);
			continue;
		}
		str_adds(out, words[i].text);
		s += strlen(words[i].word);
	}
	str_release(&precompiled);
	str_release(&extra);
	str_release(&unk);
}

/* An object with the members of both: of two with one name the last counts. The caller frees
 * out->item. */
static struct json_value
with_members(const struct json_value *v, const struct json_value *more)
{
	struct json_value out = *v;

	out.len = v->len + more->len;
	out.item = mem_alloc(out.len, sizeof *out.item);
	memcpy(out.item, v->item, v->len * sizeof *v->item);
	memcpy(out.item + v->len, more->item, more->len * sizeof *more->item);
	return out;
}

/* The list of the two. */
struct json *
hf_class_parts(const struct hf_configs *c, const struct class_row *row,
    const struct json_value *root, struct err *e)
{
	struct str text = { 0 };
	struct json *parts;

	str_addc(&text, '[');
	expand(&text, c, row, row->members, root);
	str_addc(&text, ',');
	expand(&text, c, row, row->tokens, root);
	str_addc(&text, ']');
	parts = json_parse(text.buf, text.len, row->name, e);
	str_release(&text);
	return parts;
}

/* Notes the settings of the configs that the class ignores. */
static void
add_notes(struct tokenizer *t, const struct hf_reading *r)
{
	static const char *const ignored[] = { "add_bos_token", "add_eos_token",
		"add_prefix_space" };
	const struct json_value *config = hf_config(&r->configs, TOKENIZER_CONFIG);
	const struct class_row *row = r->row;
	bool decides = row->bos || row->first || row->last;

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
		const struct json_value *v = json_get(config, ignored[i]);

		if (v && v->type == JSON_BOOL &&
		    (i < 2 || !row->members || !strstr(row->members, "@")))
			str_addf(&t->notes,
			    "%s/%s: \"%s\" is ignored, as by transformers 5: %s decides\n",
			    r->configs.dir, hf_config_name(TOKENIZER_CONFIG), ignored[i],
			    decides ? row->name : "tokenizer.json");
	}
}

/* Version 4 kept the file's parts. Its base class set the blank of a ByteLevel that is the whole
 * pre-tokenizer, from the config or else to false; a value that is neither had no effect. Returns
 * the list of the members that change and the default tokens. */
static struct json *
old_parts(const struct hf_reading *r, const struct json_value *root, struct err *e)
{
	const struct json_value *space = json_get(
				    hf_config(&r->configs, TOKENIZER_CONFIG), "add_prefix_space"),
				*pre = json_get(root, "pre_tokenizer"),
				*type = json_get(pre, "type");
	struct str text = { 0 };
	struct json *parts;

	str_addc(&text, '[');
	if (type && type->type == JSON_STRING && !strcmp(type->string, "ByteLevel") &&
	    !r->row->anew && (!space || space->type == JSON_BOOL))
		str_addf(&text,
		    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": %s, "
		    "\"use_regex\": %s}}, ",
		    space && space->boolean ? "true" : "false",
		    truth(pre, "use_regex", true) ? "true" : "false");
	else
		str_adds(&text, "{}, ");
	if (r->row->tokens)
		expand(&text, &r->configs, r->row,
		    r->row->old_tokens ? r->row->old_tokens : r->row->tokens, root);
	else
		str_adds(&text, "{}");
	str_addc(&text, ']');
	parts = json_parse(text.buf, text.len, "transformers-4.57", e);
	str_release(&text);
	return parts;
}

/* The template comes from the switches of the configs in some classes (hf_around.c). */
static int
old_class(struct hf_reading *r, const struct json_value *root, struct err *e)
{
	const struct json_value *space =
	    json_get(hf_config(&r->configs, TOKENIZER_CONFIG), "add_prefix_space");

	if (r->row->anew && space && space->type != JSON_NULL)
		return err_set(e,
		    "%s: transformers 4.57 makes a %s with \"add_prefix_space\" of other files, "
		    "which "
		    "is not followed",
		    r->configs.dir, r->row->name);
	r->class_tree = old_parts(r, root, e);
	if (!r->class_tree)
		return -1;
	r->root = with_members(root, &json_root(r->class_tree)->item[0]);
	r->class_tokens = &json_root(r->class_tree)->item[1];
	r->configs.used[TOKENIZER_CONFIG] = r->configs.used[MODEL_CONFIG] = true;
	return 0;
}

/* A class builds one kind of model. The file gets the members of its row. */
int
hf_class(struct hf_reading *r, struct tokenizer *t, const struct json_value *root, struct err *e)
{
	static const char *const kinds[] = { "BPE", "Unigram" };
	const struct class_row *row = r->row;
	const struct json_value *vocab = json_get(json_get(root, "model"), "vocab"), *made;

	r->root = *root;
	if (hf_is_old(r))
		return old_class(r, root, e);
	if (r->source == HF_JSON)
		add_notes(t, r);
	if (!row->members)
		return 0;
	if (!vocab || vocab->type != (row->unigram ? JSON_ARRAY : JSON_OBJECT)) {
		str_addf(&t->notes, "%s: the class '%s' is for a %s: tokenizer.json is followed\n",
		    r->configs.dir, row->name, kinds[row->unigram]);
		r->row = &hf_generic_row;
		return 0;
	}
	r->class_tree = hf_class_parts(&r->configs, row, root, e);
	if (!r->class_tree)
		return -1;
	made = json_root(r->class_tree)->item;
	r->root = with_members(root, &made[0]);
	r->own_model = with_members(json_get(root, "model"), json_get(&made[0], "model"));
	for (size_t i = 0; i < r->root.len; i++)
		if (!strcmp(r->root.item[i].key, "model")) {
			r->root.item[i].item = r->own_model.item;
			r->root.item[i].len = r->own_model.len;
		}
	r->class_tokens = &made[1];
	r->configs.used[TOKENIZER_CONFIG] = r->configs.used[MODEL_CONFIG] = true;
	return 0;
}

/* Without a class there is nothing to free. */
void
hf_class_release(struct hf_reading *r)
{
	json_free(r->made);
	if (!r->class_tree)
		return;
	free(r->root.item);
	free(r->own_model.item);
	json_free(r->class_tree);
}
