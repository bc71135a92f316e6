/* model.c - tests of lib/model: rules, parameter counts, FLOPs, options */
#include "lib/base/io.h"
#include "lib/model/family.h"
#include "lib/model/work.h"
#include "lib/model/options.h"
#include "lib/model/rope.h"
#include "tests/check.h"

#include <unistd.h>

struct config {
	struct run_options run;
};

static const struct opt table[] = { RUN_OPTS(struct config, run), OPT_END };

#define TINY "num-layers 4\nhidden-size 64\nnum-attention-heads 8\nvocab-size 500\nseq-length 32\n"

/* GPT-2 124M. */
static struct model_config
gpt2_small(void)
{
	struct model_config c;

	family_defaults(&c);
	c.num_layers = c.num_attention_heads = c.num_query_groups = 12;
	c.hidden_size = 768;
	c.kv_channels = 64;
	c.ffn_hidden_size = 3072;
	c.max_position_embeddings = 1024;
	c.vocab_size = 50257;
	c.norm_epsilon = 1e-5;
	c.qkv_bias = c.proj_bias = c.mlp_bias = true;
	return c;
}

/* Llama 3 8B. */
static struct model_config
llama3_8b(void)
{
	struct model_config c;

	family_defaults(&c);
	c.num_layers = c.num_attention_heads = 32;
	c.num_query_groups = 8;
	c.hidden_size = 4096;
	c.kv_channels = 128;
	c.ffn_hidden_size = 14336;
	c.max_position_embeddings = 8192;
	c.vocab_size = 128256;
	c.norm_epsilon = 1e-5;
	c.normalization = NORMALIZATION_RMSNORM;
	c.activation = ACTIVATION_SWIGLU;
	c.position = POSITION_ROPE;
	c.rotary_base = 500000;
	c.untie_embeddings_and_output_weights = true;
	return c;
}

/* Mixtral 8x7B. */
static struct model_config
mixtral(void)
{
	struct model_config c = llama3_8b();

	c.vocab_size = 32000;
	c.num_experts = 8;
	c.moe_router_topk = 2;
	c.moe_ffn_hidden_size = 14336;
	return c;
}

/* The same, of four groups of experts. */
static struct model_config
grouped(void)
{
	struct model_config c = mixtral();

	c.moe_router_num_groups = 4;
	c.moe_router_group_topk = c.moe_router_group_scores = 2;
	return c;
}

/* Mixtral with biases. */
static struct model_config
biased(void)
{
	struct model_config c = mixtral();

	c.mlp_bias = true;
	return c;
}

/* Qwen3-30B-A3B. */
static struct model_config
qwen3_30b(void)
{
	struct model_config c = llama3_8b();

	c.num_layers = 48;
	c.hidden_size = 2048;
	c.num_query_groups = 4;
	c.qk_layernorm = true;
	c.vocab_size = 151936;
	c.num_experts = 128;
	c.moe_router_topk = 8;
	c.moe_ffn_hidden_size = 768;
	return c;
}

