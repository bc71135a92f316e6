/*
 * gpt_oss.c - GPT-OSS: a learned sink in each head's softmax, a sliding window in every second
 * layer, and experts with biases in all, whose gated activation is bounded
 *
 * Source: the config and tensor names of GptOssForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#define LAYER "model.layers.%d."
#define EXPERTS LAYER "mlp.experts."

/* Rows of gate and up take turns. */
static const struct family_name names[] = {
	NAMES_ATTENTION,
	{ "self_attention.core_attention.softmax_offset", LAYER "self_attn.sinks", false },
	{ "mlp.router.weight", LAYER "mlp.router.weight", false },
	{ "mlp.router.bias", LAYER "mlp.router.bias", false },
	{ "mlp.experts.%d.linear_gate.weight", EXPERTS "gate_up_proj", true, TURNS_ROWS },
	{ "mlp.experts.%d.linear_up.weight", EXPERTS "gate_up_proj", true, TURNS_ROWS },
	{ "mlp.experts.%d.linear_down.weight", EXPERTS "down_proj", true },
	{ "mlp.experts.%d.linear_gate.bias", EXPERTS "gate_up_proj_bias", false, TURNS_ROWS },
	{ "mlp.experts.%d.linear_up.bias", EXPERTS "gate_up_proj_bias", false, TURNS_ROWS },
	{ "mlp.experts.%d.linear_down.bias", EXPERTS "down_proj_bias", false },
	NAMES_ENDS,
};

static const struct key_word gate[] = { { "silu", ACTIVATION_QUICK_GEGLU },
	{ "swish", ACTIVATION_QUICK_GEGLU }, { NULL, 0 } };

/* The loss that balances experts is read where transformers adds it: published files have a
 * coefficient and do not ask for it. */
static const struct key keys[] = {
	KEYS_SIZES_OF(moe_ffn_hidden_size),
	KEY_GROUPS(8),
	KEY_HEAD_DIM(64),
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = gate, .why = "gpt_oss has 'silu'" },
	{ "swiglu_limit", KEY_NUMBER, KEY_OFF(activation_func_clamp_value), 7 },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	KEYS_RATES(1e-5),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), true },
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 128 },
	{ "num_local_experts", KEY_INT, KEY_OFF(num_experts), 128 },
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), .stays = true, .read_only = true },
	{ "num_experts_per_tok", KEY_INT, KEY_OFF(moe_router_topk), 4 },
	{ "router_aux_loss_coef", KEY_NUMBER, KEY_OFF(moe_aux_loss_coeff), 0.001 },
};

/* What a file without rotary settings means. */
static void
default_rope(struct model_config *c)
{
	c->rope_scaling = ROPE_SCALING_YARN;
	c->rope_factor = c->yarn_beta_fast = 32;
	c->yarn_beta_slow = 1;
	c->rope_original_positions = 4096;
	c->yarn_unrounded_range = true;
}

/* Without layer_types every second layer has the window, from the first on. */
static int
read_windows(struct model_config *c, const struct json_value *v, struct err *e)
{
	int rc = family_read_windows(c, v, e);

	if (rc < 0)
		return -1;
	if (rc == 0)
		c->window_attn_skip_freq = pattern_every(2);
	if (rc == 0 && !c->window_size)
		return err_set(e, "\"sliding_window\" is null; gpt_oss has a window");
	family_settle_windows(c);
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *rope = family_rope_of(v);
	double alpha;
	bool balanced;

	if (json_double(v, "swiglu_alpha", 1.702, &alpha, e) < 0 ||
	    json_bool(v, "output_router_logits", false, &balanced, e) < 0 ||
	    read_windows(c, v, e) < 0)
		return -1;
	if (alpha != 1.702)
		return err_set(e, "\"swiglu_alpha\" is %g; only 1.702 is supported", alpha);
	if (!(c->activation_func_clamp_value > 0))
		return err_set(
		    e, "\"swiglu_limit\" is %g; must be above 0", c->activation_func_clamp_value);
	if (!balanced)
		c->moe_aux_loss_coeff = 0;
	c->ffn_hidden_size = c->moe_ffn_hidden_size;
	c->rotary_base = 150000;
	c->proj_bias = c->qkv_bias;
	c->mlp_bias = true;
	c->softmax_type = SOFTMAX_LEARNABLE;
	c->glu_linear_offset = 1;
	if (family_read_experts(c, v, e) < 0)
		return -1;
	if (!rope || rope->type == JSON_NULL)
		default_rope(c);
	return 0;
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_addf(out, ",\n  \"swiglu_alpha\": 1.702,\n  \"output_router_logits\": %s",
	    c->moe_aux_loss_coeff > 0 ? "true" : "false");
	family_write_windows(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", "swiglu_alpha",
	"experts_per_token", "initial_context_length", NULL };

const struct family family_gpt_oss = {
	.model_type = "gpt_oss",
	.architecture = "GptOssForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
