/* fields.c - every member of a model has a row, and so an option, a line in the dump, and a
 * comparison */
#include "lib/model/options.h"
#include "tests/check.h"

#include <string.h>

/* clang-format off */
/* A value for each member, none of them the default. Without designators, so that the compiler
 * reports a missing value when a member is added. */
static const struct model_config every = {
	3, 96, 80,               /* num_layers, hidden_size, ffn_hidden_size */
	12, 4, 16,               /* num_attention_heads, num_query_groups, kv_channels */
	false, 0, 32, 128, 64, 128, 0, /* latents: see test_latents */
	false, { 0, { 0 } }, 16, 32, 128, 128, 4, /* gate and linear attention: see test_linear */
	77,                      /* max_position_embeddings */
	1000, 8,                 /* vocab_size, make_vocab_size_divisible_by */
	NORMALIZATION_RMSNORM, 0.25,
	NORM_PLACEMENT_BOTH, true, /* norm_placement, apply_layernorm_1p */
	false,                     /* norm_without_bias: see test_excluding */
	true, true,                /* use_parallel_residual, shared_parallel_norm */
	ACTIVATION_QUICK_GEGLU, 1.5, 7, /* glu_linear_offset, activation_func_clamp_value */
	POSITION_ROPE, 500, 0.5, /* rotary_base, rotary_percent */
	true,                    /* rotary_interleaved */
	ROPE_SCALING_LLAMA3,
	2.5, 1.5, 6.5, 4096,     /* factors, rope_original_positions */
	32, 1, 0, 0, 0, false, 0, /* yarn, not dumped here: see test_yarn of model.c */
	{ 0, { 0 } }, { 0, { 0 } }, 0, /* longrope, likewise */
	{ 2, { 1, 0 } },         /* no_rope_freq */
	true,                    /* scale_embeddings_by_hidden_size */
	true, false, false,      /* qkv_bias, proj_bias, mlp_bias */
	true, true,              /* qk_layernorm, qk_layernorm_hidden_dim */
	true,                    /* untie_embeddings_and_output_weights */
	9,                       /* window_size */
	{ 2, { 1, 0 } },         /* window_attn_skip_freq */
	250,                     /* sliding_window_rope_base */
	11, 50,                  /* query_pre_attn_scalar, attn_logit_softcapping */
	SOFTMAX_LEARNABLE, 30,   /* final_logit_softcapping */
	0, 0.25, 0, 8,           /* the multipliers: see test_excluding; logits_scaling */
	6, { 2, { 2, 0 } }, 3,   /* num_experts, moe_layer_freq, moe_router_topk */
	24, 40, true,            /* widths of experts, moe_shared_expert_gate */
	ROUTER_SCORE_SIGMOID, true,
	2.5, 3, 2, 1,            /* moe_router_topk_scaling_factor, groups of experts */
	true, 0.75,              /* moe_router_enable_expert_bias, moe_router_bias_update_rate */
	BALANCING_SEQ_AUX_LOSS,
	0.625, 0.875,            /* moe_aux_loss_coeff, moe_z_loss_coeff */
	2, 0.4,                  /* mtp_num_layers, mtp_loss_scaling_factor */
	0.125, 0.25, 0.375, 0.5, /* init_method_std, the dropouts */
	1, { 2, { 3, 4 } }, 2,   /* bos_token_id, eos_token_id, pad_token_id */
};
/* clang-format on */

#define TINY "num-layers 4\nhidden-size 64\nnum-attention-heads 8\nvocab-size 500\nseq-length 32\n"

/* The model of an option file. */
static struct model_config
model_of(const char *text)
{
	struct model_config c;
	struct layout l;
	struct err e = { "" };

	CHECK(model_from_text("text", text, &c, &l, &e) == 0);
	CHECK_STR(e.msg, "");
	return c;
}

static int
lines(const struct str *s)
{
	int n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += s->buf[i] == '\n';
	return n;
}

/* A member without a row would lose its value. */
static void
test_every_member(void)
{
	struct model_config back;
	struct str dump = { 0 };

	model_dump(&every, &dump);
	back = model_of(dump.buf);
	CHECK(!memcmp(&back, &every, sizeof back));
	str_release(&dump);
}

/* The members that exclude others of them. */
static void
test_excluding(void)
{
	struct model_config others = every, back;
	struct str dump = { 0 };

	others.scale_embeddings_by_hidden_size = false;
	others.embedding_multiplier = 1.25;
	others.query_pre_attn_scalar = 0;
	others.attention_multiplier = 0.75;
	others.normalization = NORMALIZATION_LAYERNORM;
	others.norm_without_bias = true;
	model_dump(&others, &dump);
	back = model_of(dump.buf);
	CHECK(!memcmp(&back, &others, sizeof back));
	str_release(&dump);
}

/* Those of latents, beside none of which there are some others. */
static void
test_latents(void)
{
	struct model_config latent = every, back;
	struct str dump = { 0 };

	latent.multi_latent_attention = true;
	latent.q_lora_rank = 5;
	latent.kv_lora_rank = 6;
	latent.qk_head_dim = 10;
	latent.qk_pos_emb_head_dim = 6;
	latent.v_head_dim = 7;
	latent.latent_norm_epsilon = 0.125;
	latent.num_query_groups = latent.num_attention_heads;
	latent.rotary_percent = 1;
	latent.rotary_interleaved = latent.qk_layernorm_hidden_dim = latent.qkv_bias = false;
	model_dump(&latent, &dump);
	back = model_of(dump.buf);
	CHECK(!memcmp(&back, &latent, sizeof back));
	str_release(&dump);
}

