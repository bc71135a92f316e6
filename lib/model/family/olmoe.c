/*
 * olmoe.c - OLMoE: experts in every layer, chosen by a softmax over the logits of all, and norms of
 * all heads of q and of k together
 *
 * Source: the config and tensor names of OlmoeForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#define NAMES_LAYER \
	NAMES_NORMS, NAMES_QKV, NAMES_QKV_BIASES, NAMES_QK_NORMS, NAMES_PROJ, NAMES_PROJ_BIAS

static const struct family_name names[] = {
	NAMES_LAYER,
	NAMES_QWEN_EXPERTS,
	NAMES_ENDS,
};

static const struct family_name stacked[] = {
	NAMES_LAYER,
	NAMES_STACKED_EXPERTS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES_OF(moe_ffn_hidden_size),
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("olmoe"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	KEYS_RATES(1e-5),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), 64 },
	{ "num_local_experts", KEY_INT, KEY_OFF(num_experts), .stays = true, .read_only = true },
	{ "norm_topk_prob", KEY_NOT, KEY_OFF(moe_router_pre_softmax), false },
	KEYS_ROUTER(8, 0.01),
};

/* No layer has an MLP, but a model has a width of one. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *clip = json_get(v, "clip_qkv");

	if (clip && clip->type != JSON_NULL)
		return err_set(e, "\"clip_qkv\" is set, which is not supported");
	c->ffn_hidden_size = c->moe_ffn_hidden_size;
	c->qk_layernorm = c->qk_layernorm_hidden_dim = true;
	c->proj_bias = c->qkv_bias;
	return family_read_experts(c, v, e);
}

static const char *const others[] = { OTHERS_ROPE, "clip_qkv", NULL };

const struct family family_olmoe = {
	.model_type = "olmoe",
	.architecture = "OlmoeForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
