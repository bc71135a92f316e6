/*
 * fields.h - the fields of a model as rows, and the options that set them
 *
 * A field of struct model_config appears in two places: as a member there and as a row here, which
 * gives its option with range, default and help, its line in a dump, whether it counts when models
 * are compared, and whether a checkpoint's value overrides the command line. The options are a
 * macro because each tool's option table is a constant with the struct at its own offset; fields.c
 * expands the rows once more for its own use.
 */
#ifndef MODEL_FIELDS_H
#define MODEL_FIELDS_H

#include "lib/base/opt.h"
#include "lib/model/config.h"

#include <math.h>

/* Values of the options in the group "Model". */
struct model_options {
	const char *path; /* of a config.json */
	/* by field; options that were not given have their default, or 0 */
	struct model_config typed;
	/* fields given as words, see model_read_words */
	struct opt_list linear_biases, eos_token_id;
	const char *window_size, *window_attn_skip_freq, *moe_layer_freq;
	/* switches that set fields, by Megatron-LM's rules */
	bool group_query_attention, swiglu, squared_relu, bias_gelu_fusion, openai_gelu,
	    add_position_embedding, use_rotary_position_embeddings, use_rope_scaling,
	    add_bias_linear, add_qkv_bias;
	/* set by the program: a model whose values serve as defaults, as with --model; and whether
	 * its recipe overrides the command line, as with --use-checkpoint-args */
	const struct model_config *fixed;
	bool keep_recipe;
};

/* The tag of a row. A row without one is a switch or an alias. */
enum model_tag {
	/* has a line in every dump: a field's own row, and the switch that Megatron-LM needs with
	 * --num-query-groups */
	MODEL_DUMPED = 1,
	MODEL_IF_SET = 2, /* ... unless it is 0 */
	MODEL_IF_SCALED =
	    4, /* ... of models with any, or with one of these, scaling of positions */
	MODEL_IF_LLAMA3 = 8,
	MODEL_IF_YARN = 128,
	MODEL_BASE = 16,        /* the default also applies to a config.json without the member */
	MODEL_KEPT = 32,        /* part of the recipe, see model_keep_recipe */
	MODEL_IF_EXPERTS = 256, /* ... of models with experts */
	MODEL_FREE = 64,        /* may change without changing the meaning of stored weights */
	MODEL_MLP = 512,        /* ... of a model in which every layer has experts */
	MODEL_ROTARY = 1024,    /* ... of a model whose positions do not rotate */
};

/* Whether untyped options leave the values of a config.json or a checkpoint alone. */
bool model_has_base(const struct model_options *o);
/* Sets the fields of rows with the tag to their defaults, and all others to 0. */
void model_defaults(struct model_config *c, enum model_tag tag);
/* Copies the fields that were given to c; without a base also the defaults of the others. Fields
 * given as words are left alone. p holds the rows of MODEL_OPTS for o. */
void model_take(const struct opt_parse *p, const struct model_options *o, struct model_config *c);
/* Reads the fields that are given as words: biases, window and ends of text. */
int model_read_words(const struct opt_parse *p, const struct model_options *o,
    struct model_config *c, struct err *e);
/* Copies the fields that Megatron-LM always takes from the checkpoint (load_args_from_checkpoint of
 * megatron/training/checkpointing.py); sizes given on the command line stay. */
void model_keep_recipe(const struct model_config *from, struct model_config *c);

/* The config as an option file, readable by mtrain --config; checkpoints store it. */
void model_dump(const struct model_config *c, struct str *out);
/* The differences of a and b, one line per option: its name, a's line and b's line, separated by
 * tabs. A line is "'num-layers 2'", or "no num-layers" where there is none. */
void model_differences(const struct model_config *a, const struct model_config *b, struct str *out);
/* The same without options that do not change the meaning of stored weights, such as dropout,
 * initial values, special ids and the number of positions, the width of an MLP that no layer has,
 * and rotary angles of positions that do not rotate. */
void model_weight_differences(
    const struct model_config *a, const struct model_config *b, struct str *out);

