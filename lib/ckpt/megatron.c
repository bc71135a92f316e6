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

#define WORD_EMBEDDINGS "embedding.word_embeddings.weight"
#define OUTPUT_LAYER "output_layer.weight"

enum { PARAMS_MAX = 6 };

/* Where a row applies: norms before attention that belong to its linear, and those that do not; the
 * same of MLPs, and of latents; the three names of experts; norms that belong to the projections of
 * linear attention. */
enum {
	JOINED = 1,
	APART = 2,
	FUSED = 4,
	OWN = 8,
	SEQUENTIAL = 16,
	GROUPED = 32,
	STACKED = 64,
	ENGINE = 128,
	LOCAL = 256,
	LINEAR = 512,
	ALL = 1023
};

static const unsigned norms[][2] = { /* in layers with an MLP, and with experts */
	[MEGATRON_ENGINE] = { JOINED | FUSED, JOINED | OWN },
	[MEGATRON_LOCAL] = { APART | OWN, APART | OWN },
	[MEGATRON_LOCAL_DIST] = { JOINED | FUSED, JOINED | FUSED }
};
/* With attention of latents, whose projections down have no norm, and which has names of its own
 * implementation in torch_dist, too. */
static const unsigned latent_norms[][2] = { [MEGATRON_ENGINE] = { APART | FUSED | ENGINE,
						APART | OWN | ENGINE },
	[MEGATRON_LOCAL] = { APART | OWN | LOCAL, APART | OWN | LOCAL },
	[MEGATRON_LOCAL_DIST] = { APART | OWN | LOCAL, APART | OWN | LOCAL } };

static const unsigned experts[] = { [MEGATRON_SEQUENTIAL] = SEQUENTIAL,
	[MEGATRON_GROUPED] = GROUPED,
	[MEGATRON_STACKED] = STACKED };

/* A tensor with its parameters from the first row on: once; with a group of each in turn, by
 * key/value groups; for each expert, cut along rows or along columns; once, cut along rows where
 * the parameter is whole on every rank; once, with a dimension of 1 between rows and columns; or
 * once, less 1 where norms are. */
enum form { ONCE, BY_GROUPS, EXPERT_ROWS, EXPERT_COLUMNS, CUT_ROWS, FILTERS, LESS_ONE };

/* What a name is of: the model; a layer after the head; or a transformer layer, of the model or
 * inside such a one. */
enum owner { MODEL, LATER, LAYER };

struct row {
	unsigned where;
	enum owner owner;
	const char *name;
	int num_params;
	const char *param[PARAMS_MAX];
	enum form form;
};

#define EXPERTS(where, fc1, fc2) \
	{ where, LAYER, "mlp.experts." fc1, 2, \
		{ "mlp.experts.%d.linear_gate.weight", "mlp.experts.%d.linear_up.weight" }, \
		EXPERT_ROWS }, \
	{ \
		where, LAYER, "mlp.experts." fc2, 1, { "mlp.experts.%d.linear_down.weight" }, \
		    EXPERT_COLUMNS \
	}

/* Projections of latents: those down are whole with Transformer Engine, and else cut along rows. */
#define LATENTS(x) \
	{ ENGINE, LAYER, "self_attention.linear_" x "_down_proj.weight", 1, \
		{ "self_attention.linear_" x "_down_proj.weight" } }, \
	    { LOCAL, LAYER, "self_attention.linear_" x "_down_proj.weight", 1, \
		    { "self_attention.linear_" x "_down_proj.weight" }, CUT_ROWS }, \
	    { ENGINE, LAYER, "self_attention.linear_" x "_up_proj.layer_norm_weight", 1, \
		    { "self_attention." x "_latent_layernorm.weight" } }, \
	{ \
		ALL, LAYER, "self_attention.linear_" x "_up_proj.weight", 1, \
		{ \
			"self_attention.linear_" x "_up_proj.weight" \
		} \
	}

/* A projection of linear attention, and a filter, each by itself. */
#define PROJECTED(part, x) \
	{ \
		STACKED, LAYER, "self_attention.in_proj.weight." part, 1, \
		{ \
			"linear_attention.linear_" x ".weight" \
		} \
	}
