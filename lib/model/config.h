/*
 * config.h - what the model is
 *
 * One plain struct from which the parameter table, the slices, the memory and the work are
 * computed. It comes from Megatron-LM's options (fields.h) or from a Hugging Face config.json
 * (family.h) and is saved in every checkpoint. A new field is a member here and a row in fields.h.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "lib/base/err.h"
#include "lib/model/pattern.h"

#include <stdbool.h>
#include <stdint.h>

enum normalization { NORMALIZATION_LAYERNORM, NORMALIZATION_RMSNORM };
/* Same order as the trainer's enum act_kind. The gated kinds have a gate and an up projection. */
enum activation {
	ACTIVATION_GELU_TANH,
	ACTIVATION_GELU_ERF,
	ACTIVATION_RELU2,
	ACTIVATION_SWIGLU,
	ACTIVATION_GEGLU_TANH
};
enum position { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE };
/* Where a block has a norm: of its input, of its branch before the residual sum, or of both. */
enum norm_placement { NORM_PLACEMENT_PRE, NORM_PLACEMENT_BOTH, NORM_PLACEMENT_POST };
enum rope_scaling {
	ROPE_SCALING_NONE,
	ROPE_SCALING_LINEAR,
	ROPE_SCALING_LLAMA3,
	ROPE_SCALING_YARN
};
/* What the weights of a token's experts are: softmax of their logits, or sigmoids divided by their
 * sum. */
enum router_score { ROUTER_SCORE_SOFTMAX, ROUTER_SCORE_SIGMOID };
/* What a router sums besides the load of each expert: n[i] P[i], lse^2 and the entropy over rows;
 * windows of rows that arrived, and the most rows (struct route_grad of train/ops.h). The last
 * column is the rows that experts with a capacity have kept. */
enum {
	ROUTER_BALANCE,
	ROUTER_SQUARE,
	ROUTER_ENTROPY,
	ROUTER_WINDOWS,
	ROUTER_ARRIVED,
	ROUTER_SUMS,
	ROUTER_KEPT = ROUTER_SUMS,
	ROUTER_COLUMNS
};
/* The tokens among which experts are balanced by a loss: those of a micro batch, or of each of its
 * sequences. Those from BALANCING_BUILT on are known and refused. */
enum balancing {
	BALANCING_AUX_LOSS,
	BALANCING_SEQ_AUX_LOSS,
	BALANCING_NONE,
	BALANCING_BUILT,
	BALANCING_GLOBAL = BALANCING_BUILT,
	BALANCING_SINKHORN,
	BALANCING_QUANTILE
};
/* The words of the options that choose a number of each enum, in its order, ended by NULL. */
extern const char *const normalization_names[],
    *const activation_names[], *const position_names[], *const rope_scaling_names[],
							    *const norm_placement_names[],
								*const router_score_names[],
								    *const balancing_names[];

/* Token ids; count 0: none. */
enum { ID_LIST_MAX = 16 };
struct id_list {
	int count;
	int64_t id[ID_LIST_MAX];
};

