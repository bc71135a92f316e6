/*
 * arcee.c - Arcee's AFM: Llama with an MLP of squared ReLU, without a gate
 *
 * Source: the config and tensor names of ArceeForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_ATTENTION,
	NAMES_MLP,
	NAMES_MLP_BIASES,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_RELU2("arcee"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	KEYS_RATES(1e-5),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_arcee = {
	.model_type = "arcee",
	.architecture = "ArceeForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_llama_evenly,
	.write_rest = family_write_rope,
};
