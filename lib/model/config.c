/*
 * config.c - checks a model and derives figures from it
 *
 * The one place that decides what a model_config may hold, whether it came from options, a
 * config.json or a checkpoint; all later code divides and multiplies without checking again. Error
 * messages name the option and a legal value.
 */
#include "lib/model/config.h"

#include <math.h>
#include <stddef.h>

/* A row of ranges from one of fields_list.h. */
#define RANGE(kind, S, M, ...) RANGE_##kind(__VA_ARGS__)
#define RANGE_INT(n, f, lo, d, t, ...) \
	{ n, offsetof(struct model_config, f), true, lo, INFINITY, t },
#define RANGE_NUM(n, f, lo, hi, d, t, ...) \
	{ n, offsetof(struct model_config, f), false, lo, hi, t },
#define RANGE_ID(...)
#define RANGE_FLAG(...)
#define RANGE_CHOICE(...)
#define RANGE_WORDS(...)
#define RANGE_SWITCH(...)
#define RANGE_UNSWITCH(...)
#define RANGE_SAME_INT(...)
#define RANGE_SAME_NUM(...)

const char *const normalization_names[] = { "LayerNorm", "RMSNorm", NULL };
const char *const activation_names[] = { "gelu", "gelu-erf", "squared-relu", "swiglu", "geglu",
	"quick-geglu", NULL };
const char *const position_names[] = { "learned_absolute", "rope", "none", NULL };
const char *const position_words[] = { "absolute", "learned_absolute", "rotary", "rope", NULL };
const char *const norm_placement_names[] = { "pre", "both", "post", NULL };
const char *const rope_scaling_names[] = { "none", "linear", "llama3", "yarn", "longrope", NULL };
const char *const softmax_type_names[] = { "vanilla", "off-by-one", "learnable", NULL };
const char *const router_score_names[] = { "softmax", "sigmoid", NULL };
const char *const balancing_names[] = { "aux_loss", "seq_aux_loss", "none", "global_aux_loss",
	"sinkhorn", "quantile_balancing", NULL };

/*
 * Gated activations have two matrices into the FFN, which doubles the width of the first GEMM.
 */
bool
model_gated(const struct model_config *c)
{
	return c->activation >= ACTIVATION_SWIGLU;
}

bool
model_pre_norm(const struct model_config *c)
{
	return c->norm_placement != NORM_PLACEMENT_POST;
}

bool
model_post_norm(const struct model_config *c)
{
	return c->norm_placement != NORM_PLACEMENT_PRE;
}

bool
model_norm_means(const struct model_config *c)
{
	return c->normalization == NORMALIZATION_LAYERNORM;
}

bool
model_norm_biases(const struct model_config *c)
{
	return model_norm_means(c) && !c->norm_without_bias;
}

/*
 * Rounded down to an even number, because rotation takes channels in pairs; Megatron-LM truncates
 * too.
 */
int64_t
model_rotary_dim(const struct model_config *c)
{
	if (c->multi_latent_attention)
		return c->qk_pos_emb_head_dim;
	return (int64_t)(c->rotary_percent * (double)c->kv_channels) / 2 * 2;
}

int64_t
model_value_dim(const struct model_config *c)
{
	return c->multi_latent_attention ? c->v_head_dim : c->kv_channels;
}

double
model_latent_epsilon(const struct model_config *c)
{
	return c->latent_norm_epsilon > 0 ? c->latent_norm_epsilon : c->norm_epsilon;
}

int64_t
model_end(const struct model_config *c)
{
	return c->num_layers + c->mtp_num_layers;
}

bool
layer_transforms(const struct model_config *c, int64_t layer)
{
	return layer >= 0 && layer <= model_end(c) && layer != c->num_layers;
}

int64_t
model_transforms(const struct model_config *c)
{
	return c->num_layers + c->mtp_num_layers;
}

int64_t
layer_transforms_before(const struct model_config *c, int64_t layer)
{
	return layer - (layer > c->num_layers);
}

bool
model_table_at_ends(const struct model_config *c)
{
	return !c->untie_embeddings_and_output_weights || c->mtp_num_layers > 0;
}

/* The layer whose place in patterns a layer has: after the head, that of the last. */
static int64_t
place_of(const struct model_config *c, int64_t layer)
{
	return layer > c->num_layers ? c->num_layers - 1 : layer;
}

