/*
 * llama.c - Llama 1 to 3: RMSNorm, rotary positions, SwiGLU, grouped query attention, no biases
 * unless the config says so
 *
 * Source: the config and tensor names of LlamaForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_LLAMA,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("llama"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_llama = {
	.model_type = "llama",
	.architecture = "LlamaForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_llama_evenly,
	.write_rest = family_write_rope,
};
