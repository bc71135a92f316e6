/*
 * export_args.c - the args and the other numbers of a run, as Megatron-LM saves them
 *
 * The args are what its loader compares or takes over (check_checkpoint_args and
 * load_args_from_checkpoint in megatron/training/checkpointing.py), with the model's others. That
 * they mean the model is proved by reading them back.
 */
#include "ckpt/export_impl.h"
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/pickle_write.h"
#include "lib/model/fields.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum field_type { WHOLE, REAL, FLAG };

#define FIELD(n, t, f) \
	{ \
		n, t, offsetof(struct model_config, f) \
	}

/* Args that are fields of the model. */
static const struct {
	const char *name;
	enum field_type type;
	size_t off;
} fields[] = {
	FIELD("num_layers", WHOLE, num_layers),
	FIELD("hidden_size", WHOLE, hidden_size),
	FIELD("ffn_hidden_size", WHOLE, ffn_hidden_size),
	FIELD("num_attention_heads", WHOLE, num_attention_heads),
	FIELD("num_query_groups", WHOLE, num_query_groups),
	FIELD("kv_channels", WHOLE, kv_channels),
	FIELD("seq_length", WHOLE, max_position_embeddings),
	FIELD("max_position_embeddings", WHOLE, max_position_embeddings),
	FIELD("vocab_size", WHOLE, vocab_size),
	FIELD("make_vocab_size_divisible_by", WHOLE, make_vocab_size_divisible_by),
	FIELD("norm_epsilon", REAL, norm_epsilon),
	FIELD("layernorm_epsilon", REAL, norm_epsilon),
	FIELD("apply_layernorm_1p", FLAG, apply_layernorm_1p),
	FIELD("layernorm_zero_centered_gamma", FLAG, apply_layernorm_1p),
	FIELD("rotary_percent", REAL, rotary_percent),
	FIELD("rotary_interleaved", FLAG, rotary_interleaved),
	FIELD("qk_layernorm", FLAG, qk_layernorm),
	FIELD("untie_embeddings_and_output_weights", FLAG, untie_embeddings_and_output_weights),
	FIELD("init_method_std", REAL, init_method_std),
	FIELD("attention_dropout", REAL, attention_dropout),
	FIELD("hidden_dropout", REAL, hidden_dropout),
};

/* Args with one value in every model that is written; NULL: None. */
static const struct {
	const char *name;
	bool value, none;
} constants[] = {
	{ "add_position_embedding", true, false },
	{ "use_rotary_position_embeddings", false, false },
	{ "apply_query_key_layer_scaling", false, false },
	{ "openai_gelu", false, false },
	{ "bias_swiglu_fusion", true, false },
	{ "mtp_use_repeated_layer", false, false },
	{ "sequence_parallel", false, false },
	{ "overlap_grad_reduce", false, false },
	{ "ddp_bucket_size", false, true },
	{ "no_save_rng", true, false },
	{ "use_megatron_fsdp", false, false },
};

static void
put_int(struct str *out, const char *key, int64_t x)
{
	pickle_put_text(out, key);
	pickle_put_int(out, x);
}

static void
put_bool(struct str *out, const char *key, bool x)
{
	pickle_put_text(out, key);
	pickle_put_bool(out, x);
}

static void
put_double(struct str *out, const char *key, double x)
{
	pickle_put_text(out, key);
	pickle_put_double(out, x);
}

static void
put_text(struct str *out, const char *key, const char *x)
{
	pickle_put_text(out, key);
	pickle_put_text(out, x);
}

/* 0 stands for an option that is not given. */
static void
put_optional(struct str *out, const char *key, int64_t x)
{
	pickle_put_text(out, key);
	if (x)
		pickle_put_int(out, x);
	else
		pickle_put_none(out);
}

static void
put_fields(struct str *out, const struct model_config *c)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		const char *at = (const char *)c + fields[i].off;

		pickle_put_text(out, fields[i].name);
		switch (fields[i].type) {
		case WHOLE: pickle_put_int(out, *(const int64_t *)(const void *)at); break;
		case REAL: pickle_put_double(out, *(const double *)(const void *)at); break;
		case FLAG: pickle_put_bool(out, *(const bool *)(const void *)at); break;
		}
	}
	for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
		pickle_put_text(out, constants[i].name);
		if (constants[i].none)
			pickle_put_none(out);
		else
			pickle_put_bool(out, constants[i].value);
	}
}

