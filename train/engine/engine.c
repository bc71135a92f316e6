/*
 * engine.c - a rank's memory and weights
 *
 * What lib/model/memory planned is taken in three pieces when the run starts and never again:
 * parameters (weights, gradients, optimizer), saved activations, scratch. Weights and main
 * gradients are two flat arrays in the same order, so that reduction, update and checkpoints see
 * one array and the layers see views into it.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "lib/model/fit.h"
#include "train/engine/engine.h"
#include "train/engine/groups.h"
#include "train/engine/traffic.h"
#include "train/layers/layer.h"

#include <stdlib.h>
#include <string.h>

/* Where each (layer, role) is in the list of shards. Embedding first, then this stage's layers,
 * the head last; -1 (0xff bytes) where this rank has no such parameter. */
static void
index_shards(struct engine *e)
{
	size_t layers = (size_t)e->mem.num_layers + 2;

	e->shard_of = mem_alloc(layers, sizeof *e->shard_of);
	memset(e->shard_of, 0xff, layers * sizeof *e->shard_of);
	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct param *p = &e->table[e->mem.shards.item[i].param];
		int64_t at = p->layer < 0                  ? 0
		    : p->layer == e->plan.model.num_layers ? e->mem.num_layers + 1
							   : p->layer - e->mem.first_layer + 1;

		e->shard_of[at][p->role] = i;
	}
}

/* embedding?, (attention, mlp) of each layer, head? The order is the order of the forward pass;
 * each entry says where its input is saved. */
static void
build_layers(struct engine *e)
{
	struct layer *l = e->layer = mem_alloc((size_t)(2 * e->mem.num_layers + 2), sizeof *l);

	if (e->first_stage)
		*l++ = (struct layer){ &layer_embedding, -1, 0, BUF_LAYER_INPUT };
	for (int64_t i = 0; i < e->mem.num_layers; i++) {
		int index = (int)(e->mem.first_layer + i);

		*l++ = (struct layer){ &layer_attention, index, (int)i, BUF_LAYER_INPUT };
		*l++ = (struct layer){ &layer_mlp, index, (int)i, BUF_MLP_INPUT };
	}
	if (e->last_stage)
		*l++ = (struct layer){ &layer_head, (int)e->plan.model.num_layers, 0,
			BUF_FINAL_INPUT };
	e->num_layers = (int)(l - e->layer);
}

/* What was taken before a failure is given back by engine_close. Asked first whether it all fits:
 * the answer says what would. */
static int
take_memory(struct engine *e, struct err *err)
{
	static const char *const names[] = { "parameters", "saved activations", "scratch" };
	size_t available = e->backend->free_memory(e->device);
	struct err why;

	if (available && memory_fit(&e->plan, e->coord, 0, available, err) < 0)
		return -1;

	for (int a = 0; a < ARENA_COUNT; a++) {
		e->arena[a] = e->backend->alloc(e->device, e->mem.arena[a], &why);
		if (!e->arena[a])
			return err_set(err, "cannot take %.1f MiB for %s: %s",
			    (double)e->mem.arena[a] / 1048576, names[a], why.msg);
	}
	return 0;
}

/* Copies host doubles to a tensor, converted. Waits for the copy, since the host buffer goes
 * away. For starting up, not for steps. */
static void
put(struct engine *e, const struct tensor *dst, const double *src)
{
	size_t n = (size_t)tensor_elements(dst);
	void *host = mem_alloc(n, dtype_size(dst->dtype));

	dtype_convert(host, dst->dtype, src, DTYPE_F64, (int64_t)n);
	e->backend->copy_in(e->stream, dst->data, host, tensor_bytes(dst));
	engine_sync(e);
	free(host);
}

/* [positions, d/2, 2] of cosine and sine, computed in double and rounded once to the table's
 * type; no table in models with learned positions. */
static void
fill_rope_table(struct engine *e)
{
	struct tensor t = engine_buffer(e, BUF_ROPE);
	double *table;

	if (!t.data)
		return;
	table = mem_alloc((size_t)tensor_elements(&t), sizeof *table);
	model_rope_table(&e->plan.model, t.shape[0], table);
	put(e, &t, table);
	free(table);
}

/* Collective over world; fails on all ranks when it does on one, with the reason on rank 0. The
 * plan is copied, the backend is kept. Memory comes before the communicators, so that a rank
 * without room says so while the others can still be told. */
