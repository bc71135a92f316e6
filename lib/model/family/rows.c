/*
 * rows.c - what Llama and its descendants share besides rows: the meaning of absent members, the
 * recipe, and the rules of a config that can be exported
 */
#include "lib/model/family/rows.h"
#include "lib/model/rope.h"

#include <math.h>
#include <string.h>

const struct key_word family_gelu[] = { { "gelu_pytorch_tanh", ACTIVATION_GEGLU_TANH },
	{ "gelu_new", ACTIVATION_GEGLU_TANH }, { "gelu_fast", ACTIVATION_GEGLU_TANH },
	{ "gelu_python_tanh", ACTIVATION_GEGLU_TANH }, { "gelu_accurate", ACTIVATION_GEGLU_TANH },
	{ NULL, 0 } };
const struct key_word family_silu[] = { { "silu", ACTIVATION_SWIGLU },
	{ "swish", ACTIVATION_SWIGLU }, { NULL, 0 } };

const struct key_word family_relu2[] = { { "relu2", ACTIVATION_RELU2 }, { NULL, 0 } };

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
	/* Python takes 0 for none */
	if (!c->kv_channels)
		c->kv_channels = family_head_width(c);
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	return family_read_rope(c, config, e);
}

int
family_read_llama_evenly(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	if (family_read_llama(c, v, e) < 0)
		return -1;
	return c->hidden_size % c->num_attention_heads == 0
	    ? 0
	    : err_set(e, "\"hidden_size\" must be a multiple of \"num_attention_heads\"");
}

int
family_read_experts(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (c->num_experts < 1)
		return err_set(e, "the number of experts must be at least 1");
	return family_read_llama(c, config, e);
}

/* transformers makes the angles of an odd number of elements by a rule of its own. */
int
family_read_share(struct model_config *c, const struct json_value *config,
    const struct rope_members *top, struct err *e)
{
	if (family_read_rope_as(c, config, top, e) < 0)
		return -1;
	if (fmod(floor(c->rotary_percent * (double)c->kv_channels), 2) == 0)
		return 0;
	return err_set(e,
	    "\"partial_rotary_factor\" is %g; must leave an even number of \"head_dim\" %lld to "
	    "rotate",
	    c->rotary_percent, (long long)c->kv_channels);
}

int
family_read_windows(struct model_config *c, const struct json_value *config, struct err *e)
{
	int rc = family_read_layer_types(c, config, e);

	if (rc <= 0 || c->window_size ||
	    pattern_count(&c->window_attn_skip_freq, c->num_layers) == c->num_layers)
		return rc;
	return err_set(
	    e, "\"layer_types\" has 'sliding_attention', but \"sliding_window\" is null");
}

int
family_read_window_pattern(struct model_config *c, const struct json_value *config, struct err *e)
{
	int64_t every;

	if (json_int(config, "sliding_window_pattern", 4, &every, e) < 0)
		return -1;
	if (every < 1 || every > PATTERN_MAX)
		return err_set(e, "\"sliding_window_pattern\" is %lld; must be from 1 to %d",
		    (long long)every, PATTERN_MAX);
	c->window_attn_skip_freq = pattern_every(every);
	return 0;
}

void
family_settle_windows(struct model_config *c)
{
	int64_t without = pattern_count(&c->window_attn_skip_freq, c->num_layers);

	if (without == c->num_layers)
		c->window_size = 0;
	if (!c->window_size || without == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
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
		    e, "windows in some of more than %d layers are not supported", PATTERN_MAX);
	memset(skipped, true, (size_t)full);
	c->window_attn_skip_freq = pattern_of(skipped, (int)c->num_layers);
	return 0;
}

int
family_read_sparse(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *list = json_get(v, "mlp_only_layers");
	size_t count = list && list->type == JSON_ARRAY ? list->len : 0;
	bool dense[PATTERN_MAX] = { false };
	int64_t step;

	if (json_int(v, "decoder_sparse_step", 1, &step, e) < 0)
		return -1;
	if (step < 1)
		return err_set(
		    e, "\"decoder_sparse_step\" is %lld; must be at least 1", (long long)step);
	if (list && list->type != JSON_ARRAY && list->type != JSON_NULL)
		return err_set(e, "\"mlp_only_layers\" must be a list of layers");
	if (count == 0 && step == 1)
		return 0;
	if (c->num_layers > PATTERN_MAX)
		return err_set(
		    e, "experts in some of more than %d layers are not supported", PATTERN_MAX);
	for (int64_t i = 0; i < c->num_layers; i++)
		dense[i] = (i + 1) % step != 0;
	for (size_t i = 0; i < count; i++) {
		const struct json_value *layer = &list->item[i];

		if (layer->type != JSON_INT || layer->integer < 0)
			return err_set(e, "\"mlp_only_layers\" must be a list of layers");
		if (layer->integer < c->num_layers)
			dense[layer->integer] = true;
	}
	c->moe_layer_freq = pattern_of(dense, (int)c->num_layers);
	return 0;
}

