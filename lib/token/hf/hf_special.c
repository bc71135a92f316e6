/*
 * hf_special.c - the ids of bos, eos, unk and pad of a tokenizer.json
 *
 * The file itself does not give the roles of its tokens. transformers keeps them in
 * tokenizer_config.json, special_tokens_map.json and the model's config.json, which are searched in
 * this order; a null member means that there is no such token. Without any of them the class's
 * default token counts, or the usual names are tried.
 */
#include "lib/token/hf/hf.h"

#include <string.h>

/* The first one that is a token counts. */
static const char *const usual[TOKENIZER_SPECIALS][6] = {
	[TOKENIZER_UNK] = { "<unk>", "<|unk|>", "[UNK]" },
	[TOKENIZER_BOS] = { "<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>" },
	[TOKENIZER_EOS] = { "<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>" },
	[TOKENIZER_PAD] = { "<pad>", "<|pad|>", "<|finetune_right_pad_id|>", "[PAD]" },
};

/* The search for a special id. */
struct search {
	const struct tokenizer *t;
	const struct names *names;
	enum tokenizer_special which;
	bool found; /* also when there is no such token */
	int64_t id;
};

/* A member NAME_token: a string, or an object with "content". */
static int
look_for_text(struct search *s, const struct json_value *config, struct err *e)
{
	const struct json_value *v;
	char key[16];

	snprintf(key, sizeof key, "%s_token", tokenizer_special_name(s->which));
	v = json_get(config, key);
	if (!v)
		return 0;
	s->found = true;
	if (v->type == JSON_NULL)
		return 0;
	if (v->type == JSON_OBJECT)
		v = json_get(v, "content");
	if (!v || v->type != JSON_STRING)
		return err_set(e, "\"%s\" must be a string, or an object with \"content\"", key);
	s->id = names_find(s->names, v->string, v->len);
	return s->id >= 0 ? 0
			  : err_set(e, "\"%s\" is '%.40s', which is not a token", key, v->string);
}

/* A member NAME_token_id: a number, or the first of a list. */
static int
look_for_id(struct search *s, const struct json_value *config, struct err *e)
{
	const struct json_value *v;
	char key[16];

	snprintf(key, sizeof key, "%s_token_id", tokenizer_special_name(s->which));
	v = json_get(config, key);
	if (v && v->type == JSON_ARRAY && v->len)
		v = &v->item[0];
	if (!v || v->type == JSON_NULL)
		return 0;
	if (v->type != JSON_INT || v->integer < 0 || v->integer >= tokenizer_vocab_size(s->t))
		return err_set(e, "\"%s\" is not a token", key);
	s->found = true;
	s->id = v->integer;
	return 0;
}

/* Searches a config, which may be missing. */
static int
look_in(struct search *s, const struct hf_configs *c, enum hf_config_file which, struct err *e)
{
	struct err why;
	int rc;

	if (s->found || !c->file[which])
		return 0;
	rc = which == MODEL_CONFIG ? look_for_id(s, hf_config(c, which), &why)
				   : look_for_text(s, hf_config(c, which), &why);
	return rc < 0 ? err_set(e, "%s/%s: %s", c->dir, hf_config_name(which), why.msg) : 0;
}

/* The model's own unk_token, or a Unigram's unk_id, precedes any usual name. */
static void
look_at_names(struct search *s, const struct json_value *root)
{
	const struct json_value *model = json_get(root, "model"),
				*unk = json_get(model, "unk_token"),
				*id = json_get(model, "unk_id");

	if (s->which == TOKENIZER_UNK && unk && unk->type == JSON_STRING)
		s->id = names_find(s->names, unk->string, unk->len);
	else if (s->which == TOKENIZER_UNK && id && id->type == JSON_INT)
		s->id = id->integer;
	for (const char *const *name = usual[s->which]; *name && s->id < 0; name++)
		s->id = names_find(s->names, *name, strlen(*name));
}

/* Each of the four separately: a config that names one may omit another. */
int
hf_special(const struct hf_reading *r, struct tokenizer *t, struct err *e)
{
	static const enum hf_config_file order[] = { TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP,
		MODEL_CONFIG };

	for (int i = 0; i < TOKENIZER_SPECIALS; i++) {
		struct search s = {
			.t = t, .names = &r->names, .which = (enum tokenizer_special)i, .id = -1
		};

		for (size_t k = 0; k < sizeof order / sizeof *order; k++)
			if (look_in(&s, &r->configs, order[k], e) < 0)
				return -1;
		if (!s.found && look_for_text(&s, r->class_tokens, e) < 0)
			return -1;
		if (!s.found)
			look_at_names(&s, &r->root);
		t->special[i] = s.id;
	}
	return 0;
}
