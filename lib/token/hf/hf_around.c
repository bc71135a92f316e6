/*
 * hf_around.c - the special tokens that a class puts around a text
 *
 * Some classes have their own template. For the others, without a tokenizer.json, transformers 5.23
 * makes it from "add_bos_token" and "add_eos_token" of the configs, or from the class's default
 * when they are missing: CodeLlamaTokenizer adds bos, no other class adds anything, Llama's
 * included. Source: TokenizersBackend.update_post_processor.
 */
#include "lib/token/hf/hf.h"

#include <stdio.h>

/* A search in the configs. */
struct around {
	struct tokenizer *t;
	struct hf_configs *configs;
	const struct json_value *tokens; /* of the class, by default */
	const struct names *names;       /* NULL: t is open and its pieces are known */
	const char *subject;             /* of the note about a missing token */
};

/* The token's id; -1 when a config or the class has none, or names one that the files lack, which
 * is noted; def when nothing names it. */
static int64_t
token_id(struct around *a, const char *key, int64_t def)
{
	const struct json_value *v;
	enum hf_config_file from;
	int64_t id;

	v = hf_config_member(a->configs, key, &from);
	if (v)
		a->configs->used[from] = true;
	else
		v = json_get(a->tokens, key);
	if (!v)
		return def;
	if (v->type == JSON_OBJECT)
		v = json_get(v, "content");
	if (!v || v->type != JSON_STRING)
		return -1;
	id = a->names ? names_find(a->names, v->string, v->len)
		      : tokenizer_find_piece(a->t, v->string, v->len);
	if (id < 0)
		str_addf(&a->t->notes, "%s: \"%s\" is ignored: '%.40s' is not in the vocabulary\n",
		    a->configs->dir, a->subject, v->string);
	return id;
}

/* The id that an "add_NAME_token" adds around a text, which becomes the special token; -1: none. */
static int64_t
id_around(struct around *a, enum tokenizer_special which, bool def)
{
	const char *name = tokenizer_special_name(which);
	const struct json_value *add;
	char key[16], subject[16];
	int64_t id;

	snprintf(key, sizeof key, "%s_token", name);
	snprintf(subject, sizeof subject, "add_%s_token", name);
	a->subject = subject;
	add = json_get(hf_config(a->configs, TOKENIZER_CONFIG), subject);
	if (add ? add->type != JSON_BOOL || !add->boolean : !def)
		return -1;
	id = token_id(a, key, tokenizer_special(a->t, which));
	if (id >= 0)
		a->t->special[which] = id;
	return id;
}

static void
by_configs(struct around *a, bool bos)
{
	a->t->before = id_around(a, TOKENIZER_BOS, bos);
	a->t->after = id_around(a, TOKENIZER_EOS, false);
	a->t->adds_bos = a->t->before >= 0;
}

/* A template belongs to the class; ids from the tokenizer's switches do not. */
void
hf_around(struct hf_reading *r, struct tokenizer *t)
{
	const struct class_row *row = r->row;
	bool alone = row->bos && r->source == HF_JSON;
	const char *keys[] = { alone ? "bos_token" : row->first, row->last };
	struct token_ids *side[] = { &r->hf->before, &r->hf->after };
	struct around a = { t, &r->configs, r->class_tokens, &r->names, row->name };

	if (hf_is_old(r) && row->switches) {
		by_configs(&a, row->old_bos);
		return;
	}
	if (hf_is_old(r))
		keys[0] = keys[1] = NULL;
	for (int i = 0; i < 2; i++) {
		int64_t id = keys[i] ? token_id(&a, keys[i], -1) : -1;

		if (id >= 0)
			token_ids_add(side[i], (uint32_t)id);
	}
	if (r->source != HF_JSON && !row->first && !row->last)
		by_configs(&a, row->bos);
	else
		t->adds_bos =
		    r->hf->before.count && r->hf->before.id[0] == t->special[TOKENIZER_BOS];
}

/* Configs that add no ids do not count: the ids depend only on the files. */
int
hf_around_directory(struct tokenizer *t, const char *dir, struct err *e)
{
	struct hf_configs configs = { 0 };
	struct around a = { .t = t, .configs = &configs };
	const struct class_row *row;
	struct json *parts = NULL;
	int rc = -1;

	if (hf_configs_read(&configs, dir, e) == 0 &&
	    (row = hf_row(t, &configs, HF_RANKS, NULL, e)) &&
	    (!row->members || (parts = hf_class_parts(&configs, row, NULL, e)))) {
		a.tokens = parts ? &json_root(parts)->item[1] : NULL;
		by_configs(&a, row->bos);
		rc = 0;
	}
	if (rc == 0 && (t->before >= 0 || t->after >= 0)) {
		configs.used[TOKENIZER_CONFIG] = configs.used[MODEL_CONFIG] = true;
		rc = hf_configs_count(&configs, t, e);
	}
	json_free(parts);
	hf_configs_release(&configs);
	return rc;
}
