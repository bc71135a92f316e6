/*
 * qwen3_next.c - Qwen3-Next: linear attention in three of four layers and gated attention in the
 * others, experts in all layers, or in all but some, and one that all tokens are sent to, whose
 * output a sigmoid of each token multiplies
 *
 * Layers that predict later tokens are left out. Source: the config, the model and the tensor names
 * of Qwen3NextForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#include <string.h>

/* clang-format off */
#define ATTENTION "model.layers.%d.self_attn."
#define LINEAR "model.layers.%d.linear_attn."
#define NAMES_LAYER \
	NAMES_NORMS, \
	{ "linear_attention.linear_q.weight", LINEAR "in_proj_qkvz.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.linear_k.weight", LINEAR "in_proj_qkvz.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.linear_v.weight", LINEAR "in_proj_qkvz.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.linear_gate.weight", \
	    LINEAR "in_proj_qkvz.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.linear_beta.weight", \
	    LINEAR "in_proj_ba.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.linear_decay.weight", \
	    LINEAR "in_proj_ba.weight", false, TURNS_LINEAR }, \
	{ "linear_attention.conv_q.weight", LINEAR "conv1d.weight", .filters = true }, \
	{ "linear_attention.conv_k.weight", LINEAR "conv1d.weight", .filters = true }, \
	{ "linear_attention.conv_v.weight", LINEAR "conv1d.weight", .filters = true }, \
	{ "linear_attention.decay_log", LINEAR "A_log", false }, \
	{ "linear_attention.decay_bias", LINEAR "dt_bias", false }, \
	{ "linear_attention.out_layernorm.weight", LINEAR "norm.weight", false }, \
	{ "linear_attention.linear_proj.weight", LINEAR "out_proj.weight", false }, \
	{ "self_attention.linear_q.weight", ATTENTION "q_proj.weight", false, TURNS_HEADS }, \
	{ "self_attention.linear_gate.weight", ATTENTION "q_proj.weight", false, TURNS_HEADS }, \
	{ "self_attention.linear_k.weight", ATTENTION "k_proj.weight", false }, \
	{ "self_attention.linear_v.weight", ATTENTION "v_proj.weight", false }, \
	NAMES_QK_NORMS, NAMES_PROJ, NAMES_GATED_MLP, NAMES_SHARED_EXPERT
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
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 151936 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 2048 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 5632 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 48 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 16 },
	KEY_GROUPS(2),
	KEY_HEAD_DIM(256),
	KEY_SILU("qwen3_next"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	{ "partial_rotary_factor", KEY_NUMBER, KEY_OFF(rotary_percent), .written_only = true },
	{ "linear_num_key_heads", KEY_INT, KEY_OFF(linear_num_key_heads), 16 },
	{ "linear_num_value_heads", KEY_INT, KEY_OFF(linear_num_value_heads), 32 },
	{ "linear_key_head_dim", KEY_INT, KEY_OFF(linear_key_head_dim), 128 },
	{ "linear_value_head_dim", KEY_INT, KEY_OFF(linear_value_head_dim), 128 },
	{ "linear_conv_kernel_dim", KEY_INT, KEY_OFF(linear_conv_kernel_dim), 4 },
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), 512 },
	{ "moe_intermediate_size", KEY_INT, KEY_OFF(moe_ffn_hidden_size), 512 },
	{ "shared_expert_intermediate_size", KEY_INT, KEY_OFF(moe_shared_expert_intermediate_size),
	    512 },
	{ "attention_bias", KEY_FIXED, .def = false,
	    .why = "\"attention_bias\" true is not supported: q has a gate beside it" },
	{ "norm_topk_prob", KEY_NOT, KEY_OFF(moe_router_pre_softmax), true },
	KEYS_ROUTER(10, 0.001),
};

/* The two words of layer_types. */
static const char linear[] = "linear_attention", full[] = "full_attention";

/* Without layer_types every full_attention_interval-th layer has attention. */
static int
read_layers(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *types = json_get(v, "layer_types");
	bool listed = !family_is_off(types), is_linear[PATTERN_MAX];
	int64_t every, n = c->num_layers;

	if (keys_int(v, "full_attention_interval", 4, &every, e) < 0)
		return -1;
	if (n < 1 || n > PATTERN_MAX || (!listed && every < 1) ||
	    (listed && (types->type != JSON_ARRAY || (int64_t)types->len != n)))
		return err_set(e,
		    "\"layer_types\" must be a list with a word for each layer, for at most %d, or "
		    "\"full_attention_interval\" at least 1",
		    PATTERN_MAX);
	for (int64_t i = 0; i < n; i++) {
		const struct json_value *word = listed ? &types->item[i] : NULL;
		const char *said = !word        ? (i + 1) % every ? linear : full
		    : word->type == JSON_STRING ? word->string
						: "";

		is_linear[i] = !strcmp(said, linear);
		if (!is_linear[i] && strcmp(said, full))
			return err_set(
			    e, "\"layer_types\" has '%s'; %s and %s are known", said, linear, full);
	}
	c->linear_attention_freq = pattern_of(is_linear, (int)n);
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct rope_members top = { "rope_theta", "partial_rotary_factor" };

	if (read_layers(c, v, e) < 0 || family_read_sparse(c, v, e) < 0)
		return -1;
	if (c->moe_shared_expert_intermediate_size < 1)
		return err_set(e, "\"shared_expert_intermediate_size\" must be at least 1");
	c->moe_shared_expert_gate = c->qk_layernorm = true;
	c->attention_output_gate = c->apply_layernorm_1p = true;
	if (family_read_experts(c, v, e) < 0)
		return -1;
	c->rotary_percent = 0.25;
	return family_read_share(c, v, &top, e);
}

/* The share that rotates is where transformers 5 looks too. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	struct str share = { 0 };

	str_adds(out, ",\n  \"layer_types\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		str_addf(
		    out, "%s\n    \"%s\"", i ? "," : "", layer_is_linear(c, i) ? linear : full);
	str_adds(out, "\n  ]");
	family_write_sparse(c, out);
	str_adds(&share, ",\n    \"partial_rotary_factor\": ");
	str_add_double(&share, c->rotary_percent);
	family_write_rope_with(c, share.buf, out);
	str_release(&share);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", "full_attention_interval",
	"decoder_sparse_step", "mlp_only_layers", NULL };

const struct family family_qwen3_next = {
	.model_type = "qwen3_next",
	.architecture = "Qwen3NextForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
