/*
 * hf_around.c - bos and eos around the texts of a directory without tokenizer.json
 *
 * There transformers 5.23 makes the template from "add_bos_token" and "add_eos_token" of the
 * configs, or by what the class does when they are missing: CodeLlamaTokenizer adds bos, no other
 * class adds anything, Llama's included. Source: TokenizersBackend.update_post_processor.
 */
#include "lib/token/hf/hf.h"

#include <stdio.h>

/* What is asked of the configs. */
struct around {
	struct tokenizer *t;
	struct hf_configs configs;
	struct hf_class_habits habits;
};

/* The token's id, or -1: a config or the class says that there is none, or names one that the files
 * do not have, which is noted. Where nobody names it, it is the model's own. */
static int64_t
token_id(struct around *a, enum tokenizer_special which)
{
	const char *name = tokenizer_special_name(which);
	const struct json_value *v;
	enum hf_config_file from;
	char key[16];
	int64_t id;

	snprintf(key, sizeof key, "%s_token", name);
	v = hf_config_member(&a->configs, key, &from);
	if (v)
		a->configs.used[from] = true;
	else if (a->habits.tokens)
		v = json_get(json_root(a->habits.tokens), key);
	if (!v)
		return tokenizer_special(a->t, which);
	if (v->type == JSON_OBJECT)
		v = json_get(v, "content");
	if (!v || v->type != JSON_STRING)
		return -1;
	id = tokenizer_find_piece(a->t, v->string, v->len);
	if (id < 0)
		str_addf(&a->t->notes,
		    "%s: \"add_%s_token\" is ignored: '%.40s' is not in the vocabulary\n",
		    a->configs.dir, name, v->string);
	return id;
}

/* The id that an "add_NAME_token" puts around a text, which becomes the special one; -1: none. */
static int64_t
id_around(struct around *a, enum tokenizer_special which, bool def)
{
	const struct json_value *add;
	char key[16];
	int64_t id;

	snprintf(key, sizeof key, "add_%s_token", tokenizer_special_name(which));
	add = json_get(hf_config(&a->configs, TOKENIZER_CONFIG), key);
	if (add ? add->type != JSON_BOOL || !add->boolean : !def)
		return -1;
	id = token_id(a, which);
	if (id >= 0)
		a->t->special[which] = id;
	return id;
}

/* Configs that put nothing there do not count: the ids are those of the files alone. */
int
hf_around(struct tokenizer *t, const char *dir, struct err *e)
{
	struct around a = { .t = t };
	int rc = -1;

	if (hf_configs_read(&a.configs, dir, e) == 0 &&
	    hf_class_habits(&a.habits, t, &a.configs, e) == 0) {
		t->before = id_around(&a, TOKENIZER_BOS, a.habits.bos);
		t->after = id_around(&a, TOKENIZER_EOS, false);
		t->adds_bos = t->before >= 0;
		rc = 0;
	}
	if (rc == 0 && (t->before >= 0 || t->after >= 0)) {
		a.configs.used[TOKENIZER_CONFIG] = a.configs.used[MODEL_CONFIG] = true;
		rc = hf_configs_count(&a.configs, t, e);
	}
	json_free(a.habits.tokens);
	hf_configs_release(&a.configs);
	return rc;
}