#define FILTER(part, x) \
	{ \
		STACKED, LAYER, "self_attention.conv1d.weight." part, 1, \
		    { "linear_attention.conv_" x ".weight" }, FILTERS \
	}

/* In the order of registration: __init__ of SelfAttention makes linear_proj first. The norms of the
 * local implementation come before their block, those of Transformer Engine with their linear. */
static const struct row rows[] = {
	{ ALL, MODEL, WORD_EMBEDDINGS, 1, { WORD_EMBEDDINGS } },
	{ ALL, MODEL, "embedding.position_embeddings.weight", 1,
	    { "embedding.position_embeddings.weight" } },
	{ ALL, LATER, "enorm.weight", 1, { "enorm.weight" } },
	{ ALL, LATER, "enorm.bias", 1, { "enorm.bias" } },
	{ ALL, LATER, "hnorm.weight", 1, { "hnorm.weight" } },
	{ ALL, LATER, "hnorm.bias", 1, { "hnorm.bias" } },
	{ ALL, LATER, "eh_proj.weight", 1, { "eh_proj.weight" }, CUT_ROWS },
	{ APART, LAYER, "input_layernorm.weight", 1, { "input_layernorm.weight" } },
	{ APART, LAYER, "input_layernorm.bias", 1, { "input_layernorm.bias" } },
	{ ALL, LAYER, "self_attention.core_attention.softmax_offset", 1,
	    { "self_attention.core_attention.softmax_offset" } },
	{ ALL, LAYER, "self_attention.dt_bias", 1, { "linear_attention.decay_bias" } },
	{ ALL, LAYER, "self_attention.A_log", 1, { "linear_attention.decay_log" } },
	{ LINEAR, LAYER, "self_attention.in_proj.layer_norm_weight", 1,
	    { "input_layernorm.weight" } },
	{ SEQUENTIAL | GROUPED, LAYER, "self_attention.in_proj.weight", 6,
	    { "linear_attention.linear_q.weight", "linear_attention.linear_k.weight",
		"linear_attention.linear_v.weight", "linear_attention.linear_gate.weight",
		"linear_attention.linear_beta.weight", "linear_attention.linear_decay.weight" } },
	PROJECTED("query", "q"),
	PROJECTED("key", "k"),
	PROJECTED("value", "v"),
	PROJECTED("z", "gate"),
	PROJECTED("beta", "beta"),
	PROJECTED("alpha", "decay"),
	{ SEQUENTIAL | GROUPED, LAYER, "self_attention.conv1d.weight", 3,
	    { "linear_attention.conv_q.weight", "linear_attention.conv_k.weight",
		"linear_attention.conv_v.weight" },
	    FILTERS },
	FILTER("query", "q"),
	FILTER("key", "k"),
	FILTER("value", "v"),
	{ ALL, LAYER, "self_attention.out_norm.weight", 1,
	    { "linear_attention.out_layernorm.weight" }, LESS_ONE },
	{ ALL, LAYER, "self_attention.out_proj.weight", 1,
	    { "linear_attention.linear_proj.weight" } },
	{ ALL, LAYER, "self_attention.linear_proj.weight", 1,
	    { "self_attention.linear_proj.weight" } },
	{ ALL, LAYER, "self_attention.linear_proj.bias", 1, { "self_attention.linear_proj.bias" } },
	{ ALL, LAYER, "self_attention.linear_q_proj.weight", 1,
	    { "self_attention.linear_q_proj.weight" } },
	{ JOINED, LAYER, "self_attention.linear_qkv.layer_norm_weight", 1,
	    { "input_layernorm.weight" } },
	{ JOINED, LAYER, "self_attention.linear_qkv.layer_norm_bias", 1,
	    { "input_layernorm.bias" } },
	{ ALL, LAYER, "self_attention.linear_qkv.weight", 4,
	    { "self_attention.linear_q.weight", "self_attention.linear_gate.weight",
		"self_attention.linear_k.weight", "self_attention.linear_v.weight" },
	    BY_GROUPS },
	{ ALL, LAYER, "self_attention.linear_qkv.bias", 3,
	    { "self_attention.linear_q.bias", "self_attention.linear_k.bias",
		"self_attention.linear_v.bias" },
	    BY_GROUPS },
	{ ALL, LAYER, "self_attention.q_layernorm.weight", 1,
	    { "self_attention.q_layernorm.weight" } },
	{ ALL, LAYER, "self_attention.q_layernorm.bias", 1, { "self_attention.q_layernorm.bias" } },
	{ ALL, LAYER, "self_attention.k_layernorm.weight", 1,
	    { "self_attention.k_layernorm.weight" } },
	{ ALL, LAYER, "self_attention.k_layernorm.bias", 1, { "self_attention.k_layernorm.bias" } },
	LATENTS("q"),
	LATENTS("kv"),
	{ LOCAL, LAYER, "self_attention.q_layernorm.weight", 1,
	    { "self_attention.q_latent_layernorm.weight" } },
	{ LOCAL, LAYER, "self_attention.kv_layernorm.weight", 1,
	    { "self_attention.kv_latent_layernorm.weight" } },
	{ OWN, LAYER, "pre_mlp_layernorm.weight", 1, { "pre_mlp_layernorm.weight" } },
	{ OWN, LAYER, "pre_mlp_layernorm.bias", 1, { "pre_mlp_layernorm.bias" } },
	{ FUSED, LAYER, "mlp.linear_fc1.layer_norm_weight", 1, { "pre_mlp_layernorm.weight" } },
	{ FUSED, LAYER, "mlp.linear_fc1.layer_norm_bias", 1, { "pre_mlp_layernorm.bias" } },
	{ ALL, LAYER, "mlp.linear_fc1.weight", 2,
	    { "mlp.linear_gate.weight", "mlp.linear_up.weight" } },
	{ ALL, LAYER, "mlp.linear_fc1.bias", 2, { "mlp.linear_gate.bias", "mlp.linear_up.bias" } },
	{ ALL, LAYER, "mlp.linear_fc2.weight", 1, { "mlp.linear_down.weight" } },
	{ ALL, LAYER, "mlp.linear_fc2.bias", 1, { "mlp.linear_down.bias" } },
	{ ALL, LAYER, "mlp.router.weight", 1, { "mlp.router.weight" } },
	{ ALL, LAYER, "mlp.router.expert_bias", 1, { "mlp.router.expert_bias" } },
	EXPERTS(
	    SEQUENTIAL, "local_experts.%d.linear_fc1.weight", "local_experts.%d.linear_fc2.weight"),
	EXPERTS(GROUPED, "linear_fc1.weight%d", "linear_fc2.weight%d"),
	EXPERTS(STACKED, "experts.linear_fc1.weight", "experts.linear_fc2.weight"),
	{ ALL, LAYER, "mlp.shared_experts.gate_weight", 1, { "mlp.shared_experts.gate_weight" } },
	{ ALL, LAYER, "mlp.shared_experts.linear_fc1.weight", 2,
	    { "mlp.shared_experts.linear_gate.weight", "mlp.shared_experts.linear_up.weight" } },
	{ ALL, LAYER, "mlp.shared_experts.linear_fc2.weight", 1,
	    { "mlp.shared_experts.linear_down.weight" } },
	{ ALL, MODEL, "decoder.final_layernorm.weight", 1, { "decoder.final_layernorm.weight" } },
	{ ALL, MODEL, "decoder.final_layernorm.bias", 1, { "decoder.final_layernorm.bias" } },
	{ ALL, LATER, "final_layernorm.weight", 1, { "final_layernorm.weight" } },
	{ ALL, LATER, "final_layernorm.bias", 1, { "final_layernorm.bias" } },
};
enum { ROWS = sizeof rows / sizeof *rows };
/* What is registered after the layers that predict later tokens. */
static const struct row last_rows[] = {
	{ ALL, MODEL, OUTPUT_LAYER, 1, { OUTPUT_LAYER } },
};

