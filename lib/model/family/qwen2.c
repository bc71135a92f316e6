/*
 * qwen2.c - Qwen2 and Qwen2.5: Llama with biases on q, k and v, always and nowhere else
 *
 * Source: the config and tensor names of Qwen2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

/* Qwen2Config has no head_dim, but its model uses one. */
static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(32, .null = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("qwen2"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	KEY_WINDOW_IF_USED,
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->qkv_bias = true;
	return family_read_qwen(c, v, e);
}

static const char *const others[] = { OTHERS_QWEN, NULL };

/* The text models of Qwen2-VL and Qwen2.5-VL. */
static const char *const aliases[] = { "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text",
	NULL };

const struct family family_qwen2 = {
	.model_type = "qwen2",
	.architecture = "Qwen2ForCausalLM",
	.aliases = aliases,
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_qwen,
};
