/*
 * deepseek_v3.c - DeepSeek-V3, and what has its architecture: attention of latents, experts in all
 * but the first layers, of which a token is sent to those with the highest sigmoids in the best
 * groups, and shared ones
 *
 * Layers that predict later tokens are read where they are asked for (source_predict). Source: the
 * config, the model and the tensor names of DeepseekV3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

/* clang-format off */
#define NAMES_CORRECTION \
	{ "mlp.router.expert_bias", \
	    "model.layers.%d.mlp.gate.e_score_correction_bias", false }
/* clang-format on */

static const struct family_name names[] = {
	NAMES_LATENTS,
	NAMES_CORRECTION,
	NAMES_MTP,
	NAMES_QWEN_EXPERTS,
	NAMES_ENDS,
};

static const struct family_name stacked[] = {
	NAMES_LATENTS,
	NAMES_CORRECTION,
	NAMES_MTP,
	NAMES_STACKED_EXPERTS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 129280 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 7168 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 18432 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 61 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 128 },
	KEY_GROUPS(128, .null = family_heads),
	KEYS_LATENTS,
	KEY_SILU("deepseek_v3"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	KEYS_RATES(1e-6),
	{ "n_routed_experts", KEY_INT, KEY_OFF(num_experts), 256 },
	{ "num_local_experts", KEY_INT, KEY_OFF(num_experts), .stays = true, .read_only = true },
	{ "moe_intermediate_size", KEY_INT, KEY_OFF(moe_ffn_hidden_size), 2048 },
	{ "num_experts_per_tok", KEY_INT, KEY_OFF(moe_router_topk), 8 },
	{ "norm_topk_prob", KEY_FIXED, .def = true,
	    .why = "\"norm_topk_prob\" false is not supported: weights of experts are divided by "
		   "their sum" },
	{ "rope_interleave", KEY_FIXED, .def = true,
	    .why = "\"rope_interleave\" false is not supported: pairs that rotate are neighbours" },
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct family_latents absent = { .shared = 1, .dense = 3, .scale = 2.5 };

	c->moe_router_score_function = ROUTER_SCORE_SIGMOID;
	c->moe_router_enable_expert_bias = true;
	c->moe_router_load_balancing_type = BALANCING_NONE;
	if (family_read_only(v, "deepseek_v3", "scoring_func", "sigmoid", e) < 0 ||
	    family_read_only(v, "deepseek_v3", "topk_method", "noaux_tc", e) < 0 ||
	    family_read_groups(c, v, (const int64_t[]){ 8, 4 }, 2, e) < 0)
		return -1;
	return family_read_latents(c, v, &absent, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_addf(out,
	    ",\n  \"scoring_func\": \"sigmoid\",\n  \"topk_method\": \"noaux_tc\""
	    ",\n  \"num_nextn_predict_layers\": %lld",
	    (long long)c->mtp_num_layers);
	family_write_latents(c, out);
}

static const char *const others[] = { OTHERS_LATENTS, NULL };
static const char *const off[] = { "attention_bias", NULL };

const struct family family_deepseek_v3 = {
	.model_type = "deepseek_v3",
	.architecture = "DeepseekV3ForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.off = off,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