/* --- the map ---------------------------------------------------------------------------------- */

/* A layer: its parameters, the number of the first, and where rows apply. */
struct layer {
	const struct param *param;
	int first, count;
	unsigned where;
};

/* The parameter of a layer with a name in it, of an expert or of none; -1: none. */
static int
find(const struct layer *l, const char *name, int expert)
{
	for (int i = 0; i < l->count; i++)
		if (l->param[i].expert == expert && !strcmp(l->param[i].in_layer, name))
			return i;
	return -1;
}

/* What the names of a tensor's layer begin with; later: its number after the head, or -1. */
static const char *
prefix_of(enum owner owner, int later, enum megatron_later inner)
{
	return owner == MODEL               ? ""
	    : later < 0                     ? "decoder.layers.%d."
	    : owner == LATER                ? "mtp.layers.%d."
	    : inner == MEGATRON_MODEL_LAYER ? "mtp.layers.%d.mtp_model_layer."
					    : "mtp.layers.%d.transformer_layer.";
}

/* The layer whose stage has a parameter: with layers after the head the final norm is where the
 * model's last layer is, and they are where the output table is. */
static int
placed(const struct model_config *c, const struct param *p)
{
	int head = (int)c->num_layers;

	if (p->layer == head && c->mtp_num_layers && p->shard != SHARD_VOCAB)
		return head - 1;
	return p->layer < head ? p->layer : head;
}

