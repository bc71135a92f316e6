/*
 * source_torch.c - a checkpoint of Megatron-LM in its torch format as a source
 *
 * Each rank wrote the tensors of its stage, or its part of them, under names that count layers from
 * the first of their chunk, and experts from the first of their rank. How many layers a chunk has
 * is seen in its names; chunk j of stage r is virtual stage j p + r. Every part of every tensor is
 * found once, as a cell, and reading follows the map of megatron.h through the cells. What is
 * stored more than once, by several ranks, on the first and the last stage, or in 16 bits beside
 * its fp32 master, is compared as it is read.
 */
#include "lib/base/hash.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/megatron_dir.h"
#include "lib/ckpt/megatron_run.h"
#include "lib/ckpt/torch_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
	FORGET_BYTES = 64 << 20, /* read before pages are given back */
	READ_ELEMENTS = 1 << 20, /* at once, so that copies need little room */
	NAMED = 16,              /* elements that tell a tensor from others */
	LAYERS_MAX = 1 << 20,
};

#define LAYER "decoder.layers."
#define LATER "mtp.layers."

static struct torch_source *
torch_of(const struct source *s)
{
	return (struct torch_source *)(uintptr_t)s;
}

/* DeepSpeed has files of such names, not directories. */
static bool
is_torch(const char *path)
{
	char dir[IO_PATH];

	return megatron_find_dir(path, "mp_rank_", dir) && !ckpt_has_entry(dir, "mp_rank_", ".pt");
}

/* --- names ------------------------------------------------------------------------------------ */

bool
torch_is_ignored(const char *key)
{
	static const char *const endings[] = { "_extra_state", "rotary_pos_emb.inv_freq",
		"router.local_tokens_per_expert" };
	size_t n = strlen(key);

	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t k = strlen(endings[i]);

		if (n >= k && !strcmp(key + n - k, endings[i]))
			return true;
	}
	return false;
}