static void
put_experts(const struct export *x, struct str *out)
{
	const struct model_config *c = &x->src->config;

	put_optional(out, "num_experts", c->num_experts);
	put_int(out, "expert_model_parallel_size", layout_expert_ranks(&x->layout));
	put_int(out, "expert_tensor_parallel_size", layout_expert_slices(&x->layout));
	if (!c->num_experts)
		return;
	pickle_put_text(out, "moe_layer_freq");
	if (model_expert_layers(c) < c->num_layers) {
		pickle_open_list(out);
		for (int64_t i = 0; i < c->num_layers; i++)
			pickle_put_int(out, layer_has_experts(c, i));
		pickle_close_list(out);
	} else {
		pickle_put_int(out, 1);
	}
	put_int(out, "moe_router_topk", c->moe_router_topk);
	put_int(out, "moe_ffn_hidden_size", c->moe_ffn_hidden_size);
	put_optional(
	    out, "moe_shared_expert_intermediate_size", c->moe_shared_expert_intermediate_size);
	put_bool(out, "moe_shared_expert_gate", c->moe_shared_expert_gate);
	put_text(
	    out, "moe_router_score_function", router_score_names[c->moe_router_score_function]);
	put_bool(out, "moe_router_pre_softmax", c->moe_router_pre_softmax);
	put_bool(out, "moe_router_enable_expert_bias", c->moe_router_enable_expert_bias);
	put_double(out, "moe_router_bias_update_rate", c->moe_router_bias_update_rate);
	put_text(out, "moe_router_load_balancing_type",
	    balancing_names[c->moe_router_load_balancing_type]);
	put_double(out, "moe_aux_loss_coeff", c->moe_aux_loss_coeff);
	put_double(out, "moe_z_loss_coeff", c->moe_z_loss_coeff);
	pickle_put_text(out, "moe_router_topk_scaling_factor");
	if (c->moe_router_topk_scaling_factor > 0)
		pickle_put_double(out, c->moe_router_topk_scaling_factor);
	else
		pickle_put_none(out);
	put_optional(out, "moe_router_num_groups", c->moe_router_num_groups);
	put_optional(out, "moe_router_group_topk", c->moe_router_group_topk);
	put_bool(out, "moe_grouped_gemm", x->o->moe_grouped_gemm);
	put_text(out, "moe_token_dispatcher_type", "alltoall");
}

/* A list with an entry for each layer, or None. */
static void
put_layers(struct str *out, const char *key, int64_t num_layers, const struct layer_pattern *p,
    const struct pattern_form *form)
{
	pickle_put_text(out, key);
	if (!p->period) {
		pickle_put_none(out);
		return;
	}
	pickle_open_list(out);
	for (int64_t i = 0; i < num_layers; i++)
		pickle_put_int(out, pattern_skips(p, i) == form->skipped);
	pickle_close_list(out);
}

/* Attention of latents. Its kind of rotation is YaRN there, with factor 1 where it is plain. */
static void
put_latents(struct str *out, const struct model_config *c)
{
	bool yarn = c->rope_scaling == ROPE_SCALING_YARN;

	put_bool(out, "multi_latent_attention", c->multi_latent_attention);
	if (!c->multi_latent_attention)
		return;
	put_optional(out, "q_lora_rank", c->q_lora_rank);
	put_int(out, "kv_lora_rank", c->kv_lora_rank);
	put_int(out, "qk_head_dim", c->qk_head_dim);
	put_int(out, "qk_pos_emb_head_dim", c->qk_pos_emb_head_dim);
	put_int(out, "v_head_dim", c->v_head_dim);
	put_text(out, "rope_type", "yarn");
	put_double(out, "rotary_scaling_factor", yarn ? c->rope_factor : 1);
	put_double(out, "mscale", yarn && c->yarn_mscale > 0 ? c->yarn_mscale : 1);
	put_double(out, "mscale_all_dim", yarn ? c->yarn_mscale_all_dim : 0);
}

