/* hf_names.c - how the tensors of a Hugging Face directory are named, and what the others are */
#include "lib/ckpt/hf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What precedes the rest of a name: `before`, the base's prefix where it is kept, and `inside`; and
 * what precedes the head's name. In the order in which they are tried. */
static const struct {
	const char *before;
	bool keeps_base;
	const char *inside, *head;
} rules[] = {
	{ "", true, "", "" },
	{ "", false, "", "" },
	{ "language_model.", true, "", "language_model." },
	{ "", true, "language_model.", "" },
	{ "", false, "language_model.", "" },
	{ "base_model.model.", true, "", "base_model.model." },
};
enum { RULES = sizeof rules / sizeof *rules };

void
hf_names_map(const struct hf_names *n, const char *name, char out[HF_NAME])
{
	size_t base = strlen(n->base);

	if (strncmp(name, n->base, base))
		snprintf(out, HF_NAME, "%s%s", rules[n->rule].head, name);
	else
		snprintf(out, HF_NAME, "%s%s%s%s", rules[n->rule].before,
		    rules[n->rule].keeps_base ? n->base : "", rules[n->rule].inside, name + base);
}

void
hf_names_choose(struct hf_names *n, const struct hfdir *dir, const char *embedding)
{
	char name[HF_NAME];

	snprintf(n->base, sizeof n->base, "%.*s", (int)strcspn(embedding, ".") + 1, embedding);
	for (n->rule = 0; n->rule < RULES; n->rule++) {
		hf_names_map(n, embedding, name);
		if (hfdir_find(dir, name))
			return;
	}
	n->rule = 0;
}

bool
hf_names_lack_head(const struct hf_names *n)
{
	return !rules[n->rule].keeps_base;
}

static bool
ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);

	return n >= k && !strcmp(s + n - k, suffix);
}

/* Whether one of the first parts of a name, between dots, is this word. */
static bool
has_part(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (int i = 0; i < 3 && *name; i++) {
		size_t len = strcspn(name, ".");

		if (len == n && !strncmp(name, word, n))
			return true;
		name += len + (name[len] == '.');
	}
	return false;
}

static bool
is_any(bool (*test)(const char *, const char *), const char *name, const char *const *words)
{
	while (*words && !test(name, *words))
		words++;
	return *words;
}

/* The layer of a name; -1: of none. */
static long
layer_of(const char *name)
{
	const char *at = strstr(name, "layers.");

	return at ? strtol(at + strlen("layers."), NULL, 10) : -1;
}

enum hf_class
hf_class_of(const char *name, const struct model_config *c, const struct config_rest *rest)
{
	static const char *const buffers[] = { ".attn.bias", ".attn.masked_bias", ".attention.bias",
		".attention.masked_bias", "rotary_emb.inv_freq", "rotary_emb.cos_cached",
		"rotary_emb.sin_cached", "activation_scale", "position_ids", NULL };
	static const char *const modalities[] = { "vision_tower", "vision_model", "visual",
		"multi_modal_projector", "mm_projector", "audio_tower", "audio_model", NULL };
	static const char *const heads[] = { "score", "classifier", "v_head", NULL };

	if (is_any(ends_with, name, buffers))
		return HF_BUFFER;
	if (rest->other_modality && is_any(has_part, name, modalities))
		return HF_MODALITY;
	if (has_part(name, "mtp") || (rest->num_mtp_layers > 0 && layer_of(name) >= c->num_layers))
		return HF_MTP;
	if (is_any(has_part, name, heads))
		return HF_HEAD;
	return strstr(name, "lora_") ? HF_ADAPTER : HF_FOREIGN;
}