struct model_config {
	int64_t num_layers, hidden_size, ffn_hidden_size;
	int64_t num_attention_heads, num_query_groups, kv_channels; /* n, g, d */
	int64_t max_position_embeddings;
	int64_t vocab_size; /* real tokens; the layout adds padding (layout.h) */
	int64_t make_vocab_size_divisible_by;
	enum normalization normalization;
	double norm_epsilon;
	enum norm_placement norm_placement;
	bool apply_layernorm_1p;    /* weights of norms are stored less 1 */
	bool use_parallel_residual; /* attention and MLP of a layer both read its input */
	enum activation activation;
	enum position position;
	double rotary_base, rotary_percent;
	bool rotary_interleaved;
	enum rope_scaling rope_scaling;
	double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
	int64_t rope_original_positions;
	double yarn_beta_fast, yarn_beta_slow; /* turns over these positions */
	double
	    yarn_attention_factor; /* of cosines and sines; 0: yarn_default_factor of rope_factor */
	bool yarn_unrounded_range; /* of pairs between the two betas */
	/* word embeddings are multiplied by sqrt(hidden_size), rounded to the run's type */
	bool scale_embeddings_by_hidden_size;
	bool qkv_bias, proj_bias, mlp_bias;
	bool qk_layernorm;            /* norms of the heads of q and of k, before they rotate */
	bool qk_layernorm_hidden_dim; /* ... of all heads together */
	bool untie_embeddings_and_output_weights;
	int64_t window_size;                        /* keys a query sees, itself included; 0: all */
	struct layer_pattern window_attn_skip_freq; /* layers whose queries see all keys */
	/* of layers with a window, whose rotary angles are not scaled; 0: as the others */
	double sliding_window_rope_base;
	/* scores of attention are multiplied by its -1/2 power; 0: by that of kv_channels */
	int64_t query_pre_attn_scalar;
	/* c of c tanh(x / c), for scores of attention and for logits; 0: x */
	double attn_logit_softcapping, final_logit_softcapping;
	int64_t num_experts;                 /* of a layer with experts; 0: the model has none */
	struct layer_pattern moe_layer_freq; /* layers with an MLP in their place */
	int64_t moe_router_topk;             /* experts of a token */
	int64_t moe_ffn_hidden_size;         /* width of an expert */
	int64_t moe_shared_expert_intermediate_size; /* of that of all tokens; 0: none */
	enum router_score moe_router_score_function;
	/* softmax over all experts, not over those of the token, whose weights then sum to less
	 * than 1: Hugging Face's norm_topk_prob false */
	bool moe_router_pre_softmax;
	/* added to the scores where experts are chosen, and moved by their load at each step */
	bool moe_router_enable_expert_bias;
	double moe_router_bias_update_rate;
	enum balancing moe_router_load_balancing_type;
	double moe_aux_loss_coeff, moe_z_loss_coeff;
	double init_method_std, attention_dropout, hidden_dropout, embedding_dropout;
	int64_t bos_token_id, pad_token_id; /* for export, like the next; -1: none */
	struct id_list eos_token_id;        /* chat models may have several */
};

bool model_gated(const struct model_config *c);
int64_t model_rotary_dim(const struct model_config *c); /* elements of a head that rotate; even */
/* Keys that a query sees in a layer, itself included; 0: all. */
int64_t layer_window(const struct model_config *c, int64_t layer);
/* Whether a layer has experts in place of an MLP. */
bool layer_has_experts(const struct model_config *c, int64_t layer);
/* The number of such layers. */
int64_t model_expert_layers(const struct model_config *c);
/* Whether routers have losses of their own, of their balance or their logits. */
bool model_router_losses(const struct model_config *c);
/* What is added to the stored weights of norms. */
double model_norm_shift(const struct model_config *c);
/* What dot products of queries and keys are multiplied by. */
double model_score_scale(const struct model_config *c);
/* Rotary angles: those of the model, and those of its layers with a window where they differ. */
enum rope_table { ROPE_TABLE_MODEL, ROPE_TABLE_WINDOW, ROPE_TABLES };
enum rope_table layer_rope_table(const struct model_config *c, int64_t layer);
/* Checks every rule that does not depend on the layout; the message names the Megatron-LM option
 * and a legal value. */
int model_check(const struct model_config *c, struct err *e);
/* cos and sin of every position and angle: out[position][angle][2], rotary_dim / 2 angles. Source:
 * spec/training.md 2.4. */
void model_rope_table(
    const struct model_config *c, enum rope_table table, int64_t positions, double *out);
/* 0.1 mscale ln(factor) + 1, or 1 up to a factor of 1. */
double yarn_default_factor(double factor, double mscale);
/* Appends an id. -1 when the list is full or the id is negative. */
int id_list_add(struct id_list *ids, int64_t id, struct err *e);

#endif
