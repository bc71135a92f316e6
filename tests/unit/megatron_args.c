/* megatron_args.c - tests of lib/ckpt/megatron_args and megatron_run: attributes become a model, or
 * are refused by name and value, and with the schedule the state and the options of a run */
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/megatron_run.h"
#include "lib/ckpt/pickle_write.h"
#include "lib/model/fields.h"
#include "tests/check.h"

/* Attributes as text: "name value"; a value is None, True, False, a number, or a string. */
static const char *const llama[] = { "num_layers 2", "hidden_size 32", "num_attention_heads 4",
	"group_query_attention True", "num_query_groups 2", "ffn_hidden_size 48", "kv_channels 8",
	"max_position_embeddings 64", "position_embedding_type rope", "rotary_base 50000",
	"add_position_embedding True", "normalization RMSNorm", "layernorm_epsilon 1e-06",
	"swiglu True", "add_bias_linear False", "bias_gelu_fusion False", "vocab_size 61",
	"padded_vocab_size 64", "untie_embeddings_and_output_weights True", "hidden_dropout 0.0",
	"attention_dropout 0.0", "tensor_model_parallel_size 2", "pipeline_model_parallel_size 3",
	"virtual_pipeline_model_parallel_size None", "data_parallel_size 4",
	"context_parallel_size 2", "softmax_type vanilla", "num_experts None",
	"consumed_train_samples 640", "adam_beta1 0.9", "adam_beta2 0.95", "adam_eps 1e-08",
	"a_new_option True", NULL };

static void
put_value(struct str *out, const char *text)
{
	char *end;
	double x = strtod(text, &end);

	if (!strcmp(text, "None"))
		pickle_put_none(out);
	else if (!strcmp(text, "True") || !strcmp(text, "False"))
		pickle_put_bool(out, *text == 'T');
	else if (*end)
		pickle_put_text(out, text);
	else if (strpbrk(text, ".e"))
		pickle_put_double(out, x);
	else
		pickle_put_int(out, (int64_t)x);
}

static void
put_line(struct str *out, const char *line)
{
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
	pickle_put_text(out, name);
	put_value(out, strchr(line, ' ') + 1);
}

/* Whether one of several changes, divided by ", ", has the name of a line. */
static bool
is_changed(const char *changes, const char *line)
{
	size_t n = strcspn(line, " ") + 1;

	for (const char *at = changes; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL)
		if (!strncmp(at, line, n))
			return true;
	return false;
}

/* The arguments of a Llama, in which changes replace those of their names; or are added, or with
 * "-" in place of a value left out. */
static struct pickle *
make(const char *changes)
{
	struct str out = { 0 };
	struct pickle *p;
	struct err e;

	pickle_begin(&out);
	pickle_open_object(&out, "argparse", "Namespace");
	pickle_put_text(&out, "params_dtype");
	pickle_put_dtype(&out, DTYPE_BF16);
	for (int i = 0; llama[i]; i++)
		if (!is_changed(changes, llama[i]))
			put_line(&out, llama[i]);
	for (const char *at = changes; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL) {
		char line[96];

		snprintf(line, sizeof line, "%.*s",
		    (int)(strstr(at, ", ") ? strstr(at, ", ") - at : (long)strlen(at)), at);
		if (strcmp(strchr(line, ' '), " -"))
			put_line(&out, line);
	}
	pickle_close_object(&out);
	pickle_end(&out);
	CHECK(pickle_read(out.buf, out.len, &pickle_limits_torch, &p, &e) == 0);
	str_release(&out);
	return p;
}

static void
test_model(void)
{
	struct pickle *p = make(NULL);
	struct megatron_args a;
	struct str text = { 0 };
	struct err e;

	CHECK(megatron_args_read(pickle_root(p), &a, &e) == 0);
	CHECK(a.tensor_ranks == 2 && a.stages == 3 && a.chunks == 1 && a.data_ranks == 8 &&
	    a.context_ranks == 2);
	CHECK(a.vocab_known && a.padded_vocab_size == 64 && a.dtype == DTYPE_BF16);
	model_dump(&a.config, &text);
	CHECK_STR(text.buf,
	    "num-layers 2\nhidden-size 32\nffn-hidden-size 48\nnum-attention-heads 4\n"
	    "group-query-attention\nnum-query-groups 2\nkv-channels 8\n"
	    "max-position-embeddings 64\nvocab-size 61\nmake-vocab-size-divisible-by 128\n"
	    "normalization RMSNorm\nnorm-epsilon 1e-06\nactivation swiglu\n"
	    "position-embedding-type rope\nrotary-base 50000.0\nrotary-percent 1.0\n"
	    "rope-scaling-type none\nlinear-biases none\nuntie-embeddings-and-output-weights\n"
	    "init-method-std 0.02\nattention-dropout 0.0\nhidden-dropout 0.0\nembedding-dropout "
	    "0.0\n"
	    "bos-token-id -1\neos-token-id -1\npad-token-id -1\n");
	str_release(&text);
	pickle_free(p);
}