static void
put_linear_attention(struct str *out, const struct model_config *c)
{
	bool linear = model_has_linear(c);

	put_bool(out, "attention_output_gate", c->attention_output_gate);
	pickle_put_text(out, "experimental_attention_variant");
	if (linear)
		pickle_put_text(out, "gdn");
	else
		pickle_put_none(out);
	put_layers(out, "linear_attention_freq", c->num_layers, &c->linear_attention_freq,
	    &pattern_linear);
	if (!linear)
		return;
	put_int(out, "linear_num_key_heads", c->linear_num_key_heads);
	put_int(out, "linear_num_value_heads", c->linear_num_value_heads);
	put_int(out, "linear_key_head_dim", c->linear_key_head_dim);
	put_int(out, "linear_value_head_dim", c->linear_value_head_dim);
	put_int(out, "linear_conv_kernel_dim", c->linear_conv_kernel_dim);
}

/* Fields that Megatron-LM says in several args, or in other words. GELU by the error function is
 * what it computes without its fusion. A window is the keys that a query sees before and after its
 * own, and 1 for each layer that has it. */
static void
put_recipe(struct str *out, const struct model_config *c)
{
	bool llama3 = c->rope_scaling == ROPE_SCALING_LLAMA3,
	     whole = c->rotary_base == floor(c->rotary_base) && c->rotary_base < 0x1p53;

	put_text(out, "normalization", normalization_names[c->normalization]);
	put_text(out, "position_embedding_type", position_names[c->position]);
	put_bool(out, "group_query_attention", c->num_query_groups != c->num_attention_heads);
	put_bool(out, "swiglu", c->activation == ACTIVATION_SWIGLU);
	put_bool(out, "quick_geglu", c->activation == ACTIVATION_QUICK_GEGLU);
	put_double(out, "glu_linear_offset", c->glu_linear_offset);
	pickle_put_text(out, "activation_func_clamp_value");
	if (c->activation_func_clamp_value > 0)
		pickle_put_double(out, c->activation_func_clamp_value);
	else
		pickle_put_none(out);
	put_bool(out, "squared_relu", c->activation == ACTIVATION_RELU2);
	put_bool(out, "bias_gelu_fusion", c->mlp_bias && c->activation != ACTIVATION_GELU_ERF);
	put_bool(out, "add_bias_linear", c->mlp_bias);
	put_bool(out, "add_qkv_bias", c->qkv_bias);
	pickle_put_text(out, "rotary_base");
	if (whole)
		pickle_put_int(out, (int64_t)c->rotary_base);
	else
		pickle_put_double(out, c->rotary_base);
	put_bool(out, "use_rope_scaling", llama3);
	put_double(out, "rope_scaling_factor", llama3 ? c->rope_factor : 8);
	pickle_put_text(out, "rotary_seq_len_interpolation_factor");
	if (c->rope_scaling == ROPE_SCALING_LINEAR)
		pickle_put_double(out, c->rope_factor);
	else
		pickle_put_none(out);
	pickle_put_text(out, "window_size");
	if (c->window_size) {
		pickle_open_tuple(out);
		pickle_put_int(out, c->window_size - 1);
		pickle_put_int(out, 0);
		pickle_close_tuple(out);
	} else {
		pickle_put_none(out);
	}
	put_layers(out, "window_attn_skip_freq", c->num_layers, &c->window_attn_skip_freq,
	    &pattern_attention);
	put_text(out, "softmax_type", softmax_type_names[c->softmax_type]);
	put_layers(out, "no_rope_freq", c->num_layers, &c->no_rope_freq, &pattern_no_rope);
	put_latents(out, c);
	put_linear_attention(out, c);
	put_optional(out, "mtp_num_layers", c->mtp_num_layers);
	put_double(out, "mtp_loss_scaling_factor", c->mtp_loss_scaling_factor);
}

/* The split as its loader wants it, with a sign for each layer after the head. */
static void
put_split(const struct export *x, struct str *out)
{
	struct str text = { 0 };

	split_text(&x->layout, &x->src->config, &text);
	pickle_put_text(out, text.buf);
	str_release(&text);
}

