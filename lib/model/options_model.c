/*
 * options_model.c - from options to a model
 *
 * Of a config.json, or of the model of a checkpoint, what no option gives; sizes that follow from
 * others come last.
 */
#include "lib/model/family.h"
#include "lib/model/options.h"

/* The message mentions --model, since most users have a config.json. */
static int
need(int64_t v, const char *name, struct err *e)
{
	return v > 0 ? 0 : err_set(e, "--%s: is needed (or --model CONFIG)", name);
}

/* The sizes without which there is no model: all that are missing at once. */
static int
required(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size)
{
	const struct model_config *c = &o->model.typed;
	const struct {
		const char *name;
		int64_t size;
	} sizes[] = { { "num-layers", c->num_layers }, { "hidden-size", c->hidden_size },
		{ "num-attention-heads", c->num_attention_heads } };
	int missing = 0;

	if (o->model.fixed || o->model.path)
		return 0;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (sizes[i].size < 1) {
			opt_needed(p, sizes[i].name, "or --model CONFIG");
			missing++;
		}
	if (c->vocab_size < 1 && vocab_size < 1) {
		opt_needed(p, "vocab-size", "or a tokenizer, or --model CONFIG");
		missing++;
	}
	if (o->seq_length < 1 && c->max_position_embeddings < 1) {
		opt_needed(p, "seq-length", NULL);
		missing++;
	}
	return missing ? -1 : 0;
}

/*
 * The switches, which win over the general option. --no-bias-gelu-fusion means the exact GELU in
 * Megatron-LM, because only its fused kernel uses tanh.
 */
static int
switches(
    const struct opt_parse *p, const struct model_options *o, struct model_config *c, struct err *e)
{
	bool base = model_has_base(o);

	if (opt_given(p, "no-bias-gelu-fusion") && c->activation == ACTIVATION_GELU_TANH &&
	    !o->openai_gelu)
		c->activation = ACTIVATION_GELU_ERF;
	if (o->swiglu + o->squared_relu + o->quick_geglu > 1)
		return err_set(e, "--%s and --%s exclude each other: give one of them",
		    o->swiglu ? "swiglu" : "quick-geglu",
		    o->squared_relu ? "squared-relu" : "quick-geglu");
	if (o->swiglu)
		c->activation = ACTIVATION_SWIGLU;
	if (o->quick_geglu)
		c->activation = ACTIVATION_QUICK_GEGLU;
	if (o->squared_relu)
		c->activation = ACTIVATION_RELU2;
	if (o->use_rotary_position_embeddings)
		c->position = POSITION_ROPE;
	if (o->use_rope_scaling)
		c->rope_scaling = ROPE_SCALING_LLAMA3;
	if (c->multi_latent_attention && opt_given(p, "rotary-scaling-factor")) {
		c->rope_scaling = ROPE_SCALING_YARN;
		if (!opt_given(p, "rope-original-positions") &&
		    !opt_given(p, "yarn-original-max-position-embeddings"))
			c->rope_original_positions = 4096;
	}
	if ((!base || opt_given(p, "hidden-dropout")) && !opt_given(p, "embedding-dropout"))
		c->embedding_dropout = o->typed.hidden_dropout;
	if (!base) {
		c->qkv_bias = o->add_bias_linear || o->add_qkv_bias;
		c->proj_bias = c->mlp_bias = o->add_bias_linear;
	}
	return 0;
}

/*
 * Sizes that are derived from others when they are not given. The gated FFN is 8/3 of the hidden
 * size, so that its three matrices have as many weights as two of 4 h, rounded down to a multiple
 * of 64.
 */
static int
derived(const struct run_options *o, struct model_config *c, struct err *e)
{
	int64_t n = c->num_attention_heads, h = c->hidden_size;

	if (c->multi_latent_attention)
		c->kv_channels = c->qk_head_dim + c->qk_pos_emb_head_dim;
	if (!c->num_query_groups)
		c->num_query_groups = o->model.group_query_attention ? 1 : n;
	if (!c->kv_channels && h % n)
		return err_set(e,
		    "--hidden-size %lld: must be a multiple of --num-attention-heads %lld (try "
		    "%lld), or give "
		    "--kv-channels",
		    (long long)h, (long long)n, (long long)((h / n + 1) * n));
	if (!c->kv_channels)
		c->kv_channels = h / n;
	if (!c->ffn_hidden_size)
		c->ffn_hidden_size = model_gated(c) ? 8 * h / 3 / 64 * 64 : 4 * h;
	if (c->num_experts && !c->moe_ffn_hidden_size)
		c->moe_ffn_hidden_size = c->ffn_hidden_size;
	if (c->moe_router_topk_scaling_factor == 1)
		c->moe_router_topk_scaling_factor = 0;
	if (c->moe_router_num_groups == 1 && c->moe_router_group_topk == 1)
		c->moe_router_num_groups = c->moe_router_group_topk = 0;
	if (c->moe_router_group_topk > 0 && !c->moe_router_group_scores)
		c->moe_router_group_scores = c->moe_router_topk / c->moe_router_group_topk;
	if (!c->max_position_embeddings)
		c->max_position_embeddings = o->seq_length;
	return 0;
}

/* The values of options that are not given: a checkpoint's model, a config.json's, or nothing. */
static int
base(const struct model_options *o, struct model_config *c, struct err *e)
{
	if (o->fixed)
		*c = *o->fixed;
	else if (!o->path)
		model_defaults(c, MODEL_BASE);
	else if (!family_read_config(o->path, c, NULL, e))
		return -1;
	return 0;
}

/*
 * vocab_size is the tokenizer's, or 0; an option or a config overrides it. A fixed config is a
 * checkpoint's; options override both, except for a recipe that is kept.
 */
static int
make_model(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c, struct err *e)
{
	const struct model_options *m = &o->model;

	if (base(m, c, e) < 0)
		return -1;
	model_take(p, m, c);
	if (!c->vocab_size)
		c->vocab_size = vocab_size;
	if (need(c->num_layers, "num-layers", e) < 0 ||
	    need(c->hidden_size, "hidden-size", e) < 0 ||
	    need(c->num_attention_heads, "num-attention-heads", e) < 0)
		return -1;
	if (c->vocab_size < 1)
		return err_set(e, "--vocab-size: is needed (or a tokenizer, or --model CONFIG)");
	if (switches(p, m, c, e) < 0 || derived(o, c, e) < 0 || model_read_words(p, m, c, e) < 0)
		return -1;
	if (m->keep_recipe)
		model_keep_recipe(m->fixed, c);
	else if (opt_given(p, "no-position-embedding") && c->position != POSITION_ROPE)
		return err_set(e,
		    "--no-position-embedding: is for --position-embedding-type rope; "
		    "none is a model without positions");
	return 0;
}

int
run_model(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c, struct err *e)
{
	return make_model(p, o, vocab_size, c, e) < 0 ? -1 : model_check(c, e);
}

int
run_model_rules(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c)
{
	struct err e;
	int rc;

	if (required(p, o, vocab_size) < 0 ||
	    opt_rule(p, make_model(p, o, vocab_size, c, &e), &e) < 0)
		return -1;
	rc = opt_rule(p, model_checks[0](c, &e), &e);
	for (int i = 1; rc == 0 && model_checks[i]; i++)
		opt_rule(p, model_checks[i](c, &e), &e);
	return rc < 0 ? -1 : model_check(c, &e);
}
