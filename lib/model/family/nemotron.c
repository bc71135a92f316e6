/*
 * nemotron.c - Nemotron and Minitron: LayerNorm with weights stored less 1, squared ReLU without a
 * gate, a share of each head that rotates
 *
 * Source: the config and tensor names of NemotronForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_NORM_BIASES,
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	NAMES_MLP,
	NAMES_MLP_BIASES,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_RELU2("nemotron"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	{ "norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	KEY_ROPE_THETA,
	{ "partial_rotary_factor", KEY_NUMBER, KEY_OFF(rotary_percent), .written_only = true },
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

/* Half of each head rotates in a file that does not say it. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct rope_members top = { "rope_theta", "partial_rotary_factor" };

	c->rotary_percent = 0.5;
	c->proj_bias = c->qkv_bias;
	c->apply_layernorm_1p = true;
	if (family_read_llama(c, v, e) < 0)
		return -1;
	c->normalization = NORMALIZATION_LAYERNORM;
	return family_read_share(c, v, &top, e);
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_nemotron = {
	.model_type = "nemotron",
	.architecture = "NemotronForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