/* clang-format off */
#define MODEL_INT(S, M, n, f, lo, d, t, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.typed.f), .min = lo, .max = 1e15, \
	  .def = d, .tag = t, .help = h }
#define MODEL_ID(S, M, n, f, d, t, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.typed.f), .def = d, .tag = t, .help = h }
#define MODEL_NUM(S, M, n, f, lo, hi, d, t, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.typed.f), .min = lo, .max = hi, \
	  .def = d, .tag = t, .help = h }
#define MODEL_FLAG(S, M, n, f, t, h) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.typed.f), .tag = t, .help = h }
#define MODEL_CHOICE(S, M, n, f, c, d, t, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.typed.f), .choices = c, .def = d, \
	  .tag = t, .help = h }
#define MODEL_WORDS(S, M, n, y, f, u, t, h) \
	{ .name = n, .type = y, .off = offsetof(S, M.f), .unit = u, .tag = t, .help = h }
#define MODEL_SWITCH(S, M, n, f, t, h) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.f), .tag = t, .help = h }
#define MODEL_UNSWITCH(S, M, n, f, h) \
	{ .name = n, .type = OPT_UNFLAG, .off = offsetof(S, M.f), .help = h }

/* M is the struct model_options in S. Help, dumps and differences follow this order. */
#define MODEL_OPTS(S, M) \
	{ .type = OPT_GROUP, .help = "Model" }, \
	{ .name = "model", .type = OPT_STRING, .off = offsetof(S, M.path), .unit = "CONFIG", \
	  .help = "a Hugging Face config.json (or its directory) in place of the shape " \
	          "options; its values are the defaults" }, \
	MODEL_INT(S, M, "num-layers", num_layers, 1, NULL, MODEL_DUMPED, "transformer layers"), \
	MODEL_INT(S, M, "hidden-size", hidden_size, 1, NULL, MODEL_DUMPED, \
	         "width of the residual stream"), \
	MODEL_INT(S, M, "ffn-hidden-size", ffn_hidden_size, 1, NULL, \
	         MODEL_DUMPED | MODEL_MLP, \
	         "width of the MLP; 4 hidden-size, or with --swiglu 64 floor((8 hidden-size / " \
	         "3) / 64)"), \
	MODEL_INT(S, M, "num-attention-heads", num_attention_heads, 1, NULL, MODEL_DUMPED, \
	         "query heads"), \
	MODEL_SWITCH(S, M, "group-query-attention", group_query_attention, MODEL_DUMPED, \
	         "use --num-query-groups key/value heads"), \
	MODEL_INT(S, M, "num-query-groups", num_query_groups, 1, NULL, MODEL_DUMPED | MODEL_KEPT, \
	         "key/value heads; by default as many as query heads, or 1 with " \
	         "--group-query-attention"), \
	MODEL_INT(S, M, "kv-channels", kv_channels, 1, NULL, MODEL_DUMPED, \
	         "width of a head; hidden-size / num-attention-heads by default"), \
	MODEL_INT(S, M, "max-position-embeddings", max_position_embeddings, 1, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_FREE, \
	         "positions, at least seq-length, which is the default"), \
	MODEL_INT(S, M, "vocab-size", vocab_size, 1, NULL, MODEL_DUMPED, \
	         "tokens of the vocabulary; the tokenizer's by default"), \
	MODEL_INT(S, M, "make-vocab-size-divisible-by", make_vocab_size_divisible_by, 1, "128", \
	         MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	         "pad the vocabulary in memory to a multiple of this and of 16 tensor ranks; " \
	         "the padding is masked, never on disk"), \
	MODEL_CHOICE(S, M, "normalization", normalization, normalization_names, "LayerNorm", \
	         MODEL_DUMPED | MODEL_KEPT, "kind of normalisation"), \
	MODEL_NUM(S, M, "norm-epsilon", norm_epsilon, 0, INFINITY, "1e-5", MODEL_DUMPED, \
	         "added to the mean square"), \
	MODEL_CHOICE(S, M, "norm-placement", norm_placement, norm_placement_names, "pre", \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "norms of the inputs of attention and MLP, of their outputs before the residual " \
	         "sum, or of both"), \
	MODEL_FLAG(S, M, "apply-layernorm-1p", apply_layernorm_1p, MODEL_DUMPED | MODEL_KEPT, \
	         "weights of norms are stored less 1"), \
	MODEL_FLAG(S, M, "use-parallel-residual", use_parallel_residual, \
	         MODEL_DUMPED | MODEL_KEPT, \
	         "the MLP of a layer reads what its attention reads, and both are added to it"), \
	MODEL_CHOICE(S, M, "activation", activation, activation_names, "gelu", \
	         MODEL_DUMPED | MODEL_KEPT, "activation of the MLP"), \
	MODEL_SWITCH(S, M, "swiglu", swiglu, 0, "gated SiLU in the MLP: --activation swiglu"), \
	MODEL_SWITCH(S, M, "squared-relu", squared_relu, 0, "--activation squared-relu"), \
	MODEL_SWITCH(S, M, "openai-gelu", openai_gelu, 0, "GELU by tanh, as --activation gelu"), \
	MODEL_UNSWITCH(S, M, "no-bias-gelu-fusion", bias_gelu_fusion, \
	         "GELU by the error function, as Megatron-LM computes it without the fusion"), \
	MODEL_CHOICE(S, M, "position-embedding-type", position, position_names, \
	         "learned_absolute", MODEL_DUMPED | MODEL_KEPT, "kind of positions"), \
	MODEL_UNSWITCH(S, M, "no-position-embedding", add_position_embedding, \
	         "no learned positions, with --position-embedding-type rope"), \
	MODEL_SWITCH(S, M, "use-rotary-position-embeddings", use_rotary_position_embeddings, 0, \
	         "--position-embedding-type rope"), \
	MODEL_NUM(S, M, "rotary-base", rotary_base, 1, INFINITY, "10000", \
	         MODEL_DUMPED | MODEL_BASE | MODEL_KEPT | MODEL_ROTARY, \
	         "base of the rotary angles"), \
	MODEL_NUM(S, M, "rope-theta", rotary_base, 1, INFINITY, NULL, 0, \
	         "the same as --rotary-base"), \
	MODEL_NUM(S, M, "rotary-percent", rotary_percent, 0, 1, "1", \
	         MODEL_DUMPED | MODEL_BASE | MODEL_KEPT | MODEL_ROTARY, \
	         "share of a head that rotates"), \
	MODEL_FLAG(S, M, "rotary-interleaved", rotary_interleaved, \
	         MODEL_DUMPED | MODEL_KEPT | MODEL_ROTARY, \
	         "rotate pairs (2i, 2i+1) instead of halves"), \
	MODEL_SWITCH(S, M, "use-rope-scaling", use_rope_scaling, 0, \
	         "--rope-scaling-type llama3"), \
	MODEL_CHOICE(S, M, "rope-scaling-type", rope_scaling, rope_scaling_names, "none", \
	         MODEL_DUMPED, "scaling of the rotary angles"), \
	MODEL_NUM(S, M, "rope-scaling-factor", rope_factor, 0, INFINITY, "8", \
	         MODEL_DUMPED | MODEL_IF_SCALED, "factor of the scaling"), \
	MODEL_NUM(S, M, "rope-low-freq-factor", rope_low_freq_factor, 0, INFINITY, "1", \
	         MODEL_DUMPED | MODEL_IF_LLAMA3, "of llama3 scaling"), \
	MODEL_NUM(S, M, "rope-high-freq-factor", rope_high_freq_factor, 0, INFINITY, "4", \
	         MODEL_DUMPED | MODEL_IF_LLAMA3, "of llama3 scaling"), \
	MODEL_INT(S, M, "rope-original-positions", rope_original_positions, 1, "8192", \
	         MODEL_DUMPED | MODEL_IF_LLAMA3 | MODEL_IF_YARN, "of llama3 and yarn scaling"), \
	MODEL_INT(S, M, "yarn-original-max-position-embeddings", rope_original_positions, 1, NULL, \
	         0, "the same as --rope-original-positions"), \
	MODEL_NUM(S, M, "yarn-beta-fast", yarn_beta_fast, 0, INFINITY, "32", \
	         MODEL_DUMPED | MODEL_IF_YARN, \
	         "turns over the original positions from which on yarn keeps an angle"), \
	MODEL_NUM(S, M, "yarn-beta-slow", yarn_beta_slow, 0, INFINITY, "1", \
	         MODEL_DUMPED | MODEL_IF_YARN, \
	         "turns below which yarn divides it by the factor"), \
	MODEL_NUM(S, M, "yarn-attention-factor", yarn_attention_factor, 0, INFINITY, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_YARN, \
	         "what yarn multiplies cosines and sines by; 0.1 ln(factor) + 1 by default"), \
	MODEL_FLAG(S, M, "no-yarn-correction-range-round-to-int", yarn_unrounded_range, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_YARN, \
	         "yarn interpolates between pairs that are not rounded"), \
	MODEL_FLAG(S, M, "scale-embeddings-by-hidden-size", scale_embeddings_by_hidden_size, \
	         MODEL_DUMPED | MODEL_KEPT, \
	         "word embeddings times the square root of hidden-size, rounded to the run's " \
	         "type"), \
	MODEL_UNSWITCH(S, M, "disable-bias-linear", add_bias_linear, \
	         "no biases in the linear layers"), \
	MODEL_SWITCH(S, M, "add-qkv-bias", add_qkv_bias, 0, \
	         "biases on q, k and v even with --disable-bias-linear"), \
	MODEL_WORDS(S, M, "linear-biases", OPT_LIST, linear_biases, "WHERE", \
	         MODEL_DUMPED | MODEL_KEPT, \
	         "which linear layers have biases: any of qkv, proj, mlp; or none"), \
	MODEL_FLAG(S, M, "qk-layernorm", qk_layernorm, MODEL_DUMPED | MODEL_KEPT, \
	         "norms of the heads of q and k, with one weight for all heads of a layer"), \
	MODEL_FLAG(S, M, "qk-layernorm-hidden-dim", qk_layernorm_hidden_dim, \
	         MODEL_DUMPED | MODEL_KEPT, \
	         "with --qk-layernorm: one norm of all heads of q, and one of all of k, with one " \
	         "tensor rank"), \
	MODEL_FLAG(S, M, "untie-embeddings-and-output-weights", \
	         untie_embeddings_and_output_weights, MODEL_DUMPED | MODEL_KEPT, \
	         "a separate output table"), \
	MODEL_WORDS(S, M, "window-size", OPT_STRING, window_size, "W", \
	         MODEL_DUMPED | MODEL_IF_SET, \
	         "keys that a query sees, itself included; or W-1,0, as Megatron-LM counts; " \
	         "all by default"), \
	MODEL_WORDS(S, M, "window-attn-skip-freq", OPT_STRING, window_attn_skip_freq, "N", \
	         MODEL_DUMPED | MODEL_IF_SET, \
	         "in every Nth layer queries see all keys; or a list of all layers, 1 for a " \
	         "window, such as ([1]*5+[0])*8"), \
	MODEL_NUM(S, M, "sliding-window-rope-base", sliding_window_rope_base, 0, INFINITY, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "base of the rotary angles in layers with a window, not scaled; " \
	         "--rotary-base by default"), \
	MODEL_INT(S, M, "query-pre-attn-scalar", query_pre_attn_scalar, 1, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "dot products of queries and keys are multiplied by its -1/2 power; " \
	         "kv-channels by default"), \
	MODEL_NUM(S, M, "attn-logit-softcapping", attn_logit_softcapping, 0, INFINITY, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "c of c tanh(x / c) over the scores of attention; 0: none. " \
	         "cuDNN does not serve such attention, own kernels do"), \
	MODEL_NUM(S, M, "final-logit-softcapping", final_logit_softcapping, 0, INFINITY, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "the same over the logits"), \
	MODEL_INT(S, M, "num-experts", num_experts, 1, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	         "experts, of which a layer has these in place of an MLP"), \
	MODEL_WORDS(S, M, "moe-layer-freq", OPT_STRING, moe_layer_freq, "N", \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "the first and then every Nth layer has experts; or a list of all layers, 1 " \
	         "for experts, such as ([0]*1+[1]*3)*8; all by default"), \
	MODEL_INT(S, M, "moe-router-topk", moe_router_topk, 1, "2", \
	         MODEL_DUMPED | MODEL_BASE | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "experts that a token is sent to"), \
	MODEL_INT(S, M, "moe-ffn-hidden-size", moe_ffn_hidden_size, 1, NULL, \
	         MODEL_DUMPED | MODEL_IF_EXPERTS, \
	         "width of an expert; --ffn-hidden-size by default"), \
	MODEL_INT(S, M, "moe-shared-expert-intermediate-size", \
	         moe_shared_expert_intermediate_size, 1, NULL, \
	         MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "width of an expert that all tokens of a layer are sent to; none by default"), \
	MODEL_CHOICE(S, M, "moe-router-score-function", moe_router_score_function, \
	         router_score_names, "softmax", MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "weights of a token's experts: softmax of their logits, or their sigmoids " \
	         "divided by the sum of these"), \
	MODEL_FLAG(S, M, "moe-router-pre-softmax", moe_router_pre_softmax, \
	         MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "softmax over all experts before those of a token are chosen, as Hugging Face's " \
	         "norm_topk_prob false; over the chosen ones by default"), \
	MODEL_FLAG(S, M, "moe-router-enable-expert-bias", moe_router_enable_expert_bias, \
	         MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	         "with sigmoid: choose by scores with a bias for each expert, which every step " \
	         "raises for those with too few tokens and lowers for the others"), \
	MODEL_NUM(S, M, "moe-router-bias-update-rate", moe_router_bias_update_rate, 0, INFINITY, \
	         "1e-3", MODEL_DUMPED | MODEL_BASE | MODEL_IF_EXPERTS | MODEL_FREE, \
	         "by how much it does so"), \
	MODEL_CHOICE(S, M, "moe-router-load-balancing-type", moe_router_load_balancing_type, \
	         balancing_names, "aux_loss", MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	         "what --moe-aux-loss-coeff balances the load of experts over: the tokens of a " \
	         "micro batch (aux_loss), or each sequence (seq_aux_loss); the last three are " \
	         "not supported"), \
	MODEL_NUM(S, M, "moe-aux-loss-coeff", moe_aux_loss_coeff, 0, INFINITY, "0", \
	         MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	         "weight of the loss that balances the load of experts"), \
	MODEL_NUM(S, M, "moe-z-loss-coeff", moe_z_loss_coeff, 0, INFINITY, NULL, \
	         MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	         "weight of the mean square of the router's log-sum-exp"), \
	MODEL_NUM(S, M, "init-method-std", init_method_std, 0, INFINITY, "0.02", \
	         MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	         "standard deviation of the initial weights"), \
	MODEL_NUM(S, M, "attention-dropout", attention_dropout, 0, 0.999, "0.1", \
	         MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, "dropout of attention probabilities"), \
	MODEL_NUM(S, M, "hidden-dropout", hidden_dropout, 0, 0.999, "0.1", \
	         MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, \
	         "dropout of block outputs and embeddings"), \
	MODEL_NUM(S, M, "embedding-dropout", embedding_dropout, 0, 0.999, NULL, \
	         MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, \
	         "dropout of embeddings, if different, such as GPT-2's embd_pdrop"), \
	MODEL_ID(S, M, "bos-token-id", bos_token_id, "-1", MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	         "beginning of text, for export; -1: none"), \
	MODEL_WORDS(S, M, "eos-token-id", OPT_LIST, eos_token_id, "ID", MODEL_DUMPED | MODEL_FREE, \
	         "ends of text, for export; the tokenizer's by default"), \
	MODEL_ID(S, M, "pad-token-id", pad_token_id, "-1", MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	         "padding, for export")
/* clang-format on */

#endif