/* The shape of a tensor of so many rows with a parameter, and what ranks cut of it. */
static void
set_shape(struct megatron_tensor *t, const struct param *p, enum form form, int64_t height)
{
	memcpy(t->shape, p->shape, sizeof t->shape);
	t->shape[0] = height;
	t->ndim = p->ndim;
	t->cut = form == CUT_ROWS ? 0 : p->shard == SHARD_NONE ? -1 : p->shard_dim;
	if (form == FILTERS) {
		t->shape[2] = t->shape[1];
		t->shape[1] = 1;
		t->ndim = 3;
	}
	t->unit = t->cut < 0 ? 1 : t->shape[t->cut];
}

/* Adds the tensor of a row for a layer, of an expert or of none, unless the layer has none of its
 * parameters. */
static void
add_tensor(struct megatron_map *m, const struct megatron_model *model, const struct row *r,
    const struct layer *l, int expert)
{
	const struct param *p;
	struct megatron_tensor *t = &m->tensor[m->count];
	bool grouped = r->form == BY_GROUPS;
	int64_t groups = grouped ? model->config->num_query_groups : 1, height = 0;
	int has[PARAMS_MAX], n = 0, later = -1;

	if (l->param[0].layer > model->config->num_layers)
		later = l->param[0].layer - (int)model->config->num_layers - 1;
	for (int k = 0; k < r->num_params; k++)
		if ((has[n] = find(l, r->param[k], expert)) >= 0)
			n++;
	if (n == 0)
		return;
	for (int k = 0; k < n; k++) {
		int64_t run = l->param[has[k]].shape[0] / groups;

		m->rows[l->first + has[k]] = (struct megatron_rows){ m->count, height, run, 0 };
		height += run;
	}
	for (int k = 0; k < n; k++)
		m->rows[l->first + has[k]].step = height;
	p = &l->param[has[0]];
	*t = (struct megatron_tensor){ .prefix = prefix_of(r->owner, later, model->later),
		.name = r->name,
		.layer = p->layer,
		.later = later,
		.placed = placed(model->config, p),
		.expert = expert,
		.first = l->first + has[0],
		.blocks = grouped ? 1 : n,
		.less_one = r->form == LESS_ONE && model->config->apply_layernorm_1p,
		.decay = p->ndim > 1,
		.balance = p->flags & PARAM_BALANCE };
	set_shape(
	    t, p, r->form, p->shard == SHARD_VOCAB ? model->padded_vocab_size : groups * height);
	for (int k = 0; k < n; k++) {
		t->first = t->first < l->first + has[k] ? t->first : l->first + has[k];
		if (t->blocks > 1 && t->cut == 0)
			t->unit = int64_gcd(t->unit, l->param[has[k]].shape[0]);
	}
	m->count++;
}

/* The layer that begins at a parameter. */
static struct layer
layer_at(const struct megatron_model *model, int first)
{
	struct layer l = { .param = &model->param[first], .first = first };
	bool sparse, linear;

	while (first + l.count < model->count && l.param[l.count].layer == l.param[0].layer)
		l.count++;
	sparse = find(&l, "mlp.router.weight", -1) >= 0;
	linear = find(&l, "linear_attention.decay_log", -1) >= 0;
	l.where = experts[model->experts] |
	    (model->config->multi_latent_attention ? latent_norms : norms)[model->names][sparse];
	if (linear && l.where & JOINED)
		l.where ^= JOINED | LINEAR;
	return l;
}

