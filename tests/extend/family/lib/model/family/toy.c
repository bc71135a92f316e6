/*
 * toy.c - a family that mikoshi lacks: built like Qwen3, under a name of its own
 *
 * This file and its line in the registry are all that a new family needs.
 */
#include "lib/model/family.h"

static const struct family_name names[] = {
	{ "embedding.word_embeddings.weight", "model.embed_tokens.weight", false },
	{ "input_layernorm.weight", "model.layers.%d.input_layernorm.weight", false },
	{ "self_attention.linear_q.weight", "model.layers.%d.self_attn.q_proj.weight", false },
	{ "self_attention.linear_k.weight", "model.layers.%d.self_attn.k_proj.weight", false },
	{ "self_attention.linear_v.weight", "model.layers.%d.self_attn.v_proj.weight", false },
	{ "self_attention.q_layernorm.weight", "model.layers.%d.self_attn.q_norm.weight", false },
	{ "self_attention.k_layernorm.weight", "model.layers.%d.self_attn.k_norm.weight", false },
	{ "self_attention.linear_proj.weight", "model.layers.%d.self_attn.o_proj.weight", false },
	{ "pre_mlp_layernorm.weight", "model.layers.%d.post_attention_layernorm.weight", false },
	{ "mlp.linear_gate.weight", "model.layers.%d.mlp.gate_proj.weight", false },
	{ "mlp.linear_up.weight", "model.layers.%d.mlp.up_proj.weight", false },
	{ "mlp.linear_down.weight", "model.layers.%d.mlp.down_proj.weight", false },
	{ "decoder.final_layernorm.weight", "model.norm.weight", false },
	{ "output_layer.weight", "lm_head.weight", false },
	{ NULL, NULL, false },
};

static const struct key_word activations[] = { { "silu", ACTIVATION_SWIGLU }, { NULL, 0 } };

static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 0 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 0 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 0 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 0 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 0 },
	{ "num_key_value_heads", KEY_INT, KEY_OFF(num_query_groups), 0 },
	{ "head_dim", KEY_INT, KEY_OFF(kv_channels), 128 },
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "toy has 'silu'" },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-6 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	{ "rope_theta", KEY_NUMBER, KEY_OFF(rotary_base), .stays = true },
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	c->qk_layernorm = true;
	return family_read_rope(c, v, e);
}

const struct family family_toy = {
	.model_type = "toy",
	.architecture = "ToyForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
