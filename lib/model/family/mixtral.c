/*
 * mixtral.c - Mixtral: Mistral with experts in every layer, chosen by a softmax over their logits
 *
 * Source: the config and tensor names of MixtralForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#define MOE "model.layers.%d.block_sparse_moe."

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_PROJ,
	{ "mlp.router.weight", MOE "gate.weight", false },
	{ "mlp.experts.%d.linear_gate.weight", MOE "experts.%d.w1.weight", false },
	{ "mlp.experts.%d.linear_up.weight", MOE "experts.%d.w3.weight", false },
	{ "mlp.experts.%d.linear_down.weight", MOE "experts.%d.w2.weight", false },
	NAMES_ENDS,
};

static const struct family_name stacked[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_PROJ,
	NAMES_STACKED_EXPERTS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES_OF(moe_ffn_hidden_size),
	KEY_GROUPS(8),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("mixtral"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	KEY_ROPE_THETA,
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 0 },
	{ "num_local_experts", KEY_INT, KEY_OFF(num_experts), 8 },
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), .stays = true, .read_only = true },
	KEYS_ROUTER(2, 0.001),
};

/* No layer has an MLP, but a model has a width of one. The base is that of a file without one. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->ffn_hidden_size = c->moe_ffn_hidden_size;
	c->rotary_base = 1e6;
	return family_read_experts(c, v, e);
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_mixtral = {
	.model_type = "mixtral",
	.architecture = "MixtralForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
