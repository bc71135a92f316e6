/*
 * mistral.c - Mistral: Llama without biases, with a sliding window in all layers or in none
 *
 * Source: the config and tensor names of MistralForCausalLM in huggingface/transformers. A file
 * with layer_types is a MinistralForCausalLM to its AutoConfig, from 4.57 on: it is read here and
 * written there.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_MISTRAL,
};

static const struct key keys[] = {
	KEYS_MISTRAL("mistral"),
};

static const char *const others[] = { OTHERS_ROPE, "layer_types", NULL };

const struct family family_mistral = {
	.model_type = "mistral",
	.architecture = "MistralForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_mistral,
	.write_rest = family_write_rope,
};
