/*
 * gpt2.c - GPT-2: LayerNorm, learned positions, GELU by tanh, biases everywhere, tied output
 *
 * Weights are stored [in, out]; c_attn holds q, k and v side by side. Source: the config and tensor
 * names of GPT2LMHeadModel in huggingface/transformers.
 */
#include "lib/model/family.h"

#include <string.h>

static const struct family_name names[] = {
	{ ROLE_WORD_EMBEDDINGS, "transformer.wte.weight", false },
	{ ROLE_POSITION_EMBEDDINGS, "transformer.wpe.weight", false },
	{ ROLE_INPUT_NORM, "transformer.h.%d.ln_1.weight", false },
	{ ROLE_INPUT_NORM_BIAS, "transformer.h.%d.ln_1.bias", false },
	{ ROLE_Q, "transformer.h.%d.attn.c_attn.weight", true },
	{ ROLE_K, "transformer.h.%d.attn.c_attn.weight", true },
	{ ROLE_V, "transformer.h.%d.attn.c_attn.weight", true },
	{ ROLE_Q_BIAS, "transformer.h.%d.attn.c_attn.bias", false },
	{ ROLE_K_BIAS, "transformer.h.%d.attn.c_attn.bias", false },
	{ ROLE_V_BIAS, "transformer.h.%d.attn.c_attn.bias", false },
	{ ROLE_PROJ, "transformer.h.%d.attn.c_proj.weight", true },
	{ ROLE_PROJ_BIAS, "transformer.h.%d.attn.c_proj.bias", false },
	{ ROLE_MLP_NORM, "transformer.h.%d.ln_2.weight", false },
	{ ROLE_MLP_NORM_BIAS, "transformer.h.%d.ln_2.bias", false },
	{ ROLE_UP, "transformer.h.%d.mlp.c_fc.weight", true },
	{ ROLE_UP_BIAS, "transformer.h.%d.mlp.c_fc.bias", false },
	{ ROLE_DOWN, "transformer.h.%d.mlp.c_proj.weight", true },
	{ ROLE_DOWN_BIAS, "transformer.h.%d.mlp.c_proj.bias", false },
	{ ROLE_FINAL_NORM, "transformer.ln_f.weight", false },
	{ ROLE_FINAL_NORM_BIAS, "transformer.ln_f.bias", false },
	{ ROLE_COUNT, NULL, false },
};

/* "gelu_new" is the formula with tanh that GPT-2 was trained with, "gelu" the exact one. */
static int
read_activation(struct model_config *c, const struct json_value *v, struct err *e)
{
	const char *act;

	if (json_string(v, "activation_function", "gelu_new", &act, e) < 0)
		return -1;
	if (!strcmp(act, "gelu_new") || !strcmp(act, "gelu_pytorch_tanh"))
		c->activation = ACTIVATION_GELU_TANH;
	else if (!strcmp(act, "gelu"))
		c->activation = ACTIVATION_GELU_ERF;
	else
		return err_set(
		    e, "\"activation_function\" is '%s'; 'gelu_new' and 'gelu' are known", act);
	return 0;
}

/*
 * The defaults are those of GPT2Config. n_embd is bounded before 4 n_embd is computed from it.
 * Attention that is not scaled, or scaled by the layer, is refused: the kernels have no such form.
 */