/* Those of linear attention and of a gate, likewise. */
static void
test_linear(void)
{
	struct model_config linear = every, back;
	struct str dump = { 0 };

	linear.attention_output_gate = true;
	linear.linear_attention_freq = (struct layer_pattern){ 3, { 3, 0 } };
	linear.linear_num_key_heads = 3;
	linear.linear_num_value_heads = 6;
	linear.linear_key_head_dim = 10;
	linear.linear_value_head_dim = 7;
	linear.linear_conv_kernel_dim = 5;
	linear.use_parallel_residual = linear.shared_parallel_norm = linear.qkv_bias = false;
	linear.window_size = linear.mtp_num_layers = 0;
	linear.mtp_loss_scaling_factor = 0.1;
	linear.sliding_window_rope_base = 0;
	linear.window_attn_skip_freq = linear.no_rope_freq = (struct layer_pattern){ 0 };
	model_dump(&linear, &dump);
	CHECK(strstr(dump.buf, "\nlinear-attention-freq 3\n"));
	back = model_of(dump.buf);
	CHECK(!memcmp(&back, &linear, sizeof back));
	str_release(&dump);
}

/* The model of a text gives way to another, and other options stay. */
static void
test_replace(void)
{
	struct model_config tiny = model_of(TINY), back;
	struct str dump = { 0 }, text = { 0 };

	model_dump(&every, &dump);
	str_adds(&dump, "lr 0.5\n");
	model_replace(dump.buf, &tiny, &text);
	back = model_of(text.buf);
	CHECK(!memcmp(&back, &tiny, sizeof back) && !strncmp(text.buf, "lr 0.5\n", 7));
	str_release(&dump);
	str_release(&text);
}

/* All lines of a dump except Megatron-LM's switch are compared. */
static void
test_every_difference(void)
{
	struct model_config tiny = model_of(TINY);
	struct str dump = { 0 }, all = { 0 }, weights = { 0 };

	model_dump(&every, &dump);
	model_differences(&every, &tiny, &all);
	CHECK(lines(&all) == lines(&dump) - 1);
	model_weight_differences(&every, &tiny, &weights);
	CHECK(lines(&all) == lines(&weights) + 14);
	CHECK(strstr(weights.buf,
	    "linear-biases\t'linear-biases qkv'\t'linear-biases qkv "
	    "proj mlp'\n"));
	CHECK(strstr(all.buf,
	    "rope-scaling-factor\t'rope-scaling-factor 2.5'\tno "
	    "rope-scaling-factor\n"));
	CHECK(!strstr(weights.buf, "dropout") && !strstr(weights.buf, "token-id"));
	str_release(&dump);
	str_release(&all);
	str_release(&weights);
}

/* Rotary angles matter where positions rotate; a factor of scaling may be below 1. */
static void
test_rotary(void)
{
	static const char rope[] = TINY "position-embedding-type rope\nrope-scaling-type linear\n"
					"rope-scaling-factor 0.5\n";
	struct model_config a = model_of(TINY), b = model_of(TINY "rotary-base 500\n"),
			    c = model_of(rope), d = c;
	struct str differences = { 0 };

	model_weight_differences(&a, &b, &differences);
	CHECK(differences.len == 0);
	model_differences(&a, &b, &differences);
	CHECK(lines(&differences) == 1);
	str_clear(&differences);
	CHECK(c.rope_factor == 0.5);
	d.rotary_base = 500;
	model_weight_differences(&c, &d, &differences);
	CHECK(lines(&differences) == 1);
	str_release(&differences);
}

/* An empty config.json gives the defaults of its family, and no others. */
static void
test_base(void)
{
	struct model_config c,
	    want = { .make_vocab_size_divisible_by = 128,
		    .rotary_base = 10000,
		    .rotary_percent = 1,
		    .moe_router_topk = 2,
		    .moe_router_bias_update_rate = 1e-3,
		    .mtp_loss_scaling_factor = 0.1,
		    .init_method_std = 0.02,
		    .bos_token_id = -1,
		    .pad_token_id = -1 };

	model_defaults(&c, MODEL_BASE);
	CHECK(!memcmp(&c, &want, sizeof c));
}

/* Of the checkpoint's model only the recipe counts, not the sizes. */
static void
test_recipe(void)
{
	struct model_config c = model_of(TINY);

	model_keep_recipe(&every, &c);
	CHECK(c.num_query_groups == 4 && c.rotary_base == 500 && !c.proj_bias && c.qkv_bias);
	CHECK(c.untie_embeddings_and_output_weights && c.embedding_dropout == 0.5);
	CHECK(c.num_layers == 4 && c.norm_epsilon == 1e-5 && c.window_size == 0);
	CHECK(c.rope_scaling == ROPE_SCALING_NONE && c.bos_token_id == -1);
}

int
main(void)
{
	test_every_member();
	test_excluding();
	test_latents();
	test_linear();
	test_replace();
	test_every_difference();
	test_rotary();
	test_base();
	test_recipe();
	return check_done();
}
