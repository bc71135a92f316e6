/*
 * olmo2.c - OLMo 2: Llama with norms of the branches instead of their inputs, and of all heads of q
 * and of k together
 *
 * Source: the config and tensor names of Olmo2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	{ "post_self_attn_layernorm.weight", "model.layers.%d.post_attention_layernorm.weight",
	    false },
	{ "post_mlp_layernorm.weight", "model.layers.%d.post_feedforward_layernorm.weight", false },
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
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("olmo2"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-5),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->norm_placement = NORM_PLACEMENT_POST;
	c->qk_layernorm = c->qk_layernorm_hidden_dim = true;
	c->proj_bias = c->qkv_bias;
	if (family_read_llama(c, v, e) < 0)
		return -1;
	return c->rope_scaling == ROPE_SCALING_NONE
	    ? 0
	    : err_set(e, "scaled positions of olmo2 are not supported");
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_olmo2 = {
	.model_type = "olmo2",
	.architecture = "Olmo2ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
