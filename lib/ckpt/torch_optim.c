/*
 * torch_optim.c - the optimizer in Megatron-LM's torch format
 *
 * Two forms. Without the distributed optimizer, the model's file has torch's state by the numbers
 * of parameters, which run through the groups of parameters, and beside it the fp32 weights by
 * group. With it, distrib_optim.pt has flat buffers. Neither names a tensor: both follow the order
 * of registration, which is that of the names in the model's file. So an assignment is tried, and
 * taken when samples of every fp32 weight round to the model's weight; reading compares the rest.
 *
 * Where ranks share the experts there are two optimizers, in a list: of all other tensors, and of
 * these. Of the first a rank's flat buffers are stored by the first rank of its data ranks alone,
 * which is one of those of the first tensor ranks; others have None in their place.
 * Source: Megatron-LM core/optimizer/__init__.py, optimizer.py, distrib_optimizer.py.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/ckpt/megatron_flat.h"
#include "lib/ckpt/torch_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 64 };

/* A tensor that the optimizer of a rank has. */
struct item {
	const char *key;
	struct torch_cell *cell;
	bool tied, decay;
};

/* The tensors of a rank that an optimizer has, in the order of their registration, and where each
 * chunk begins. */
struct items {
	struct item *item;
	int count, *first; /* [chunks + 1] */
};

/* State of reading. */
struct reading {
	struct torch_source *t;
	const struct torch_rank *rank;
	int optimizer; /* its number of several */
	struct items items;
	const struct optim_rule *rule;
	int64_t steps;
};

/* --- tensors of a rank ------------------------------------------------------------------------ */

static int
num_optimizers(const struct torch_source *t)
{
	return t->s.config.num_experts && t->expert_ranks > 1 ? 2 : 1;
}

static bool
is_optimized(const struct reading *x, int row)
{
	const struct megatron_tensor *m = torch_row_tensor(x->t, row);

	return !m->balance &&
	    (num_optimizers(x->t) == 1 || (m->expert >= 0) == (x->optimizer == 1));
}

static void
list_items(struct reading *x)
{
	const struct torch_source *t = x->t;
	size_t most = 0;

	for (int64_t j = 0; j < t->chunks; j++) {
		const struct pickle_value *chunk = torch_chunk(t, x->rank, j);

		most += chunk ? chunk->len : 0;
	}
	x->items.item = mem_alloc(most, sizeof *x->items.item);
	x->items.first = mem_alloc((size_t)t->chunks + 1, sizeof *x->items.first);
	x->items.count = 0;
	for (int64_t j = 0; j < t->chunks; j++) {
		const struct pickle_value *chunk = torch_chunk(t, x->rank, j);

		x->items.first[j] = x->items.count;
		for (uint32_t i = 0; chunk && i < chunk->len; i++) {
			const char *key = pickle_string(chunk->pair[i].key);
			int row = key && !torch_is_ignored(key)
			    ? torch_row(t, j * t->stages + x->rank->stage, x->rank->expert, key)
			    : -1;

			if (row < 0 || !is_optimized(x, row))
				continue;
			x->items.item[x->items.count++] = (struct item){
				.key = key,
				.cell = torch_cell_at(t, row, x->rank->number),
				.tied = torch_is_shared(t, row),
				.decay = torch_row_tensor(t, row)->decay,
			};
		}
	}
	x->items.first[t->chunks] = x->items.count;
}

/* A part of a row of both. */
static bool
same_row(
    const struct torch_tensor *fine, const struct torch_tensor *coarse, const struct slice *slice)
{
	char a[SAMPLE * sizeof(double)], b[SAMPLE * sizeof(double)];

	torch_tensor_read(fine, slice, a);
	torch_tensor_read(coarse, slice, b);
	return torch_same((struct dtype_array){ a, fine->dtype },
	    (struct dtype_array){ b, coarse->dtype }, slice_elements(slice));
}

