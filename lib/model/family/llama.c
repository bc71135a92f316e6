/*
 * llama.c - Llama 1 to 3: RMSNorm, rotary positions, SwiGLU, grouped query attention, no biases
 * unless the config says so
 *
 * Source: the config and tensor names of LlamaForCausalLM in huggingface/transformers.
 */
#include "lib/model/family.h"

#include <string.h>

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

/*
 * Sizes without a default stay 0 and are refused by model_check. The heads are checked here,
 * because head_dim's default divides by them. attention_bias puts biases on q, k, v and o alike.
 */
static int
read_config(struct model_config *c, const struct json_value *v, struct err *e)
{
	const char *act;
	bool attention_bias, tied;

	if (json_int(v, "vocab_size", 0, &c->vocab_size, e) < 0 ||
	    json_int(v, "hidden_size", 0, &c->hidden_size, e) < 0 ||
	    json_int(v, "intermediate_size", 0, &c->ffn_hidden_size, e) < 0 ||
	    json_int(v, "num_hidden_layers", 0, &c->num_layers, e) < 0 ||
	    json_int(v, "num_attention_heads", 0, &c->num_attention_heads, e) < 0)
		return -1;
	if (c->num_attention_heads < 1)
		return err_set(e, "\"num_attention_heads\" must be at least 1");
	if (json_int(v, "num_key_value_heads", c->num_attention_heads, &c->num_query_groups, e) <
		0 ||
	    json_int(v, "head_dim", c->hidden_size / c->num_attention_heads, &c->kv_channels, e) <
		0 ||
	    json_int(v, "max_position_embeddings", 2048, &c->max_position_embeddings, e) < 0 ||
	    json_double(v, "rms_norm_eps", 1e-6, &c->norm_epsilon, e) < 0 ||
	    json_bool(v, "attention_bias", false, &attention_bias, e) < 0 ||
	    json_bool(v, "mlp_bias", false, &c->mlp_bias, e) < 0 ||
	    json_bool(v, "tie_word_embeddings", false, &tied, e) < 0 ||
	    json_double(v, "attention_dropout", 0, &c->attention_dropout, e) < 0 ||
	    json_string(v, "hidden_act", "silu", &act, e) < 0)
		return -1;
	if (strcmp(act, "silu"))
		return err_set(e, "\"hidden_act\" is '%s'; llama has 'silu'", act);
	c->qkv_bias = c->proj_bias = attention_bias;
	c->untie_embeddings_and_output_weights = !tied;
	c->normalization = NORMALIZATION_RMSNORM;
	c->activation = ACTIVATION_SWIGLU;
	c->position = POSITION_ROPE;
	return family_read_rope(c, v, e);
}

/*
 * LlamaForCausalLM has one switch for the four biases of attention, and no window; a model beyond
 * that cannot be written as it. hidden_size must divide although head_dim is written: old readers
 * compute it.
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

/*
 * head_dim and num_key_value_heads are written even where they equal their defaults, so that nobody
 * has to know those.
 */
static void
write_config(const struct model_config *c, struct str *out)
{
	str_addf(out,
	    ",\n  \"hidden_size\": %lld,\n  \"intermediate_size\": %lld,\n  \"num_hidden_layers\": "
	    "%lld",
	    (long long)c->hidden_size, (long long)c->ffn_hidden_size, (long long)c->num_layers);
	str_addf(out,
	    ",\n  \"num_attention_heads\": %lld,\n  \"num_key_value_heads\": %lld,\n  "
	    "\"head_dim\": %lld",
	    (long long)c->num_attention_heads, (long long)c->num_query_groups,
	    (long long)c->kv_channels);
	str_addf(out, ",\n  \"hidden_act\": \"silu\",\n  \"max_position_embeddings\": %lld",
	    (long long)c->max_position_embeddings);
	family_write_number(out, "  ", "rms_norm_eps", c->norm_epsilon);
	family_write_number(out, "  ", "attention_dropout", c->attention_dropout);
	str_addf(out, ",\n  \"attention_bias\": %s,\n  \"mlp_bias\": %s",
	    c->qkv_bias ? "true" : "false", c->mlp_bias ? "true" : "false");
	family_write_rope(c, out);
}

const struct family family_llama = {
	.model_type = "llama",
	.architecture = "LlamaForCausalLM",
	.names = names,
	.read = read_config,
	.check = check,
	.write = write_config,
};