/* opt_param_scheduler, by its name of this time or of earlier ones. */
static const char *const scheduler[] = { "max_lr 0.01", "lr_warmup_steps 256", "num_steps 512",
	"lr_decay_style WSD", "lr_decay_steps 1280", "min_lr 0.001", "start_wd 0.01", "end_wd 0.1",
	"wd_incr_style cosine", "wd_incr_steps 2560", NULL };
static const char *const old_scheduler[] = { "start_lr 0.01", "warmup_iter 256", "num_iters 512",
	"decay_style WSD", "end_iter 1280", "min_lr 0.001", "start_wd 0.01", "end_wd 0.1",
	"wd_incr_style cosine", "wd_incr_steps 2560", NULL };

/* A dict of lines; the first of them replaced by one of the same name. */
static struct pickle *
make_dict(const char *const *line, const char *change)
{
	size_t n = change ? strcspn(change, " ") + 1 : 0;
	struct str out = { 0 };
	struct pickle *p;
	struct err e;

	pickle_begin(&out);
	pickle_open_dict(&out);
	for (; *line; line++)
		put_line(&out, change && !strncmp(*line, change, n) ? change : *line);
	pickle_close_dict(&out);
	pickle_end(&out);
	CHECK(pickle_read(out.buf, out.len, &pickle_limits_torch, &p, &e) == 0);
	str_release(&out);
	return p;
}

#define BEFORE "iteration 5\nconsumed_train_samples 640\noptimizer_steps 4\nskipped_iterations 1\n"
#define AFTER \
	"optimizer adam\nadam_beta1 0.90000000000000002\nadam_beta2 0.94999999999999996\n" \
	"adam_eps 1e-08\nweight_decay_form decoupled\n"
#define SCHEDULE \
	"schedule WSD exponential cosine 0.01 0.001 0 0.01 0.10000000000000001 256 1280 0 2560\n"

/* Iteration 5 of a run that has skipped one step of 128 samples. */
static void
check_state(const char *const *lines, const char *change, const char *state, const char *notes)
{
	struct pickle *args = make(NULL), *sched = lines ? make_dict(lines, change) : NULL;
	struct source s = { .path = "ckpt" };

	megatron_run_state(&(struct megatron_run){ .args = pickle_root(args),
			       .scheduler = sched ? pickle_root(sched) : NULL,
			       .iteration = 5,
			       .optimizer_steps = 4,
			       .adam = true },
	    &s);
	CHECK_STR(s.state_text.buf, state);
	CHECK_STR(s.notes.buf ? s.notes.buf : "", notes);
	str_release(&s.state_text);
	str_release(&s.notes);
	pickle_free(args);
	pickle_free(sched);
}

static void
test_state(void)
{
	static const char all[] =
	    BEFORE "skipped_samples 128\npassed_samples 0\ndtype BF16\n" SCHEDULE AFTER;

	check_state(NULL, NULL, BEFORE "dtype BF16\n" AFTER, "");
	check_state(scheduler, NULL, all, "");
	check_state(old_scheduler, NULL, all, "");
	check_state(scheduler, "num_steps 640", BEFORE "dtype BF16\n" SCHEDULE AFTER,
	    "ckpt: num_steps 640 of its schedule does not fit consumed_train_samples 640 and "
	    "skipped_iterations 1: the learning rate follows these\n");
	check_state(scheduler, "lr_decay_style stairs",
	    BEFORE "skipped_samples 128\npassed_samples 0\ndtype BF16\n" AFTER,
	    "ckpt: its schedule is not read: a run takes that of its options\n");
}

/* The tail of WSD is in steps or in samples, decay steady or growing; what is not set is left
 * out. */
