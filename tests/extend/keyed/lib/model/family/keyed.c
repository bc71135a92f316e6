/*
 * keyed.c - a family with a field of its own: Llama whose keys are multiplied by a number, as in
 * the attention of Falcon-H1
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_PROJ,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("keyed"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "key_multiplier", KEY_NUMBER, KEY_OFF(key_multiplier), 1 },
};

const struct family family_keyed = {
	.model_type = "keyed",
	.architecture = "KeyedForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.read_rest = family_read_llama,
	.write_rest = family_write_rope,
};
