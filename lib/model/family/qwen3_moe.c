/*
 * qwen3_moe.c - Qwen3 with experts in all layers, or in all but some, chosen by a softmax over the
 * logits of all
 *
 * Source: the config and tensor names of Qwen3MoeForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#include <stddef.h>

#define NAMES_LAYER \
	NAMES_NORMS, NAMES_QKV, NAMES_QKV_BIASES, NAMES_QK_NORMS, NAMES_PROJ, NAMES_PROJ_BIAS, \
	    NAMES_GATED_MLP

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

/* transformers 5 writes num_local_experts, reads either, and knows no layers without the window. */
static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(4),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("qwen3_moe"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	KEY_WINDOW_IF_USED,
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), 128 },
	{ "num_local_experts", KEY_INT, KEY_OFF(num_experts), .stays = true, .read_only = true },
	{ "moe_intermediate_size", KEY_INT, KEY_OFF(moe_ffn_hidden_size), 768 },
	{ "norm_topk_prob", KEY_NOT, KEY_OFF(moe_router_pre_softmax), false },
	KEYS_ROUTER(8, 0.001),
};

/* attention_bias puts biases on q, k, v and o alike. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (family_read_window(c, v, e) < 0)
		return -1;
	c->proj_bias = c->qkv_bias;
	c->qk_layernorm = true;
	return family_read_sparse(c, v, e) < 0 ? -1 : family_read_experts(c, v, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_addf(out, ",\n  \"use_sliding_window\": %s", c->window_size ? "true" : "false");
	family_write_sparse(c, out);
	family_write_rope(c, out);
}

static const char *const others[] = { OTHERS_QWEN, "decoder_sparse_step", "mlp_only_layers", NULL };

const struct family family_qwen3_moe = {
	.model_type = "qwen3_moe",
	.architecture = "Qwen3MoeForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