static bool
is_of_experts(const struct row *r)
{
	return r->form == EXPERT_ROWS || r->form == EXPERT_COLUMNS;
}

/* Adds the experts of a layer by all rows that follow one another in the same names: modules in a
 * list are registered expert by expert, others row by row. Returns the row after the last. */
static const struct row *
add_experts(struct megatron_map *m, const struct megatron_model *model, const struct row *r,
    const struct layer *l)
{
	int num_experts = (int)model->config->num_experts, n = 0;
	bool by_expert = r->where == SEQUENTIAL;

	while (is_of_experts(&r[n]) && r[n].where == r->where)
		n++;
	for (int k = 0; k < n * num_experts; k++)
		add_tensor(m, model, &r[by_expert ? k % n : k / num_experts], l,
		    by_expert ? k / n : k % num_experts);
	return r + n;
}

/* Adds the tensors of a layer that have rows in [r, end). */
static void
add_rows(struct megatron_map *m, const struct megatron_model *model, const struct layer *l,
    const struct row *r, const struct row *end)
{
	while (r < end) {
		if (!(r->where & l->where))
			r++;
		else if (is_of_experts(r))
			r = add_experts(m, model, r, l);
		else
			add_tensor(m, model, r++, l, -1);
	}
}

int
megatron_map_init(struct megatron_map *m, const struct megatron_model *model, struct err *e)
{
	static const struct {
		const struct row *first, *end;
	} tables[] = { { rows, rows + ROWS }, { last_rows, last_rows + 1 } };

	*m = (struct megatron_map){ .tensor = mem_alloc((size_t)model->count, sizeof *m->tensor),
		.rows = mem_alloc((size_t)model->count, sizeof *m->rows) };
	for (int i = 0; i < model->count; i++)
		m->rows[i].tensor = -1;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < model->count;) {
			struct layer l = layer_at(model, i);

			add_rows(m, model, &l, tables[k].first, tables[k].end);
			i += l.count;
		}
	for (int i = 0; i < model->count; i++)
		if (m->rows[i].tensor < 0)
			return err_set(
			    e, "Megatron-LM has no tensor for '%s'", model->param[i].name);
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

void
megatron_key(
    const struct megatron_tensor *t, int64_t first_layer, int64_t first_expert, char out[128])
{
	const int layer[2] = { t->later < 0 ? t->layer - (int)first_layer : t->later },
		  expert[2] = { t->expert - (int)first_expert };
	size_t n;

	param_name(t->prefix, layer, out, 128);
	n = strlen(out);
	param_name(t->name, expert, out + n, 128 - n);
}

bool
megatron_stack_key(const struct megatron_tensor *t, char out[128])
{
	const char *mark = strstr(t->prefix, "%d.");

	if (!mark || t->later >= 0)
		return false;
	snprintf(out, 128, "%.*s%s", (int)(mark - t->prefix), t->prefix, t->name);
	return true;
}

bool
megatron_is_in(const struct megatron_tensor *t, const struct model_config *c,
    const struct layout *l, int virtual_stage)
{
	int64_t first, count;

	if (t->placed < 0)
		return virtual_stage == 0;
	if (t->placed >= c->num_layers)
		return virtual_stage == layout_stages(l) - 1;
	layout_layers(l, c, virtual_stage, &first, &count);
	return t->placed >= first && t->placed < first + count;
}

int
megatron_copies(const struct megatron_map *m, const struct model_config *c,
    const struct megatron_stages *s, struct megatron_copy out[MEGATRON_COPIES])
{
	bool tied = !c->untie_embeddings_and_output_weights,
	     later = c->mtp_num_layers && s->later > 0;
	int words = m->rows[0].tensor, n = 0;

	if (later)
		out[n++] = (struct megatron_copy){ WORD_EMBEDDINGS, words, s->later, false, false };
	if (tied && s->last > 0)
		out[n++] = (struct megatron_copy){ OUTPUT_LAYER, words, s->last, true,
			later && s->later == s->last };
	return n;
}

int64_t
megatron_padded_vocab(const struct model_config *c, int64_t tensor_ranks)
{
	int64_t unit = c->make_vocab_size_divisible_by * tensor_ranks;

	return int64_div_up(c->vocab_size, unit) * unit;
}