static void
put_layout(const struct export *x, struct str *out)
{
	const struct split_options *s = &x->o->split;
	const struct layout *l = &x->layout;
	int64_t t = l->tensor_model_parallel_size, p = l->pipeline_model_parallel_size;
	int chunks = layout_chunks(l);

	put_int(out, "tensor_model_parallel_size", t);
	put_int(out, "pipeline_model_parallel_size", p);
	put_optional(out, "virtual_pipeline_model_parallel_size", chunks > 1 ? chunks : 0);
	put_optional(out, "num_layers_per_virtual_pipeline_stage", chunks > 1 ? l->split[0] : 0);
	put_optional(
	    out, "decoder_first_pipeline_num_layers", s->decoder_first_pipeline_num_layers);
	put_optional(out, "decoder_last_pipeline_num_layers", s->decoder_last_pipeline_num_layers);
	put_bool(out, "account_for_embedding_in_pipeline_split",
	    s->account_for_embedding_in_pipeline_split);
	put_bool(out, "account_for_loss_in_pipeline_split", s->account_for_loss_in_pipeline_split);
	pickle_put_text(out, "pipeline_model_parallel_layout");
	if (s->pipeline_model_parallel_layout)
		put_split(x, out);
	else
		pickle_put_none(out);
	put_int(out, "context_parallel_size", 1);
	put_int(out, "data_parallel_size", l->data_parallel_size);
	put_int(out, "world_size", layout_world(l));
	put_int(out, "padded_vocab_size", x->padded_vocab_size);
}

/* A counter of the state. */
static int64_t
count(int64_t x)
{
	return x == STATE_NONE ? 0 : x;
}

static void
put_args(const struct export *x, struct str *out)
{
	const struct run_state *s = &x->src->state;

	pickle_open_object(out, "argparse", "Namespace");
	put_fields(out, &x->src->config);
	put_recipe(out, &x->src->config);
	put_layout(x, out);
	put_experts(x, out);
	pickle_put_text(out, "params_dtype");
	pickle_put_dtype(out, x->dtype);
	put_bool(out, "bf16", x->dtype == DTYPE_BF16);
	put_bool(out, "fp16", x->dtype == DTYPE_F16);
	put_text(out, "transformer_impl", x->o->local ? "local" : "transformer_engine");
	put_text(out, "ckpt_format", export_formats[x->o->format]);
	put_bool(out, "use_dist_ckpt", x->o->format == EXPORT_TORCH_DIST);
	put_bool(out, "use_distributed_optimizer", x->o->use_distributed_optimizer);
	put_bool(out, "no_save_optim", x->num_kinds == 1);
	put_text(out, "optimizer", optim_rule_with(OPTIM_OF_MEGATRON)->name);
	if (!isnan(s->adam_beta1) && !isnan(s->adam_beta2) && !isnan(s->adam_eps)) {
		put_double(out, "adam_beta1", s->adam_beta1);
		put_double(out, "adam_beta2", s->adam_beta2);
		put_double(out, "adam_eps", s->adam_eps);
	}
	if (s->seed != STATE_NONE)
		put_int(out, "seed", s->seed);
	put_int(out, "iteration", s->iteration);
	put_int(out, "consumed_train_samples", s->consumed_train_samples);
	put_int(out, "skipped_train_samples", count(s->passed_samples));
	put_int(out, "consumed_valid_samples", count(s->consumed_valid_samples));
	pickle_close_object(out);
}

void
export_open_common(const struct export *x, struct str *out)
{
	pickle_open_dict(out);
	pickle_put_text(out, "args");
	put_args(x, out);
	put_double(out, "checkpoint_version", 3.0);
	put_int(out, "iteration", x->src->state.iteration);
	put_int(out, "num_floating_point_operations_so_far", 0);
}

int
export_check_args(const struct export *x, struct err *e)
{
	struct str text = { 0 }, differences = { 0 };
	struct pickle *p = NULL;
	struct megatron_args a;
	struct err why;
	int rc = 0;

	pickle_begin(&text);
	put_args(x, &text);
	pickle_end(&text);
	if (pickle_read(text.buf, text.len, &pickle_limits_torch, &p, &why) < 0)
		BUG("args that were written are not read: %s", why.msg);
	if (megatron_args_read(pickle_root(p), &a, &why) < 0)
		rc = err_set(e, "%s: Megatron-LM's args cannot express the model: %s", x->src->path,
		    why.msg);
	else
		model_weight_differences(&x->src->config, &a.config, &differences);
	if (differences.len)
		rc = err_set(e, "%s: Megatron-LM's args cannot express --%.*s of the model",
		    x->src->path, (int)strcspn(differences.buf, "\t"), differences.buf);
	pickle_free(p);
	str_release(&text);
	str_release(&differences);
	return rc;
}

