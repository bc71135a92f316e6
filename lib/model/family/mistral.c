/*
 * mistral.c - Mistral and Ministral: Llama without biases, with a sliding window in all layers, in
 * some or in none
 *
 * Source: the config and tensor names of MistralForCausalLM in huggingface/transformers. A Mistral
 * with layer_types is a MinistralForCausalLM to its AutoConfig, from 4.57 on.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_MISTRAL,
};

static const struct key keys[] = {
	KEYS_MISTRAL("mistral"),
};

/* Readers that do not know layer_types need not see it where all layers are alike. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	if (pattern_count(&c->window_attn_skip_freq, c->num_layers) > 0)
		family_write_layer_types(c, out);
	family_write_rope(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", NULL };

const struct family family_mistral = {
	.model_type = "mistral",
	.architecture = "MistralForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_mistral,
	.write_rest = write_rest,
};
