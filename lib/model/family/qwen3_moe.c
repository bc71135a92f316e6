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

/* Layers of the list have an MLP, and so have those whose number, from 1 on, the step does not
 * divide. */
static int
read_layers(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *list = json_get(v, "mlp_only_layers");
	size_t count = list && list->type == JSON_ARRAY ? list->len : 0;
	bool dense[PATTERN_MAX] = { false };
	int64_t step;

	if (json_int(v, "decoder_sparse_step", 1, &step, e) < 0)
		return -1;
	if (step < 1)
		return err_set(
		    e, "\"decoder_sparse_step\" is %lld; must be at least 1", (long long)step);
	if (list && list->type != JSON_ARRAY && list->type != JSON_NULL)
		return err_set(e, "\"mlp_only_layers\" must be a list of layers");
	if (count == 0 && step == 1)
		return 0;
	if (c->num_layers > PATTERN_MAX)
		return err_set(
		    e, "experts in some of more than %d layers are not supported", PATTERN_MAX);
	for (int64_t i = 0; i < c->num_layers; i++)
		dense[i] = (i + 1) % step != 0;
	for (size_t i = 0; i < count; i++) {
		const struct json_value *layer = &list->item[i];

		if (layer->type != JSON_INT || layer->integer < 0)
			return err_set(e, "\"mlp_only_layers\" must be a list of layers");
		if (layer->integer < c->num_layers)
			dense[layer->integer] = true;
	}
	c->moe_layer_freq = pattern_of(dense, (int)c->num_layers);
	return 0;
}

/* attention_bias puts biases on q, k, v and o alike. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (family_read_window(c, v, e) < 0)
		return -1;
	c->proj_bias = c->qkv_bias;
	c->qk_layernorm = true;
	return read_layers(c, v, e) < 0 ? -1 : family_read_experts(c, v, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	const char *between = "";

	str_addf(out, ",\n  \"use_sliding_window\": %s", c->window_size ? "true" : "false");
	str_adds(out, ",\n  \"decoder_sparse_step\": 1,\n  \"mlp_only_layers\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		if (!layer_has_experts(c, i)) {
			str_addf(out, "%s\n    %lld", between, (long long)i);
			between = ",";
		}
	str_adds(out, *between ? "\n  ]" : "]");
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
