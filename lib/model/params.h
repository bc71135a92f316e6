/*
 * params.h - the parameter table: every tensor of a model, and how tensor ranks cut it
 *
 * model_params lists the logical tensors in model order. q, k, v, gate and up are tensors of their
 * own; JOINED ones lie right after the tensor before them in a rank's buffer, so that one product
 * can read them all. What a rank holds of the table is bucket.h's matter. mtrain allocates by it,
 * mckpt reshards by it, mexport names by it (family.h), mplan counts by it.
 */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "lib/base/slice.h"
#include "lib/model/layout.h"

/* What a tensor is in its layer; the engine finds its pointers by (layer, role). */
enum role {
	ROLE_WORD_EMBEDDINGS,
	ROLE_POSITION_EMBEDDINGS,
	ROLE_INPUT_NORM,
	ROLE_INPUT_NORM_BIAS,
	ROLE_Q,
	ROLE_K,
	ROLE_V,
	ROLE_Q_BIAS,
	ROLE_K_BIAS,
	ROLE_V_BIAS,
	ROLE_PROJ,
	ROLE_PROJ_BIAS,
	ROLE_MLP_NORM,
	ROLE_MLP_NORM_BIAS,
	ROLE_GATE,
	ROLE_UP,
	ROLE_GATE_BIAS,
	ROLE_UP_BIAS,
	ROLE_DOWN,
	ROLE_DOWN_BIAS,
	ROLE_FINAL_NORM,
	ROLE_FINAL_NORM_BIAS,
	ROLE_OUTPUT,
	ROLE_COUNT,
};

enum shard_rule {
	SHARD_NONE,   /* every tensor rank holds all of it */
	SHARD_EQUAL,  /* t equal parts along shard_dim */
	SHARD_GROUPS, /* by key/value groups; t > g ranks share a group's rows */
	SHARD_VOCAB,  /* rows padded to layout_vocab, then t equal parts */
};

/* Over whom the gradient of a tensor, as a rank computes it, is a partial sum inside a replica of
 * the model. */
enum param_sum {
	SUM_TENSOR = 1, /* all tensor ranks, which hold the whole of it and use parts */
	SUM_GROUPS = 2, /* tensor ranks that hold the same key/value groups */
	SUM_ENDS = 4,   /* the first and the last stage, when they share a table */
};

enum param_flag {
	PARAM_JOINED = 1, /* no gap to the tensor before it */
};

struct param {
	char name[96]; /* "decoder.layers.3.self_attention.linear_q.weight" */
	enum role role;
	int layer; /* -1 before the layers, num_layers after them */
	int ndim;
	int64_t shape[SLICE_DIMS]; /* global, unpadded */
	enum shard_rule shard;
	int shard_dim;
	unsigned flags;
	unsigned sums; /* enum param_sum */
	/* N(0, init_std) by the counter RNG of its name; 0: the constant init_value */
	double init_std;
	double init_value;
};

/* The whole table, freed by the caller; returns the count. The config must have passed
 * model_check. */
int model_params(const struct model_config *c, struct param **out);
int64_t param_elements(const struct param *p);
int64_t model_num_parameters(const struct model_config *c);

/* Optimizer state that a checkpoint holds beside parameter X: X.exp_avg and X.exp_avg_sq; ended by
 * NULL. */
extern const char *const param_states[];
/* Is this the name of optimizer state? Then 1 + its index in param_states, else 0. */
int param_state_of(const char *name);
/* Does a tensor of these sizes fit the parameter? */
bool param_has_shape(const struct param *p, int ndim, const int64_t *shape);

/*
 * The slice of p that tensor rank tp holds, without padding: rows beyond the tensor's end exist in
 * memory only, and the last ranks of a large padding may hold nothing. *held: along shard_dim as
 * they are held in memory, padding included.
 */
struct slice param_slice(const struct param *p, const struct model_config *c,
    const struct layout *l, int tp, int64_t *held);

#endif
