/*
 * deepseek_v3.c - DeepSeek-V3, and what has its architecture: attention of latents, experts in all
 * but the first layers, of which a token is sent to those with the highest sigmoids in the best
 * groups, and shared ones
 *
 * Layers that predict later tokens are left out. Source: the config, the model and the tensor names
 * of DeepseekV3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"
#include "lib/model/rope.h"

#include <string.h>

/* clang-format off */
#define NAMES_LATENT \
	{ "self_attention.linear_q_down_proj.weight", \
	    "model.layers.%d.self_attn.q_a_proj.weight", false }, \
	{ "self_attention.q_latent_layernorm.weight", \
	    "model.layers.%d.self_attn.q_a_layernorm.weight", false }, \
	{ "self_attention.linear_q_up_proj.weight", \
	    "model.layers.%d.self_attn.q_b_proj.weight", false }, \
	{ "self_attention.linear_q_proj.weight", \
	    "model.layers.%d.self_attn.q_proj.weight", false }, \
	{ "self_attention.linear_kv_down_proj.weight", \
	    "model.layers.%d.self_attn.kv_a_proj_with_mqa.weight", false }, \
	{ "self_attention.kv_latent_layernorm.weight", \
	    "model.layers.%d.self_attn.kv_a_layernorm.weight", false }, \
	{ "self_attention.linear_kv_up_proj.weight", \
	    "model.layers.%d.self_attn.kv_b_proj.weight", false }
#define NAMES_LAYER \
	NAMES_NORMS, NAMES_LATENT, NAMES_PROJ, NAMES_GATED_MLP, \
	{ "mlp.router.expert_bias", \
	    "model.layers.%d.mlp.gate.e_score_correction_bias", false }, \
	{ "mlp.shared_experts.linear_gate.weight", \
	    "model.layers.%d.mlp.shared_experts.gate_proj.weight", false }, \
	{ "mlp.shared_experts.linear_up.weight", \
	    "model.layers.%d.mlp.shared_experts.up_proj.weight", false }, \
	{ "mlp.shared_experts.linear_down.weight", \
	    "model.layers.%d.mlp.shared_experts.down_proj.weight", false }
/* clang-format on */

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
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 129280 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 7168 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 18432 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 61 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 128 },
	KEY_GROUPS(128, .null = family_heads),
	{ "kv_lora_rank", KEY_INT, KEY_OFF(kv_lora_rank), 512 },
	{ "q_lora_rank", KEY_COUNT, KEY_OFF(q_lora_rank), 1536 },
	{ "qk_nope_head_dim", KEY_INT, KEY_OFF(qk_head_dim), 128 },
	{ "qk_rope_head_dim", KEY_INT, KEY_OFF(qk_pos_emb_head_dim), 64 },
	{ "v_head_dim", KEY_INT, KEY_OFF(v_head_dim), 128 },
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

/* A member of the published files that says what the class does in any case. */
static int
read_fixed(const struct json_value *v, const char *name, const char *only, struct err *e)
{
	const char *word;

	if (json_string(v, name, only, &word, e) < 0)
		return -1;
	return strcmp(word, only) == 0
	    ? 0
	    : err_set(e, "\"%s\" is '%s'; deepseek_v3 has '%s'", name, word, only);
}

/* Two scores make that of a group. One group is none. */
static int
read_groups(struct model_config *c, const struct json_value *v, struct err *e)
{
	int64_t groups, best;

	if (keys_int(v, "n_group", 8, &groups, e) < 0 || keys_int(v, "topk_group", 4, &best, e) < 0)
		return -1;
	if (groups < 1 || best < 1 || best > groups)
		return err_set(e,
		    "\"n_group\" %lld and \"topk_group\" %lld: must be at least 1, the second at "
		    "most the first",
		    (long long)groups, (long long)best);
	if (groups == 1)
		return 0;
	c->moe_router_num_groups = groups;
	c->moe_router_group_topk = best;
	c->moe_router_group_scores = 2;
	return 0;
}

static int
read_dense(struct model_config *c, const struct json_value *v, struct err *e)
{
	bool dense[PATTERN_MAX] = { false };
	int64_t first;

	if (keys_int(v, "first_k_dense_replace", 3, &first, e) < 0)
		return -1;
	if (first < 0 || c->num_layers > PATTERN_MAX)
		return err_set(e,
		    "\"first_k_dense_replace\" %lld: must be from 0 on, and \"num_hidden_layers\" "
		    "at most %d",
		    (long long)first, PATTERN_MAX);
	for (int64_t i = 0; i < first && i < c->num_layers; i++)
		dense[i] = true;
	if (first > 0)
		c->moe_layer_freq = pattern_of(dense, (int)c->num_layers);
	return 0;
}

