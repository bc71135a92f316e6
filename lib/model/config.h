/*
 * config.h - what the model is
 *
 * One plain struct from which the parameter table, the slices, the memory and the work are
 * computed. It comes from Megatron-LM's options (fields.h) or from a Hugging Face config.json
 * (family.h) and is saved in every checkpoint. Its fields are the rows of fields_list.h.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "lib/base/err.h"
#include "lib/model/fields_list.h"
#include "lib/model/pattern.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum normalization { NORMALIZATION_LAYERNORM, NORMALIZATION_RMSNORM };
/* Same order as the trainer's enum act_kind. The gated kinds have a gate and an up projection. */
enum activation {
	ACTIVATION_GELU_TANH,
	ACTIVATION_GELU_ERF,
	ACTIVATION_RELU2,
	ACTIVATION_SWIGLU,
	ACTIVATION_GEGLU_TANH,
	ACTIVATION_QUICK_GEGLU
};
enum position { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE };
/* Where a block has a norm: of its input, of its branch before the residual sum, or of both. */
enum norm_placement { NORM_PLACEMENT_PRE, NORM_PLACEMENT_BOTH, NORM_PLACEMENT_POST };
/* What the softmax of attention has besides the scores of keys: nothing, a score of 0, or one that
 * each head learns. */
enum softmax_type { SOFTMAX_VANILLA, SOFTMAX_OFF_BY_ONE, SOFTMAX_LEARNABLE };
enum rope_scaling {
	ROPE_SCALING_NONE,
	ROPE_SCALING_LINEAR,
	ROPE_SCALING_LLAMA3,
	ROPE_SCALING_YARN,
	ROPE_SCALING_LONGROPE
};
/* What the weights of a token's experts are: softmax of their logits, or sigmoids divided by their
 * sum. */
enum router_score { ROUTER_SCORE_SOFTMAX, ROUTER_SCORE_SIGMOID };
/* What a router sums besides the load of each expert: n[i] P[i], lse^2 and the entropy over rows;
 * rounds of rows that arrived, and the most rows (struct route_grad of train/ops.h). The last
 * column is the rows that experts with a capacity have kept. */
enum {
	ROUTER_BALANCE,
	ROUTER_SQUARE,
	ROUTER_ENTROPY,
	ROUTER_ROUNDS,
	ROUTER_RECEIVED,
	ROUTER_SUMS,
	ROUTER_KEPT = ROUTER_SUMS,
	ROUTER_COLUMNS
};
/* The tokens among which experts are balanced by a loss: those of a micro batch, of each of its
 * sequences, or of the micro batches of all data ranks in the step so far. Those from
 * BALANCING_BUILT on are known and refused. */
enum balancing {
	BALANCING_AUX_LOSS,
	BALANCING_SEQ_AUX_LOSS,
	BALANCING_NONE,
	BALANCING_GLOBAL_AUX_LOSS,
	BALANCING_BUILT,
	BALANCING_SINKHORN = BALANCING_BUILT,
	BALANCING_QUANTILE
};
/* The most groups of experts: a GPU compares them in one warp. */
enum { MODEL_GROUPS_MAX = 32 };

/* Layers that predict later tokens. */
enum { MODEL_MTP_MAX = 8 };
/* The words of the options that choose a number of each enum, in its order, ended by NULL. */
extern const char *const normalization_names[], *const activation_names[];
extern const char *const position_names[], *const rope_scaling_names[];
extern const char *const position_words[]; /* other programs', for .alias of a row */
extern const char *const norm_placement_names[], *const router_score_names[];
extern const char *const balancing_names[], *const softmax_type_names[];

/* Token ids; count 0: none. */
enum { ID_LIST_MAX = 16 };
struct id_list {
	int count;
	int64_t id[ID_LIST_MAX];
};

/* A divisor of the angle of each pair; count 0: none. */
enum { ROPE_FACTORS_MAX = 256 };
struct rope_factors {
	int count;
	double factor[ROPE_FACTORS_MAX];
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
	MODEL_IF_LONGROPE = 4096,
	MODEL_BASE = 16,         /* the default also applies to a config.json without the member */
	MODEL_KEPT = 32,         /* part of the recipe, see model_keep_recipe */
	MODEL_IF_EXPERTS = 256,  /* ... of models with experts */
	MODEL_IF_LATENT = 8192,  /* ... of models with latent attention */
	MODEL_IF_LINEAR = 32768, /* ... of models with linear attention */
	MODEL_IF_MTP = 16384,    /* ... of models that predict later tokens */
	MODEL_FREE = 64,         /* may change without changing the meaning of stored weights */
	MODEL_MLP = 512,         /* ... of a model in which every layer has experts */
	MODEL_ROTARY = 1024,     /* ... of a model whose positions do not rotate */
	/* changes what is computed, and may be changed for a run that begins with the weights */
	MODEL_FREE_START = 2048,
};

