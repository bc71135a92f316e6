/*
 * granite.c - Granite: Llama with multipliers of embeddings, attention, branches and logits
 *
 * Source: the config and tensor names of GraniteForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	NAMES_GATED_MLP,
	NAMES_GATED_MLP_BIASES,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("granite"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
	{ "embedding_multiplier", KEY_NUMBER, KEY_OFF(embedding_multiplier), 1 },
	{ "attention_multiplier", KEY_NUMBER, KEY_OFF(attention_multiplier), 1 },
	{ "residual_multiplier", KEY_NUMBER, KEY_OFF(residual_multiplier), 1 },
	{ "logits_scaling", KEY_NUMBER, KEY_OFF(logits_scaling), 1 },
};

/* attention_bias puts biases on q, k, v and o alike. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	return family_read_llama(c, v, e);
}

const struct family family_granite = {
	.model_type = "granite",
	.architecture = "GraniteForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.tied = false,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
