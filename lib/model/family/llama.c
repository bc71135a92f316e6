/*
 * llama.c - Llama 1 to 3: RMSNorm, rotary positions, SwiGLU, grouped query attention, no biases
 * unless the config says so
 *
 * Source: the config and tensor names of LlamaForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	NAMES_GATED_MLP,
	NAMES_GATED_MLP_BIASES,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("llama"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

/* attention_bias puts biases on q, k, v and o alike. LlamaConfig refuses an uneven width whether or
 * not there is a head_dim. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	if (family_read_llama(c, v, e) < 0)
		return -1;
	return c->hidden_size % c->num_attention_heads == 0
	    ? 0
	    : err_set(e, "\"hidden_size\" must be a multiple of \"num_attention_heads\"");
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_llama = {
	.model_type = "llama",
	.architecture = "LlamaForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