/* The member of a row of fields_list.h, if it has one of its own. */
#define MODEL_MEMBER(kind, S, M, ...) MODEL_MEMBER_##kind(__VA_ARGS__)
#define MODEL_MEMBER_INT(n, f, ...) int64_t f;
#define MODEL_MEMBER_ID(n, f, ...) int64_t f;
#define MODEL_MEMBER_NUM(n, f, ...) double f;
#define MODEL_MEMBER_FLAG(n, f, ...) bool f;
#define MODEL_MEMBER_CHOICE(n, type, f, ...) \
	static_assert(sizeof(type) == sizeof(int), "options store a choice as int"); \
	type f;
#define MODEL_MEMBER_WORDS(n, y, f, u, t, needed, h, ...) __VA_ARGS__;
#define MODEL_MEMBER_SWITCH(...)
#define MODEL_MEMBER_UNSWITCH(...)
#define MODEL_MEMBER_SAME_INT(...)
#define MODEL_MEMBER_SAME_NUM(...)

struct model_config {
	MODEL_FIELDS(MODEL_MEMBER, , )
};

bool model_gated(const struct model_config *c);
/* Whether blocks begin with a norm of their input, and end with one of their branch. */
bool model_pre_norm(const struct model_config *c);
bool model_post_norm(const struct model_config *c);
/* Whether a norm subtracts the mean, and whether it has a bias. */
bool model_norm_means(const struct model_config *c);
bool model_norm_biases(const struct model_config *c);
int64_t model_rotary_dim(const struct model_config *c); /* elements of a head that rotate; even */
/* The width of a head of values, and what norms of latents add to the mean square. */
int64_t model_value_dim(const struct model_config *c);
double model_latent_epsilon(const struct model_config *c);
/* The layer before the embedding is -1, num_layers is the head, and those after it, up to this
 * number, predict later tokens, each like the last of the layers before the head. */
int64_t model_end(const struct model_config *c);
/* Whether a layer is one of attention and an MLP or experts: of the model's, or after the head. */
bool layer_transforms(const struct model_config *c, int64_t layer);
/* How many there are, and the number of one among them. */
int64_t model_transforms(const struct model_config *c);
int64_t layer_transforms_before(const struct model_config *c, int64_t layer);
/* Whether the first and the last pipeline stage both read the table of word embeddings. */
bool model_table_at_ends(const struct model_config *c);
/* Keys that a query sees in a layer, itself included; 0: all. */
int64_t layer_window(const struct model_config *c, int64_t layer);
/* Whether a layer has linear attention; whether any has, and how many have not. */
bool layer_is_linear(const struct model_config *c, int64_t layer);
bool model_has_linear(const struct model_config *c);
int64_t model_softmax_layers(const struct model_config *c);
/* Whether a layer has experts in place of an MLP. */
bool layer_has_experts(const struct model_config *c, int64_t layer);
/* The number of such layers. */
int64_t model_expert_layers(const struct model_config *c);
/* The same with those after the head; and of these before a layer. */
int64_t model_routers(const struct model_config *c);
int64_t layer_routers_before(const struct model_config *c, int64_t layer);
/* What multiplies the weights of a token's experts. */
double model_topk_scale(const struct model_config *c);
/* Whether routers have losses of their own, of their balance or their logits. */
bool model_router_losses(const struct model_config *c);
/* Whether one of these counts the loads of all data ranks in a step. */
bool model_balances_globally(const struct model_config *c);
/* What is added to the stored weights of norms. */
double model_norm_shift(const struct model_config *c);
/* 0.1 mscale ln(factor) + 1, or 1 up to a factor of 1: what multiplies cosines and sines, or, of
 * all elements of queries and keys, the square root of what multiplies their dot products. */
double yarn_default_factor(double factor, double mscale);
/* What dot products of queries and keys are multiplied by. */
double model_score_scale(const struct model_config *c);
/* Rotary angles: those of the model, and those of its layers with a window where they differ. Of
 * layers that do not rotate: NONE. */
enum rope_table { ROPE_TABLE_MODEL, ROPE_TABLE_WINDOW, ROPE_TABLES, ROPE_TABLE_NONE = ROPE_TABLES };
enum rope_table layer_rope_table(const struct model_config *c, int64_t layer);
/* Checks every rule that does not depend on the layout; the message names the Megatron-LM option
 * and a legal value. */
int model_check(const struct model_config *c, struct err *e);
/* Its parts, ended by NULL: all but the first rely on the first alone. */
extern int (*const model_checks[])(const struct model_config *c, struct err *e);
/* The length of sequences where none is given: all positions that are computed. */
int64_t model_longest(const struct model_config *c);
/* 0 if the model computes sequences of this length. */
int model_check_length(const struct model_config *c, int64_t length, struct err *e);
/* Appends an id. -1 when the list is full or the id is negative. */
int id_list_add(struct id_list *ids, int64_t id, struct err *e);

#endif
