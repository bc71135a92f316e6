/*
 * params.h - the parameter table: every tensor of a model, and the part of it that a rank holds
 *
 * model_params lists the logical tensors in model order. q, k, v, gate and up are tensors of their
 * own; JOINED ones lie right after the tensor before them in a rank's buffer, so that one product
 * can read them all. shards_init places a rank's shards in one flat buffer: the order and the
 * offsets that gradients, master weights and moments share. mtrain allocates by it, mckpt reshards
 * by it, mexport names by it (family.h), mplan counts by it. Experts will be rows with an expert
 * number and a shard rule of their own.
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

enum param_flag {
	PARAM_DECAY = 1,  /* weight decay applies: two or more dimensions */
	PARAM_JOINED = 2, /* no gap to the tensor before it */
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
	/* N(0, init_std) by the counter RNG of its name; 0: the constant init_value */
	double init_std;
	double init_value;
};

/* The whole table, freed by the caller; returns the count. The config must have passed
 * model_check. */
int model_params(const struct model_config *c, struct param **out);
int64_t param_elements(const struct param *p);

/* A rank's share of one parameter. */
struct shard {
	int param;                 /* index into the table */
	int64_t shape[SLICE_DIMS]; /* as allocated here: padded rows included */
	int64_t offset, count;     /* in the flat buffer, elements */
	/* the real elements, global; they come first in memory. May be empty (count 0) */
	struct slice box;
	/* the last stage's copy of a tied table: not counted in norms, not saved */
	bool replica;
	bool owner; /* this rank's copy is counted and saved (over tp and pp; every dp rank) */
};

/* A stretch of the flat buffer whose parameters are treated alike; gaps between them are in it and
 * hold zeros. */
struct shard_run {
	int64_t first, count;
	bool decay, owner;
};

struct shards {
	int count, num_runs;
	struct shard *item;    /* in model order */
	struct shard_run *run; /* in the order of the buffer */
	/* of the flat buffer, padded to a multiple of lcm(data_parallel_size, 128) */
	int64_t elements;
};

enum { SHARD_ALIGN = 64 }; /* elements between tensors that are not joined */

/* The shards of the rank at coord; freed by shards_release. */
void shards_init(struct shards *s, const struct param *table, int count,
    const struct model_config *c, const struct layout *l, const int coord[AX_COUNT]);
void shards_release(struct shards *s);

/* Optimizer state that a checkpoint holds beside parameter X: X.exp_avg and X.exp_avg_sq; ended by
 * NULL. */
extern const char *const param_states[];
/* Is this the name of optimizer state? Then 1 + its index in param_states, else 0. */
int param_state_of(const char *name);
/* Does a tensor of these sizes fit the parameter? */
bool param_has_shape(const struct param *p, int ndim, const int64_t *shape);
/*
 * The pieces of a checkpoint that lie in elements [first, first + count) of the flat buffer and
 * belong to this shard's real elements, as boxes in global coordinates, in the order of memory.
 * Returns how many: 0 when the range holds none. Data rank r of D owns elements [r n / D, (r + 1) n
 * / D) of the n of a struct shards.
 */
int shard_pieces(
    const struct shard *s, int64_t first, int64_t count, struct slice out[SLICE_FLAT_MAX]);

#endif
