/*
 * qwen3.c - Qwen3: Llama with norms of the heads of q and k, which need not share the hidden size
 *
 * Source: the config and tensor names of Qwen3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_QK_NORMS,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(32, .null = family_heads),
	KEY_HEAD_DIM(128),
	KEY_SILU("qwen3"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	KEY_WINDOW_IF_USED,
};

/* attention_bias puts biases on q, k, v and o alike. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	c->qk_layernorm = true;
	return family_read_qwen(c, v, e);
}

static const char *const others[] = { OTHERS_QWEN, NULL };

/* The text model of Qwen3-VL. */
static const char *const aliases[] = { "qwen3_vl_text", NULL };

const struct family family_qwen3 = {
	.model_type = "qwen3",
	.architecture = "Qwen3ForCausalLM",
	.aliases = aliases,
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_qwen,
};
