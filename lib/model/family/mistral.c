/*
 * mistral.c - Mistral: Llama without biases, with a sliding window in all layers or in none
 *
 * Source: the config and tensor names of MistralForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_PROJ,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

/* A config without sliding_window has the window of the first Mistral; later ones say null. */
static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(8),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("mistral"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	KEYS_RATES(1e-6),
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 4096 },
};

const struct family family_mistral = {
	.model_type = "mistral",
	.architecture = "MistralForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.read_rest = family_read_llama,
	.write_rest = family_write_rope,
};