void
family_write_sparse(const struct model_config *c, struct str *out)
{
	const char *between = "";

	str_adds(out, ",\n  \"decoder_sparse_step\": 1,\n  \"mlp_only_layers\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		if (!layer_has_experts(c, i)) {
			str_addf(out, "%s\n    %lld", between, (long long)i);
			between = ",";
		}
	str_adds(out, *between ? "\n  ]" : "]");
}

/* What is not used may be anything: without the switch, and where layer_types has no such layer. */
int
family_read_window(struct model_config *c, const struct json_value *config, struct err *e)
{
	static const struct key window[] = { KEY_WINDOW };
	struct model_config listed = *c;
	bool use;
	int rc;

	if (json_bool(config, "use_sliding_window", false, &use, e) < 0)
		return -1;
	if (!use)
		return 0;
	rc = family_read_layer_types(&listed, config, e);
	if (rc > 0 && pattern_count(&listed.window_attn_skip_freq, c->num_layers) == c->num_layers)
		return 0;
	return rc < 0 ? -1 : keys_read(window, 1, config, c, e);
}

int
family_read_qwen(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (family_read_window(c, config, e) < 0 ||
	    (c->window_size && read_windows(c, config, e) < 0))
		return -1;
	family_settle_windows(c);
	return family_read_llama(c, config, e);
}

void
family_write_windows(const struct model_config *c, struct str *out)
{
	family_write_layer_types(c, out);
	family_write_rope(c, out);
}

void
family_write_qwen(const struct model_config *c, struct str *out)
{
	bool use = c->window_size > 0;

	str_addf(out, ",\n  \"use_sliding_window\": %s,\n  \"max_window_layers\": %lld",
	    use ? "true" : "false",
	    use ? (long long)pattern_count(&c->window_attn_skip_freq, c->num_layers)
		: (long long)c->num_layers);
	family_write_windows(c, out);
}

int
family_read_mistral(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (family_read_windows(c, config, e) < 0)
		return -1;
	family_settle_windows(c);
	return family_read_llama(c, config, e);
}

int
family_read_olmo(struct model_config *c, struct err *e)
{
	if (c->num_attention_heads < 1)
		return err_set(e, "\"num_attention_heads\" must be at least 1");
	c->norm_placement = NORM_PLACEMENT_POST;
	c->qk_layernorm = c->qk_layernorm_hidden_dim = true;
	c->proj_bias = c->qkv_bias;
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	return 0;
}

int
family_read_gemma(
    struct model_config *c, const struct json_value *config, int64_t every, struct err *e)
{
	int rc = family_read_layer_types(c, config, e);

	if (rc < 0)
		return -1;
	if (c->query_pre_attn_scalar < 1)
		return err_set(e, "\"query_pre_attn_scalar\" must be at least 1");
	if (rc == 0)
		c->window_attn_skip_freq = pattern_every(every);
	/* With fewer layers than that none lacks the window, as their list would say. */
	if (!c->window_size || pattern_count(&c->window_attn_skip_freq, c->num_layers) == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	c->normalization = NORMALIZATION_RMSNORM;
	c->norm_placement = NORM_PLACEMENT_BOTH;
	c->apply_layernorm_1p = c->scale_embeddings_by_hidden_size = true;
	c->proj_bias = c->qkv_bias;
	c->position = POSITION_ROPE;
	return 0;
}

int
family_read_only(const struct json_value *v, const char *family, const char *name, const char *only,
    struct err *e)
{
	const char *word;

