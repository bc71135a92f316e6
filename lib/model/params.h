/*
 * params.h - the parameter table: every tensor of a model, and how tensor ranks cut it
 *
 * model_params lists the logical tensors in model order. q, k, v, gate and up are tensors of their
 * own; JOINED ones lie right after the tensor before them in a rank's buffer, so that one GEMM can
 * read them all. bucket.h says what a rank holds of the table. mtrain allocates by it, mckpt
 * reshards by it, mexport names by it (family.h), mplan counts by it.
 */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "lib/base/slice.h"
#include "lib/model/block/sharding.h"
#include "lib/model/layout.h"

struct param {
	/* "decoder.layers.3.self_attention.linear_q.weight", or of one expert
	 * "decoder.layers.3.mlp.experts.17.linear_up.weight" */
	char name[96];
	const char *in_layer; /* its row's name, which is the same in every layer; static */
	int number;           /* the number of its block for it */
	int layer;            /* -1 before the layers, num_layers after them; above it: model_end */
	int expert;           /* of the layer; -1: the tensor is of no single one */
	int ndim;
	int64_t shape[SLICE_DIMS]; /* global, unpadded */
	enum shard_rule shard;
	int shard_dim;
	unsigned flags;
	struct reduction sums;
	/* N(0, init_std) from the counter RNG keyed by its name; 0: the constant init_value */
	double init_std;
	double init_value;
	/* above 0: element i of n is the logarithm of (i + 1/2) / n times this */
	double init_log;
};

/* The whole table, freed by the caller; returns the count. The config must have passed
 * model_check. */
int model_params(const struct model_config *c, struct param **out);
int64_t param_elements(const struct param *p);
int64_t model_num_parameters(const struct model_config *c);
/* Of these, the parameters that a token meets: of the experts of a layer, moe_router_topk. */
int64_t model_active_parameters(const struct model_config *c);

/* A name from its form, in which the first "%d" is number[0], the layer, and a second one
 * number[1], the expert. What does not fit into `size` bytes is cut. */
void param_name(const char *form, const int number[2], char *out, size_t size);
/* Whether p has this name in its layer, with "%d" for the expert. */
bool param_is(const struct param *p, const char *in_layer);
/* The rows of a tensor of a model that may have it, by the name in its layer. */
int64_t param_rows(const struct model_config *c, const char *in_layer);
/* Whether a tensor of these sizes fits the parameter. */
bool param_has_shape(const struct param *p, int ndim, const int64_t *shape);

/* Whether p is a matrix of a layer: none of the embedding, nor of the head. */
bool param_is_layer_matrix(const struct param *p, const struct model_config *c);

/* Whether the copy of p on tensor rank tp is the one that is counted and saved: of ranks that hold
 * the same, the lowest one's. */
bool param_owner(
    const struct param *p, const struct model_config *c, const struct layout *l, int tp);

/* True for an expert's tensor where ranks share the experts: tensor ranks are among those, and what
 * each holds is its own. */
bool param_among_experts(const struct param *p, const struct layout *l);
/* The ranks that share a matrix of a layer, or take turns with those that each of them holds:
 * tensor ranks, or of experts that ranks share those with slices of the same ones. */
int64_t param_ranks(const struct param *p, const struct layout *l);
/* Over whom the gradient of p is a partial sum under this layout: enum param_sum. */
unsigned param_sums(const struct param *p, const struct layout *l);

/*
 * The slice of p that the rank at coord holds, if it holds any, without padding: rows beyond the
 * tensor's end exist only in memory, so with much padding the last ranks may hold nothing. *held:
 * rows along shard_dim in memory, padding included.
 */
struct slice param_slice(const struct param *p, const struct model_config *c,
    const struct layout *l, const int coord[AX_COUNT], int64_t *held);

#endif