/* Published figures of models with experts, and the order of their tensors. */
static void
test_experts(void)
{
	struct model_config m = mixtral(), q = qwen3_30b();
	struct param *p;
	int n;

	CHECK(
	    model_num_parameters(&m) == 46702792704 && model_active_parameters(&m) == 12879925248);
	CHECK(model_num_parameters(&q) == 30532122624 && model_active_parameters(&q) == 3353032704);
	CHECK_NEAR(model_flops(&m, 1, 1, 32000) / 6, 12879925248 - 32000 * 4096, 1e-3);
	q.moe_layer_freq = pattern_but_every(2);
	q.moe_shared_expert_intermediate_size = 64;
	n = model_params(&q, &p);
	CHECK(n == 24 * (128 * 3 + 12) + 24 * 11 + 3);
	for (int i = 0; i < n; i++)
		if (p[i].layer == 46 && p[i].expert == 17 &&
		    param_is(&p[i], "mlp.experts.%d.linear_gate.weight")) {
			CHECK_STR(p[i].name, "decoder.layers.46.mlp.experts.17.linear_gate.weight");
			CHECK(p[i].flags & PARAM_JOINED && p[i + 1].flags & PARAM_JOINED);
			CHECK(param_is(&p[i + 1], "mlp.experts.%d.linear_up.weight") &&
			    p[i + 1].expert == 17);
			CHECK(param_is(&p[i - 1], "mlp.experts.%d.linear_up.weight") &&
			    p[i - 1].expert == 16);
			CHECK(p[i].ndim == 2 && p[i].shape[0] == 768 && p[i].shape[1] == 2048);
		} else if (param_is(&p[i], "mlp.experts.%d.linear_down.weight") &&
		    p[i].expert == 0) {
			CHECK(!(p[i].flags & PARAM_JOINED) &&
			    param_is(&p[i - 1], "mlp.experts.%d.linear_up.weight"));
		} else if (param_is(&p[i], "mlp.linear_up.weight")) {
			CHECK(p[i].expert == -1 && p[i].layer % 2 == 1);
		}
	free(p);
}

/* Parameters and FLOPs agree with published figures and docs/math.md 7.1. */
static void
test_counts(void)
{
	struct model_config g = gpt2_small(), l = llama3_8b();

	CHECK(model_num_parameters(&g) == 124439808);
	CHECK(model_num_parameters(&l) == 8030261248);
	CHECK_NEAR(model_flops(&l, 1, 2048, 128256) / 2048 / 1e9, 46.64, 1e-4);
	CHECK_NEAR(model_flops(&g, 1, 1024, 50304) / 1024 / 1e9, 0.798, 1e-3);
	/* A window as wide as the sequence changes nothing, and a narrower one reduces only
	 * attention. */
	l.window_size = 2048;
	CHECK_NEAR(model_flops(&l, 1, 2048, 128256) / 2048 / 1e9, 46.64, 1e-4);
	l.window_size = 2047;
	CHECK_NEAR(model_flops(&l, 1, 2048, 128256) / 2048 / 1e9, 46.64, 1e-4);
	l.window_size = 1;
	l.window_attn_skip_freq = pattern_every(1);
	CHECK_NEAR(model_flops(&l, 1, 2048, 128256) / 2048 / 1e9, 46.64, 1e-4);
	l.window_attn_skip_freq = (struct layer_pattern){ 0 };
	CHECK(model_flops(&l, 1, 2048, 128256) > 6.0 * 2048 * 7e9 &&
	    model_flops(&l, 1, 2048, 128256) < 2048 * 46e9);
}

/* Sets one field to an illegal value and expects the reason. */
#define BROKEN(config, field, value, reason) \
	do { \
		struct model_config c_ = config(); \
		struct err e_ = { "" }; \
		c_.field = value; \
		CHECK(model_check(&c_, &e_) == -1); \
		CHECK_STR(e_.msg, reason); \
	} while (0)

#define TOO_LARGE \
	"the model is larger than any this program can hold: check --num-layers, " \
	"--hidden-size, --num-experts and --vocab-size"

