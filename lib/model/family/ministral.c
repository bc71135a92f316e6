/*
 * ministral.c - Ministral: Mistral with the sliding window in the layers that layer_types lists
 *
 * Source: the config and tensor names of MinistralForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_MISTRAL,
};

static const struct key keys[] = {
	KEYS_MISTRAL("ministral"),
};

static const char *const others[] = { OTHERS_ROPE, "layer_types", NULL };

const struct family family_ministral = {
	.model_type = "ministral",
	.architecture = "MinistralForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_mistral,
	.write_rest = family_write_windows,
};
