/*
 * gemma.c - Gemma 1: Llama with gated GELU, embeddings scaled by the width and weights of norms
 * stored less 1
 *
 * Source: the config and tensor names of GemmaForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_ATTENTION,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

/* The first files say 'gelu', and mean the formula with tanh. */
static const struct key_word activations[] = {
	{ "gelu_pytorch_tanh", ACTIVATION_GEGLU_TANH },
	{ "gelu", ACTIVATION_GEGLU_TANH },
	{ "gelu_new", ACTIVATION_GEGLU_TANH },
	{ "gelu_fast", ACTIVATION_GEGLU_TANH },
	{ "gelu_python_tanh", ACTIVATION_GEGLU_TANH },
	{ "gelu_accurate", ACTIVATION_GEGLU_TANH },
	{ NULL, 0 },
};

/* Published files leave out what is the default of the class. */
static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 256000 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 3072 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 24576 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 28 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 16 },
	KEY_GROUPS(16),
	KEY_HEAD_DIM(256),
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "gemma has 'gelu_pytorch_tanh'" },
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 8192 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	KEY_NOT_BIDIRECTIONAL,
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->apply_layernorm_1p = c->scale_embeddings_by_hidden_size = true;
	c->proj_bias = c->qkv_bias;
	return family_read_llama(c, v, e);
}

static const char *const others[] = { OTHERS_ROPE, "hidden_activation", NULL };

const struct family family_gemma = {
	.model_type = "gemma",
	.architecture = "GemmaForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
