/*
 * params.c - the parameter table
 *
 * The rows of the blocks (block/) are the one place that states which tensors a model has, how they
 * are sharded and how they are initialised; allocation, initialisation, sharding, checkpoints and
 * exports all follow from this walk over them. Weights are [out, in]. A linear that is cut along
 * its output has shard_dim 0, one cut along its input 1.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Digits of a number that is not negative, as many as fit; returns how many. Tables have a name for
 * every expert of every layer, and are made for each layout that is looked at. */
static size_t
digits(char *out, size_t room, int number)
{
	char reversed[12];
	size_t n = 0, written = 0;

	do
		reversed[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n && written < room)
		out[written++] = reversed[--n];
	return written;
}

/* The numbers are inserted by hand, so that no format string is data. */
void
param_name(const char *form, const int number[2], char *out, size_t size)
{
	size_t at = 0;

	for (int i = 0; *form && at < size - 1;)
		if (form[0] == '%' && form[1] == 'd' && i < 2) {
			at += digits(out + at, size - 1 - at, number[i++]);
			form += 2;
		} else {
			out[at++] = *form++;
		}
	out[at] = '\0';
}

/* The whole tensor, without padding; cannot overflow after model_check. */
int64_t
param_elements(const struct param *p)
{
	int64_t n = 1;

	for (int i = 0; i < p->ndim; i++)
		n *= p->shape[i];
	return n;
}

/* Sums over the table; a tied table counts once. */
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

int64_t
model_active_parameters(const struct model_config *c)
{
	struct param *p;
	int n = model_params(c, &p);
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += p[i].expert < c->moe_router_topk ? param_elements(&p[i]) : 0;
	free(p);
	return sum;
}

bool
param_is(const struct param *p, const char *in_layer)
{
	return !strcmp(p->in_layer, in_layer);
}

int64_t
param_rows(const struct model_config *c, const char *in_layer)
{
	for (const struct block_kind *const *k = block_kinds; *k; k++) {
		struct param_list all = block_params(*k, c, c->num_layers);

		for (int i = 0; i < all.count; i++)
			if (!strcmp(all.row[i].name, in_layer))
				return all.row[i].shape[0];
	}
	BUG("no block has a tensor '%s'", in_layer);
}

/* The table as far as it is made. */
struct table {
	const struct model_config *config;
	struct param *param;
	int count, room;
};

/* The name of a tensor's layer. Those after the head are Megatron-LM's: what the model's last layer
 * has too is in their transformer_layer. */
static void
name_layer(const struct model_config *c, const struct param_row *r, int layer, struct param *p)
{
	bool later = layer > c->num_layers,
	     inner = block_kinds[(r->number >> BLOCK_SHIFT) - 1]->in(c, c->num_layers - 1);
	const char *form = !later ? "decoder.layers.%d."
	    : inner               ? "mtp.layers.%d.transformer_layer."
				  : "mtp.layers.%d.";

	if (later || (layer >= 0 && layer < c->num_layers))
		param_name(form, (const int[2]){ later ? layer - (int)c->num_layers - 1 : layer },
		    p->name, sizeof p->name);
}

/* The last linear of either block starts smaller by sqrt(2 layers), so that the residual stream's
 * variance does not grow with depth (Radford et al. 2019, section 2.3; scaled_init_method_normal in
 * Megatron-LM). */
static void
add(struct table *t, const struct param_row *r, const int number[2])
{
	const struct model_config *c = t->config;
	struct param *p;
	size_t at;

	if (t->count == t->room) {
		t->room = 2 * t->room + PARAM_ROWS_MAX;
		t->param = mem_realloc(t->param, (size_t)t->room, sizeof *p);
	}
	p = &t->param[t->count++];
	memset(p, 0, sizeof *p);
	name_layer(c, r, number[0], p);
	at = strlen(p->name);
	param_name(r->name, (const int[2]){ number[1] }, p->name + at, sizeof p->name - at);
	p->in_layer = r->name;
	p->number = r->number;
	p->layer = number[0];
	p->expert = r->flags & PARAM_EXPERT ? number[1] : -1;
	p->ndim = r->shape[1] ? 2 : 1;
	memcpy(p->shape, r->shape, sizeof r->shape);
	p->shard = r->shard;
	p->shard_dim = r->shard_dim;
	p->flags = r->flags;
	p->sums = r->sums;
	p->init_value = r->init == INIT_ONE ? 1 - model_norm_shift(c)
	    : r->init == INIT_UNSHIFTED_ONE ? 1
					    : 0;
	p->init_log = r->init == INIT_LOG ? INIT_LOG_MOST : 0;
	if (r->init == INIT_NORMAL)
		p->init_std = c->init_method_std;
	else if (r->init == INIT_RESIDUAL)
		p->init_std = c->init_method_std / sqrt(2.0 * (double)c->num_layers);
}

