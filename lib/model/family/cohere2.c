/*
 * cohere2.c - Command R7B and Command A: attention and MLP side by side after one LayerNorm without
 * a bias, interleaved pairs, a sliding window in three of four layers; the others do not rotate
 *
 * Source: the config and tensor names of Cohere2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#include <math.h>

static const struct family_name names[] = {
	{ "input_layernorm.weight", "model.layers.%d.input_layernorm.weight", false },
	NAMES_QKV,
	NAMES_QKV_BIASES,
	NAMES_PROJ,
	NAMES_PROJ_BIAS,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("cohere2"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 8192 },
	{ "layer_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-5 },
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 },
	KEY_ROPE_THETA,
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	KEY_WINDOW,
};

/* Layers have the window by layer_types, else all but each of the number that the pattern says. The
 * others do not rotate. */
static int
read_layers(struct model_config *c, const struct json_value *v, struct err *e)
{
	int rc = family_read_layer_types(c, v, e);

	if (rc < 0 || (rc == 0 && family_read_window_pattern(c, v, e) < 0))
		return -1;
	if (!c->window_size)
		return err_set(e, "\"sliding_window\" is null; cohere2 has a window");
	if (pattern_count(&c->window_attn_skip_freq, c->num_layers) == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	c->no_rope_freq = c->window_attn_skip_freq;
	return 0;
}

/* Logits are multiplied by it, and divided by the field. */
static int
read_scale(struct model_config *c, const struct json_value *v, struct err *e)
{
	double scale;

	if (json_double(v, "logit_scale", 0.0625, &scale, e) < 0)
		return -1;
	if (!(scale > 0))
		return err_set(e, "\"logit_scale\" is %g; must be above 0", scale);
	c->logits_scaling = scale == 1 ? 0 : 1 / scale;
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	if (read_layers(c, v, e) < 0 || read_scale(c, v, e) < 0 || family_read_llama(c, v, e) < 0)
		return -1;
	c->normalization = NORMALIZATION_LAYERNORM;
	c->norm_without_bias = c->use_parallel_residual = c->shared_parallel_norm = true;
	c->rotary_interleaved = true;
	return 0;
}

/* A number that is read as this field, which is one of the nearest of its inverse. */
static double
scale_of(const struct model_config *c)
{
	double x = c->logits_scaling > 0 ? 1 / c->logits_scaling : 1;

	if (!(c->logits_scaling > 0) || 1 / x == c->logits_scaling)
		return x;
	return 1 / nextafter(x, 0) == c->logits_scaling ? nextafter(x, 0) : nextafter(x, INFINITY);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_adds(out, ",\n  \"logit_scale\": ");
	str_add_double(out, scale_of(c));
	family_write_windows(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", "sliding_window_pattern",
	"logit_scale", NULL };

const struct family family_cohere2 = {
	.model_type = "cohere2",
	.architecture = "Cohere2ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.interleaved = true,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