static void
test_options(void)
{
	static const char *const lines[] = { "lr 0.01", "min_lr None", "train_iters 10",
		"train_samples 0", "lr_wsd_decay_iters 3", "lr_wsd_decay_samples 384",
		"weight_decay 0.1", "start_weight_decay 0.01", "end_weight_decay 0.1",
		"weight_decay_incr_style constant", "bf16 True", "fp16 False", NULL };
	static const struct {
		const char *change, *options;
	} cases[] = {
		{ NULL,
		    "bf16\ntrain-iters 10\nlr 0.01\nlr-wsd-decay-iters 3\nweight-decay 0.1\n"
		    "weight-decay-incr-style constant\n" },
		{ "train_samples 1280",
		    "bf16\ntrain-samples 1280\nlr 0.01\nlr-wsd-decay-samples 384\n"
		    "weight-decay 0.1\nweight-decay-incr-style constant\n" },
		{ "weight_decay_incr_style linear",
		    "bf16\ntrain-iters 10\nlr 0.01\nlr-wsd-decay-iters 3\n"
		    "start-weight-decay 0.01\nend-weight-decay 0.1\n"
		    "weight-decay-incr-style linear\n" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pickle *args = make_dict(lines, cases[i].change);
		struct str text = { 0 };

		megatron_run_options(pickle_root(args), &text);
		CHECK_STR(text.buf, cases[i].options);
		str_release(&text);
		pickle_free(args);
	}
}

/* One change, and a line of the dump that follows from it. */
/* Attention of latents, whose widths have defaults that are larger than these. */
#define LATENT \
	"multi_latent_attention True, group_query_attention False, kv_lora_rank 10, " \
	"qk_head_dim 4, qk_pos_emb_head_dim 2, v_head_dim 5"

/* Linear attention of another width than by default. */
#define LINEAR \
	"linear_attention_freq 2, linear_num_key_heads 2, linear_num_value_heads 4, " \
	"linear_key_head_dim 6, linear_value_head_dim 8, linear_conv_kernel_dim 3"

static const struct {
	const char *change, *line;
} changes[] = {
	{ "layernorm_epsilon -", "norm-epsilon 1e-05\n" },
	{ "norm_epsilon 1e-07", "norm-epsilon 1e-07\n" },
	{ "group_query_attention False", "num-query-groups 4\n" },
	{ "vocab_size None", "vocab-size 64\n" },
	{ "add_bias_linear True", "linear-biases qkv proj mlp\n" },
	{ "add_qkv_bias True", "linear-biases qkv\n" },
	{ "qk_layernorm True", "qk-layernorm\n" },
	{ "use_rope_scaling True", "rope-scaling-type llama3\n" },
	{ "rotary_seq_len_interpolation_factor 4", "rope-scaling-type linear\n" },
	{ "rotary_seq_len_interpolation_factor 4", "rope-scaling-factor 4.0\n" },
	{ "swiglu False", "activation gelu-erf\n" },
	{ "squared_relu False", "activation swiglu\n" },
	{ "num_experts 0", "num-layers 2\n" },
	{ "layernorm_zero_centered_gamma True", "apply-layernorm-1p\n" },
	{ "window_attn_skip_freq 2", "window-attn-skip-freq 2\n" },
	{ "no_rope_freq 2", "no-rope-freq 2\n" },
	{ "softmax_type off-by-one", "softmax-type off-by-one\n" },
	{ "mtp_num_layers 2", "mtp-num-layers 2\nmtp-loss-scaling-factor 0.1" },
	{ "mtp_num_layers 0", "num-layers 2\n" },
	{ LATENT ", qk_layernorm True",
	    "kv-channels 6\nmulti-latent-attention\nkv-lora-rank 10\nqk-head-dim 4\n"
	    "qk-pos-emb-head-dim 2\nv-head-dim 5\n" },
	{ LATENT ", qk_layernorm True, q_lora_rank 7", "q-lora-rank 7\nkv-lora-rank 10\n" },
	{ LATENT ", qk_layernorm True, mscale 1.0, rotary_scaling_factor 1.0",
	    "rope-scaling-type none\n" },
	{ LATENT ", qk_layernorm True, rope_type rope, rotary_scaling_factor 4.0",
	    "rope-scaling-type none\n" },
	{ LATENT ", qk_layernorm True, mscale 0.7, mscale_all_dim 1.2, rotary_scaling_factor 4.0",
	    "rope-scaling-type yarn\nrope-scaling-factor 4.0\nrope-original-positions 4096\n"
	    "yarn-beta-fast 32.0\nyarn-beta-slow 1.0\nmscale 0.7\nmscale-all-dim 1.2\n" },
	{ "attention_output_gate True", "attention-output-gate\n" },
	{ LINEAR ", experimental_attention_variant gdn",
	    "linear-attention-freq 2\nlinear-num-key-heads 2\n"
	    "linear-num-value-heads 4\nlinear-key-head-dim 6\nlinear-value-head-dim 8\n"
	    "linear-conv-kernel-dim 3\n" },
	{ LINEAR ", experimental_attention_variant gated_delta_net", "linear-num-key-heads 2\n" },
	{ LINEAR ", linear_attention_type gated_delta_net", "linear-num-key-heads 2\n" },
	{ LINEAR, "kv-channels 8\nmax-position-embeddings 64\n" },
	{ "kv_lora_rank 32, use_rope_scaling True, rope_scaling_factor 8.0, "
	  "rotary_scaling_factor 1.0",
	    "rope-scaling-type llama3\nrope-scaling-factor 8.0\n" },
};

static void
test_changes(void)
{
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct pickle *p = make(changes[i].change);
		struct megatron_args a;
		struct str text = { 0 };
		struct err e = { "" };

		CHECK(megatron_args_read(pickle_root(p), &a, &e) == 0);
		CHECK_STR(e.msg, "");
		CHECK(a.vocab_known == !!strcmp(changes[i].change, "vocab_size None"));
		model_dump(&a.config, &text);
		if (!strstr(text.buf, changes[i].line))
			CHECK_STR(text.buf, changes[i].line);
		str_release(&text);
		pickle_free(p);
	}
}