int
engine_open(struct engine *e, const struct engine_config *c, struct comm *world, struct err *err)
{
	struct device_config dev = { .num_threads = c->num_threads,
		.dtype = c->plan->shape.dtype,
		.deterministic = c->deterministic };
	int local_size;

	memset(e, 0, sizeof *e);
	e->plan = *c->plan;
	e->seed = c->seed;
	e->z_loss = c->z_loss;
	e->token_scale = 1;
	e->rank = world->rank;
	e->backend = c->backend;
	layout_coord(&e->plan.layout, e->rank, e->coord);
	e->first_stage = e->coord[AX_PP] == 0;
	e->last_stage = e->coord[AX_PP] == e->plan.layout.pipeline_model_parallel_size - 1;
	memory_plan(&e->mem, &e->plan.model, &e->plan.layout, &e->plan.shape, e->coord);
	e->num_params = model_params(&e->plan.model, &e->table);
	index_shards(e);
	build_layers(e);
	dev.local_rank = mpi_local_rank(world, &local_size);
	e->device = e->backend->open(&dev, err);
	if (comm_agree(world, e->device ? take_memory(e, err) : -1, err) ||
	    groups_open(e, world, err) < 0)
		return -1;
	e->stream = e->backend->stream(e->device, STREAM_COMPUTE);
	e->ops = e->stream->ops;
	e->traffic = traffic_open(e, c->overlap_grad_reduce, c->overlap_param_gather);
	fill_rope_table(e);
	return 0;
}

/* Communicators go first: they may hold the device's streams. Also after engine_open has failed. */
void
engine_close(struct engine *e)
{
	traffic_close(e->traffic);
	groups_close(&e->groups);
	for (int a = 0; a < ARENA_COUNT; a++)
		if (e->arena[a])
			e->backend->release(e->device, e->arena[a]);
	if (e->device)
		e->backend->close(e->device);
	memory_release(&e->mem);
	free(e->table);
	free(e->shard_of);
	free(e->layer);
}

/* A device error is not to be survived: results queued since the last sync are unknown, so the
 * program ends with the device's reason. */
void
engine_sync(const struct engine *e)
{
	struct err err;

	if (e->backend->sync(e->stream, &err) < 0)
		die("%s", err.msg);
}

/* No data when this rank's plan has no such buffer; a vector when it has one column. Valid until
 * engine_close. */
struct tensor
engine_buffer(const struct engine *e, enum buffer b)
{
	const struct memory_plan *m = &e->mem;
	struct tensor t = { .data = NULL };

	if (!m->bytes[b])
		return t;
	t = tensor_2d(
	    e->arena[m->place[b]] + m->offset[b], m->dtype[b], m->shape[b][0], m->shape[b][1]);
	return m->vector[b] ? tensor_flat(&t) : t;
}

/* Embedding (-1), head (num_layers) or a layer of this stage: the caller asks for no other's. */
static const struct shard *
find_shard(const struct engine *e, int layer, enum role role)
{
	int64_t at = layer < 0                  ? 0
	    : layer == e->plan.model.num_layers ? e->mem.num_layers + 1
						: layer - e->mem.first_layer + 1;
	int i = e->shard_of[at][role];

	return i < 0 ? NULL : &e->mem.shards.item[i];
}

struct tensor
engine_bucket(const struct engine *e, bool grad, int bucket)
{
	const struct bucket *k = &e->mem.shards.bucket[bucket];
	enum buffer slots = grad ? BUF_GRAD_SLOTS : BUF_WEIGHT_SLOTS;
	struct tensor t = engine_buffer(e, slots);

	if (t.data)
		return tensor_rows(&t, k->place, k->count);
	t = engine_buffer(e, grad ? BUF_GRADS : BUF_WEIGHTS);
	return tensor_rows(&t, k->first, k->count);
}

/* The first rows of a shard, in the buffer of weights or of main gradients: the only place where
 * the address of a parameter is made. Vectors stay vectors, so that biases and norms' weights have
 * one dimension. */
static struct tensor
view(const struct engine *e, bool grad, const struct shard *s, int64_t rows)
{
	struct tensor t = engine_bucket(e, grad, s->bucket);
	int64_t columns = e->table[s->param].ndim == 1 ? 1 : s->shape[1];

	t = tensor_rows(&t, s->offset - e->mem.shards.bucket[s->bucket].first, rows * columns);
	return e->table[s->param].ndim == 1 ? t : tensor_2d(t.data, t.dtype, rows, columns);
}

struct part
engine_own(const struct engine *e, int bucket)
{
	return bucket_part(&e->mem.shards.bucket[bucket], e->mem.replica, e->mem.replicas);
}

struct part
engine_own_shard(const struct engine *e, const struct shard *s)
{
	return shard_part(&e->mem.shards, s, e->mem.replica, e->mem.replicas);
}