/* The tensors of rows [r, end) that the model has, of expert number[1] where they are of one. A
 * joined tensor stands alone if the tensor before it is absent, as up does without a gate. */
static void
add_rows(
    struct table *t, const struct param_row *r, const struct param_row *end, const int number[2])
{
	bool before = false;

	for (; r < end; r++) {
		if (r->when) {
			add(t, r, number);
			if (!before)
				t->param[t->count - 1].flags &= ~(unsigned)PARAM_JOINED;
		}
		before = r->when;
	}
}

/* The tensors of one block. Rows of no expert are placed together, and so are those that take turns
 * as each expert has them; the groups of all experts are joined. */
static void
add_block(struct table *t, const struct block_kind *kind, int64_t layer)
{
	struct param_list all = block_params(kind, t->config, layer);

	for (const struct param_row *r = all.row, *end; r < all.row + all.count; r = end) {
		bool expert = r->flags & PARAM_EXPERT;
		int times = expert ? (int)t->config->num_experts : 1;

		end = r + 1;
		while (end < all.row + all.count && !(end->flags & PARAM_EXPERT) == !expert &&
		    (!expert || end->flags & PARAM_JOINED))
			end++;
		for (int i = 0; i < times; i++) {
			int first = t->count;

			add_rows(t, r, end, (const int[2]){ (int)layer, i });
			if (i > 0 && t->count > first)
				t->param[first].flags |= PARAM_JOINED;
		}
	}
}

/* Model order is the blocks in the order of the forward pass and, within each, the order of its
 * rows, whose names are Megatron-LM's but for linears that it fuses. Shards, files and messages
 * follow it. */
int
model_params(const struct model_config *c, struct param **out)
{
	struct table t = { .config = c };

	for (int64_t layer = -1; layer <= model_end(c); layer++)
		for (const struct block_kind *const *k = block_first(c, layer); *k;
		     k = block_next(k, c, layer))
			add_block(&t, *k, layer);
	*out = t.param;
	return t.count;
}

bool
param_is_layer_matrix(const struct param *p, const struct model_config *c)
{
	return p->ndim > 1 && layer_transforms(c, p->layer);
}

bool
param_owner(const struct param *p, const struct model_config *c, const struct layout *l, int tp)
{
	bool whole = p->expert < 0 ? p->shard == SHARD_NONE : !param_among_experts(p, l);

	return (!whole || tp == 0) &&
	    (p->shard != SHARD_GROUPS || tp % layout_group_ranks(l, c) == 0);
}

bool
param_among_experts(const struct param *p, const struct layout *l)
{
	return p->expert >= 0 && layout_expert_holders(l) > 1;
}

int64_t
param_ranks(const struct param *p, const struct layout *l)
{
	return param_among_experts(p, l) ? layout_expert_slices(l) : l->tensor_model_parallel_size;
}

unsigned
param_sums(const struct param *p, const struct layout *l)
{
	if (param_among_experts(p, l))
		return 0;
	return layout_row_shards(l) > 1 ? p->sums.with_sequence_parallel : p->sums.plain;
}

/* A rank has part i of so many equal ones of the rows along shard_dim. Padding is clipped from the
 * slice, not from *held. */
struct slice
param_slice(const struct param *p, const struct model_config *c, const struct layout *l,
    const int coord[AX_COUNT], int64_t *held)
{
	struct slice out = slice_whole(p->ndim, p->shape);
	int64_t n = p->shape[p->shard_dim], parts = 1, i = 0, start,
		rows = p->shard == SHARD_VOCAB ? layout_vocab(l, c) : n;
	int at[EX_COUNT];

	switch (p->shard) {
	case SHARD_NONE: break;
	case SHARD_VOCAB:
	case SHARD_EQUAL:
		parts = l->tensor_model_parallel_size;
		i = coord[AX_TP];
		break;
	case SHARD_GROUPS:
		parts = c->num_query_groups / layout_local_groups(l, c);
		i = coord[AX_TP] / layout_group_ranks(l, c);
		break;
	case SHARD_EXPERT_TENSOR:
		layout_expert_coord(l, coord, at);
		parts = layout_expert_slices(l);
		i = at[EX_TP];
		break;
	default: BUG("no shard rule %d", (int)p->shard);
	}
	*held = rows / parts;
	start = int64_min(*held * i, n);
	out.start[p->shard_dim] = start;
	out.count[p->shard_dim] = int64_min(*held, n - start);
	return out;
}

/* The shape must match exactly; a vector is not a matrix of one row. */
bool
param_has_shape(const struct param *p, int ndim, const int64_t *shape)
{
	return ndim == p->ndim && !memcmp(shape, p->shape, (size_t)ndim * sizeof *shape);
}
