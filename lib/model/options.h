/*
 * options.h - the options that describe a run's model, layout and batch: one place for mtrain and
 * mplan
 *
 * A tool puts a struct run_options into its config struct and RUN_OPTS(struct, member) into its
 * table; run_resolve turns what was given into a model, a layout and a shape, or says which rule is
 * broken. Names and meanings are Megatron-LM's.
 */
#ifndef MODEL_OPTIONS_H
#define MODEL_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/model/memory.h"

#include <math.h>

struct run_options {
	const char *model;
	int64_t num_layers, hidden_size, ffn_hidden_size, num_attention_heads, num_query_groups,
	    kv_channels;
	int64_t max_position_embeddings, seq_length, vocab_size, make_vocab_size_divisible_by;
	const char *window_size;
	int normalization, activation, position, rope_scaling;
	bool group_query_attention, swiglu, squared_relu, bias_gelu_fusion, openai_gelu,
	    add_position_embedding;
	bool use_rotary_position_embeddings, use_rope_scaling, rotary_interleaved, add_bias_linear,
	    add_qkv_bias, untie;
	double norm_epsilon, rotary_base, rotary_percent, rope_factor, rope_low_freq_factor,
	    rope_high_freq_factor;
	int64_t rope_original_positions;
	struct opt_list linear_biases;
	double init_method_std, attention_dropout, hidden_dropout, embedding_dropout;
	int64_t bos_token_id, pad_token_id;
	struct opt_list eos_token_id;
	int64_t tensor_model_parallel_size, pipeline_model_parallel_size, context_parallel_size;
	bool sequence_parallel, use_distributed_optimizer, use_megatron_fsdp, use_torch_fsdp2,
	    reset_attention_mask;
	int sharding;
	int64_t ddp_bucket_size;
	int64_t micro_batch_size, global_batch_size;
	bool bf16, fp16, fp64;
	int optimizer;
	int recompute_granularity, recompute_method;
	bool recompute_activations;
	int64_t recompute_num_layers;
	/* set by the program: a model whose values are the defaults, as with --model; whether its
	 * recipe counts for more than what was typed, as with --use-checkpoint-args */
	const struct model_config *fixed;
	bool keep_recipe;
};

/* What the options come to. */
struct run_plan {
	struct model_config model;
	struct layout layout;
	struct train_shape shape;
	int64_t global_batch_size;
};

/*
 * world_size: ranks of the run. vocab_size: of the tokenizer, 0 when unknown; --vocab-size and a
 * config.json win over it. Notes (one line each) go to `notes`. Returns -1 with the option, the
 * rule and a legal value.
 */
int run_resolve(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    int64_t vocab_size, struct run_plan *plan, struct str *notes, struct err *e);
/* The model alone, for a program that has no layout. */
int run_model(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c, struct err *e);

/* The model and the layout that an options.conf of a checkpoint describes; other options in the
 * text are passed over. name is for messages. data_parallel_size, which no option holds, is 1. */
int model_from_text(
    const char *name, const char *text, struct model_config *c, struct layout *l, struct err *e);

/* In the order of enum sharding. */
extern const char *const opt_shardings[];
extern const char *const opt_optimizers[], *const opt_recompute_granularities[],
					       *const opt_recompute_methods[];

enum { OPTIMIZER_ADAM, OPTIMIZER_SGD };

/* clang-format off */
#define RUN_INT(S, M, n, f, lo, d, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = lo, .max = 1e15, .def = d, \
	  .help = h }
#define RUN_NUM(S, M, n, f, lo, hi, d, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.f), .min = lo, .max = hi, .def = d, \
	  .help = h }
#define RUN_FLAG(S, M, n, f, h) { .name = n, .type = OPT_FLAG, .off = offsetof(S, M.f), .help = h }
#define RUN_UNFLAG(S, M, n, f, h) \
	{ .name = n, .type = OPT_UNFLAG, .off = offsetof(S, M.f), .help = h }
#define RUN_CHOICE(S, M, n, f, c, d, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.f), .choices = c, .def = d, \
	  .help = h }
/* clang-format on */