/* Where all elements are own, both places are the same. */
struct tensor
engine_part(const struct engine *e, enum buffer b, const struct part *p)
{
	struct tensor t = engine_buffer(e, b);

	if (!t.data)
		return t;
	return tensor_rows(&t, t.shape[0] == e->mem.own_elements ? p->own : p->first, p->count);
}

struct tensor
engine_masters(const struct engine *e, const struct part *p)
{
	return engine_part(e, e->mem.bytes[BUF_MASTER] ? BUF_MASTER : BUF_WEIGHTS, p);
}

/* [rows, columns] or [rows] of this tensor rank's share, in the run's type; no data when the
 * model has no such parameter. */
struct tensor
engine_weight(const struct engine *e, int layer, enum role role)
{
	return engine_joined(e, false, layer, role, role);
}

/* The same place in the main gradients. */
struct tensor
engine_grad(const struct engine *e, int layer, enum role role)
{
	return engine_joined(e, true, layer, role, role);
}

/* Roles first .. last of a layer as one matrix. They lie one after the other in the flat order
 * and have equally long rows (q k v, gate up), so one product serves all of them. */
struct tensor
engine_joined(const struct engine *e, bool grad, int layer, enum role first, enum role last)
{
	const struct shard *s = find_shard(e, layer, first);
	struct tensor none = { .data = NULL };
	int64_t rows = 0;

	if (!s)
		return none;
	for (int role = (int)first; role <= (int)last; role++)
		rows += find_shard(e, layer, (enum role)role)->shape[0];
	return view(e, grad, s, rows);
}

/* Elements [first, first + count) of parameter p, global numbers. They depend on seed, name and
 * place in the whole tensor alone, so every layout starts from the same model. */
static void
init_values(struct engine *e, const struct param *p, int64_t first, const struct tensor *dst)
{
	struct normal n = {
		.key = e->seed, .stream = rng_stream(p->name), .first = first, .std = p->init_std
	};

	if (p->init_std == 0)
		e->ops->fill(e->stream, dst, p->init_value);
	else
		e->ops->normal(e->stream, dst, &n);
}

/* Elements [at, at + count) of the flat order, as far as they are in p, of which the parameter is;
 * `first` is the first one's number in the whole parameter. */
static void
init_range(struct engine *e, const struct param *param, const struct part *p, int64_t at,
    int64_t count, int64_t first)
{
	struct part here = part_cut(p, at, count);
	struct tensor dst;

	if (here.count == 0)
		return;
	dst = engine_masters(e, &here);
	init_values(e, param, first + here.first - at, &dst);
}

/* The real rows of one shard. Those of a whole matrix are one run of elements; a matrix that is
 * split by columns has rows that are apart in the whole tensor, hence row by row. */
static void
init_shard(struct engine *e, const struct shard *s)
{
	const struct param *p = &e->table[s->param];
	struct part own = engine_own_shard(e, s);
	int64_t rows = p->ndim == 2 ? s->box.count[0] : 1, columns = s->box.count[p->ndim - 1];
	int64_t width = p->ndim == 2 ? p->shape[1] : 0, row = p->ndim == 2 ? s->box.start[0] : 0;
	int64_t first = row * width + s->box.start[p->ndim - 1];

	if (columns == width) {
		columns *= rows;
		rows = 1;
	}
	for (int64_t r = 0; r < rows; r++)
		init_range(e, p, &own, s->offset + r * columns, columns, first + r * width);
}

/* Masters get values that are not rounded to the weights' type: rounded ones would lie on its grid,
 * and 16-bit weights would not move before their updates add up to half a step of it. Padding rows
 * of the vocabulary and between shards are zero. */
void
engine_init_weights(struct engine *e)
{
	struct tensor to = engine_buffer(e, e->mem.bytes[BUF_MASTER] ? BUF_MASTER : BUF_WEIGHTS);

	e->ops->fill(e->stream, &to, 0);
	for (int i = 0; i < e->mem.shards.count; i++)
		init_shard(e, &e->mem.shards.item[i]);
}

/* The step's sums of loss, norm and faults, F64 on the device: they are added to by every micro
 * batch and read once. */
void
engine_zero_scalars(struct engine *e)
{
	struct tensor t = engine_buffer(e, BUF_SCALARS);

	e->ops->fill(e->stream, &t, 0);
}

/* Waits for all that is queued; the one sync of a step before its update. */
void
engine_read_scalars(struct engine *e, double out[SCALAR_COUNT])
{
	e->backend->copy_out(
	    e->stream, out, engine_buffer(e, BUF_SCALARS).data, SCALAR_COUNT * sizeof *out);
	engine_sync(e);
}
