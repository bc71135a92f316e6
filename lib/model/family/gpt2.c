/*
 * gpt2.c - GPT-2: LayerNorm, learned positions, GELU by tanh, biases everywhere, tied output
 *
 * Weights are stored [in, out]; c_attn holds q, k and v side by side. Source: the config and tensor
 * names of GPT2LMHeadModel in huggingface/transformers.
 */
#include "lib/model/family.h"

enum { WIDTH_MAX = 1 << 20 };

static const struct family_name names[] = {
	{ "embedding.word_embeddings.weight", "transformer.wte.weight", false },
	{ "embedding.position_embeddings.weight", "transformer.wpe.weight", false },
	{ "input_layernorm.weight", "transformer.h.%d.ln_1.weight", false },
	{ "input_layernorm.bias", "transformer.h.%d.ln_1.bias", false },
	{ "self_attention.linear_q.weight", "transformer.h.%d.attn.c_attn.weight", true },
	{ "self_attention.linear_k.weight", "transformer.h.%d.attn.c_attn.weight", true },
	{ "self_attention.linear_v.weight", "transformer.h.%d.attn.c_attn.weight", true },
	{ "self_attention.linear_q.bias", "transformer.h.%d.attn.c_attn.bias", false },
	{ "self_attention.linear_k.bias", "transformer.h.%d.attn.c_attn.bias", false },
	{ "self_attention.linear_v.bias", "transformer.h.%d.attn.c_attn.bias", false },
	{ "self_attention.linear_proj.weight", "transformer.h.%d.attn.c_proj.weight", true },
	{ "self_attention.linear_proj.bias", "transformer.h.%d.attn.c_proj.bias", false },
	{ "pre_mlp_layernorm.weight", "transformer.h.%d.ln_2.weight", false },
	{ "pre_mlp_layernorm.bias", "transformer.h.%d.ln_2.bias", false },
	{ "mlp.linear_up.weight", "transformer.h.%d.mlp.c_fc.weight", true },
	{ "mlp.linear_up.bias", "transformer.h.%d.mlp.c_fc.bias", false },
	{ "mlp.linear_down.weight", "transformer.h.%d.mlp.c_proj.weight", true },
	{ "mlp.linear_down.bias", "transformer.h.%d.mlp.c_proj.bias", false },
	{ "decoder.final_layernorm.weight", "transformer.ln_f.weight", false },
	{ "decoder.final_layernorm.bias", "transformer.ln_f.bias", false },
	{ NULL, NULL, false },
};

/* "gelu_new" is the formula with tanh that GPT-2 was trained with, "gelu" the exact one. */
static const struct key_word activations[] = {
	{ "gelu_new", ACTIVATION_GELU_TANH },
	{ "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_fast", ACTIVATION_GELU_TANH },
	{ "gelu_python_tanh", ACTIVATION_GELU_TANH },
	{ "gelu_accurate", ACTIVATION_GELU_TANH },
	{ "gelu", ACTIVATION_GELU_ERF },
	{ "gelu_python", ACTIVATION_GELU_ERF },
	{ NULL, 0 },
};

/* read_rest refuses a size that is out of bounds. */
static int64_t
four_times_width(const struct model_config *c)
{
	return c->hidden_size > WIDTH_MAX ? 0 : 4 * c->hidden_size;
}

static const char scaling[] =
    "only \"scale_attn_weights\": true without \"scale_attn_by_inverse_layer_idx\" is supported";

/* A second name, which counts before the first where a file has both. */
#define KEY_ALSO(name, field) \
	{ \
		name, KEY_INT, KEY_OFF(field), .stays = true, .read_only = true \
	}

/*
 * The defaults are those of GPT2Config. Attention that is not scaled, or scaled by the layer, is
 * refused: the kernels have no such form. Only old versions read n_ctx.
 */
static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 50257 },
	{ "n_embd", KEY_INT, KEY_OFF(hidden_size), 768 },
	KEY_ALSO("hidden_size", hidden_size),
	{ "n_inner", KEY_INT, KEY_OFF(ffn_hidden_size), .derive = four_times_width },
	{ "n_layer", KEY_INT, KEY_OFF(num_layers), 12 },
	KEY_ALSO("num_hidden_layers", num_layers),
	{ "n_head", KEY_INT, KEY_OFF(num_attention_heads), 12 },
	KEY_ALSO("num_attention_heads", num_attention_heads),
	{ "n_positions", KEY_INT, KEY_OFF(max_position_embeddings), 1024 },
	KEY_ALSO("max_position_embeddings", max_position_embeddings),
	{ "n_ctx", KEY_INT, KEY_OFF(max_position_embeddings), .written_only = true },
	{ "activation_function", KEY_WORD, KEY_OFF(activation), .words = activations,
	    .why = "'gelu_new' and 'gelu' are known" },
	{ "attn_pdrop", KEY_NUMBER, KEY_OFF(attention_dropout), 0.1 },
	{ "embd_pdrop", KEY_NUMBER, KEY_OFF(embedding_dropout), 0.1 },
	{ "resid_pdrop", KEY_NUMBER, KEY_OFF(hidden_dropout), 0.1 },
	{ "layer_norm_epsilon", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "scale_attn_weights", KEY_FIXED, .def = true, .why = scaling },
	{ "scale_attn_by_inverse_layer_idx", KEY_FIXED, .def = false, .why = scaling },
	{ "reorder_and_upcast_attn", KEY_FIXED, .def = false, .written_only = true },
};

/* Rules between keys, and the recipe that all GPT-2 models share. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	(void)v;
	if (c->hidden_size < 1 || c->hidden_size > WIDTH_MAX)
		return err_set(e, "\"n_embd\" is %lld; must be from 1 to %d",
		    (long long)c->hidden_size, WIDTH_MAX);
	if (c->untie_embeddings_and_output_weights)
		return err_set(e, "\"tie_word_embeddings\" is false; gpt2 has a tied output");
	if (c->num_attention_heads < 1 || c->hidden_size % c->num_attention_heads)
		return err_set(e, "\"n_embd\" must be a multiple of \"n_head\"");
	c->num_query_groups = c->num_attention_heads;
	c->kv_channels = c->hidden_size / c->num_attention_heads;
	c->qkv_bias = c->proj_bias = c->mlp_bias = true;
	c->normalization = NORMALIZATION_LAYERNORM;
	c->position = POSITION_LEARNED;
	return 0;
}

static const char *const others[] = { "summary_type", "summary_use_proj", "summary_activation",
	"summary_proj_to_labels", "summary_first_dropout", "summary_hidden_size", NULL };

const struct family family_gpt2 = {
	.model_type = "gpt2",
	.architecture = "GPT2LMHeadModel",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
};