/* The number of the layer in a name, and what follows it; -1: of no layer. */
static int64_t
layer_in(const char *key, const char **rest)
{
	const char *p = key + sizeof LAYER - 1;
	int64_t n = 0;

	if (strncmp(key, LAYER, sizeof LAYER - 1) || *p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9' && n < LAYERS_MAX; p++)
		n = 10 * n + (*p - '0');
	*rest = p;
	return *p == '.' ? n : -1;
}

static int
compare_keys(const void *a, const void *b)
{
	const struct torch_key *x = a, *y = b;
	int names = strcmp(x->name, y->name);

	return names ? names
		     : (x->expert_rank > y->expert_rank) - (x->expert_rank < y->expert_rank);
}

int
torch_row(const struct torch_source *t, int64_t virtual_stage, int64_t expert_rank, const char *key)
{
	const char *rest;
	int64_t layer = layer_in(key, &rest);
	struct torch_key want, *found;

	if (strlen(key) > sizeof want.name - 16)
		return -1;
	for (int k = 0; k < t->num_copies; k++)
		if (t->copy[k].virtual_stage == virtual_stage && !strcmp(key, t->copy[k].key))
			return t->map.count + k;
	if (layer >= 0)
		snprintf(want.name, sizeof want.name, LAYER "%lld%s",
		    (long long)(layer + t->first[virtual_stage]), rest);
	else
		snprintf(want.name, sizeof want.name, "%s", key);
	want.expert_rank = -1;
	found = bsearch(&want, t->key, (size_t)t->map.count, sizeof want, compare_keys);
	want.expert_rank = expert_rank;
	if (!found)
		found = bsearch(&want, t->key, (size_t)t->map.count, sizeof want, compare_keys);
	return found ? found->row : -1;
}

struct torch_cell *
torch_cell_at(const struct torch_source *t, int row, int64_t number)
{
	return &t->cell[row * torch_width(t) + number];
}

/* The row of which a row is a copy, or itself. */
static int
original(const struct torch_source *t, int row)
{
	return row < t->map.count ? row : t->copy[row - t->map.count].tensor;
}

const struct megatron_tensor *
torch_row_tensor(const struct torch_source *t, int row)
{
	return &t->map.tensor[original(t, row)];
}

bool
torch_is_shared(const struct torch_source *t, int row)
{
	for (int k = 0; k < t->num_copies; k++)
		if (!t->copy[k].idle && (row == t->map.count + k || row == t->copy[k].tensor))
			return true;
	return false;
}

/* Copy number n of a tensor, by its row; 0 is the tensor itself; -1: it has no such copy. */
static int
copy_row(const struct torch_source *t, int row, int n)
{
	for (int k = 0; n > 0 && k < t->num_copies; k++)
		if (!t->copy[k].idle && t->copy[k].tensor == row && --n == 0)
			return t->map.count + k;
	return n == 0 ? row : -1;
}

static int64_t
local_experts(const struct torch_source *t)
{
	return t->s.config.num_experts / t->expert_ranks;
}

/* Among the ranks of a stage, those [*first, *first + *count) that hold a tensor, or parts of it.
 */
static void
holders(const struct torch_source *t, int row, int64_t *first, int64_t *count)
{
	int expert = torch_row_tensor(t, row)->expert;

	*first = expert < 0 ? 0 : expert / local_experts(t) * t->ranks.slices;
	*count = expert < 0 ? torch_width(t) : t->ranks.slices;
}

/* --- layers ----------------------------------------------------------------------------------- */

const struct pickle_value *
torch_chunk(const struct torch_source *t, const struct torch_rank *r, int64_t j)
{
	const struct pickle_value *root = torchzip_root(r->model.zip), *v;
	char name[32] = "model";

	if (t->chunks > 1)
		snprintf(name, sizeof name, "model%lld", (long long)j);
	v = pickle_get(root, name);
	return v && v->type == PICKLE_DICT ? v : NULL;
}

/* The layers of a chunk: one more than the highest number in its names, of which each layer has
 * one. */
static int64_t
count_layers(const struct pickle_value *chunk)
{
	const char *rest;
	int64_t n = 0;

	for (uint32_t i = 0; i < chunk->len; i++) {
		const char *key = pickle_string(chunk->pair[i].key);

		if (key)
			n = int64_max(n, layer_in(key, &rest) + 1);
	}
	return int64_min(n, chunk->len);
}

/* Models of before Megatron Core have other names and other rows of q, k and v. */
static int
check_version(const struct torch_source *t, struct err *e)
{
	const struct torch_file *f = &t->rank[0].model;
	const struct pickle_value *root = torchzip_root(f->zip);
	double version = 0;

	if (pickle_get(pickle_get(root, "model"), "language_model"))
		return err_at(e, t->s.path, 0,
		    "%s: a model of before Megatron Core (language_model), which is not read",
		    f->name);
	if (!pickle_double(pickle_get(root, "checkpoint_version"), &version) || version < 3)
		return err_at(e, t->s.path, 0, "%s: checkpoint_version %g: at least 3.0 is read",
		    f->name, version);
	return 0;
}

/* Fills the number of chunks and the first layers of the virtual stages. */
static int
read_layers(struct torch_source *t, struct err *e)
{
	int64_t total = 0, layers = t->args.config.num_layers;
	char name[32] = "model0";

	while (pickle_get(torchzip_root(t->rank[0].model.zip), name))
		snprintf(name, sizeof name, "model%lld", (long long)++t->chunks);
	t->chunks = int64_max(t->chunks, 1);
	t->first = mem_zalloc((size_t)(t->chunks * t->stages) + 1, sizeof *t->first);
	for (int64_t j = 0; j < t->chunks; j++)
		for (int64_t r = 0; r < t->stages; r++) {
			const struct torch_rank *rank = &t->rank[r * torch_width(t)];
			const struct pickle_value *chunk = torch_chunk(t, rank, j);

			if (!chunk)
				return err_at(e, t->s.path, 0,
				    "%s: no weights of chunk %lld of %lld", rank->model.name,
				    (long long)j, (long long)t->chunks);
			t->first[j * t->stages + r] = total;
			total += count_layers(chunk);
		}
	t->first[t->chunks * t->stages] = total;
	if (total != layers)
		return err_at(e, t->s.path, 0, "%lld layers in the files, but num_layers is %lld",
		    (long long)total, (long long)layers);
	return 0;
}

/* Whether a chunk of the first ones of their stages has such a tensor. */
static bool
has_tensor(const struct torch_source *t, const char *before, const char *after)
{
	for (int64_t r = 0; r < t->stages; r++) {
		const struct pickle_value *chunk = torch_chunk(t, &t->rank[r * torch_width(t)], 0);

		for (uint32_t i = 0; chunk && i < chunk->len; i++) {
			const char *rest, *key = pickle_string(chunk->pair[i].key);

			if (key && layer_in(key, &rest) >= 0 &&
			    !strncmp(rest, before, strlen(before)) && strstr(rest, after))
				return true;
		}
	}
	return false;
}

/* Fills the virtual stage of the layers after the head, which all are on one, the last where there
 * are none; and returns what their transformer layers are called. */
static enum megatron_later
find_later(const struct torch_source *t, int *stage)
{
	static const char inner[] = LATER "0.transformer_layer.";

	*stage = (int)(t->chunks * t->stages) - 1;
	for (int v = 0; v <= *stage; v++) {
		const struct torch_rank *r = &t->rank[v % t->stages * torch_width(t)];
		const struct pickle_value *chunk = torch_chunk(t, r, v / t->stages);
		bool found = false;

		for (uint32_t i = 0; chunk && i < chunk->len; i++) {
			const char *key = pickle_string(chunk->pair[i].key);

			if (key && !strncmp(key, inner, sizeof inner - 1)) {
				*stage = v;
				return MEGATRON_TRANSFORMER_LAYER;
			}
			found = found || (key && !strncmp(key, LATER, sizeof LATER - 1));
		}
		if (found)
			*stage = v;
	}
	return MEGATRON_MODEL_LAYER;
}

/* The tensors, the keys of all, and empty cells. Names go by the files: args lack custom layers. */
static int
make_map(struct torch_source *t, struct err *e)
{
	struct megatron_stages stages = { .last = (int)(t->chunks * t->stages) - 1 };
	const char *own = t->s.config.multi_latent_attention ? ".self_attention.kv_layernorm."
							     : ".input_layernorm.";
	struct megatron_model model = { .config = &t->s.config,
		.param = t->s.param,
		.count = t->s.count,
		.padded_vocab_size = t->args.padded_vocab_size,
		.names = has_tensor(t, own, "weight") ? MEGATRON_LOCAL : MEGATRON_ENGINE,
		.experts = has_tensor(t, ".mlp.experts.", ".weight0") ? MEGATRON_GROUPED
								      : MEGATRON_SEQUENTIAL,
		.later = find_later(t, &stages.later) };
	size_t cells;
	struct err why;

	if (megatron_map_init(&t->map, &model, &why) < 0 ||
	    megatron_check_ranks(&t->map, t->ranks, &why) < 0)
		return err_at(e, t->s.path, 0, "%s", why.msg);
	t->key = mem_alloc((size_t)t->map.count, sizeof *t->key);
	for (int i = 0; i < t->map.count; i++) {
		const struct megatron_tensor *m = &t->map.tensor[i];
		int64_t rank = m->expert < 0 ? -1 : m->expert / local_experts(t);

		megatron_key(m, 0, rank < 0 ? 0 : rank * local_experts(t), t->key[i].name);
		t->key[i].expert_rank = rank;
		t->key[i].row = i;
	}
	qsort(t->key, (size_t)t->map.count, sizeof *t->key, compare_keys);
	if (t->stages > 1)
		t->num_copies = megatron_copies(&t->map, &t->s.config, &stages, t->copy);
	cells = (size_t)(t->map.count + t->num_copies) * (size_t)torch_width(t);
	t->cell = mem_zalloc(cells, sizeof *t->cell);
	for (size_t i = 0; i < cells; i++) {
		struct torch_cell *c = &t->cell[i];

		c->weight.dtype = c->master.dtype = DTYPE_NONE;
		for (int k = 0; k < OPTIM_STATES_MAX; k++)
			c->state[k].dtype = DTYPE_NONE;
	}
	return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The reason why a tensor of a file cannot be the cell's; NULL: it can. */
static void
explain(const struct torch_source *t, int row, const struct torch_tensor *x, struct str *why)
{
	const struct megatron_tensor *m = torch_row_tensor(t, row);
	int64_t shape[SLICE_DIMS];

	megatron_rank_shape(m, t->ranks, shape);
	if (!dtype_is_float(x->dtype)) {
		str_addf(why, "is %s; F64, F32, BF16 and F16 are read", dtype_name(x->dtype));
	} else if (x->ndim != m->ndim || memcmp(x->shape, shape, (size_t)m->ndim * sizeof *shape)) {
		str_adds(why, "has shape ");
		source_print_shape(why, x->ndim, x->shape);
		str_adds(why, ", a rank of the model needs ");
		source_print_shape(why, m->ndim, shape);
	}
}

/* A tensor that a rank has under a name; x NULL: it cannot be read, for the reason. */
static void
take_tensor(struct torch_source *t, const struct torch_rank *r, int64_t virtual_stage,
    const char *key, const struct torch_tensor *x, const struct err *reason)
{
	int row = torch_row(t, virtual_stage, r->expert, key);
	struct torch_cell *c = row < 0 ? NULL : torch_cell_at(t, row, r->number);
	struct str why = { 0 };

	if (row < 0)
		str_adds(&why, "does not belong to the model");
	else if (!x)
		str_addf(&why, "cannot be read: %s", reason->msg);
	else if (c->seen)
		str_adds(&why, "is there twice");
	else
		explain(t, row, x, &why);
	if (why.len)
		source_problem(&t->s, "%s: tensor '%s' %s", r->model.name, key, why.buf);
	if (c)
		c->weight = why.len ? (struct torch_tensor){ .dtype = DTYPE_NONE } : *x;
	if (c)
		c->seen = true;
	str_release(&why);
}

/* One entry of a chunk's dict. The experts of a rank that are in one tensor are taken each as its
 * own. */
static void
take_entry(struct torch_source *t, const struct torch_rank *r, int64_t virtual_stage,
    const struct pickle_pair *entry)
{
	const struct err other = { "its shape is not that of the rank's experts" };
	const char *key = pickle_string(entry->key);
	struct torch_tensor x, one;
	struct err reason;
	bool held;

	if (!key || torch_is_ignored(key))
		return;
	t->s.num_tensors++;
	held = torchzip_tensor(r->model.zip, entry->value, &x, &reason) == 0;
	if (!held || !local_experts(t) || !torch_is_grouped(key)) {
		take_tensor(t, r, virtual_stage, key, held ? &x : NULL, &reason);
		return;
	}
	for (int64_t which[2] = { 0, local_experts(t) }; which[0] < which[1]; which[0]++) {
		char name[128];

		held = torch_grouped_expert(key, &x, which, &one) == 0;
		torch_grouped_name(key, which[0], name);
		take_tensor(t, r, virtual_stage, name, held ? &one : NULL, &other);
	}
}

/* Every part that no file had, and types that differ between ranks. */
static void
check_cells(struct torch_source *t)
{
	for (int row = 0; row < t->map.count + t->num_copies; row++) {
		const struct megatron_tensor *m = torch_row_tensor(t, row);
		int64_t start, count;
		enum dtype first;
		char key[128];

		holders(t, row, &start, &count);
		first = torch_cell_at(t, row, start)->weight.dtype;
		megatron_key(m, 0, 0, key);
		for (int64_t r = start; r < start + count; r++) {
			enum dtype dtype = torch_cell_at(t, row, r)->weight.dtype;
			long long rank = r % t->ranks.tensor;

			if (!torch_cell_at(t, row, r)->seen)
				source_problem(&t->s,
				    "tensor '%s'%s of tensor rank %lld is missing", key,
				    row < t->map.count ? "" : " of the last stage", rank);
			else if (dtype != first && dtype != DTYPE_NONE && first != DTYPE_NONE)
				source_problem(&t->s,
				    "tensor '%s' is %s on tensor rank 0 and %s on %lld", key,
				    dtype_name(first), dtype_name(dtype), rank);
		}
	}
}

/* The iteration that a rank's file is of; -1: it does not say. */
static int64_t
iteration_of(const struct torch_rank *r)
{
	int64_t x;

	return pickle_int(pickle_get(torchzip_root(r->model.zip), "iteration"), &x) ? x : -1;
}

static void
read_tensors(struct torch_source *t)
{
	for (int64_t i = 0; i < torch_num_ranks(t); i++) {
		const struct torch_rank *r = &t->rank[i];

		if (iteration_of(r) != iteration_of(t->rank))
			source_problem(&t->s, "%s: is of iteration %lld, %s of %lld", r->model.name,
			    (long long)iteration_of(r), t->rank->model.name,
			    (long long)iteration_of(t->rank));
		for (int64_t j = 0; j < t->chunks; j++) {
			const struct pickle_value *chunk = torch_chunk(t, r, j);

			if (!chunk)
				source_problem(&t->s, "%s: no weights of chunk %lld", r->model.name,
				    (long long)j);
			for (uint32_t k = 0; chunk && k < chunk->len; k++)
				take_entry(t, r, j * t->stages + r->stage, &chunk->pair[k]);
		}
		t->s.num_files += 1 + !!r->optim.zip;
	}
	check_cells(t);
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool
has_member(const void *root, const char *name)
{
	return pickle_get(root, name);
}

static void
add_notes(struct torch_source *t)
{
	struct source *s = &t->s;
	const struct pickle_value *root = torchzip_root(t->rank[0].model.zip);
	long long rows = t->args.padded_vocab_size, padding = rows - s->config.vocab_size;

	if (!t->args.vocab_known)
		s->padded_vocab = rows;
	else if (padding)
		str_addf(&s->notes,
		    "%s: %lld rows of padding of the vocabulary tables are dropped\n", s->path,
		    padding);
	megatron_run_left_out(s, has_member, root);
	if (pickle_get(pickle_get(root, "optimizer"), "grad_scaler"))
		str_addf(&s->notes, "%s: the loss scale is not read: a run begins with its own\n",
		    s->path);
	if (!torchzip_has_sums(t->rank[0].model.zip))
		str_addf(&s->notes,
		    "%s: the files have no CRC-32, so that damage of their bytes is not found\n",
		    s->path);
}

/* The model, its tensors and the state; the layout of the run, as far as a report tells of it. */
static int
read_all(struct torch_source *t, struct err *e)
{
	struct layout *l = &t->s.layout;
	const struct pickle_value *root;
	struct megatron_run run;

	if (torch_open_ranks(t, e) < 0 || check_version(t, e) < 0 || read_layers(t, e) < 0)
		return -1;
	root = torchzip_root(t->rank[0].model.zip);
	t->s.config = t->args.config;
	megatron_run_options(pickle_get(root, "args"), &t->s.run_options);
	source_set_model(&t->s);
	if (make_map(t, e) < 0)
		return -1;
	l->tensor_model_parallel_size = t->ranks.tensor;
	l->expert_model_parallel_size = t->expert_ranks;
	l->expert_tensor_parallel_size = t->ranks.slices;
	l->pipeline_model_parallel_size = t->stages;
	l->context_parallel_size = t->args.context_ranks;
	l->data_parallel_size = t->args.data_ranks / t->args.context_ranks;
	l->virtual_stages = t->chunks;
	for (int64_t v = 0; v < int64_min(t->chunks * t->stages, SPLIT_MAX); v++)
		l->split[v] = (int)(t->first[v + 1] - t->first[v]);
	read_tensors(t);
	add_notes(t);
	run = (struct megatron_run){ .args = pickle_get(root, "args"),
		.scheduler = pickle_get(root, "opt_param_scheduler"),
		.iteration = int64_max(iteration_of(t->rank), 0),
		.optimizer_steps = -1 };
	torch_read_optimizer(t, &run.optimizer_steps);
	run.adam = t->s.rule;
	megatron_run_state(&run, &t->s);
	return 0;
}

static struct source *
open_torch(const char *path, struct err *e)
{
	struct source *s = source_new(&source_torch, sizeof(struct torch_source), path);

	if (!megatron_find_dir(path, "mp_rank_", s->path)) {
		err_set(e, "'%s' changed while it was opened", path);
	} else if (read_all(torch_of(s), e) == 0) {
		return s;
	}
	source_close(s);
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Where a copy of a part lies. */
struct place {
	int param; /* its number */
	int row;
	int64_t first; /* of the ranks that have it, as torch_cell_at counts them */
	int state;     /* of the rule; -1: the weight */
	bool master;
};

/* Copies are numbered by stage, by rank, and, where there are both, by master and weight. */
static bool
place_of(const struct torch_source *t, const struct source_part *p, struct place *out, int *copies)
{
	int i = source_index(&t->s, p->param), row = i < 0 ? 0 : t->map.rows[i].tensor;
	int kinds = !p->state && t->has_master && !t->map.tensor[row].balance ? 2 : 1, k = p->copy;
	int64_t apart = megatron_num_ranks(&t->map.tensor[row], t->ranks), start, count, replicas;

	holders(t, row, &start, &count);
	replicas = count / apart;
	*out = (struct place){ .param = i, .state = -1 };
	for (int n = 0; p->state && t->s.rule && t->s.rule->states[n]; n++)
		if (!strcmp(p->state, t->s.rule->states[n]))
			out->state = n;
	for (*copies = 0; copy_row(t, row, *copies) >= 0;)
		++*copies;
	*copies *= kinds * (int)replicas;
	if (i < 0 || (p->state && out->state < 0) || k >= *copies)
		return false;
	out->master = kinds == 2 && k % 2 == 0;
	out->first = start + k / kinds % replicas * apart;
	out->row = copy_row(t, row, k / kinds / (int)replicas);
	return true;
}

static const struct torch_tensor *
stored(const struct torch_source *t, const struct place *at, int64_t tensor_rank)
{
	const struct torch_cell *c = torch_cell_at(t, at->row, at->first + tensor_rank);

	return at->state >= 0 ? &c->state[at->state] : at->master ? &c->master : &c->weight;
}

/* Every rank's part must be readable, in the type of the first: what is wrong with one is a problem
 * of the source, which only some callers ask for. */
static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	const struct torch_source *t = torch_of(s);
	struct place at;

	*out = (struct source_stored){ DTYPE_NONE };
	if (source_is_idle(s, p)) {
		*out = (struct source_stored){ DTYPE_F32, 1, 1 };
		return p->copy == 0;
	}
	if (!place_of(t, p, &at, &out->copies))
		return false;
	out->dtype = stored(t, &at, 0)->dtype;
	out->pieces =
	    (int)megatron_num_ranks(&t->map.tensor[t->map.rows[at.param].tensor], t->ranks);
	for (int r = 1; r < out->pieces; r++)
		if (stored(t, &at, r)->dtype != out->dtype)
			return false;
	return out->dtype != DTYPE_NONE;
}

/* A piece of a box into the array of the box: at once, or row by row when it is narrower. */
static void
read_piece(const struct torch_tensor *x, const struct megatron_piece *p, const struct slice *slice,
    char *dst)
{
	int last = slice->ndim - 1;
	int64_t width = last ? slice->count[last] : 1, rows = p->param.count[0];
	int64_t at = (p->param.start[0] - slice->start[0]) * width;
	struct slice part = p->tensor;

	if (last)
		at += p->param.start[last] - slice->start[last];
	if (!last || p->param.count[last] == width)
		rows = 1;
	else
		part.count[0] = 1;
	for (int64_t r = 0; r < rows; r++, part.start[0]++)
		torch_tensor_read(x, &part, dst + (size_t)(at + r * width) * dtype_size(x->dtype));
}

/* A storage is compared with its checksum when it is first read, unless the ranks of a run have
 * shared that out. */
static int
read_copy(struct torch_source *t, const struct source_part *p, void *dst, struct err *e)
{
	struct megatron_piece piece = { .rank = 0 };
	struct place at;
	int copies;

	if (!place_of(t, p, &at, &copies))
		BUG("copy %d of '%s'", p->copy, p->param->name);
	while (megatron_next(&t->map, at.param, t->ranks, &p->slice, &piece)) {
		const struct torch_tensor *x = stored(t, &at, piece.rank);

		if (!t->compared && torch_tensor_check(x, e) < 0) {
			t->s.damaged = true;
			return -1;
		}
		read_piece(x, &piece, &p->slice, dst);
	}
	return 0;
}

bool
torch_same(struct dtype_array fine, struct dtype_array coarse, int64_t n)
{
	size_t bytes = (size_t)n * dtype_size(coarse.type);
	void *rounded = NULL;
	const void *mine = fine.data;
	bool same;

	if (fine.type != coarse.type) {
		mine = rounded = mem_alloc(bytes, 1);
		dtype_convert(rounded, coarse.type, fine.data, fine.type, n);
	}
	same = dtype_same(mine, coarse.data, coarse.type, n);
	free(rounded);
	return same;
}

/* Compares a box of copy 0 with the same box of every other copy. */
static int
compare_copies(
    struct torch_source *t, const struct source_part *p, struct dtype_array first, struct err *e)
{
	struct source_part other = *p;
	struct source_stored how;
	int64_t n = slice_elements(&p->slice);
	bool same = true;
	int rc = 0;

	for (other.copy = 1; same && rc == 0 && find_part(&t->s, &other, &how); other.copy++) {
		void *bytes = mem_alloc((size_t)n, dtype_size(how.dtype));

		rc = read_copy(t, &other, bytes, e);
		same = rc < 0 || torch_same(first, (struct dtype_array){ bytes, how.dtype }, n);
		free(bytes);
	}
	if (same)
		return rc;
	return err_at(e, t->s.path, 0,
	    "'%s'%s%s: its %d copies differ (fp32 and 16 bits, tensor ranks, %sfirst and last "
	    "stage)",
	    p->param->name, p->state ? "." : "", p->state ? p->state : "", how.copies,
	    t->expert_ranks > 1 ? "expert ranks, " : "");
}

/* Some rows at a time, so that copies take little memory; pages are given back now and then. */
static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct torch_source *t = torch_of(s);
	struct source_stored how;
	struct source_part part = *p;
	int64_t rows = p->slice.count[0], width = slice_elements(&p->slice) / rows;
	int64_t most = int64_max(READ_ELEMENTS / width, 1);

	if (!find_part(s, p, &how))
		BUG("no copy %d of '%s'", p->copy, p->param->name);
	if (source_is_idle(s, p)) {
		memset(dst, 0, (size_t)slice_elements(&p->slice) * sizeof(float));
		return 0;
	}
	if (torch_check_roots(t, e) < 0)
		return -1;
	for (int64_t at = 0; at < rows; at += most) {
		char *out = (char *)dst + (size_t)(at * width) * dtype_size(how.dtype);

		part.slice.start[0] = p->slice.start[0] + at;
		part.slice.count[0] = int64_min(most, rows - at);
		if (read_copy(t, &part, out, e) < 0 ||
		    (p->copy == 0 &&
			compare_copies(t, &part, (struct dtype_array){ out, how.dtype }, e) < 0))
			return -1;
		if (!p->state)
			megatron_restore(&t->map, source_index(s, p->param), out, how.dtype,
			    part.slice.count[0] * width);
		t->unread += part.slice.count[0] * width * (int64_t)dtype_size(how.dtype);
		if (t->unread < FORGET_BYTES)
			continue;
		t->unread = 0;
		for (int64_t i = 0; i < torch_num_ranks(t); i++) {
			map_forget(&t->rank[i].model.map);
			map_forget(&t->rank[i].optim.map);
		}
	}
	return 0;
}

/* Of the first elements of every cell, and of the arguments' model. */
static uint64_t
header_hash(const struct source *s)
{
	const struct torch_source *t = torch_of(s);
	struct hash_stream *h = hash_stream_new();

	hash_stream_add(h, s->options.buf, s->options.len);
	for (int64_t i = 0; i < t->map.count * torch_width(t); i++) {
		const struct torch_tensor *x = &t->cell[i].weight;
		struct slice slice = slice_whole(x->ndim, x->shape);
		char bytes[NAMED * sizeof(double)] = { 0 };

		for (int d = 0; d < x->ndim; d++)
			slice.count[d] = int64_min(slice.count[d], d < x->ndim - 1 ? 1 : NAMED);
		if (dtype_is_float(x->dtype))
			torch_tensor_read(x, &slice, bytes);
		hash_stream_add(h, bytes, sizeof bytes);
	}
	return hash_stream_free(h);
}

static void
release(struct source *s)
{
	struct torch_source *t = torch_of(s);

	torch_close_ranks(t);
	megatron_map_release(&t->map);
	free(t->key);
	free(t->first);
	free(t->cell);
}

const struct source_kind source_torch = {
	.name = "Megatron-LM checkpoint",
	.is = is_torch,
	.open = open_torch,
	.find = find_part,
	.read = read_part,
	.verify = torch_verify_files,
	.hash = header_hash,
	.share = torch_check_share,
	.close = release,
};