int64_t
layer_window(const struct model_config *c, int64_t layer)
{
	return pattern_skips(&c->window_attn_skip_freq, place_of(c, layer)) ? 0 : c->window_size;
}

bool
layer_is_linear(const struct model_config *c, int64_t layer)
{
	return pattern_skips(&c->linear_attention_freq, layer);
}

bool
model_has_linear(const struct model_config *c)
{
	return c->linear_attention_freq.period > 0;
}

int64_t
model_softmax_layers(const struct model_config *c)
{
	return model_transforms(c) - pattern_count(&c->linear_attention_freq, c->num_layers);
}

bool
layer_has_experts(const struct model_config *c, int64_t layer)
{
	return c->num_experts && !pattern_skips(&c->moe_layer_freq, place_of(c, layer));
}

int64_t
model_expert_layers(const struct model_config *c)
{
	return c->num_experts ? c->num_layers - pattern_count(&c->moe_layer_freq, c->num_layers)
			      : 0;
}

int64_t
layer_routers_before(const struct model_config *c, int64_t layer)
{
	int64_t n = 0;

	for (int64_t i = 0; i < layer; i++)
		n += layer_transforms(c, i) && layer_has_experts(c, i);
	return n;
}

int64_t
model_routers(const struct model_config *c)
{
	return layer_routers_before(c, model_end(c) + 1);
}

double
model_topk_scale(const struct model_config *c)
{
	return c->moe_router_topk_scaling_factor > 0 ? c->moe_router_topk_scaling_factor : 1;
}

bool
model_router_losses(const struct model_config *c)
{
	return c->num_experts &&
	    (c->moe_z_loss_coeff > 0 ||
		(c->moe_aux_loss_coeff > 0 && c->moe_router_load_balancing_type != BALANCING_NONE));
}

bool
model_balances_globally(const struct model_config *c)
{
	return c->num_experts && c->moe_router_load_balancing_type == BALANCING_GLOBAL_AUX_LOSS;
}

double
model_norm_shift(const struct model_config *c)
{
	return c->apply_layernorm_1p ? 1 : 0;
}