static const struct {
	const char *change, *reason;
} bad[] = {
	{ "mtp_use_repeated_layer True",
	    "mtp_use_repeated_layer True: one layer for all later tokens, which is not read" },
	{ "mtp_num_layers 9", "--mtp-num-layers 9: must be from 1 to 8" },
	{ "mtp_num_layers 1, position_embedding_type learned_absolute",
	    "position_embedding_type learned_absolute: Megatron-LM has it in no model with "
	    "mtp_num_layers" },
	{ "multi_latent_attention True",
	    "--multi-latent-attention: is not supported with --num-query-groups" },
	{ LATENT ", qk_layernorm False",
	    "--multi-latent-attention: needs --qk-layernorm, the norms of latents" },
	{ LATENT ", rope_type rope, rotary_scaling_factor 4.0, mscale_all_dim 1.0",
	    "mscale_all_dim 1.0: scores of YaRN without its angles, which are not read" },
	{ "mla_down_proj_fusion True",
	    "mla_down_proj_fusion True: projections down to latents in one, which is not read" },
	{ LINEAR ", experimental_attention_variant gdn2",
	    "experimental_attention_variant 'gdn2': another attention, which is not read" },
	{ "experimental_attention_variant gdn", "linear_attention_freq None: is needed" },
	{ LINEAR ", experimental_attention_variant gdn, swiglu False",
	    "linear_attention_freq: has the activation and the norm of the rest of the model, and "
	    "is read with swiglu and RMSNorm alone" },
	{ "softmax_type other",
	    "--softmax-type other: must be one of vanilla, off-by-one, learnable" },
	{ "position_embedding_type yarn",
	    "--position-embedding-type yarn: must be one of learned_absolute, rope, none" },
	{ "normalization True", "normalization True: no value of this option" },
	{ "swiglu 1", "swiglu 1: is to be True or False" },
	{ "hidden_size -1", "--hidden-size -1: must be from 1 to 1e+15" },
	{ "hidden_size None", "hidden_size None: is needed" },
	{ "tensor_model_parallel_size 0",
	    "tensor_model_parallel_size 0: is to be an integer from 1 to 2147483647" },
	{ "vocab_size 65", "padded_vocab_size 64: is below vocab_size 65" },
	{ "vocab_size 1.5", "vocab_size 1.5: is to be an integer from 1 to 2147483647" },
	{ "num_query_groups 3", "--num-query-groups 3: must divide --num-attention-heads 4" },
};

static void
test_bad(void)
{
	struct megatron_args a;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct pickle *p = make(bad[i].change);

		CHECK(megatron_args_read(pickle_root(p), &a, &e) < 0);
		CHECK_STR(e.msg, bad[i].reason);
		pickle_free(p);
	}
	CHECK(megatron_args_read(NULL, &a, &e) < 0);
	CHECK_STR(e.msg, "no args: the options of the run are not in the checkpoint");
}

int
main(void)
{
	test_model();
	test_state();
	test_options();
	test_changes();
	test_bad();
	return check_done();
}