/* Cosines and sines are multiplied by the quotient of both where both are there, and dot products
 * by the square of the second alone. */
static int
read_mscales(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *dict = family_rope_of(v);
	double factor, one, all;

	if (c->rope_scaling != ROPE_SCALING_YARN)
		return 0;
	if (json_double(dict, "attention_factor", 0, &factor, e) < 0 ||
	    json_double(dict, "mscale", 0, &one, e) < 0 ||
	    json_double(dict, "mscale_all_dim", 0, &all, e) < 0)
		return -1;
	if (one < 0 || all < 0)
		return err_set(e, "\"mscale\" and \"mscale_all_dim\" must be at least 0");
	c->yarn_mscale_all_dim = all;
	if (factor == 0 && one > 0 && all > 0) {
		c->yarn_mscale = one;
		c->yarn_attention_factor = 0;
	} else if (factor == 0 && all > 0) {
		c->yarn_attention_factor = yarn_default_factor(c->rope_factor, 1);
	}
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	int64_t shared;
	double scale;

	c->multi_latent_attention = c->qk_layernorm = true;
	c->kv_channels = c->qk_head_dim + c->qk_pos_emb_head_dim;
	c->latent_norm_epsilon = c->norm_epsilon == 1e-6 ? 0 : 1e-6;
	c->moe_router_score_function = ROUTER_SCORE_SIGMOID;
	c->moe_router_enable_expert_bias = true;
	c->moe_router_load_balancing_type = BALANCING_NONE;
	if (keys_int(v, "n_shared_experts", 1, &shared, e) < 0 ||
	    read_fixed(v, "scoring_func", "sigmoid", e) < 0 ||
	    read_fixed(v, "topk_method", "noaux_tc", e) < 0 || read_groups(c, v, e) < 0 ||
	    read_dense(c, v, e) < 0 || json_double(v, "routed_scaling_factor", 2.5, &scale, e) < 0)
		return -1;
	if (!(scale > 0))
		return err_set(e, "\"routed_scaling_factor\" is %g; must be above 0", scale);
	c->moe_router_topk_scaling_factor = scale == 1 ? 0 : scale;
	if (shared < 1 || shared > 1 << 20 || c->moe_ffn_hidden_size > 1 << 24)
		return err_set(
		    e, "\"n_shared_experts\" is %lld; must be at least 1", (long long)shared);
	c->moe_shared_expert_intermediate_size = shared * c->moe_ffn_hidden_size;
	return family_read_experts(c, v, e) < 0 ? -1 : read_mscales(c, v, e);
}

static int64_t
first_experts(const struct model_config *c)
{
	int64_t i = 0;

	while (i < c->num_layers && !layer_has_experts(c, i))
		i++;
	return i;
}

/* A width that is no multiple is read back as another one. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	bool grouped = c->moe_router_num_groups > 0;
	int64_t f = c->moe_ffn_hidden_size;
	struct str more = { 0 };

	str_addf(out,
	    ",\n  \"n_group\": %lld,\n  \"topk_group\": %lld,\n  \"n_shared_experts\": %lld"
	    ",\n  \"first_k_dense_replace\": %lld,\n  \"scoring_func\": \"sigmoid\""
	    ",\n  \"topk_method\": \"noaux_tc\",\n  \"num_nextn_predict_layers\": 0",
	    grouped ? (long long)c->moe_router_num_groups : 1,
	    grouped ? (long long)c->moe_router_group_topk : 1,
	    (long long)(f > 0 ? c->moe_shared_expert_intermediate_size / f : 0),
	    (long long)first_experts(c));
	str_adds(out, ",\n  \"routed_scaling_factor\": ");
	str_add_double(out, model_topk_scale(c));
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_mscale > 0) {
		str_adds(&more, ",\n    \"mscale\": ");
		str_add_double(&more, c->yarn_mscale);
	}
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_mscale_all_dim > 0) {
		str_adds(&more, ",\n    \"mscale_all_dim\": ");
		str_add_double(&more, c->yarn_mscale_all_dim);
	}
	family_write_rope_with(c, more.buf ? more.buf : "", out);
	str_release(&more);
}

static const char *const others[] = { OTHERS_ROPE, "routed_scaling_factor", "n_group", "topk_group",
	"n_shared_experts", "first_k_dense_replace", "scoring_func", "topk_method", "head_dim",
	"qk_head_dim", "moe_layer_freq", "ep_size", "seq_aux", "aux_loss_alpha", NULL };
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