	if (json_string(v, name, only, &word, e) < 0)
		return -1;
	return strcmp(word, only) == 0
	    ? 0
	    : err_set(e, "\"%s\" is '%s'; %s has '%s'", name, word, family, only);
}

/* One group is none. */
int
family_read_groups(struct model_config *c, const struct json_value *v, const int64_t absent[2],
    int64_t scores, struct err *e)
{
	int64_t groups, best;

	if (keys_int(v, "n_group", absent[0], &groups, e) < 0 ||
	    keys_int(v, "topk_group", absent[1], &best, e) < 0)
		return -1;
	if (groups < 1 || best < 1 || best > groups)
		return err_set(e,
		    "\"n_group\" %lld and \"topk_group\" %lld: must be at least 1, the second at "
		    "most the first",
		    (long long)groups, (long long)best);
	if (groups == 1)
		return 0;
	c->moe_router_num_groups = groups;
	c->moe_router_group_topk = best;
	c->moe_router_group_scores = scores;
	return 0;
}

static int
read_dense(struct model_config *c, const struct json_value *v, int64_t absent, struct err *e)
{
	bool dense[PATTERN_MAX] = { false };
	int64_t first;

	if (keys_int(v, "first_k_dense_replace", absent, &first, e) < 0)
		return -1;
	if (first < 0 || c->num_layers > PATTERN_MAX)
		return err_set(e,
		    "\"first_k_dense_replace\" %lld: must be from 0 on, and \"num_hidden_layers\" "
		    "at most %d",
		    (long long)first, PATTERN_MAX);
	for (int64_t i = 0; i < first && i < c->num_layers; i++)
		dense[i] = true;
	if (first > 0)
		c->moe_layer_freq = pattern_of(dense, (int)c->num_layers);
	return 0;
}

/* Cosines and sines are multiplied by the quotient of both where both are there, and dot products
 * by the square of the second alone. */
static int
read_mscales(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *dict = family_rope_of(v);
	double factor, one, all;

	if (c->rope_scaling != ROPE_SCALING_YARN)
		return 0;
	if (json_double(dict, "attention_factor", 0, &factor, e) < 0 ||
	    json_double(dict, "mscale", 0, &one, e) < 0 ||
	    json_double(dict, "mscale_all_dim", 0, &all, e) < 0)
		return -1;
	if (one < 0 || all < 0)
		return err_set(e, "\"mscale\" and \"mscale_all_dim\" must be at least 0");
	c->yarn_mscale_all_dim = all;
	if (factor == 0 && one > 0 && all > 0) {
		c->yarn_mscale = one;
		c->yarn_attention_factor = 0;
	} else if (factor == 0 && all > 0) {
		c->yarn_attention_factor = yarn_default_factor(c->rope_factor, 1);
	}
	return 0;
}

int
family_read_latents(struct model_config *c, const struct json_value *v,
    const struct family_latents *absent, struct err *e)
{
	int64_t shared;
	double scale;

	c->multi_latent_attention = c->qk_layernorm = true;
	c->kv_channels = c->qk_head_dim + c->qk_pos_emb_head_dim;
	c->latent_norm_epsilon = c->norm_epsilon == 1e-6 ? 0 : 1e-6;
	if (keys_int(v, "n_shared_experts", absent->shared, &shared, e) < 0 ||
	    read_dense(c, v, absent->dense, e) < 0 ||
	    json_double(v, "routed_scaling_factor", absent->scale, &scale, e) < 0)
		return -1;
	if (!(scale > 0))
		return err_set(e, "\"routed_scaling_factor\" is %g; must be above 0", scale);
	c->moe_router_topk_scaling_factor = scale == 1 ? 0 : scale;
	if (shared < 1 || shared > 1 << 20 || c->moe_ffn_hidden_size > 1 << 24)
		return err_set(
		    e, "\"n_shared_experts\" is %lld; must be at least 1", (long long)shared);
	c->moe_shared_expert_intermediate_size = shared * c->moe_ffn_hidden_size;
	return family_read_experts(c, v, e) < 0 ? -1 : read_mscales(c, v, e);
}

static int64_t
first_experts(const struct model_config *c)
{
	int64_t i = 0;

	while (i < c->num_layers && !layer_has_experts(c, i))
		i++;
	return i;
}

/* A width that is no multiple is read back as another one. */
void
family_write_latents(const struct model_config *c, struct str *out)
{
	bool grouped = c->moe_router_num_groups > 0;
	int64_t f = c->moe_ffn_hidden_size;
	struct str more = { 0 };

	str_addf(out,
	    ",\n  \"n_group\": %lld,\n  \"topk_group\": %lld,\n  \"n_shared_experts\": %lld"
	    ",\n  \"first_k_dense_replace\": %lld",
	    grouped ? (long long)c->moe_router_num_groups : 1,
	    grouped ? (long long)c->moe_router_group_topk : 1,
	    (long long)(f > 0 ? c->moe_shared_expert_intermediate_size / f : 0),
	    (long long)first_experts(c));
	str_adds(out, ",\n  \"routed_scaling_factor\": ");
	str_add_double(out, model_topk_scale(c));
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_mscale > 0) {
		str_adds(&more, ",\n    \"mscale\": ");
		str_add_double(&more, c->yarn_mscale);
	}
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_mscale_all_dim > 0) {
		str_adds(&more, ",\n    \"mscale_all_dim\": ");
		str_add_double(&more, c->yarn_mscale_all_dim);
	}
	family_write_rope_with(c, more.buf ? more.buf : "", out);
	str_release(&more);
}
