/*
 * rows.c - what Llama and its descendants share besides rows: the meaning of absent members, the
 * recipe, and the rules of a config that can be exported
 */
#include "lib/model/family/rows.h"

#include <math.h>
#include <string.h>

const struct key_word family_gelu[] = { { "gelu_pytorch_tanh", ACTIVATION_GEGLU_TANH },
	{ NULL, 0 } };
const struct key_word family_silu[] = { { "silu", ACTIVATION_SWIGLU }, { NULL, 0 } };

int64_t
family_heads(const struct model_config *c)
{
	return c->num_attention_heads;
}

/* family_read_llama refuses a model without heads. */
int64_t
family_head_width(const struct model_config *c)
{
	return c->num_attention_heads < 1 ? 0 : c->hidden_size / c->num_attention_heads;
}

int
family_read_llama(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (c->num_attention_heads < 1)
		return err_set(e, "\"num_attention_heads\" must be at least 1");
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	return family_read_rope(c, config, e);
}

int
family_check_llama(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_RMSNORM)
		return err_set(e, "needs --normalization RMSNorm");
	if (c->activation != ACTIVATION_SWIGLU)
		return err_set(e, "needs --swiglu");
	if (c->position != POSITION_ROPE || c->rotary_interleaved)
		return err_set(e, "needs --position-embedding-type rope, not interleaved");
	return 0;
}

int
family_check_whole(const struct model_config *c, struct err *e)
{
	if (family_check_llama(c, e) < 0)
		return -1;
	return c->rotary_percent == 1 ? 0 : err_set(e, "needs --rotary-percent 1");
}

/* transformers makes the angles of an odd number of elements by a rule of its own. */
static bool
rotates_evenly(const struct model_config *c)
{
	return fmod(floor(c->rotary_percent * (double)c->kv_channels), 2) == 0;
}

/* Newer files have the share beside the base. */
int
family_read_share(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (json_double(json_get(config, "rope_parameters"), "partial_rotary_factor",
		c->rotary_percent, &c->rotary_percent, e) < 0)
		return -1;
	if (rotates_evenly(c))
		return 0;
	return err_set(e,
	    "\"partial_rotary_factor\" is %g; must leave an even number of \"head_dim\" %lld to "
	    "rotate",
	    c->rotary_percent, (long long)c->kv_channels);
}

int
family_check_share(const struct model_config *c, struct err *e)
{
	return rotates_evenly(c)
	    ? 0
	    : err_set(e, "needs a --rotary-percent that leaves an even number to rotate");
}

/* layer_types overrides max_window_layers, which is the number of layers without, the first ones.
 */
static int
read_windows(struct model_config *c, const struct json_value *config, struct err *e)
{
	bool skipped[PATTERN_MAX] = { false };
	int rc = family_read_layer_types(c, config, e);
	int64_t full;

	if (rc != 0)
		return rc;
	if (json_int(config, "max_window_layers", 28, &full, e) < 0)
		return -1;
	if (full >= c->num_layers)
		c->window_size = 0;
	if (full <= 0 || full >= c->num_layers)
		return 0;
	if (c->num_layers > PATTERN_MAX)
		return err_set(
		    e, "windows in some of more than %d layers are not built", PATTERN_MAX);
	memset(skipped, true, (size_t)full);
	c->window_attn_skip_freq = pattern_of(skipped, (int)c->num_layers);
	return 0;
}

/* No window and none in any layer are the same model. */
int
family_read_qwen(struct model_config *c, const struct json_value *config, struct err *e)
{
	bool use;

	if (read_windows(c, config, e) < 0 ||
	    json_bool(config, "use_sliding_window", false, &use, e) < 0)
		return -1;
	if (!use || pattern_count(&c->window_attn_skip_freq, c->num_layers) == c->num_layers)
		c->window_size = 0;
	if (!c->window_size)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	return family_read_llama(c, config, e);
}

void
family_write_qwen(const struct model_config *c, struct str *out)
{
	bool use = c->window_size > 0;

	str_addf(out, ",\n  \"use_sliding_window\": %s,\n  \"max_window_layers\": %lld",
	    use ? "true" : "false",
	    use ? (long long)pattern_count(&c->window_attn_skip_freq, c->num_layers)
		: (long long)c->num_layers);
	family_write_layer_types(c, out);
	family_write_rope(c, out);
}

int
family_read_gemma(
    struct model_config *c, const struct json_value *config, int64_t every, struct err *e)
{
	int rc = family_read_layer_types(c, config, e);

	if (rc < 0)
		return -1;
	if (rc == 0)
		c->window_attn_skip_freq = pattern_every(every);
	if (!c->window_size)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	c->normalization = NORMALIZATION_RMSNORM;
	c->norm_placement = NORM_PLACEMENT_BOTH;
	c->apply_layernorm_1p = c->scale_embeddings_by_hidden_size = true;
	c->proj_bias = c->qkv_bias;
	c->position = POSITION_ROPE;
	return 0;
}

int
family_check_gemma(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_RMSNORM || !c->apply_layernorm_1p ||
	    c->norm_placement != NORM_PLACEMENT_BOTH)
		return err_set(e,
		    "needs --normalization RMSNorm, --apply-layernorm-1p and --norm-placement "
		    "both");
	if (c->activation != ACTIVATION_GEGLU_TANH)
		return err_set(e, "needs --activation geglu");
	if (!c->scale_embeddings_by_hidden_size)
		return err_set(e, "needs --scale-embeddings-by-hidden-size");
	if (c->position != POSITION_ROPE || c->rotary_interleaved || c->rotary_percent != 1)
		return err_set(
		    e, "needs --position-embedding-type rope over whole heads, not interleaved");
	if (c->query_pre_attn_scalar == 0)
		return err_set(e, "needs --query-pre-attn-scalar");
	if (c->qkv_bias != c->proj_bias)
		return err_set(e, "has biases on q, k, v and o together or on none");
	return 0;
}