/* --- the optimizer ---------------------------------------------------------------------------- */

/* The value of an option of the run, which is a number; 0 where it is not known. */
static double
option(const struct export *x, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = x->src->options.buf; at && *at; at += strcspn(at, "\n")) {
		at += *at == '\n';
		if (!strncmp(at, name, n) && at[n] == ' ')
			return strtod(at + n, NULL);
	}
	return 0;
}

/* Group 0 decays, group 1 does not; experts have matrices alone, which decay. */
void
export_put_groups(const struct export *x, struct str *out, const int ids[2], bool experts)
{
	const struct run_state *s = &x->src->state;

	pickle_open_list(out);
	for (int g = 0; g < (experts ? 1 : 2); g++) {
		pickle_open_dict(out);
		put_bool(out, "is_expert_parallel", experts);
		put_bool(out, "default_config", true);
		put_double(out, "wd_mult", g == 0);
		put_double(out, "lr_mult", 1);
		put_bool(out, "is_decoupled_lr", false);
		put_double(out, "max_lr", x->schedule.lr);
		put_double(out, "min_lr", x->schedule.min_lr);
		put_double(out, "lr", x->schedule.lr);
		put_bool(out, "bias_correction", true);
		pickle_put_text(out, "betas");
		pickle_open_tuple(out);
		pickle_put_double(out, isnan(s->adam_beta1) ? 0.9 : s->adam_beta1);
		pickle_put_double(out, isnan(s->adam_beta2) ? 0.999 : s->adam_beta2);
		pickle_close_tuple(out);
		put_double(out, "eps", isnan(s->adam_eps) ? 1e-8 : s->adam_eps);
		put_double(out, "weight_decay", g == 0 ? option(x, "weight-decay") : 0);
		put_int(out, "step", s->optimizer_steps);
		if (ids[g] >= 0) {
			pickle_put_text(out, "params");
			pickle_open_list(out);
			for (int i = 0; i < ids[g]; i++)
				pickle_put_int(out, i + (g ? ids[0] : 0));
			pickle_close_list(out);
		}
		pickle_close_dict(out);
	}
	pickle_close_list(out);
}

int
export_take_schedule(struct export *x)
{
	const struct run_state *s = &x->src->state;
	double decay = option(x, "weight-decay");
	struct lr_schedule saved;
	struct err why;

	x->schedule = (struct lr_schedule){ .style = lr_index(lr_styles, "constant"),
		.wd_style = lr_index(wd_styles, "constant"),
		.lr = option(x, "lr"),
		.min_lr = option(x, "min-lr"),
		.start_weight_decay = decay,
		.end_weight_decay = decay,
		.decay_samples = s->consumed_train_samples,
		.wd_samples = s->consumed_train_samples };
	if (s->schedule && lr_parse(s->schedule, &saved, &why) == 0)
		x->schedule = saved;
	else if (s->schedule && x->num_kinds > 1)
		return err_set(x->e, "%s: state.conf: schedule: %s", x->src->path, why.msg);
	if (x->o->lr > 0)
		x->schedule.lr = x->o->lr;
	if (x->o->min_lr > 0)
		x->schedule.min_lr = x->o->min_lr;
	return 0;
}

/* What its loader compares with the options of its run, unless told to override. Megatron-LM takes
 * the rest of a schedule from its options: the first rate, and the tail of WSD. */
void
export_put_scheduler(const struct export *x, struct str *out)
{
	const struct run_state *s = &x->src->state;
	const struct lr_schedule *l = &x->schedule;

	pickle_put_text(out, "opt_param_scheduler");
	pickle_open_dict(out);
	put_double(out, "max_lr", l->lr);
	put_double(out, "min_lr", l->min_lr);
	put_double(out, "lr_warmup_steps", l->warmup_samples);
	put_int(out, "num_steps", s->consumed_train_samples - count(s->skipped_samples));
	put_text(out, "lr_decay_style", lr_styles[l->style]);
	put_int(out, "lr_decay_steps", l->decay_samples);
	put_double(out, "start_wd", l->start_weight_decay);
	put_double(out, "end_wd", l->end_weight_decay);
	put_text(out, "wd_incr_style", wd_styles[l->wd_style]);
	put_int(out, "wd_incr_steps", l->wd_samples);
	pickle_close_dict(out);
}
