/*
 * starcoder2.c - StarCoder2: LayerNorm, GELU without a gate, biases everywhere or nowhere, rotary
 * positions, a sliding window in all layers or in none
 *
 * Source: the config and tensor names of Starcoder2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_NORM_BIASES,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	{ "mlp.linear_up.weight", "model.layers.%d.mlp.c_fc.weight", false },
	{ "mlp.linear_up.bias", "model.layers.%d.mlp.c_fc.bias", false },
	{ "mlp.linear_down.weight", "model.layers.%d.mlp.c_proj.weight", false },
	{ "mlp.linear_down.bias", "model.layers.%d.mlp.c_proj.bias", false },
	NAMES_ENDS,
};

static const struct key_word activations[] = {
	{ "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_new", ACTIVATION_GELU_TANH },
	{ "gelu_fast", ACTIVATION_GELU_TANH },
	{ "gelu_python_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_accurate", ACTIVATION_GELU_TANH },
	{ "gelu", ACTIVATION_GELU_ERF },
	{ "gelu_python", ACTIVATION_GELU_ERF },
	{ NULL, 0 },
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(2),
	KEY_HEAD_DIM(.derive = family_head_width),
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "'gelu_pytorch_tanh' and 'gelu' are known" },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	{ "norm_epsilon", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	{ "residual_dropout", KEY_NUMBER, KEY_OFF(hidden_dropout), 0 },
	{ "embedding_dropout", KEY_NUMBER, KEY_OFF(embedding_dropout), 0 },
	KEY_ROPE_THETA,
	{ "use_bias", KEY_BOOL, KEY_OFF(qkv_bias), true },
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 0 },
};

/* use_bias puts biases on all linear layers, and norms have them always. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->mlp_bias = c->qkv_bias;
	if (family_read_llama(c, v, e) < 0)
		return -1;
	c->normalization = NORMALIZATION_LAYERNORM;
	return 0;
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_starcoder2 = {
	.model_type = "starcoder2",
	.architecture = "Starcoder2ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