static int
read_config(struct model_config *c, const struct json_value *v, struct err *e)
{
	bool scaled, by_layer, tied;

	if (json_int(v, "n_embd", 768, &c->hidden_size, e) < 0)
		return -1;
	if (c->hidden_size < 1 || c->hidden_size > 1 << 20)
		return err_set(e, "\"n_embd\" is %lld; must be from 1 to %d",
		    (long long)c->hidden_size, 1 << 20);
	if (json_int(v, "vocab_size", 50257, &c->vocab_size, e) < 0 ||
	    json_int(v, "n_layer", 12, &c->num_layers, e) < 0 ||
	    json_int(v, "n_head", 12, &c->num_attention_heads, e) < 0 ||
	    json_int(v, "n_positions", 1024, &c->max_position_embeddings, e) < 0 ||
	    json_int(v, "n_inner", 4 * c->hidden_size, &c->ffn_hidden_size, e) < 0 ||
	    json_double(v, "layer_norm_epsilon", 1e-5, &c->norm_epsilon, e) < 0 ||
	    json_double(v, "attn_pdrop", 0.1, &c->attention_dropout, e) < 0 ||
	    json_double(v, "resid_pdrop", 0.1, &c->hidden_dropout, e) < 0 ||
	    json_double(v, "embd_pdrop", 0.1, &c->embedding_dropout, e) < 0 ||
	    json_bool(v, "scale_attn_weights", true, &scaled, e) < 0 ||
	    json_bool(v, "scale_attn_by_inverse_layer_idx", false, &by_layer, e) < 0 ||
	    json_bool(v, "tie_word_embeddings", true, &tied, e) < 0)
		return -1;
	if (!tied)
		return err_set(e, "\"tie_word_embeddings\" is false; gpt2 has a tied output");
	if (!scaled || by_layer)
		return err_set(e,
		    "only \"scale_attn_weights\": true without \"scale_attn_by_inverse_layer_idx\" "
		    "is built");
	if (c->num_attention_heads < 1 || c->hidden_size % c->num_attention_heads)
		return err_set(e, "\"n_embd\" must be a multiple of \"n_head\"");
	c->num_query_groups = c->num_attention_heads;
	c->kv_channels = c->hidden_size / c->num_attention_heads;
	c->qkv_bias = c->proj_bias = c->mlp_bias = true;
	c->normalization = NORMALIZATION_LAYERNORM;
	c->position = POSITION_LEARNED;
	return read_activation(c, v, e);
}

/*
 * GPT2LMHeadModel has no switch for any of these, so a model that differs in one cannot be written
 * as it. The reason continues "cannot be exported as gpt2: it ...".
 */
static int
check(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_LAYERNORM)
		return err_set(e, "needs --normalization LayerNorm");
	if (c->activation != ACTIVATION_GELU_TANH && c->activation != ACTIVATION_GELU_ERF)
		return err_set(e, "needs GELU");
	if (c->position != POSITION_LEARNED)
		return err_set(e, "needs --position-embedding-type learned_absolute");
	if (!c->qkv_bias || !c->proj_bias || !c->mlp_bias)
		return err_set(e, "has biases: leave out --disable-bias-linear");
	if (c->num_query_groups != c->num_attention_heads ||
	    c->kv_channels * c->num_attention_heads != c->hidden_size)
		return err_set(e, "has no grouped queries and no --kv-channels of its own");
	if (c->untie_embeddings_and_output_weights)
		return err_set(
		    e, "has tied output: leave out --untie-embeddings-and-output-weights");
	if (c->window_size)
		return err_set(e, "has no sliding window");
	return 0;
}

/* n_ctx is read by old versions only. */
static void
write_config(const struct model_config *c, struct str *out)
{
	str_addf(out,
	    ",\n  \"n_embd\": %lld,\n  \"n_inner\": %lld,\n  \"n_layer\": %lld,\n  \"n_head\": "
	    "%lld",
	    (long long)c->hidden_size, (long long)c->ffn_hidden_size, (long long)c->num_layers,
	    (long long)c->num_attention_heads);
	str_addf(out,
	    ",\n  \"n_positions\": %lld,\n  \"n_ctx\": %lld,\n  \"activation_function\": \"%s\"",
	    (long long)c->max_position_embeddings, (long long)c->max_position_embeddings,
	    c->activation == ACTIVATION_GELU_TANH ? "gelu_new" : "gelu");
	family_write_number(out, "  ", "attn_pdrop", c->attention_dropout);
	family_write_number(out, "  ", "embd_pdrop", c->embedding_dropout);
	family_write_number(out, "  ", "resid_pdrop", c->hidden_dropout);
	family_write_number(out, "  ", "layer_norm_epsilon", c->norm_epsilon);
	str_adds(out,
	    ",\n  \"scale_attn_weights\": true,\n  \"scale_attn_by_inverse_layer_idx\": false,"
	    "\n  \"reorder_and_upcast_attn\": false");
}

const struct family family_gpt2 = {
	.model_type = "gpt2",
	.architecture = "GPT2LMHeadModel",
	.names = names,
	.optional_prefix = "transformer.",
	.read = read_config,
	.check = check,
	.write = write_config,
};