double
yarn_default_factor(double factor, double mscale)
{
	return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

double
model_score_scale(const struct model_config *c)
{
	int64_t width = c->query_pre_attn_scalar ? c->query_pre_attn_scalar : c->kv_channels;
	double all = 1;

	if (c->attention_multiplier > 0)
		return c->attention_multiplier;
	if (c->multi_latent_attention && c->rope_scaling == ROPE_SCALING_YARN)
		all = yarn_default_factor(c->rope_factor, c->yarn_mscale_all_dim);
	return all * all / sqrt((double)width);
}

enum rope_table
layer_rope_table(const struct model_config *c, int64_t layer)
{
	if (c->position != POSITION_ROPE || pattern_skips(&c->no_rope_freq, place_of(c, layer)))
		return ROPE_TABLE_NONE;
	return c->sliding_window_rope_base > 0 && layer_window(c, layer) > 0 ? ROPE_TABLE_WINDOW
									     : ROPE_TABLE_MODEL;
}

/*
 * Every later divisor is checked here. The message has the form of an option's range check.
 */
static int
positive(const char *option, int64_t v, struct err *e)
{
	if (v >= 1)
		return 0;
	return err_set(e, "--%s %lld: must be at least 1", option, (long long)v);
}

/*
 * Each bound is generous, and together they keep every byte count well below 2^63: 2^55 parameters
 * at 16 bytes and a few copies still fit. The table of tensors must fit, too. The number of
 * parameters, or more, is computed in double because the integers might overflow: none of the sizes
 * is trusted yet.
 */
static int
check_sizes(const struct model_config *c, struct err *e)
{
	double h = (double)c->hidden_size;
	double q = (double)c->num_attention_heads * (double)c->kv_channels;
	double latents = (double)c->q_lora_rank + (double)c->kv_lora_rank +
	    (double)c->v_head_dim * (double)c->num_attention_heads;
	double experts = (double)c->num_experts * (3 * (double)c->moe_ffn_hidden_size + 1) +
	    3 * (double)c->moe_shared_expert_intermediate_size;
	double linear = 2 * (double)c->linear_num_key_heads * (double)c->linear_key_head_dim +
	    (double)c->linear_num_value_heads * (3 * (double)c->linear_value_head_dim + 2);
	double layer = 5 * q + latents + (model_has_linear(c) ? linear : 0) +
	    3 * (double)c->ffn_hidden_size + experts;
	double layers = (double)c->num_layers + (double)c->mtp_num_layers;
	double tables = 2 * (double)c->vocab_size + (double)c->max_position_embeddings;

	if (c->num_layers > 100000 || c->hidden_size > 1 << 20 || c->ffn_hidden_size > 1 << 24 ||
	    c->vocab_size > 1 << 28 || c->make_vocab_size_divisible_by > 1 << 28 ||
	    c->num_attention_heads > 1 << 16 || c->kv_channels > 1 << 16 ||
	    c->q_lora_rank > 1 << 20 || c->kv_lora_rank > 1 << 20 || c->v_head_dim > 1 << 16 ||
	    c->linear_num_key_heads > 1 << 16 || c->linear_num_value_heads > 1 << 16 ||
	    c->linear_key_head_dim > 1 << 16 || c->linear_value_head_dim > 1 << 16 ||
	    c->max_position_embeddings > 1 << 28 || c->num_experts > 1 << 16 ||
	    c->num_experts > (1 << 18) / c->num_layers || c->moe_ffn_hidden_size > 1 << 24 ||
	    c->moe_shared_expert_intermediate_size > 1 << 24 ||
	    layers * h * (layer + 2 * h) + h * tables > 0x1p55)
		return err_set(e,
		    "the model is larger than any this program can hold: check --num-layers, "
		    "--hidden-size, --num-experts and --vocab-size");
	return 0;
}

/* A factor for each pair. */
static int
check_factors(
    const struct model_config *c, const char *option, const struct rope_factors *f, struct err *e)
{
	if (f->count != model_rotary_dim(c) / 2)
		return err_set(e, "--%s: %d factors: must be %lld, one for each pair that rotates",
		    option, f->count, (long long)(model_rotary_dim(c) / 2));
	for (int i = 0; i < f->count; i++)
		if (!(f->factor[i] > 0 && isfinite(f->factor[i])))
			return err_set(e, "--%s %g: must be above 0", option, f->factor[i]);
	return 0;
}

static int
check_longrope(const struct model_config *c, struct err *e)
{
	if (check_factors(c, "longrope-short-factor", &c->longrope_short_factor, e) < 0 ||
	    check_factors(c, "longrope-long-factor", &c->longrope_long_factor, e) < 0)
		return -1;
	if (!(c->longrope_attention_factor >= 0))
		return err_set(e, "--longrope-attention-factor %g: must be above 0, or 0 for 1",
		    c->longrope_attention_factor);
	return positive("rope-original-positions", c->rope_original_positions, e);
}

/* Of llama3 and of YaRN. Comparisons are written so that a NaN fails them. */
static int
check_scaling(const struct model_config *c, struct err *e)
{
	if (c->rope_scaling == ROPE_SCALING_LLAMA3 &&
	    !(c->rope_low_freq_factor < c->rope_high_freq_factor))
		return err_set(e,
		    "--rope-low-freq-factor %g: must be below --rope-high-freq-factor %g; 1 and 4 "
		    "are usual",
		    c->rope_low_freq_factor, c->rope_high_freq_factor);
	if (c->rope_scaling == ROPE_SCALING_YARN &&
	    !(c->yarn_beta_slow > 0 && c->yarn_beta_slow < c->yarn_beta_fast))
		return err_set(e,
		    "--yarn-beta-slow %g: must be above 0 and below --yarn-beta-fast %g; 1 and 32 "
		    "are usual",
		    c->yarn_beta_slow, c->yarn_beta_fast);
	if (c->rope_scaling == ROPE_SCALING_YARN && !(c->yarn_attention_factor >= 0))
		return err_set(e,
		    "--yarn-attention-factor %g: must be above 0, or 0 for 0.1 ln(factor) + 1",
		    c->yarn_attention_factor);
	if (c->rope_scaling == ROPE_SCALING_YARN && !(c->rotary_base > 1))
		return err_set(e, "--rotary-base %g: must be above 1 for YaRN", c->rotary_base);
	return positive("rope-original-positions", c->rope_original_positions, e);
}

static int
check_rope(const struct model_config *c, struct err *e)
{
	if (c->position != POSITION_ROPE)
		return 0;
	if (!(c->rotary_percent > 0 && c->rotary_percent <= 1))
		return err_set(
		    e, "--rotary-percent %g: must be above 0, at most 1", c->rotary_percent);
	if (model_rotary_dim(c) < 2)
		return err_set(e,
		    "--rotary-percent %g: leaves no even part of --kv-channels %lld to rotate; try "
		    "1.0",
		    c->rotary_percent, (long long)c->kv_channels);
	if (!(c->rotary_base >= 1))
		return err_set(
		    e, "--rotary-base %g: must be at least 1; 10000 is usual", c->rotary_base);
	if (!(c->sliding_window_rope_base >= 1 || c->sliding_window_rope_base == 0))
		return err_set(e,
		    "--sliding-window-rope-base %g: must be at least 1, or 0 for that of all "
		    "layers; 10000 is usual",
		    c->sliding_window_rope_base);
	if (c->rope_scaling == ROPE_SCALING_LONGROPE)
		return check_longrope(c, e);
	if (c->rope_scaling != ROPE_SCALING_NONE && !(c->rope_factor > 0))
		return err_set(
		    e, "--rope-scaling-factor %g: must be above 0; 8 is usual", c->rope_factor);
	return c->rope_scaling > ROPE_SCALING_LINEAR ? check_scaling(c, e) : 0;
}

static int
check_attention(const struct model_config *c, struct err *e)
{
	if (c->qk_layernorm_hidden_dim && !c->qk_layernorm)
		return err_set(e, "--qk-layernorm-hidden-dim: needs --qk-layernorm");
	if (c->query_pre_attn_scalar < 0)
		return err_set(e, "--query-pre-attn-scalar %lld: must be at least 1",
		    (long long)c->query_pre_attn_scalar);
	if (c->query_pre_attn_scalar && c->attention_multiplier > 0)
		return err_set(e,
		    "--attention-multiplier %g: takes the place of --query-pre-attn-scalar: only "
		    "one of them",
		    c->attention_multiplier);
	if (c->scale_embeddings_by_hidden_size && c->embedding_multiplier > 0)
		return err_set(e,
		    "--embedding-multiplier %g: takes the place of "
		    "--scale-embeddings-by-hidden-size: only one of them",
		    c->embedding_multiplier);
	if (!(c->attn_logit_softcapping >= 0))
		return err_set(e, "--attn-logit-softcapping %g: must be at least 0; 50 is usual",
		    c->attn_logit_softcapping);
	if (!(c->final_logit_softcapping >= 0))
		return err_set(e, "--final-logit-softcapping %g: must be at least 0; 30 is usual",
		    c->final_logit_softcapping);
	return 0;
}

static int
check_latent(const struct model_config *c, struct err *e)
{
	const char *other = c->normalization != NORMALIZATION_RMSNORM ? "--normalization LayerNorm"
	    : c->position != POSITION_ROPE ? "--position-embedding-type other than rope"
	    : c->rotary_percent < 1        ? "--rotary-percent below 1"
	    : c->rotary_interleaved        ? "--rotary-interleaved, since its pairs always are"
	    : c->qk_layernorm_hidden_dim   ? "--qk-layernorm-hidden-dim"
	    : c->qkv_bias                  ? "--linear-biases qkv"
	    : c->proj_bias                 ? "--linear-biases proj"
	    : c->num_query_groups != c->num_attention_heads ? "--num-query-groups"
							    : NULL;

	if (!c->multi_latent_attention)
		return 0;
	if (positive("kv-lora-rank", c->kv_lora_rank, e) < 0 ||
	    positive("qk-head-dim", c->qk_head_dim, e) < 0 ||
	    positive("qk-pos-emb-head-dim", c->qk_pos_emb_head_dim, e) < 0 ||
	    positive("v-head-dim", c->v_head_dim, e) < 0)
		return -1;
	if (other)
		return err_set(e, "--multi-latent-attention: is not supported with %s", other);
	if (!c->qk_layernorm)
		return err_set(
		    e, "--multi-latent-attention: needs --qk-layernorm, the norms of latents");
	if (c->qk_pos_emb_head_dim % 2)
		return err_set(e, "--qk-pos-emb-head-dim %lld: must be even",
		    (long long)c->qk_pos_emb_head_dim);
	if (c->kv_channels != c->qk_head_dim + c->qk_pos_emb_head_dim)
		return err_set(e,
		    "--kv-channels %lld: must be --qk-head-dim %lld and --qk-pos-emb-head-dim %lld "
		    "together",
		    (long long)c->kv_channels, (long long)c->qk_head_dim,
		    (long long)c->qk_pos_emb_head_dim);
	return 0;
}

static int
check_gate(const struct model_config *c, struct err *e)
{
	const char *other = c->qkv_bias ? "--linear-biases qkv"
	    : c->multi_latent_attention ? "--multi-latent-attention"
					: NULL;

	return c->attention_output_gate && other
	    ? err_set(e, "--attention-output-gate: is not supported with %s", other)
	    : 0;
}

/* The bounds are those of train/cpu/delta_rule.c and short_conv.c. */
static int
check_linear(const struct model_config *c, struct err *e)
{
	const char *other = c->use_parallel_residual ? "--use-parallel-residual"
	    : c->mtp_num_layers                      ? "--mtp-num-layers"
	    : c->window_size                         ? "--window-size"
	    : c->no_rope_freq.period                 ? "--no-rope-freq"
						     : NULL;
	int64_t each;

	if (!model_has_linear(c))
		return 0;
	if (positive("linear-num-key-heads", c->linear_num_key_heads, e) < 0 ||
	    positive("linear-num-value-heads", c->linear_num_value_heads, e) < 0 ||
	    positive("linear-key-head-dim", c->linear_key_head_dim, e) < 0 ||
	    positive("linear-value-head-dim", c->linear_value_head_dim, e) < 0)
		return -1;
	if (other)
		return err_set(e, "--linear-attention-freq: is not supported with %s", other);
	if (c->linear_conv_kernel_dim < 2 || c->linear_conv_kernel_dim > 16)
		return err_set(e, "--linear-conv-kernel-dim %lld: must be from 2 to 16; 4 is usual",
		    (long long)c->linear_conv_kernel_dim);
	if (c->linear_num_value_heads % c->linear_num_key_heads)
		return err_set(e,
		    "--linear-num-key-heads %lld: must divide --linear-num-value-heads %lld",
		    (long long)c->linear_num_key_heads, (long long)c->linear_num_value_heads);
	each = c->linear_num_value_heads / c->linear_num_key_heads;
	if (c->linear_key_head_dim > 512)
		return err_set(e, "--linear-key-head-dim %lld: must be at most 512",
		    (long long)c->linear_key_head_dim);
	if (each > 64 || each * c->linear_value_head_dim > 8192)
		return err_set(e,
		    "--linear-num-value-heads %lld: a key head has %lld of them: at most 64, of "
		    "8192 columns together",
		    (long long)c->linear_num_value_heads, (long long)each);
	return 0;
}

static int
check_groups(const struct model_config *c, struct err *e)
{
	int64_t groups = c->moe_router_num_groups, best = c->moe_router_group_topk,
		scores = c->moe_router_group_scores;

	if (!groups && !best && !scores)
		return 0;
	if (!groups || !best)
		return err_set(e,
		    "--moe-router-num-groups: needs --moe-router-group-topk, and both each other");
	if (groups < 1 || groups > MODEL_GROUPS_MAX || c->num_experts % groups)
		return err_set(e,
		    "--moe-router-num-groups %lld: must divide --num-experts %lld and be at most "
		    "%d",
		    (long long)groups, (long long)c->num_experts, MODEL_GROUPS_MAX);
	if (best < 1 || best > groups || best * (c->num_experts / groups) < c->moe_router_topk)
		return err_set(e,
		    "--moe-router-group-topk %lld: must be at most --moe-router-num-groups %lld, "
		    "and "
		    "these groups must have the %lld experts of --moe-router-topk",
		    (long long)best, (long long)groups, (long long)c->moe_router_topk);
	if (scores < 1 || scores > c->num_experts / groups)
		return err_set(e,
		    "--moe-router-group-scores %lld: must be from 1 to the %lld experts of a group",
		    (long long)scores, (long long)(c->num_experts / groups));
	return 0;
}

static int
check_activation(const struct model_config *c, struct err *e)
{
	bool gated = model_gated(c);

	if (!gated && c->glu_linear_offset != 0)
		return err_set(e, "--glu-linear-offset %g: needs --swiglu or --quick-geglu",
		    c->glu_linear_offset);
	if (!gated && c->activation_func_clamp_value > 0)
		return err_set(e,
		    "--activation-func-clamp-value %g: needs --swiglu or --quick-geglu",
		    c->activation_func_clamp_value);
	return 0;
}

static int
check_experts(const struct model_config *c, struct err *e)
{
	bool softmax = c->moe_router_score_function == ROUTER_SCORE_SOFTMAX;
	/* A softmax over one expert is always 1, which teaches the router nothing. */
	bool alone = softmax && c->moe_router_topk == 1 && !c->moe_router_pre_softmax;

	if (c->num_experts == 0)
		return 0;
	if (positive("num-experts", c->num_experts, e) < 0 ||
	    positive("moe-router-topk", c->moe_router_topk, e) < 0 ||
	    positive("moe-ffn-hidden-size", c->moe_ffn_hidden_size, e) < 0)
		return -1;
	if (c->moe_router_load_balancing_type >= BALANCING_BUILT)
		return err_set(e,
		    "--moe-router-load-balancing-type %s: is not supported: must be aux_loss, "
		    "seq_aux_loss, global_aux_loss or none%s",
		    balancing_names[c->moe_router_load_balancing_type],
		    alone ? "; with --moe-router-topk 1 these need --moe-router-pre-softmax" : "");
	if (c->moe_router_topk > c->num_experts)
		return err_set(e, "--moe-router-topk %lld: must be at most --num-experts %lld",
		    (long long)c->moe_router_topk, (long long)c->num_experts);
	if (alone)
		return err_set(e,
		    "--moe-router-topk 1: needs --moe-router-pre-softmax, or the weight of every "
		    "token's expert is 1");
	if (check_groups(c, e) < 0)
		return -1;
	if (softmax && c->moe_router_enable_expert_bias)
		return err_set(e,
		    "--moe-router-enable-expert-bias: is for --moe-router-score-function sigmoid");
	if (c->moe_shared_expert_intermediate_size < 0)
		return err_set(e, "--moe-shared-expert-intermediate-size %lld: must be at least 1",
		    (long long)c->moe_shared_expert_intermediate_size);
	if (c->moe_shared_expert_gate && !c->moe_shared_expert_intermediate_size)
		return err_set(
		    e, "--moe-shared-expert-gate: needs --moe-shared-expert-intermediate-size");
	if (c->mlp_bias && c->moe_shared_expert_intermediate_size)
		return err_set(e,
		    "--moe-shared-expert-intermediate-size: a shared expert has no biases: give "
		    "--disable-bias-linear, or --linear-biases without mlp");
	if (!(c->moe_aux_loss_coeff >= 0))
		return err_set(e, "--moe-aux-loss-coeff %g: must be at least 0; 0.01 is usual",
		    c->moe_aux_loss_coeff);
	if (!(c->moe_z_loss_coeff >= 0))
		return err_set(e, "--moe-z-loss-coeff %g: must be at least 0; 0.001 is usual",
		    c->moe_z_loss_coeff);
	return 0;
}

/* Options have ranges; a config.json does not, so both are checked here. */
static int
check_rates(const struct model_config *c, struct err *e)
{
	if (!(c->norm_epsilon >= 0))
		return err_set(
		    e, "--norm-epsilon %g: must be at least 0; 1e-5 is usual", c->norm_epsilon);
	if (!(c->init_method_std >= 0))
		return err_set(e, "--init-method-std %g: must be at least 0; 0.02 is usual",
		    c->init_method_std);
	if (!(c->attention_dropout >= 0 && c->attention_dropout < 1))
		return err_set(
		    e, "--attention-dropout %g: must be from 0 to 0.999", c->attention_dropout);
	if (!(c->hidden_dropout >= 0 && c->hidden_dropout < 1))
		return err_set(
		    e, "--hidden-dropout %g: must be from 0 to 0.999", c->hidden_dropout);
	if (!(c->embedding_dropout >= 0 && c->embedding_dropout < 1))
		return err_set(
		    e, "--embedding-dropout %g: must be from 0 to 0.999", c->embedding_dropout);
	return 0;
}

/* The ranges of numbers, as their rows have them. */
static const struct range {
	const char *option;
	size_t off;
	bool whole;
	double lowest, highest;
	unsigned tags;
} ranges[] = { MODEL_FIELDS(RANGE, , ) };

/* What the checks of groups of fields leave. 0 stands for a field that is not set, unless it always
 * has a value. */
static int
check_ranges(const struct model_config *c, struct err *e)
{
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		const struct range *r = &ranges[i];
		const char *at = (const char *)c + r->off;
		double x = r->whole ? (double)*(const int64_t *)(const void *)at
				    : *(const double *)(const void *)at;

		if ((x >= r->lowest && x <= r->highest) || (x == 0 && !(r->tags & MODEL_BASE)))
			continue;
		return isfinite(r->highest)
		    ? err_set(e, "--%s %.15g: must be from %g to %g", r->option, x, r->lowest,
			  r->highest)
		    : err_set(e, "--%s %.15g: must be at least %g", r->option, x, r->lowest);
	}
	return 0;
}