/* clang-format off */
#define RUN_OPTS(S, M) \
	{ .type = OPT_GROUP, .help = "Model" }, \
	{ .name = "model", .type = OPT_STRING, .off = offsetof(S, M.model), .unit = "CONFIG", \
	  .help = "a Hugging Face config.json (or its directory) in place of the shape " \
	          "options; its values are the defaults" }, \
	RUN_INT(S, M, "num-layers", num_layers, 1, NULL, "transformer layers"), \
	RUN_INT(S, M, "hidden-size", hidden_size, 1, NULL, "width of the residual stream"), \
	RUN_INT(S, M, "ffn-hidden-size", ffn_hidden_size, 1, NULL, \
	         "width of the MLP; 4 hidden-size, or with --swiglu 64 floor((8 hidden-size / " \
	         "3) / 64)"), \
	RUN_INT(S, M, "num-attention-heads", num_attention_heads, 1, NULL, "query heads"), \
	RUN_FLAG(S, M, "group-query-attention", group_query_attention, \
	         "use --num-query-groups key/value heads"), \
	RUN_INT(S, M, "num-query-groups", num_query_groups, 1, NULL, \
	         "key/value heads; by default as many as query heads, or 1 with " \
	         "--group-query-attention"), \
	RUN_INT(S, M, "kv-channels", kv_channels, 1, NULL, \
	         "width of a head; hidden-size / num-attention-heads by default"), \
	RUN_INT(S, M, "max-position-embeddings", max_position_embeddings, 1, NULL, \
	         "positions, at least seq-length, which is the default"), \
	RUN_INT(S, M, "vocab-size", vocab_size, 1, NULL, \
	         "tokens of the vocabulary; the tokenizer's by default"), \
	RUN_INT(S, M, "make-vocab-size-divisible-by", make_vocab_size_divisible_by, 1, "128", \
	         "pad the vocabulary in memory to a multiple of this and of 16 tensor ranks; " \
	         "the padding is masked, never on disk"), \
	RUN_CHOICE(S, M, "normalization", normalization, normalization_names, "LayerNorm", \
	         "kind of normalisation"), \
	RUN_NUM(S, M, "norm-epsilon", norm_epsilon, 0, INFINITY, "1e-5", \
	         "added to the mean square"), \
	RUN_CHOICE(S, M, "activation", activation, activation_names, "gelu", \
	         "activation of the MLP"), \
	RUN_FLAG(S, M, "swiglu", swiglu, "gated SiLU in the MLP: --activation swiglu"), \
	RUN_FLAG(S, M, "squared-relu", squared_relu, "--activation squared-relu"), \
	RUN_FLAG(S, M, "openai-gelu", openai_gelu, "GELU by tanh, as --activation gelu"), \
	RUN_UNFLAG(S, M, "no-bias-gelu-fusion", bias_gelu_fusion, \
	         "GELU by the error function, as Megatron-LM computes it without the fusion"), \
	RUN_CHOICE(S, M, "position-embedding-type", position, position_names, "learned_absolute", \
	         "kind of positions"), \
	RUN_UNFLAG(S, M, "no-position-embedding", add_position_embedding, \
	         "no learned positions, beside --position-embedding-type rope"), \
	RUN_FLAG(S, M, "use-rotary-position-embeddings", use_rotary_position_embeddings, \
	         "--position-embedding-type rope"), \
	RUN_NUM(S, M, "rotary-base", rotary_base, 1, INFINITY, "10000", \
	         "base of the rotary angles"), \
	RUN_NUM(S, M, "rope-theta", rotary_base, 1, INFINITY, NULL, "the same as --rotary-base"), \
	RUN_NUM(S, M, "rotary-percent", rotary_percent, 0, 1, "1", \
	         "share of a head that rotates"), \
	RUN_FLAG(S, M, "rotary-interleaved", rotary_interleaved, \
	         "rotate pairs (2i, 2i+1) instead of halves"), \
	RUN_FLAG(S, M, "use-rope-scaling", use_rope_scaling, "--rope-scaling-type llama3"), \
	RUN_CHOICE(S, M, "rope-scaling-type", rope_scaling, rope_scaling_names, "none", \
	         "scaling of the rotary angles"), \
	RUN_NUM(S, M, "rope-scaling-factor", rope_factor, 1, INFINITY, "8", \
	         "factor of the scaling"), \
	RUN_NUM(S, M, "rope-low-freq-factor", rope_low_freq_factor, 0, INFINITY, "1", \
	         "of llama3 scaling"), \
	RUN_NUM(S, M, "rope-high-freq-factor", rope_high_freq_factor, 0, INFINITY, "4", \
	         "of llama3 scaling"), \
	RUN_INT(S, M, "rope-original-positions", rope_original_positions, 1, "8192", \
	         "of llama3 scaling"), \
	RUN_UNFLAG(S, M, "disable-bias-linear", add_bias_linear, \
	         "no biases in the linear layers"), \
	RUN_FLAG(S, M, "add-qkv-bias", add_qkv_bias, "biases on q, k and v even so"), \
	{ .name = "linear-biases", .type = OPT_LIST, .off = offsetof(S, M.linear_biases), \
	  .unit = "WHERE", \
	  .help = "which linear layers have biases: any of qkv, proj, mlp; or none" }, \
	RUN_FLAG(S, M, "untie-embeddings-and-output-weights", untie, \
	         "an output table of its own"), \
	{ .name = "window-size", .type = OPT_STRING, .off = offsetof(S, M.window_size), \
	  .unit = "W", \
	  .help = "keys that a query sees, itself included; or W-1,0, as Megatron-LM counts; " \
	          "all by default" }, \
	RUN_NUM(S, M, "init-method-std", init_method_std, 0, INFINITY, "0.02", \
	         "standard deviation of the initial weights"), \
	RUN_NUM(S, M, "attention-dropout", attention_dropout, 0, 0.999, "0.1", \
	         "dropout of attention probabilities"), \
	RUN_NUM(S, M, "hidden-dropout", hidden_dropout, 0, 0.999, "0.1", \
	         "dropout of block outputs and embeddings"), \
	RUN_NUM(S, M, "embedding-dropout", embedding_dropout, 0, 0.999, NULL, \
	         "dropout of embeddings where it is another, as GPT-2's embd_pdrop"), \
	{ .name = "bos-token-id", .type = OPT_INT, .off = offsetof(S, M.bos_token_id), \
	  .def = "-1", \
	  .help = "beginning of text, for export; -1: none" }, \
	{ .name = "eos-token-id", .type = OPT_LIST, .off = offsetof(S, M.eos_token_id), \
	  .unit = "ID", \
	  .help = "ends of text, for export; the tokenizer's by default" }, \
	{ .name = "pad-token-id", .type = OPT_INT, .off = offsetof(S, M.pad_token_id), \
	  .def = "-1", \
	  .help = "padding, for export" }, \
	{ .type = OPT_GROUP, .help = "Layout" }, \
	RUN_INT(S, M, "tensor-model-parallel-size", tensor_model_parallel_size, 1, "1", \
	         "ranks that share each matrix"), \
	RUN_INT(S, M, "pipeline-model-parallel-size", pipeline_model_parallel_size, 1, "1", \
	         "pipeline stages"), \
	RUN_INT(S, M, "context-parallel-size", context_parallel_size, 1, "1", \
	         "ranks that share a sequence (1 until it is built)"), \
	RUN_FLAG(S, M, "sequence-parallel", sequence_parallel, \
	         "shard norms and residuals over tensor ranks"), \
	RUN_FLAG(S, M, "use-distributed-optimizer", use_distributed_optimizer, \
	         "share the optimizer's state over data ranks"), \
	RUN_CHOICE(S, M, "data-parallel-sharding-strategy", sharding, opt_shardings, "no_shard", \
	         "what each data rank keeps its own part of alone: optim, master weights and " \
	         "moments, as with --use-distributed-optimizer, which is its default; " \
	         "optim_grads, gradients too; optim_grads_params, weights too"), \
	RUN_FLAG(S, M, "use-megatron-fsdp", use_megatron_fsdp, \
	         "--data-parallel-sharding-strategy optim_grads_params by default"), \
	RUN_FLAG(S, M, "use-torch-fsdp2", use_torch_fsdp2, "the same"), \
	RUN_INT(S, M, "ddp-bucket-size", ddp_bucket_size, 1, "134217728", \
	         "elements of whole layers that data ranks reduce and gather at once"), \
	{ .type = OPT_GROUP, .help = "Batch and precision" }, \
	RUN_INT(S, M, "seq-length", seq_length, 1, NULL, "tokens of a sample"), \
	RUN_FLAG(S, M, "reset-attention-mask", reset_attention_mask, \
	         "a token sees its own document alone: nothing before the last end of a " \
	         "document"), \
	RUN_INT(S, M, "micro-batch-size", micro_batch_size, 1, "1", \
	         "samples that a rank handles at once"), \
	RUN_INT(S, M, "global-batch-size", global_batch_size, 1, NULL, \
	         "samples of a step; micro-batch-size x data ranks by default"), \
	RUN_FLAG(S, M, "bf16", bf16, "bfloat16 weights and activations, fp32 master weights"), \
	RUN_FLAG(S, M, "fp16", fp16, "float16 with dynamic loss scaling, fp32 master weights"), \
	RUN_FLAG(S, M, "fp64", fp64, \
	         "double precision on the CPU: an oracle for comparing layouts"), \
	RUN_CHOICE(S, M, "optimizer", optimizer, opt_optimizers, "adam", "update rule"), \
	RUN_CHOICE(S, M, "recompute-granularity", recompute_granularity, \
	         opt_recompute_granularities, "none", \
	         "activations that the backward pass makes again: selective, the outputs of " \
	         "norms and activations; full, whole layers from their inputs"), \
	RUN_FLAG(S, M, "recompute-activations", recompute_activations, \
	         "--recompute-granularity selective, whatever else that is"), \
	RUN_CHOICE(S, M, "recompute-method", recompute_method, opt_recompute_methods, "uniform", \
	         "full recomputation of all layers in chunks, or of the first layers of a " \
	         "stage (block)"), \
	RUN_INT(S, M, "recompute-num-layers", recompute_num_layers, 1, "1", \
	         "layers of a chunk (uniform), or of a stage (block), that full recomputation " \
	         "makes again")
/* clang-format on */

#endif