int64_t
megatron_num_ranks(const struct megatron_tensor *t, struct megatron_ranks ranks)
{
	return t->cut < 0 ? 1 : t->expert < 0 ? ranks.tensor : ranks.slices;
}

int
megatron_check_ranks(const struct megatron_map *m, struct megatron_ranks ranks, struct err *e)
{
	for (int i = 0; i < m->count; i++) {
		const struct megatron_tensor *t = &m->tensor[i];
		int64_t n = megatron_num_ranks(t, ranks);
		char key[128];

		if (t->cut < 0 || t->unit % n == 0)
			continue;
		megatron_key(t, 0, 0, key);
		return err_set(e,
		    "%lld%s tensor ranks cannot share '%s': %lld is not a multiple of %lld",
		    (long long)n, t->expert < 0 ? "" : " expert", key, (long long)t->unit,
		    (long long)n);
	}
	return 0;
}

void
megatron_rank_shape(
    const struct megatron_tensor *t, struct megatron_ranks ranks, int64_t shape[SLICE_DIMS])
{
	memcpy(shape, t->shape, sizeof t->shape);
	if (t->cut >= 0)
		shape[t->cut] /= megatron_num_ranks(t, ranks);
}

void
megatron_shift(void *x, enum dtype t, int64_t n, double by)
{
	double *wide = mem_alloc((size_t)n, sizeof *wide);

	dtype_convert(wide, DTYPE_F64, x, t, n);
	for (int64_t i = 0; i < n; i++)
		wide[i] += by;
	dtype_convert(x, t, wide, DTYPE_F64, n);
	free(wide);
}

void
megatron_restore(const struct megatron_map *m, int i, void *x, enum dtype t, int64_t n)
{
	if (m->tensor[m->rows[i].tensor].less_one)
		megatron_shift(x, t, n, 1);
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* The part of a box from (row, column) on that is a box in one rank's tensor: at most to the end of
 * a run of rows, and along the cut to the end of the rank's part of a block. */
static void
piece_at(const struct megatron_tensor *t, const struct megatron_rows *r, int64_t ranks,
    const struct slice *slice, struct megatron_piece *p)
{
	int64_t at[2] = { 0 }, row = p->param.start[0], run = r->run - row % r->run;

	at[0] = r->first + row / r->run * r->step + row % r->run;
	at[1] = p->param.start[1];
	*p = (struct megatron_piece){ .param = p->param, .tensor = slice_whole(t->ndim, t->shape) };
	for (int d = 0; d < slice->ndim; d++) {
		int in = d ? t->ndim - 1 : 0; /* the tensor's dimension */
		bool block = in == 0 && t->blocks > 1;
		int64_t first = block ? r->first : 0,
			part = (block ? r->run : t->shape[in]) / ranks,
			left = slice->start[d] + slice->count[d] - p->param.start[d];

		p->tensor.start[in] = at[d];
		if (in == t->cut) {
			p->rank = (int)((at[d] - first) / part);
			p->tensor.start[in] = first / ranks + (at[d] - first) % part;
			left = int64_min(left, part - (at[d] - first) % part);
		} else {
			left = int64_min(left, t->shape[in] - at[d]);
		}
		p->tensor.count[in] = p->param.count[d] = d == 0 ? int64_min(left, run) : left;
	}
	p->param.ndim = slice->ndim;
}

/* By columns, then by rows: only tensors that are cut by columns have more than one of them. */
bool
megatron_next(const struct megatron_map *m, int i, struct megatron_ranks ranks,
    const struct slice *slice, struct megatron_piece *p)
{
	const struct megatron_rows *r = &m->rows[i];
	const struct megatron_tensor *t = &m->tensor[r->tensor];

	if (p->param.ndim == 0) {
		p->param = *slice;
	} else {
		int last = slice->ndim - 1;

		p->param.start[last] += p->param.count[last];
		if (last > 0 && p->param.start[last] == slice->start[last] + slice->count[last]) {
			p->param.start[last] = slice->start[last];
			p->param.start[0] += p->param.count[0];
		}
	}
	if (slice_elements(slice) == 0 || p->param.start[0] == slice->start[0] + slice->count[0])
		return false;
	piece_at(t, r, megatron_num_ranks(t, ranks), slice, p);
	return true;
}