static int
check_positive(const struct model_config *c, struct err *e)
{
	if (positive("num-layers", c->num_layers, e) < 0 ||
	    positive("hidden-size", c->hidden_size, e) < 0 ||
	    positive("num-attention-heads", c->num_attention_heads, e) < 0 ||
	    positive("num-query-groups", c->num_query_groups, e) < 0 ||
	    positive("kv-channels", c->kv_channels, e) < 0 ||
	    positive("ffn-hidden-size", c->ffn_hidden_size, e) < 0 ||
	    positive("vocab-size", c->vocab_size, e) < 0 ||
	    positive("make-vocab-size-divisible-by", c->make_vocab_size_divisible_by, e) < 0)
		return -1;
	if (c->position == POSITION_LEARNED &&
	    positive("max-position-embeddings", c->max_position_embeddings, e) < 0)
		return -1;
	if (c->max_position_embeddings < 0)
		return err_set(e, "--max-position-embeddings %lld: must be at least 1",
		    (long long)c->max_position_embeddings);
	if (check_sizes(c, e) < 0)
		return -1;
	if (c->num_attention_heads % c->num_query_groups)
		return err_set(e, "--num-query-groups %lld: must divide --num-attention-heads %lld",
		    (long long)c->num_query_groups, (long long)c->num_attention_heads);
	return 0;
}