/* Each rule has its message. */
static void
test_rules(void)
{
	struct model_config g = gpt2_small(), l = llama3_8b(), x = mixtral();
	struct err e;

	CHECK(model_check(&g, &e) == 0 && model_check(&l, &e) == 0);
	BROKEN(gpt2_small, num_layers, 0, "--num-layers 0: must be at least 1");
	BROKEN(gpt2_small, vocab_size, -3, "--vocab-size -3: must be at least 1");
	BROKEN(gpt2_small, max_position_embeddings, 0,
	    "--max-position-embeddings 0: must be at least 1");
	BROKEN(llama3_8b, max_position_embeddings, -1,
	    "--max-position-embeddings -1: must be at least 1");
	BROKEN(llama3_8b, num_query_groups, 5,
	    "--num-query-groups 5: must divide --num-attention-heads 32");
	BROKEN(llama3_8b, rotary_percent, 0.01,
	    "--rotary-percent 0.01: leaves no even part of --kv-channels 128 to rotate; try 1.0");
	BROKEN(llama3_8b, rotary_percent, 1.5, "--rotary-percent 1.5: must be above 0, at most 1");
	BROKEN(llama3_8b, rotary_base, 0, "--rotary-base 0: must be at least 1; 10000 is usual");
	BROKEN(llama3_8b, rope_scaling, ROPE_SCALING_LINEAR,
	    "--rope-scaling-factor 0: must be above 0; 8 is usual");
	BROKEN(llama3_8b, norm_epsilon, -1, "--norm-epsilon -1: must be at least 0; 1e-5 is usual");
	BROKEN(llama3_8b, init_method_std, -1,
	    "--init-method-std -1: must be at least 0; 0.02 is usual");
	BROKEN(llama3_8b, attention_dropout, 1, "--attention-dropout 1: must be from 0 to 0.999");
	BROKEN(llama3_8b, sliding_window_rope_base, 0.5,
	    "--sliding-window-rope-base 0.5: must be at least 1, or 0 for that of all layers; "
	    "10000 is usual");
	BROKEN(llama3_8b, qk_layernorm_hidden_dim, true,
	    "--qk-layernorm-hidden-dim: needs --qk-layernorm");
	BROKEN(
	    llama3_8b, query_pre_attn_scalar, -1, "--query-pre-attn-scalar -1: must be at least 1");
	BROKEN(llama3_8b, attn_logit_softcapping, -1,
	    "--attn-logit-softcapping -1: must be at least 0; 50 is usual");
	BROKEN(llama3_8b, final_logit_softcapping, -30,
	    "--final-logit-softcapping -30: must be at least 0; 30 is usual");
	BROKEN(gpt2_small, glu_linear_offset, 1,
	    "--glu-linear-offset 1: needs --swiglu or --quick-geglu");
	BROKEN(gpt2_small, activation_func_clamp_value, 7,
	    "--activation-func-clamp-value 7: needs --swiglu or --quick-geglu");
	BROKEN(llama3_8b, hidden_dropout, -0.5, "--hidden-dropout -0.5: must be from 0 to 0.999");
	BROKEN(llama3_8b, embedding_dropout, 1, "--embedding-dropout 1: must be from 0 to 0.999");
	/* What no other check looks at has the range of its row. */
	BROKEN(llama3_8b, moe_router_bias_update_rate, -1,
	    "--moe-router-bias-update-rate -1: must be at least 0");
	BROKEN(llama3_8b, yarn_beta_fast, NAN, "--yarn-beta-fast nan: must be at least 0");
	BROKEN(gpt2_small, rotary_percent, 1.5, "--rotary-percent 1.5: must be from 0 to 1");
	BROKEN(llama3_8b, hidden_size, INT64_MAX, TOO_LARGE);
	CHECK(model_check(&x, &e) == 0);
	BROKEN(mixtral, moe_router_topk, 9, "--moe-router-topk 9: must be at most --num-experts 8");
	BROKEN(mixtral, moe_router_topk, 1,
	    "--moe-router-topk 1: needs --moe-router-pre-softmax, or the weight of every token's "
	    "expert is 1");
	BROKEN(mixtral, moe_ffn_hidden_size, 0, "--moe-ffn-hidden-size 0: must be at least 1");
	BROKEN(mixtral, moe_router_num_groups, 2,
	    "--moe-router-num-groups: needs --moe-router-group-topk, and both each other");
	BROKEN(grouped, moe_router_num_groups, 3,
	    "--moe-router-num-groups 3: must divide --num-experts 8 and be at most 32");
	BROKEN(grouped, moe_router_group_topk, 5,
	    "--moe-router-group-topk 5: must be at most --moe-router-num-groups 4, and these "
	    "groups must have the 2 experts of --moe-router-topk");
	BROKEN(grouped, moe_router_group_scores, 3,
	    "--moe-router-group-scores 3: must be from 1 to the 2 experts of a group");
	BROKEN(mixtral, moe_router_enable_expert_bias, true,
	    "--moe-router-enable-expert-bias: is for --moe-router-score-function sigmoid");
	BROKEN(biased, moe_shared_expert_intermediate_size, 8,
	    "--moe-shared-expert-intermediate-size: a shared expert has no biases: give "
	    "--disable-bias-linear, or --linear-biases without mlp");
	BROKEN(mixtral, moe_router_load_balancing_type, BALANCING_SINKHORN,
	    "--moe-router-load-balancing-type sinkhorn: is not supported: must be aux_loss, "
	    "seq_aux_loss, global_aux_loss or none");
	BROKEN(mixtral, moe_aux_loss_coeff, -1,
	    "--moe-aux-loss-coeff -1: must be at least 0; 0.01 is usual");
	BROKEN(mixtral, num_experts, INT64_MAX, TOO_LARGE);
	BROKEN(llama3_8b, make_vocab_size_divisible_by, INT64_MAX, TOO_LARGE);
	l.rope_scaling = ROPE_SCALING_LLAMA3;
	l.rope_factor = 8;
	l.rope_low_freq_factor = l.rope_high_freq_factor = 4;
	CHECK(model_check(&l, &e) == -1);
	CHECK_STR(e.msg,
	    "--rope-low-freq-factor 4: must be below --rope-high-freq-factor 4; 1 and 4 are usual");
	l.num_layers = 100000;
	l.hidden_size = 1 << 20;
	l.ffn_hidden_size = 1 << 24;
	CHECK(model_check(&l, &e) == -1);
	CHECK_STR(e.msg, TOO_LARGE);
}

