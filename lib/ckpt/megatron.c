/*
 * megatron.c - where the parameters of a model lie in Megatron-LM's tensors
 *
 * One table names every tensor and the parameters in it. Where they lie follows from its groups;
 * how ranks cut it is the parameters' own rule.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/ckpt/megatron.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROLES_MAX = 3,
	ENGINE = 1 << MEGATRON_ENGINE,
	LOCAL = 1 << MEGATRON_LOCAL,
	BOTH = ENGINE | LOCAL
};

/* A tensor with its parameters from the first row on; with groups, a group of each in turn. */
struct row {
	unsigned names; /* which implementations call it so */
	const char *name;
	int num_roles;
	enum role role[ROLES_MAX];
	bool grouped; /* by key/value groups */
};

#define LAYER "decoder.layers.%d."

/* In the order of registration: __init__ of SelfAttention makes linear_proj first. The norms of the
 * local implementation come before their block, those of Transformer Engine with their linear. */
static const struct row rows[] = {
	{ BOTH, "embedding.word_embeddings.weight", 1, { ROLE_WORD_EMBEDDINGS } },
	{ BOTH, "embedding.position_embeddings.weight", 1, { ROLE_POSITION_EMBEDDINGS } },
	{ LOCAL, LAYER "input_layernorm.weight", 1, { ROLE_INPUT_NORM } },
	{ LOCAL, LAYER "input_layernorm.bias", 1, { ROLE_INPUT_NORM_BIAS } },
	{ BOTH, LAYER "self_attention.linear_proj.weight", 1, { ROLE_PROJ } },
	{ BOTH, LAYER "self_attention.linear_proj.bias", 1, { ROLE_PROJ_BIAS } },
	{ ENGINE, LAYER "self_attention.linear_qkv.layer_norm_weight", 1, { ROLE_INPUT_NORM } },
	{ ENGINE, LAYER "self_attention.linear_qkv.layer_norm_bias", 1, { ROLE_INPUT_NORM_BIAS } },
	{ BOTH, LAYER "self_attention.linear_qkv.weight", 3, { ROLE_Q, ROLE_K, ROLE_V }, true },
	{ BOTH, LAYER "self_attention.linear_qkv.bias", 3,
	    { ROLE_Q_BIAS, ROLE_K_BIAS, ROLE_V_BIAS }, true },
	{ BOTH, LAYER "self_attention.q_layernorm.weight", 1, { ROLE_Q_NORM } },
	{ BOTH, LAYER "self_attention.q_layernorm.bias", 1, { ROLE_Q_NORM_BIAS } },
	{ BOTH, LAYER "self_attention.k_layernorm.weight", 1, { ROLE_K_NORM } },
	{ BOTH, LAYER "self_attention.k_layernorm.bias", 1, { ROLE_K_NORM_BIAS } },
	{ LOCAL, LAYER "pre_mlp_layernorm.weight", 1, { ROLE_MLP_NORM } },
	{ LOCAL, LAYER "pre_mlp_layernorm.bias", 1, { ROLE_MLP_NORM_BIAS } },
	{ ENGINE, LAYER "mlp.linear_fc1.layer_norm_weight", 1, { ROLE_MLP_NORM } },
	{ ENGINE, LAYER "mlp.linear_fc1.layer_norm_bias", 1, { ROLE_MLP_NORM_BIAS } },
	{ BOTH, LAYER "mlp.linear_fc1.weight", 2, { ROLE_GATE, ROLE_UP } },
	{ BOTH, LAYER "mlp.linear_fc1.bias", 2, { ROLE_GATE_BIAS, ROLE_UP_BIAS } },
	{ BOTH, LAYER "mlp.linear_fc2.weight", 1, { ROLE_DOWN } },
	{ BOTH, LAYER "mlp.linear_fc2.bias", 1, { ROLE_DOWN_BIAS } },
	{ BOTH, "decoder.final_layernorm.weight", 1, { ROLE_FINAL_NORM } },
	{ BOTH, "decoder.final_layernorm.bias", 1, { ROLE_FINAL_NORM_BIAS } },
	{ BOTH, "output_layer.weight", 1, { ROLE_OUTPUT } },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* --- the map ---------------------------------------------------------------------------------- */

/* The parameter of a layer with a role among n that begin with the layer's first; -1: none. */
static int
find(const struct param *p, int n, enum role role)
{
	for (int i = 0; i < n && p[i].layer == p[0].layer; i++)
		if (p[i].role == role)
			return i;
	return -1;
}

/* Adds the tensor of a row for the layer that begins at parameter `at`, unless the layer has none
 * of its parameters. */
static void
add_row(struct megatron_map *m, const struct megatron_model *model, const struct row *r, int at)
{
	const struct param *layer = &model->param[at];
	struct megatron_tensor *t = &m->tensor[m->count];
	int64_t groups = r->grouped ? model->config->num_query_groups : 1, height = 0;
	int has[ROLES_MAX], n = 0;

	for (int k = 0; k < r->num_roles; k++)
		if ((has[n] = find(layer, model->count - at, r->role[k])) >= 0)
			n++;
	if (n == 0)
		return;
	for (int k = 0; k < n; k++) {
		int64_t run = layer[has[k]].shape[0] / groups;

		m->rows[at + has[k]] = (struct megatron_rows){ m->count, height, run, 0 };
		height += run;
	}
	for (int k = 0; k < n; k++)
		m->rows[at + has[k]].step = height;
	layer += has[0];
	*t = (struct megatron_tensor){ .name = r->name,
		.layer = layer->layer,
		.first = at + has[0],
		.ndim = layer->ndim,
		.cut = layer->shard == SHARD_NONE ? -1 : layer->shard_dim,
		.blocks = r->grouped ? 1 : n,
		.decay = layer->ndim > 1 };
	memcpy(t->shape, layer->shape, sizeof t->shape);
	t->shape[0] = layer->shard == SHARD_VOCAB ? model->padded_vocab_size : groups * height;
	m->count++;
}

int
megatron_map_init(struct megatron_map *m, const struct megatron_model *model, struct err *e)
{
	const struct param *p = model->param;

	*m = (struct megatron_map){ .tensor = mem_alloc((size_t)model->count, sizeof *m->tensor),
		.rows = mem_alloc((size_t)model->count, sizeof *m->rows) };
	for (int i = 0; i < model->count; i++)
		m->rows[i].tensor = -1;
	for (int i = 0; i < model->count; i++)
		for (int k = 0; k < ROWS && (i == 0 || p[i].layer != p[i - 1].layer); k++)
			if (rows[k].names & 1U << model->names)
				add_row(m, model, &rows[k], i);
	for (int i = 0; i < model->count; i++)
		if (m->rows[i].tensor < 0)
			return err_set(e, "Megatron-LM has no tensor for '%s'", p[i].name);
	return 0;
}

void
megatron_map_release(struct megatron_map *m)
{
	free(m->tensor);
	free(m->rows);
	memset(m, 0, sizeof *m);
}

/* --- names and shapes ------------------------------------------------------------------------- */

/* The layer is inserted by hand, so that no format string is data. */
void
megatron_key(const struct megatron_tensor *t, int layer, char out[128])
{
	const char *mark = strstr(t->name, "%d");

	if (mark)
		snprintf(out, 128, "%.*s%d%s", (int)(mark - t->name), t->name, layer, mark + 2);
	else
		snprintf(out, 128, "%s", t->name);
}

int64_t
megatron_padded_vocab(const struct model_config *c, int64_t tensor_ranks)
{
	int64_t unit = c->make_vocab_size_divisible_by * tensor_ranks;

	return int64_div_up(c->vocab_size, unit) * unit;
}

int
megatron_check_ranks(const struct megatron_map *m, int64_t tensor_ranks, struct err *e)
{
	for (int i = 0; i < m->count; i++) {
		const struct megatron_tensor *t = &m->tensor[i];
		char key[128];

		if (t->cut < 0 || t->shape[t->cut] % (tensor_ranks * t->blocks) == 0)
			continue;
		megatron_key(t, t->layer, key);
		return err_set(e,
		    "%lld tensor ranks cannot share '%s': %lld is not a multiple of %lld",
		    (long long)tensor_ranks, key, (long long)t->shape[t->cut],
		    (long long)tensor_ranks * t->blocks);
	}
	return 0;
}

void
megatron_rank_shape(
    const struct megatron_tensor *t, int64_t tensor_ranks, int64_t shape[SLICE_DIMS])
{
	memcpy(shape, t->shape, sizeof t->shape);
	if (t->cut >= 0)
		shape[t->cut] /= tensor_ranks;
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* Where the whole tensor's index i along the cut lies: a rank, the index in its tensor, and how
 * many follow there. */
struct spot {
	int64_t rank, at, left;
};

static struct spot
spot_of(const struct megatron_tensor *t, int dim, int64_t ranks, int64_t i)
{
	int64_t blocks = dim == 0 ? t->blocks : 1, block = t->shape[dim] / blocks,
		part = block / ranks;

	if (dim != t->cut)
		return (struct spot){ 0, i, t->shape[dim] - i };
	return (struct spot){ i % block / part, i / block * part + i % part, part - i % part };
}

/* The part of a box from (row, column) on that is a box in one rank's tensor: at most to the end of
 * a run of rows. */
static void
piece_at(const struct megatron_tensor *t, const struct megatron_rows *r, int64_t ranks,
    const struct slice *box, struct megatron_piece *p)
{
	int64_t at[2] = { 0 }, row = p->param.start[0], run = r->run - row % r->run;

	at[0] = r->first + row / r->run * r->step + row % r->run;
	at[1] = p->param.start[1];
	p->rank = 0;
	p->tensor.ndim = p->param.ndim = box->ndim;
	for (int d = 0; d < box->ndim; d++) {
		struct spot s = spot_of(t, d, ranks, at[d]);
		int64_t left = box->start[d] + box->count[d] - p->param.start[d];

		p->rank += (int)s.rank;
		p->tensor.start[d] = s.at;
		left = int64_min(left, s.left);
		p->tensor.count[d] = p->param.count[d] = d == 0 ? int64_min(left, run) : left;
	}
}

/* By columns, then by rows: only tensors that are cut by columns have more than one of them. */
bool
megatron_next(const struct megatron_map *m, int i, int64_t tensor_ranks, const struct slice *box,
    struct megatron_piece *p)
{
	const struct megatron_rows *r = &m->rows[i];

	if (p->param.ndim == 0) {
		p->param = *box;
	} else {
		int last = box->ndim - 1;

		p->param.start[last] += p->param.count[last];
		if (last > 0 && p->param.start[last] == box->start[last] + box->count[last]) {
			p->param.start[last] = box->start[last];
			p->param.start[0] += p->param.count[0];
		}
	}
	if (slice_elements(box) == 0 || p->param.start[0] == box->start[0] + box->count[0])
		return false;
	piece_at(&m->tensor[r->tensor], r, tensor_ranks, box, p);
	return true;
}
