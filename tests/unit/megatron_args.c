/* megatron_args.c - tests of lib/ckpt/megatron_args: attributes become a model, or are refused by
 * name and value */
#include "lib/ckpt/megatron_args.h"
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

/* The arguments of a Llama, in which one replaces those of its name; or is added, or with "-" in
 * place of its value left out. */
static struct pickle *
make(const char *change)
{
	size_t n = change ? strcspn(change, " ") + 1 : 0;
	struct str out = { 0 };
	struct pickle *p;
	struct err e;

	pickle_begin(&out);
	pickle_open_object(&out, "argparse", "Namespace");
	pickle_put_text(&out, "params_dtype");
	pickle_put_dtype(&out, DTYPE_BF16);
	for (int i = 0; llama[i]; i++)
		if (!change || strncmp(llama[i], change, n))
			put_line(&out, llama[i]);
	if (change && strcmp(change + n, "-"))
		put_line(&out, change);
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
	str_clear(&text);
	megatron_args_state(pickle_root(p),
	    &(struct megatron_progress){ .iteration = 5, .optimizer_steps = 4, .adam = true },
	    &text);
	CHECK_STR(text.buf,
	    "iteration 5\nconsumed_train_samples 640\noptimizer_steps 4\nskipped_iterations 1\n"
	    "dtype BF16\noptimizer adam\nweight_decay_form decoupled\nadam_beta1 0.9\n"
	    "adam_beta2 0.95\nadam_eps 1e-08\n");
	str_release(&text);
	pickle_free(p);
}

/* One change, and a line of the dump that follows from it. */
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
	{ "num_experts 8", "num_experts 8: a mixture of experts, which is not read" },
	{ "multi_latent_attention True",
	    "multi_latent_attention True: multi-latent attention, which is not read" },
	{ "softmax_type off-by-one",
	    "softmax_type 'off-by-one': another softmax, which is not read" },
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
	test_changes();
	test_bad();
	return check_done();
}