/* Angles of plain and of scaled positions. */
static void
test_rope(void)
{
	struct model_config c = llama3_8b();
	double t[3 * 128];

	model_rope_table(&c, ROPE_TABLE_MODEL, 3, 3, t);
	CHECK(t[0] == 1 && t[1] == 0);
	CHECK_NEAR(t[128], cos(1.0), 1e-15);
	CHECK_NEAR(t[2 * 128 + 127], sin(2 * pow(500000, -126.0 / 128)), 1e-15);
	c.rope_scaling = ROPE_SCALING_LLAMA3;
	c.rope_factor = 8;
	c.rope_low_freq_factor = 1;
	c.rope_high_freq_factor = 4;
	c.rope_original_positions = 8192;
	model_rope_table(&c, ROPE_TABLE_MODEL, 3, 3, t);
	CHECK_NEAR(t[128], cos(1.0), 1e-15);
	CHECK_NEAR(t[2 * 128 + 127], sin(2 * pow(500000, -126.0 / 128) / 8), 1e-15);
}

#define ENDS ",\n  \"eos_token_id\": [\n    128001,\n    128008,\n    128009\n  ]"

/* One or several end-of-text ids are read back from JSON and from an option file. */
static void
test_ends_of_text(void)
{
	struct model_config c = llama3_8b(), back;
	struct str s = { 0 };
	struct layout layout;
	struct err e = { "" };

	c.eos_token_id = (struct id_list){ 3, { 128001, 128008, 128009 } };
	family_write_ids(&c, true, &s);
	CHECK_STR(s.buf, ",\n  \"bos_token_id\": null" ENDS ",\n  \"pad_token_id\": null");
	str_clear(&s);
	family_write_ids(&c, false, &s);
	CHECK_STR(s.buf, ENDS);
	str_clear(&s);
	model_dump(&c, &s);
	CHECK(strstr(s.buf, "\neos-token-id 128001 128008 128009\n"));
	CHECK(model_from_text("text", s.buf, &back, &layout, &e) == 0);
	CHECK(!memcmp(&back.eos_token_id, &c.eos_token_id, sizeof c.eos_token_id));
	str_release(&s);
	CHECK(model_from_text("text", TINY "eos-token-id 2 x\n", &back, &layout, &e) < 0);
	CHECK_STR(e.msg, "text: --eos-token-id x: not an integer");
	CHECK(model_from_text("text", TINY "eos-token-id 2 -1\n", &back, &layout, &e) < 0);
	CHECK_STR(e.msg, "text: --eos-token-id: -1: a token id must be at least 0");
	str_adds(&s, TINY "eos-token-id 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
	CHECK(model_from_text("text", s.buf, &back, &layout, &e) < 0);
	str_release(&s);
	CHECK_STR(e.msg, "text: --eos-token-id: more than 16 token ids");
}

/* The window that a text describes, or -1 with the reason in e. */
static int64_t
window(const char *text, struct err *e)
{
	struct model_config c;
	struct layout layout;
	struct str s = { 0 };
	int rc;

	str_addf(&s, TINY "window-size \"%s\"\n", text);
	rc = model_from_text("text", s.buf, &c, &layout, e);
	str_release(&s);
	return rc < 0 ? -1 : c.window_size;
}

/* A number W, and the pair of Megatron-LM's --window-size: the keys before and after the query's
 * own. */
static void
test_window(void)
{
	static const char *const bad[] = { "0", "-1", "x", "", "4,", "(4,0", "4,0)", "(4)", "4,0,0",
		"-2,0", "4 0", "9223372036854775808", "1073741825", "9223372036854775807,0" };
	struct err e;

	CHECK(window("128", &e) == 128 && window("127,0", &e) == 128);
	CHECK(window("(127,0)", &e) == 128 && window("(127, 0)", &e) == 128);
	CHECK(window("0,0", &e) == 1 && window("-1,0", &e) == 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(window(bad[i], &e) == -1);
		CHECK(strstr(e.msg, ": must be from 1 to 2^30, or a pair such as 127,0 for 128"));
	}
	CHECK(window("127,1", &e) == -1);
	CHECK_STR(
	    e.msg, "text: --window-size 127,1: must end in 0: a query sees no keys after its own");
}

/* Parses an option file's text and resolves it for a world; the reason is in e. */
static int
resolve(const char *text, int64_t world, struct run_plan *plan, struct err *e)
{
	struct config cfg = { 0 };
	struct opt_parse p;
	struct str notes = { 0 };
	int rc;

	e->msg[0] = '\0';
	opt_begin(&p, table, &cfg);
	rc = opt_text(&p, "text", text, false, e);
	if (rc == 0)
		rc = run_resolve(&p, &cfg.run, world, 0, plan, &notes, e);
	str_release(&notes);
	opt_release(&p);
	return rc;
}

/* Options give a layout and a batch, or the rule that they break. */
static void
test_options(void)
{
	struct run_plan plan;
	struct err e;

	CHECK(resolve(TINY
		  "tensor-model-parallel-size 2\nglobal-batch-size 12\nmicro-batch-size 2\nbf16\n",
		  4, &plan, &e) == 0);
	CHECK(plan.layout.data_parallel_size == 2 && plan.shape.num_microbatches == 3 &&
	    plan.shape.dtype == DTYPE_BF16);
	CHECK(plan.model.ffn_hidden_size == 256 && plan.model.kv_channels == 8 &&
	    plan.model.num_query_groups == 8);
	CHECK(resolve(TINY "num-experts 8\ndisable-bias-linear\nmoe-pad-expert-input-to-capacity\n",
		  1, &plan, &e) < 0);
	CHECK_STR(e.msg, "--moe-pad-expert-input-to-capacity: needs --moe-expert-capacity-factor");
	CHECK(resolve(TINY "tensor-model-parallel-size 3\n", 3, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "--tensor-model-parallel-size 3: must divide --num-attention-heads 8 (try 2); "
	    "--tensor-model-parallel-size 3: must divide or be a multiple of --num-query-groups 8 "
	    "(try 2); "
	    "--tensor-model-parallel-size 3: must divide --ffn-hidden-size 256 (try 2)");
	CHECK(resolve(TINY "qk-layernorm\nqk-layernorm-hidden-dim\n"
			   "tensor-model-parallel-size 2\n",
		  2, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "--tensor-model-parallel-size 2: must be 1 for --qk-layernorm-hidden-dim, whose norms "
	    "take all heads together");
	CHECK(resolve(TINY "norm-placement post\nbf16\nfp32-residual-connection\n", 1, &plan, &e) <
	    0);
	CHECK_STR(e.msg, "--fp32-residual-connection: is for --norm-placement pre or both");
	CHECK(resolve(TINY "tensor-model-parallel-size "
			   "1000000000000000\npipeline-model-parallel-size 1000000000000000\n",
		  8, &plan, &e) < 0);
	CHECK(resolve(TINY "tensor-model-parallel-size 2\n", 7, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "7 ranks: must be a multiple of --tensor-model-parallel-size 2 x "
	    "--pipeline-model-parallel-size 1 = 2 "
	    "(try 6)");
	CHECK(resolve(TINY "global-batch-size 2043\nmicro-batch-size 4\n", 9, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "--global-batch-size 2043: must be a multiple of --micro-batch-size x data-parallel "
	    "size = 36 "
	    "(try 2016)");
	CHECK(resolve(TINY "global-batch-size 1000000000000000\n", 1, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "--global-batch-size 1000000000000000: more than 16777216 micro batches per step; try "
	    "16777216");
	CHECK(resolve(TINY "micro-batch-size 1000000000000000\n", 1, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "--micro-batch-size 1000000000000000: seq-length x micro-batch-size must be below "
	    "2^30");
	CHECK(resolve(TINY "seq-length 1000000000\nffn-hidden-size 16000000\n", 1, &plan, &e) < 0);
	CHECK(resolve("num-layers 4\n", 1, &plan, &e) < 0);
	CHECK_STR(e.msg,
	    "needed: --hidden-size, --num-attention-heads (or --model CONFIG), --vocab-size (or a "
	    "tokenizer, or --model CONFIG), --seq-length");
	CHECK(resolve(TINY "bf16\nfp16\n", 1, &plan, &e) < 0);
	CHECK_STR(e.msg, "--bf16, --fp16 and --fp64 exclude each other: give one of them");
}

/* A dumped model reads back to the same model. */
static void
test_dump(const struct model_config *c)
{
	struct str s = { 0 }, again = { 0 };
	struct run_plan plan;
	struct err e;

	model_dump(c, &s);
	str_adds(&s, "seq-length 64\n");
	CHECK(resolve(s.buf, 1, &plan, &e) == 0);
	CHECK_STR(e.msg, "");
	model_dump(&plan.model, &again);
	str_adds(&again, "seq-length 64\n");
	CHECK_STR(again.buf, s.buf);
	str_release(&s);
	str_release(&again);
}

/* YaRN keeps the first angles, divides the last by its factor, and scales all; between them the
 * share is that of the pair's number, here from 9 to 17 of 32. */
static void
test_yarn(void)
{
	struct model_config c = llama3_8b();
	double t[2 * 64], scale = 0.1 * log(4) + 1, theta = pow(10000, -26.0 / 64), u = 4.0 / 8;

	c.kv_channels = 64;
	c.rotary_base = 10000;
	c.rope_scaling = ROPE_SCALING_YARN;
	c.rope_factor = 4;
	c.rope_original_positions = 1024;
	c.yarn_beta_fast = 10;
	c.yarn_beta_slow = 1.5;
	model_rope_table(&c, ROPE_TABLE_MODEL, 2, 2, t);
	CHECK_NEAR(t[0], scale, 1e-15);
	CHECK_NEAR(t[64 + 2 * 9], scale * cos(pow(10000, -18.0 / 64)), 1e-15);
	CHECK_NEAR(t[64 + 2 * 13 + 1], scale * sin(theta * (1 - u) + theta / 4 * u), 1e-15);
	CHECK_NEAR(t[64 + 63], scale * sin(pow(10000, -62.0 / 64) / 4), 1e-15);
	c.yarn_attention_factor = 0.5;
	model_rope_table(&c, ROPE_TABLE_MODEL, 2, 2, t);
	CHECK(t[0] == 0.5);
	test_dump(&c);
	c.yarn_unrounded_range = true;
	test_dump(&c);
}

/* Sequences of more than the original positions have the other factors at all positions. */
static void
test_longrope(void)
{
	struct model_config c = llama3_8b();
	struct str words = { 0 };
	struct err e;
	double t[2 * 8];

	c.kv_channels = 8;
	c.rotary_base = 10000;
	c.rope_scaling = ROPE_SCALING_LONGROPE;
	c.rope_original_positions = 64;
	c.longrope_attention_factor = 1.25;
	c.longrope_short_factor = (struct rope_factors){ 4, { 1, 1.5, 2, 3 } };
	c.longrope_long_factor = (struct rope_factors){ 4, { 1, 4, 16, 64.5 } };
	model_rope_table(&c, ROPE_TABLE_MODEL, 64, 2, t);
	CHECK_NEAR(t[8 + 2 * 3], 1.25 * cos(pow(10000, -0.75) / 3), 1e-15);
	model_rope_table(&c, ROPE_TABLE_MODEL, 65, 2, t);
	CHECK(t[0] == 1.25 && t[1] == 0);
	CHECK_NEAR(t[8 + 2 * 3], 1.25 * cos(pow(10000, -0.75) / 64.5), 1e-15);
	CHECK_NEAR(t[8 + 2 * 1 + 1], 1.25 * sin(0.1 / 4), 1e-15);
	test_dump(&c);
	longrope_words(&c, 65, &words);
	CHECK_STR(words.buf,
	    "angles are divided by the long factors of longrope: sequences of 65, "
	    "--rope-original-positions 64");
	str_release(&words);
	c.longrope_short_factor.count = 3;
	CHECK(model_check(&c, &e) < 0);
	CHECK_STR(
	    e.msg, "--longrope-short-factor: 3 factors: must be 4, one for each pair that rotates");
}

/* Differences are reported by option, also where one side has no line for it. */
static void
test_differences(void)
{
	struct model_config a = llama3_8b(), b = a;
	struct str s = { 0 };

	model_differences(&a, &b, &s);
	CHECK(s.len == 0);
	b.window_size = 4;
	b.num_layers = 16;
	b.untie_embeddings_and_output_weights = false;
	model_differences(&a, &b, &s);
	CHECK_STR(s.buf,
	    "num-layers\t'num-layers 32'\t'num-layers 16'\n"
	    "untie-embeddings-and-output-weights\t'untie-embeddings-and-output-weights'\t"
	    "no untie-embeddings-and-output-weights\n"
	    "window-size\tno window-size\t'window-size 4'\n");
	str_release(&s);
}

int
main(void)
{
	struct model_config g = gpt2_small(), l = llama3_8b();

	test_counts();
	test_experts();
	test_rules();
	test_rope();
	test_yarn();
	test_longrope();
	test_ends_of_text();
	test_window();
	test_options();
	test_differences();
	test_dump(&g);
	test_dump(&l);
	l.rope_scaling = ROPE_SCALING_LINEAR;
	l.rope_factor = 2.5;
	l.window_size = 7;
	l.mlp_bias = true;
	test_dump(&l);
	return check_done();
}
