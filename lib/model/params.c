/*
 * params.c - the parameter table
 *
 * One row a role is the single place that says which tensors a model has, how they are cut and how
 * they begin; allocation, initialisation, sharding, checkpoints and exports all follow from it.
 * Weights are [out, in]. A linear that is cut along its output has shard_dim 0, one cut along its
 * input 1.
 */
#include "lib/base/mem.h"
#include "lib/model/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const param_states[] = { "exp_avg", "exp_avg_sq", NULL };

enum dim { D_NONE, D_VOCAB, D_POSITIONS, D_HIDDEN, D_Q, D_KV, D_FFN };
enum where { BEFORE, LAYER, AFTER };
enum when {
	ALWAYS,
	IF_LEARNED,
	IF_LAYERNORM,
	IF_QKV_BIAS,
	IF_PROJ_BIAS,
	IF_MLP_BIAS,
	IF_GATED,
	IF_GATED_BIAS,
	IF_UNTIED
};
enum init { INIT_NORMAL, INIT_RESIDUAL, INIT_ONE, INIT_ZERO };

#define L "decoder.layers.%d."

/* One row a role. Weights are [out, in]: y = x W^T. */
static const struct row {
	const char *name;
	enum where where;
	enum when when;
	enum dim dim[2];
	enum shard_rule shard;
	int shard_dim;
	enum init init;
	unsigned flags;
	unsigned sums; /* who sums what */
} rows[ROLE_COUNT] = {
	[ROLE_WORD_EMBEDDINGS] = { "embedding.word_embeddings.weight", BEFORE, ALWAYS,
	    { D_VOCAB, D_HIDDEN }, SHARD_VOCAB, 0, INIT_NORMAL, 0, SUM_ENDS },
	[ROLE_POSITION_EMBEDDINGS] = { "embedding.position_embeddings.weight", BEFORE, IF_LEARNED,
	    { D_POSITIONS, D_HIDDEN }, SHARD_NONE, 0, INIT_NORMAL, 0 },
	[ROLE_INPUT_NORM] = { L "input_layernorm.weight", LAYER, ALWAYS, { D_HIDDEN }, SHARD_NONE,
	    0, INIT_ONE, 0 },
	[ROLE_INPUT_NORM_BIAS] = { L "input_layernorm.bias", LAYER, IF_LAYERNORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0 },
	[ROLE_Q] = { L "self_attention.linear_q.weight", LAYER, ALWAYS, { D_Q, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, 0 },
	[ROLE_K] = { L "self_attention.linear_k.weight", LAYER, ALWAYS, { D_KV, D_HIDDEN },
	    SHARD_GROUPS, 0, INIT_NORMAL, PARAM_JOINED, SUM_GROUPS },
	[ROLE_V] = { L "self_attention.linear_v.weight", LAYER, ALWAYS, { D_KV, D_HIDDEN },
	    SHARD_GROUPS, 0, INIT_NORMAL, PARAM_JOINED, SUM_GROUPS },
	[ROLE_Q_BIAS] = { L "self_attention.linear_q.bias", LAYER, IF_QKV_BIAS, { D_Q },
	    SHARD_EQUAL, 0, INIT_ZERO, 0 },
	[ROLE_K_BIAS] = { L "self_attention.linear_k.bias", LAYER, IF_QKV_BIAS, { D_KV },
	    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, SUM_GROUPS },
	[ROLE_V_BIAS] = { L "self_attention.linear_v.bias", LAYER, IF_QKV_BIAS, { D_KV },
	    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, SUM_GROUPS },
	[ROLE_PROJ] = { L "self_attention.linear_proj.weight", LAYER, ALWAYS, { D_HIDDEN, D_Q },
	    SHARD_EQUAL, 1, INIT_RESIDUAL, 0 },
	[ROLE_PROJ_BIAS] = { L "self_attention.linear_proj.bias", LAYER, IF_PROJ_BIAS, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0 },
	[ROLE_MLP_NORM] = { L "pre_mlp_layernorm.weight", LAYER, ALWAYS, { D_HIDDEN }, SHARD_NONE,
	    0, INIT_ONE, 0 },
	[ROLE_MLP_NORM_BIAS] = { L "pre_mlp_layernorm.bias", LAYER, IF_LAYERNORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0 },
	[ROLE_GATE] = { L "mlp.linear_gate.weight", LAYER, IF_GATED, { D_FFN, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, 0 },
	[ROLE_UP] = { L "mlp.linear_up.weight", LAYER, ALWAYS, { D_FFN, D_HIDDEN }, SHARD_EQUAL, 0,
	    INIT_NORMAL, PARAM_JOINED },
	[ROLE_GATE_BIAS] = { L "mlp.linear_gate.bias", LAYER, IF_GATED_BIAS, { D_FFN }, SHARD_EQUAL,
	    0, INIT_ZERO, 0 },
	[ROLE_UP_BIAS] = { L "mlp.linear_up.bias", LAYER, IF_MLP_BIAS, { D_FFN }, SHARD_EQUAL, 0,
	    INIT_ZERO, PARAM_JOINED },
	[ROLE_DOWN] = { L "mlp.linear_down.weight", LAYER, ALWAYS, { D_HIDDEN, D_FFN }, SHARD_EQUAL,
	    1, INIT_RESIDUAL, 0 },
	[ROLE_DOWN_BIAS] = { L "mlp.linear_down.bias", LAYER, IF_MLP_BIAS, { D_HIDDEN }, SHARD_NONE,
	    0, INIT_ZERO, 0 },
	[ROLE_FINAL_NORM] = { "decoder.final_layernorm.weight", AFTER, ALWAYS, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ONE, 0 },
	[ROLE_FINAL_NORM_BIAS] = { "decoder.final_layernorm.bias", AFTER, IF_LAYERNORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0 },
	[ROLE_OUTPUT] = { "output_layer.weight", AFTER, IF_UNTIED, { D_VOCAB, D_HIDDEN },
	    SHARD_VOCAB, 0, INIT_NORMAL, 0 },
};

#undef L

/*
 * Must agree with what the layers look for: a tensor that is absent here has no gradient and no
 * place in a checkpoint.
 */
static bool
present(enum when when, const struct model_config *c)
{
	switch (when) {
	case IF_LEARNED: return c->position == POSITION_LEARNED;
	case IF_LAYERNORM: return c->normalization == NORMALIZATION_LAYERNORM;
	case IF_QKV_BIAS: return c->qkv_bias;
	case IF_PROJ_BIAS: return c->proj_bias;
	case IF_MLP_BIAS: return c->mlp_bias;
	case IF_GATED: return model_gated(c);
	case IF_GATED_BIAS: return model_gated(c) && c->mlp_bias;
	case IF_UNTIED: return c->untie_embeddings_and_output_weights;
	default: return true;
	}
}

/*
 * Global sizes without padding: padding belongs to a layout, and checkpoints must not depend on
 * one.
 */
static int64_t
dim_size(enum dim d, const struct model_config *c)
{
	switch (d) {
	case D_VOCAB: return c->vocab_size;
	case D_POSITIONS: return c->max_position_embeddings;
	case D_HIDDEN: return c->hidden_size;
	case D_Q: return c->num_attention_heads * c->kv_channels;
	case D_KV: return c->num_query_groups * c->kv_channels;
	case D_FFN: return c->ffn_hidden_size;
	default: return 0;
	}
}

/*
 * Names follow Megatron-LM's state dict, except that each linear it fuses has tensors of its own.
 * The layer is put in by hand, so that no format string is data.
 */
static void
name_of(enum role role, int64_t layer, char out[96])
{
	const char *name = rows[role].name, *mark = strstr(name, "%d");

	if (mark)
		snprintf(out, 96, "%.*s%d%s", (int)(mark - name), name, (int)layer, mark + 2);
	else
		snprintf(out, 96, "%s", name);
}

/* Of the whole tensor, without padding; cannot overflow after model_check. */
int64_t
param_elements(const struct param *p)
{
	int64_t n = 1;

	for (int i = 0; i < p->ndim; i++)
		n *= p->shape[i];
	return n;
}

/* Counted over the table, tied tables once. */
int64_t
model_num_parameters(const struct model_config *c)
{
	struct param *p;
	int n = model_params(c, &p);
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += param_elements(&p[i]);
	free(p);
	return sum;
}

/*
 * The last linear of either block starts
 * smaller by sqrt(2 layers), so that the residual stream's variance does not grow with depth
 * (Radford et al. 2019, section 2.3; scaled_init_method_normal in Megatron-LM). up is joined to
 * gate only where there is a gate.
 */
static void
fill(struct param *p, enum role role, int64_t layer, const struct model_config *c)
{
	const struct row *r = &rows[role];

	memset(p, 0, sizeof *p);
	name_of(role, layer, p->name);
	p->role = role;
	p->layer = (int)layer;
	p->ndim = r->dim[1] ? 2 : 1;
	for (int i = 0; i < p->ndim; i++)
		p->shape[i] = dim_size(r->dim[i], c);
	p->shard = r->shard;
	p->shard_dim = r->shard_dim;
	p->flags = r->flags;
	p->sums = r->sums;
	if ((role == ROLE_UP || role == ROLE_UP_BIAS) && !model_gated(c))
		p->flags &= ~(unsigned)PARAM_JOINED;
	p->init_value = r->init == INIT_ONE;
	if (r->init == INIT_NORMAL)
		p->init_std = c->init_method_std;
	else if (r->init == INIT_RESIDUAL)
		p->init_std = c->init_method_std / sqrt(2.0 * (double)c->num_layers);
}

/*
 * Model order: what is before the layers, the layers, what is after them; within each the order of
 * the roles. Shards, files and messages follow this order.
 */
int
model_params(const struct model_config *c, struct param **out)
{
	struct param *p = mem_alloc(ROLE_COUNT * (size_t)(c->num_layers + 2), sizeof *p);
	int n = 0;

	for (int64_t layer = -1; layer <= c->num_layers; layer++) {
		enum where where = layer < 0 ? BEFORE : layer < c->num_layers ? LAYER : AFTER;

		for (int role = 0; role < ROLE_COUNT; role++)
			if (rows[role].where == where && present(rows[role].when, c))
				fill(&p[n++], (enum role)role, layer, c);
	}
	*out = p;
	return n;
}

/* Rows [*start, *start + *count) along shard_dim that tensor rank tp holds, padding included. */
static void
part(const struct param *p, const struct model_config *c, const struct layout *l, int tp,
    int64_t *start, int64_t *count)
{
	int64_t t = l->tensor_model_parallel_size, n = p->shape[p->shard_dim];

	switch (p->shard) {
	case SHARD_NONE:
		*start = 0;
		*count = n;
		return;
	case SHARD_EQUAL:
		*count = n / t;
		*start = *count * tp;
		return;
	case SHARD_GROUPS:
		*count = layout_local_groups(l, c) * (n / c->num_query_groups);
		*start = *count * (tp / layout_group_replicas(l, c));
		return;
	case SHARD_VOCAB:
		*count = layout_vocab(l, c) / t;
		*start = *count * tp;
		return;
	}
	BUG("no shard rule %d", (int)p->shard);
}

/* Padding is cut off the slice, not off *held. */
struct slice
param_slice(const struct param *p, const struct model_config *c, const struct layout *l, int tp,
    int64_t *held)
{
	struct slice out = slice_whole(p->ndim, p->shape);
	int64_t start, count, n = p->shape[p->shard_dim];

	part(p, c, l, tp, &start, &count);
	*held = count;
	start = start < n ? start : n;
	out.start[p->shard_dim] = start;
	out.count[p->shard_dim] = count < n - start ? count : n - start;
	return out;
}

/* By the last part of the name: no parameter ends so. */
int
param_state_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (int i = 0; dot && param_states[i]; i++)
		if (!strcmp(dot + 1, param_states[i]))
			return i + 1;
	return 0;
}

/* Exact; a vector is not a matrix of one row. */
bool
param_has_shape(const struct param *p, int ndim, const int64_t *shape)
{
	return ndim == p->ndim && !memcmp(shape, p->shape, (size_t)ndim * sizeof *shape);
}
