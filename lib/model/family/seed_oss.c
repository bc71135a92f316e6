/*
 * seed_oss.c - Seed-OSS: Llama with biases on q, k and v, and a switch of its own for that of the
 * projection
 *
 * Source: the config and tensor names of SeedOssForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_LLAMA,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(8, .null = family_heads),
	KEY_HEAD_DIM(128, .null = family_head_width),
	KEY_SILU("seed_oss"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 524288 },
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-6 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0.1 },
	{ "residual_dropout", KEY_NUMBER, KEY_OFF(hidden_dropout), 0.1 },
	KEY_ROPE_THETA,
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), true },
	{ "attention_out_bias", KEY_BOOL, KEY_OFF(proj_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_seed_oss = {
	.model_type = "seed_oss",
	.architecture = "SeedOssForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = family_read_llama,
	.write_rest = family_write_rope,
};
