/*
 * llama.c - Llama 1 to 3: RMSNorm, rotary positions, SwiGLU, grouped query attention, no biases
 * unless the config says so
 *
 * Source: the config and tensor names of LlamaForCausalLM in huggingface/transformers.
 */
#include "lib/model/family.h"

static const struct family_name names[] = {
	{ ROLE_WORD_EMBEDDINGS, "model.embed_tokens.weight", false },
	{ ROLE_INPUT_NORM, "model.layers.%d.input_layernorm.weight", false },
	{ ROLE_Q, "model.layers.%d.self_attn.q_proj.weight", false },
	{ ROLE_K, "model.layers.%d.self_attn.k_proj.weight", false },
	{ ROLE_V, "model.layers.%d.self_attn.v_proj.weight", false },
	{ ROLE_Q_BIAS, "model.layers.%d.self_attn.q_proj.bias", false },
	{ ROLE_K_BIAS, "model.layers.%d.self_attn.k_proj.bias", false },
	{ ROLE_V_BIAS, "model.layers.%d.self_attn.v_proj.bias", false },
	{ ROLE_PROJ, "model.layers.%d.self_attn.o_proj.weight", false },
	{ ROLE_PROJ_BIAS, "model.layers.%d.self_attn.o_proj.bias", false },
	{ ROLE_MLP_NORM, "model.layers.%d.post_attention_layernorm.weight", false },
	{ ROLE_GATE, "model.layers.%d.mlp.gate_proj.weight", false },
	{ ROLE_UP, "model.layers.%d.mlp.up_proj.weight", false },
	{ ROLE_GATE_BIAS, "model.layers.%d.mlp.gate_proj.bias", false },
	{ ROLE_UP_BIAS, "model.layers.%d.mlp.up_proj.bias", false },
	{ ROLE_DOWN, "model.layers.%d.mlp.down_proj.weight", false },
	{ ROLE_DOWN_BIAS, "model.layers.%d.mlp.down_proj.bias", false },
	{ ROLE_FINAL_NORM, "model.norm.weight", false },
	{ ROLE_OUTPUT, "lm_head.weight", false },
	{ ROLE_COUNT, NULL, false },
};

static const struct key_word activations[] = { { "silu", ACTIVATION_SWIGLU }, { NULL, 0 } };

static int64_t
as_many_as_heads(const struct model_config *c)
{
	return c->num_attention_heads;
}

/* read_rest refuses a model without heads. */
static int64_t
width_of_heads(const struct model_config *c)
{
	return c->num_attention_heads < 1 ? 0 : c->hidden_size / c->num_attention_heads;
}

/*
 * Sizes without a default are 0 and refused by model_check. head_dim and num_key_value_heads are
 * written even where they equal their defaults, so that readers need not know those.
 */
static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 0 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 0 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 0 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 0 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 0 },
	{ "num_key_value_heads", KEY_INT, KEY_OFF(num_query_groups), .derive = as_many_as_heads },
	{ "head_dim", KEY_INT, KEY_OFF(kv_channels), .derive = width_of_heads },
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "llama has 'silu'" },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-6 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
	{ "rope_theta", KEY_NUMBER, KEY_OFF(rotary_base), .stays = true },
};

/* attention_bias puts biases on q, k, v and o alike. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (c->num_attention_heads < 1)
		return err_set(e, "\"num_attention_heads\" must be at least 1");
	c->proj_bias = c->qkv_bias;
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	return family_read_rope(c, v, e);
}

/*
 * LlamaForCausalLM has one switch for the four biases of attention, and no window; a model beyond
 * that cannot be exported. hidden_size must be divisible by the heads even though head_dim is
 * written: old readers compute it.
 */
static int
check(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_RMSNORM)
		return err_set(e, "needs --normalization RMSNorm");
	if (c->activation != ACTIVATION_SWIGLU)
		return err_set(e, "needs --swiglu");
	if (c->position != POSITION_ROPE || c->rotary_percent != 1 || c->rotary_interleaved)
		return err_set(
		    e, "needs --position-embedding-type rope over whole heads, not interleaved");
	if (c->qkv_bias != c->proj_bias)
		return err_set(e, "has biases on q, k, v and o together or on none");
	if (c->window_size)
		return err_set(e, "has no sliding window");
	if (c->hidden_size % c->num_attention_heads)
		return err_set(e, "needs --hidden-size divisible by --num-attention-heads");
	return 0;
}

const struct family family_llama = {
	.model_type = "llama",
	.architecture = "LlamaForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.read_rest = read_rest,
	.check = check,
	.write_rest = family_write_rope,
};