/* The first elements of the first row, and the last of the last. */
static bool
same_sample(const struct torch_tensor *fine, const struct torch_tensor *coarse)
{
	struct slice head = slice_whole(coarse->ndim, coarse->shape), tail = head;
	int last = coarse->ndim - 1;

	if (!dtype_is_float(fine->dtype))
		return false;
	for (int d = 0; d <= last; d++) {
		head.count[d] = int64_min(head.count[d], d < last ? 1 : SAMPLE);
		tail.start[d] = tail.count[d] - head.count[d];
		tail.count[d] = head.count[d];
	}
	return same_row(fine, coarse, &head) && same_row(fine, coarse, &tail);
}

static bool
same_shape(const struct torch_tensor *a, const struct torch_tensor *b)
{
	return a->ndim == b->ndim &&
	    !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

/* A float tensor of a value of the model's file, or one of type NONE. */
static struct torch_tensor
tensor_of(const struct torchzip *zip, const struct pickle_value *v)
{
	struct torch_tensor x = { .dtype = DTYPE_NONE };
	struct err ignored;

	if (!v || torchzip_tensor(zip, v, &x, &ignored) < 0 || !dtype_is_float(x.dtype))
		x.dtype = DTYPE_NONE;
	return x;
}

/* A count, which may be a tensor. */
static int64_t
steps_of(const struct torchzip *zip, const struct pickle_value *v)
{
	struct torch_tensor x = tensor_of(zip, v);
	struct slice one = slice_whole(x.ndim, x.shape);
	double number = -1;
	char bytes[8];

	if (x.dtype != DTYPE_NONE && torch_tensor_elements(&x) == 1) {
		torch_tensor_read(&x, &one, bytes);
		dtype_convert(&number, DTYPE_F64, bytes, x.dtype, 1);
	} else {
		pickle_double(v, &number);
	}
	return number >= 0 && number < 0x1p53 ? (int64_t)number : -1;
}

/* --- torch's state, by group ------------------------------------------------------------------ */

/* A group of parameters, and the next of them. */
struct group {
	const struct pickle_value *params, *masters; /* masters: NULL in fp32 runs */
	bool decay;
	uint32_t next;
};

/* Whether the next parameter of a group may be the item. Without fp32 weights to compare, the shape
 * and the kind of group decide. */
static bool
fits(const struct reading *x, const struct group *g, const struct item *i,
    const struct pickle_value *state)
{
	const struct torchzip *zip = x->rank->model.zip;
	struct torch_tensor master;

	if (!g->params || g->next >= g->params->len)
		return false;
	if (g->masters) {
		master = tensor_of(zip, pickle_item(g->masters, g->next));
		return master.dtype != DTYPE_NONE && same_shape(&master, &i->cell->weight) &&
		    same_sample(&master, &i->cell->weight);
	}
	master = tensor_of(zip, pickle_get(state, x->rule->states[0]));
	return master.dtype != DTYPE_NONE && same_shape(&master, &i->cell->weight) &&
	    g->decay == i->decay;
}

/* Gives an item the next entry of the first group that it fits. */
static bool
take_group(struct reading *x, struct group *g, int groups, const struct item *i,
    const struct pickle_value *states)
{
	const struct torchzip *zip = x->rank->model.zip;

	for (int k = 0; k < groups; k++, g++) {
		int64_t id;
		const struct pickle_value *state =
		    pickle_int(pickle_item(g->params, g->next), &id) ? pickle_at(states, id) : NULL;

		if (!fits(x, g, i, state))
			continue;
		if (g->masters)
			i->cell->master = tensor_of(zip, pickle_item(g->masters, g->next));
		for (int s = 0; x->rule->states[s]; s++) {
			i->cell->state[s] = tensor_of(zip, pickle_get(state, x->rule->states[s]));
			if (!same_shape(&i->cell->state[s], &i->cell->weight))
				return false;
		}
		if (x->steps < 0)
			x->steps = steps_of(zip, pickle_get(state, "step"));
		g->next++;
		return true;
	}
	return false;
}

/* inner: torch's dict; outer: Megatron-LM's around it, or the same in fp32 runs. For the weight
 * decay of a group, Megatron-LM has a factor of it, torch the product. */
static bool
read_groups(struct reading *x, const struct pickle_value *outer, const struct pickle_value *inner)
{
	const struct pickle_value *list = pickle_get(inner, "param_groups"),
				  *states = pickle_get(inner, "state"),
				  *masters = pickle_get(outer, "fp32_from_fp16_params");
	int groups = list && list->type == PICKLE_LIST ? (int)list->len : 0;
	struct group *g = mem_zalloc((size_t)groups, sizeof *g);
	bool good = true;

	for (int k = 0; k < groups; k++) {
		double decay = 1;

		if (!pickle_double(pickle_get(list->item[k], "wd_mult"), &decay))
			pickle_double(pickle_get(list->item[k], "weight_decay"), &decay);
		g[k].params = pickle_get(list->item[k], "params");
		g[k].decay = decay != 0;
		g[k].masters = masters ? pickle_item(masters, (uint32_t)k) : NULL;
		good = good && g[k].params && g[k].params->type == PICKLE_LIST &&
		    (!masters || g[k].masters);
	}
	for (int i = 0; good && i < x->items.count; i++) {
		good = take_group(x, g, groups, &x->items.item[i], states);
		if (!good)
			source_problem(&x->t->s,
			    "%s: the optimizer has no entry that fits '%s' in its place",
			    x->rank->model.name, x->items.item[i].key);
	}
	for (int k = 0; good && k < groups; k++)
		if (g[k].next != g[k].params->len) {
			good = false;
			source_problem(&x->t->s,
			    "%s: the optimizer has %u parameters more than the model",
			    x->rank->model.name, (unsigned)(g[k].params->len - g[k].next));
		}
	free(g);
	x->t->has_master = masters;
	return good;
}

/* --- flat buffers ----------------------------------------------------------------------------- */

/* A buffer of one chunk: the fp32 weights, then the states. */
struct flat {
	struct torch_tensor part[1 + OPTIM_STATES_MAX];
	int64_t length;
};

/* One of the tensors in a flat one. */
static struct torch_tensor
view(const struct torch_tensor *flat, int64_t start, const struct torch_tensor *like)
{
	struct torch_tensor x = *like;

	x.dtype = flat->dtype;
	x.storage = flat->storage;
	x.data = flat->data + (size_t)start * dtype_size(flat->dtype);
	torch_tensor_set_dense(&x);
	return x;
}

/* What an optimizer has in a list of all; of one alone there need be no list. NULL: nothing. */
static const struct pickle_value *
entry_of(const struct reading *x, const struct pickle_value *list)
{
	int n = num_optimizers(x->t);

	if (!list || list->type != PICKLE_LIST)
		return n == 1 ? list : NULL;
	return (int)list->len == n ? list->item[x->optimizer] : NULL;
}

/* The buffers of a chunk have one pair of types as their key. Chunks without a tensor of the
 * optimizer have none and are not counted. */
static int
read_flat(const struct reading *x, int64_t j, struct flat *f, struct err *e)
{
	const struct pickle_value *root = entry_of(x, torchzip_root(x->rank->optim.zip)), *types,
				  *v;
	int64_t number = 0;

	for (int64_t i = 0; i < j; i++)
		number += x->items.first[i + 1] > x->items.first[i];
	types = pickle_at(root, number);
	if (!pickle_get(root, "buckets_coalesced") || !types || types->type != PICKLE_DICT ||
	    types->len != 1)
		return err_set(e,
		    "chunk %lld: not one pair of types with coalesced buckets, as versions from "
		    "2023 on write it",
		    (long long)j);
	v = types->pair[0].value;
	for (int k = 0; k == 0 || x->rule->states[k - 1]; k++) {
		const char *name = k ? x->rule->states[k - 1] : "param";
		struct torch_tensor *p = &f->part[k];

		*p = tensor_of(x->rank->optim.zip, pickle_get(v, name));
		if (p->dtype == DTYPE_NONE || p->ndim != 1 || p->stride[0] != 1 ||
		    (k && p->shape[0] != f->length))
			return err_set(e, "chunk %lld: '%s' is not a flat tensor like 'param'",
			    (long long)j, name);
		f->length = p->shape[0];
	}
	return 0;
}

/* Whether every fp32 weight rounds to the model's when tensors start there. */
static bool
proves(const struct item *last, int count, const struct flat *f, const int64_t *start)
{
	for (int i = 0; i < count; i++) {
		const struct torch_tensor *weight = &last[-i].cell->weight;
		struct torch_tensor master = view(&f->part[0], start[i], weight);

		if (!same_sample(&master, weight))
			return false;
	}
	return true;
}

/* The starts of a chunk's tensors, last registered first, by the first rule that is proved. */
static bool
find_layout(const struct reading *x, int64_t j, const struct flat *f, int64_t *start)
{
	const struct pickle_value *args = pickle_get(torchzip_root(x->rank->model.zip), "args");
	int count = x->items.first[j + 1] - x->items.first[j];
	const struct item *last = &x->items.item[x->items.first[j + 1]] - 1;
	struct megatron_flat_tensor *t = mem_alloc((size_t)count, sizeof *t);
	struct megatron_flat_run run = { .data_ranks = x->t->args.data_ranks,
		.context_ranks = x->t->args.context_ranks };
	struct megatron_flat_rule rule;
	int64_t all = 0, buckets = 0;
	bool found = false;

	for (int i = 0; i < count; i++) {
		t[i].elements = torch_tensor_elements(&last[-i].cell->weight);
		t[i].tied = last[-i].tied;
	}
	run.shards =
	    x->optimizer ? run.data_ranks * x->t->ranks.tensor / torch_width(x->t) : run.data_ranks;
	for (int i = 0; i < x->items.count; i++)
		all += torch_tensor_elements(&x->items.item[i].cell->weight);
	if (pickle_int(pickle_get(args, "ddp_num_buckets"), &buckets) && buckets > 0)
		run.bucket_size = all / buckets;
	else if (!pickle_int(pickle_get(args, "ddp_bucket_size"), &run.bucket_size))
		run.bucket_size = 0;
	for (int i = 0; !found && megatron_flat_try(&run, i, &rule); i++)
		found = megatron_flat(&rule, t, count, start) == f->length &&
		    proves(last, count, f, start);
	free(t);
	return found;
}

/* The tensors of a chunk as views of its buffers. */
static int
read_chunk(struct reading *x, int64_t j, struct err *e)
{
	int count = x->items.first[j + 1] - x->items.first[j];
	int64_t *start = mem_alloc((size_t)count, sizeof *start);
	struct flat f = { .length = 0 };
	int rc = read_flat(x, j, &f, e);

	if (rc == 0 && !find_layout(x, j, &f, start))
		rc = err_set(e,
		    "chunk %lld: its fp32 weights round to the model's in no known layout of the "
		    "distributed optimizer",
		    (long long)j);
	for (int i = 0; rc == 0 && i < count; i++) {
		struct torch_cell *c = x->items.item[x->items.first[j + 1] - 1 - i].cell;

		c->master = view(&f.part[0], start[i], &c->weight);
		for (int k = 0; x->rule->states[k]; k++)
			c->state[k] = view(&f.part[k + 1], start[i], &c->weight);
	}
	free(start);
	return rc;
}

/* --- either form ------------------------------------------------------------------------------ */

/* Whether a rank's flat buffers of the optimizer are in its file. */
static bool
stores_flat(const struct reading *x)
{
	return x->optimizer == 1 || x->rank->number < x->t->ranks.tensor;
}

/* The flat buffers of all chunks. */
static bool
read_chunks(struct reading *x)
{
	struct err e;

	x->t->has_master = true;
	for (int64_t j = 0; j < x->t->chunks; j++)
		if (x->items.first[j + 1] > x->items.first[j] && read_chunk(x, j, &e) < 0) {
			source_problem(&x->t->s, "%s: %s", x->rank->optim.name, e.msg);
			return false;
		}
	return true;
}

/* An optimizer of one rank; false after a problem. */
static bool
read_rank(struct reading *x)
{
	const struct torchzip *zip = x->rank->model.zip;
	const struct pickle_value *outer = entry_of(x, pickle_get(torchzip_root(zip), "optimizer"));
	const struct pickle_value *inner = pickle_get(outer, "optimizer"), *groups;

	if (!outer) {
		source_problem(&x->t->s,
		    "%s: not the %d optimizers of a run with %lld expert ranks",
		    x->rank->model.name, num_optimizers(x->t), (long long)x->t->expert_ranks);
		return false;
	}
	inner = inner ? inner : outer;
	groups = pickle_get(inner, "param_groups");
	x->steps = steps_of(zip, pickle_get(pickle_item(groups, 0), "step"));
	if (x->items.count == 0)
		return true;
	if (x->rank->optim.zip)
		return !stores_flat(x) || read_chunks(x);
	if (pickle_get(inner, "state"))
		return read_groups(x, outer, inner);
	source_problem(&x->t->s,
	    "%s: its optimizer has no state, and there is no distrib_optim.pt beside it",
	    x->rank->model.name);
	return false;
}

/* Reads all optimizers of a rank. *steps: of the first. */
static bool
read_optimizers(struct torch_source *t, const struct torch_rank *r, const struct optim_rule *rule,
    int64_t *steps)
{
	bool good = true;

	for (int k = 0; good && k < num_optimizers(t); k++) {
		struct reading x = { .t = t, .rank = r, .optimizer = k, .rule = rule };

		list_items(&x);
		good = read_rank(&x);
		free(x.items.item);
		free(x.items.first);
		if (k == 0)
			*steps = x.steps;
	}
	return good;
}

/* Where a rank has no flat buffers of what it shares with others, theirs are its own, too. */
static void
share_buffers(struct torch_source *t)
{
	for (int row = 0; row < t->map.count + t->num_copies; row++) {
		if (torch_row_tensor(t, row)->expert >= 0)
			continue;
		for (int64_t r = t->ranks.tensor; r < torch_width(t); r++) {
			struct torch_cell *c = torch_cell_at(t, row, r);
			const struct torch_cell *first = torch_cell_at(t, row, r % t->ranks.tensor);

			c->master = first->master;
			memcpy(c->state, first->state, sizeof c->state);
		}
	}
}

/* The reason why states are there that are not read; NULL: none. */
static const char *
why_unread(const struct torch_source *t, const struct optim_rule *rule, char text[96])
{
	const struct pickle_value *root = torchzip_root(t->rank[0].model.zip);
	const char *name = pickle_string(pickle_get(pickle_get(root, "args"), "optimizer"));
	const struct pickle_value *chunk = torch_chunk(t, &t->rank[0], 0);

	if (name && strcmp(name, rule->name)) {
		snprintf(text, 96, "the state of optimizer '%.40s' is not read", name);
		return text;
	}
	for (uint32_t i = 0; chunk && i < chunk->len; i++) {
		const char *key = pickle_string(chunk->pair[i].key);

		if (key && torch_is_grouped(key))
			return "the optimizer is of experts in one transposed tensor: its state is "
			       "not read";
	}
	return NULL;
}

void
torch_read_optimizer(struct torch_source *t, int64_t *steps)
{
	const struct optim_rule *rule = optim_rule_with(OPTIM_OF_MEGATRON);
	bool good = true;
	const char *why;
	char text[96];

	if (!pickle_get(torchzip_root(t->rank[0].model.zip), "optimizer") || t->s.num_problems)
		return;
	why = why_unread(t, rule, text);
	if (why) {
		str_addf(&t->s.notes, "%s: %s\n", t->s.path, why);
		return;
	}
	for (int64_t i = 0; good && i < torch_num_ranks(t); i++)
		good = read_optimizers(t, &t->rank[i], rule, steps);
	if (good && t->rank[0].optim.zip)
		share_buffers(t);
	if (good)
		t->s.rule = rule;
}