static int
check_norms(const struct model_config *c, struct err *e)
{
	if (c->norm_without_bias && !model_norm_means(c))
		return err_set(e, "--norm-without-bias: is for --normalization LayerNorm");
	if (c->shared_parallel_norm && (!c->use_parallel_residual || !model_pre_norm(c)))
		return err_set(
		    e, "--shared-parallel-norm: needs --use-parallel-residual and norms of inputs");
	return 0;
}

static int
check_mtp(const struct model_config *c, struct err *e)
{
	if (!c->mtp_num_layers)
		return 0;
	if (c->mtp_num_layers < 1 || c->mtp_num_layers > MODEL_MTP_MAX)
		return err_set(e, "--mtp-num-layers %lld: must be from 1 to %d",
		    (long long)c->mtp_num_layers, MODEL_MTP_MAX);
	if (!(c->mtp_loss_scaling_factor >= 0))
		return err_set(e, "--mtp-loss-scaling-factor %g: must be at least 0; 0.1 is usual",
		    c->mtp_loss_scaling_factor);
	return 0;
}

/* Positive sizes first, because the others divide by them. */
int (*const model_checks[])(const struct model_config *c, struct err *e) = { check_positive,
	check_norms, check_rope, check_attention, check_latent, check_gate, check_linear,
	check_activation, check_experts, check_mtp, check_rates, check_ranges, NULL };

