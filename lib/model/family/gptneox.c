/*
 * gptneox.c - GPT-NeoX and Pythia: LayerNorm, GELU, biases, a share of each head that rotates, and
 * attention and MLP that read the same; the heads of q, k and v take turns in one tensor
 *
 * Source: the config and tensor names of GPTNeoXForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	{ "embedding.word_embeddings.weight", "gpt_neox.embed_in.weight", false },
	{ "input_layernorm.weight", "gpt_neox.layers.%d.input_layernorm.weight", false },
	{ "input_layernorm.bias", "gpt_neox.layers.%d.input_layernorm.bias", false },
	{ "self_attention.linear_q.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
	    false, TURNS_HEADS },
	{ "self_attention.linear_k.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
	    false, TURNS_HEADS },
	{ "self_attention.linear_v.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
	    false, TURNS_HEADS },
	{ "self_attention.linear_q.bias", "gpt_neox.layers.%d.attention.query_key_value.bias",
	    false, TURNS_HEADS },
	{ "self_attention.linear_k.bias", "gpt_neox.layers.%d.attention.query_key_value.bias",
	    false, TURNS_HEADS },
	{ "self_attention.linear_v.bias", "gpt_neox.layers.%d.attention.query_key_value.bias",
	    false, TURNS_HEADS },
	{ "self_attention.linear_proj.weight", "gpt_neox.layers.%d.attention.dense.weight", false },
	{ "self_attention.linear_proj.bias", "gpt_neox.layers.%d.attention.dense.bias", false },
	{ "pre_mlp_layernorm.weight", "gpt_neox.layers.%d.post_attention_layernorm.weight", false },
	{ "pre_mlp_layernorm.bias", "gpt_neox.layers.%d.post_attention_layernorm.bias", false },
	{ "mlp.linear_up.weight", "gpt_neox.layers.%d.mlp.dense_h_to_4h.weight", false },
	{ "mlp.linear_up.bias", "gpt_neox.layers.%d.mlp.dense_h_to_4h.bias", false },
	{ "mlp.linear_down.weight", "gpt_neox.layers.%d.mlp.dense_4h_to_h.weight", false },
	{ "mlp.linear_down.bias", "gpt_neox.layers.%d.mlp.dense_4h_to_h.bias", false },
	{ "decoder.final_layernorm.weight", "gpt_neox.final_layer_norm.weight", false },
	{ "decoder.final_layernorm.bias", "gpt_neox.final_layer_norm.bias", false },
	{ "output_layer.weight", "embed_out.weight", false },
	{ NULL, NULL, false },
};

/* Two words are the exact formula, and the others that with tanh. */
static const struct key_word activations[] = {
	{ "gelu", ACTIVATION_GELU_ERF },
	{ "gelu_python", ACTIVATION_GELU_ERF },
	{ "gelu_new", ACTIVATION_GELU_TANH },
	{ "gelu_fast", ACTIVATION_GELU_TANH },
	{ "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_python_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_accurate", ACTIVATION_GELU_TANH },
	{ NULL, 0 },
};

static const struct key keys[] = {
	KEYS_SIZES,
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "'gelu' and 'gelu_new' are known" },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	{ "layer_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	{ "hidden_dropout", KEY_NUMBER, KEY_OFF(hidden_dropout), 0 },
	{ "rotary_pct", KEY_NUMBER, KEY_OFF(rotary_percent), .written_only = true },
	{ "rotary_emb_base", KEY_NUMBER, KEY_OFF(rotary_base), .written_only = true },
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), true },
	{ "use_parallel_residual", KEY_BOOL, KEY_OFF(use_parallel_residual), true },
};

/* Embeddings drop out as branches do. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct rope_members top = { "rotary_emb_base", "rotary_pct" };

	if (c->num_attention_heads < 1 || c->hidden_size % c->num_attention_heads)
		return err_set(e, "\"hidden_size\" must be a multiple of \"num_attention_heads\"");
	c->num_query_groups = c->num_attention_heads;
	c->kv_channels = c->hidden_size / c->num_attention_heads;
	c->embedding_dropout = c->hidden_dropout;
	c->proj_bias = c->qkv_bias;
	c->mlp_bias = true;
	c->normalization = NORMALIZATION_LAYERNORM;
	c->position = POSITION_ROPE;
	c->rotary_percent = 0.25;
	return family_read_share(c, v, &top, e);
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_gptneox = {
	.model_type = "gpt_neox",
	.architecture = "GPTNeoXForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