int
model_check(const struct model_config *c, struct err *e)
{
	for (int i = 0; model_checks[i]; i++)
		if (model_checks[i](c, e) < 0)
			return -1;
	return 0;
}

/* Queries are scaled beyond the original positions, which is not built. */
static bool
ends_early(const struct model_config *c)
{
	return c->rope_scaling == ROPE_SCALING_YARN && c->query_scaling_beta != 0;
}

int64_t
model_longest(const struct model_config *c)
{
	if (ends_early(c) && c->rope_original_positions < c->max_position_embeddings)
		return c->rope_original_positions;
	return c->max_position_embeddings;
}

int
model_check_length(const struct model_config *c, int64_t length, struct err *e)
{
	if (!ends_early(c) || length <= c->rope_original_positions)
		return 0;
	return err_set(e,
	    "a sequence of %lld: must be at most --rope-original-positions %lld with "
	    "--query-scaling-beta: queries beyond these are scaled, which is not supported",
	    (long long)length, (long long)c->rope_original_positions);
}

int
id_list_add(struct id_list *ids, int64_t id, struct err *e)
{
	if (id < 0)
		return err_set(e, "%lld: a token id must be at least 0", (long long)id);
	if (ids->count == ID_LIST_MAX)
		return err_set(e, "more than %d token ids", ID_LIST_MAX);
	ids->id[ids->count++] = id;
	return 0;
}
