/*
 * engine.c - a rank's memory and weights
 *
 * Allocates the three arenas that lib/model/memory planned, once, when the run starts: parameters
 * (weights, gradients, optimizer), saved activations, scratch. Weights and main gradients are two
 * flat arrays in the same order: reduction, update and checkpoints use the whole array, the layers
 * use views into it.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "train/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A device error is fatal, because the results queued since the last sync are unknown. */
void
engine_sync(const struct engine *e)
{
	struct err err;

	if (e->backend->sync(e->stream, &err) < 0)
		die("%s", err.msg);
}

/* A buffer at a place of an arena. */
static struct tensor
tensor_at(const struct engine *e, const struct buffer *b, const struct memory_place *at)
{
	struct tensor t =
	    tensor_2d(e->arena[at->arena] + at->offset, b->dtype, b->shape[0], b->shape[1]);

	return b->vector ? tensor_flat(&t) : t;
}

/* Without data when this rank's plan has no such buffer. Valid until engine_close. */
struct tensor
engine_buffer(const struct engine *e, int number)
{
	const struct buffer *b = memory_buffer(&e->mem, number);

	return b->bytes ? tensor_at(e, b, &(struct memory_place){ b->place, b->offset })
			: (struct tensor){ .data = NULL };
}

struct tensor
engine_rope_table(const struct engine *e, enum rope_table which)
{
	static const int of[] = {
		[ROPE_TABLE_MODEL] = BUF_ROPE, [ROPE_TABLE_WINDOW] = BUF_WINDOW_ROPE
	};

	return engine_buffer(e, of[which]);
}

/* layer is the embedding (-1), the head (num_layers) or a layer of this stage. */
static const struct shard *
find_shard(const struct engine *e, int layer, int number)
{
	int i = e->shard_of[layer + 1][number];

	return i < 0 ? NULL : &e->mem.shards.item[i];
}

/* The plan gives no bytes to buffers that a configuration does not need (LayerNorm's mean under
 * RMSNorm, say): data is NULL then. A buffer of one column comes back as a vector, which is what
 * the operations on statistics and labels take. */
struct tensor
step_buffer(const struct step *s, int number, int64_t layer)
{
	const struct buffer *b = memory_buffer(&s->e->mem, number);
	const struct memory_copy copy = { s->slot, s->tail, s->batch, s->stage_output };
	struct memory_place at;

	if (!b->bytes)
		return (struct tensor){ .data = NULL };
	at = memory_at(&s->e->mem, number, &copy, layer);
	return tensor_at(s->e, b, &at);
}

bool
engine_shards(const struct engine *e, enum sharding what)
{
	return memory_buffer(&e->mem, what == SHARDING_PARAMS ? BUF_WEIGHT_SLOTS : BUF_GRAD_SLOTS)
		   ->bytes > 0;
}

struct tensor
engine_bucket(const struct engine *e, bool grad, int bucket)
{
	const struct bucket *k = &e->mem.shards.bucket[bucket];
	int slots = grad ? BUF_GRAD_SLOTS : BUF_WEIGHT_SLOTS;
	struct tensor t = engine_buffer(e, slots);

	if (t.data)
		return tensor_rows(&t, k->place, k->count);
	t = engine_buffer(e, grad ? BUF_GRADS : BUF_WEIGHTS);
	return tensor_rows(&t, k->first, k->count);
}

/* The first rows of a shard, in the buffer of weights or of main gradients: the only place that
 * computes a parameter's address. Vectors keep one dimension. */
static struct tensor
view(const struct engine *e, bool grad, const struct shard *s, int64_t rows)
{
	struct tensor t = engine_bucket(e, grad, s->bucket);
	int64_t columns = e->table[s->param].ndim == 1 ? 1 : s->shape[1];

	t = tensor_rows(&t, s->offset - e->mem.shards.bucket[s->bucket].first, rows * columns);
	return e->table[s->param].ndim == 1 ? t : tensor_2d(t.data, t.dtype, rows, columns);
}

struct part
engine_optim_part(const struct engine *e, int bucket)
{
	return memory_optim_part(&e->mem, bucket);
}

struct part
engine_optim_part_of(const struct engine *e, const struct shard *s)
{
	struct part p = memory_optim_part(&e->mem, s->bucket);

	return part_cut(&p, s->offset, s->count);
}

struct part
engine_shard(const struct engine *e, int bucket)
{
	return bucket_own_shard(&e->mem.shards.bucket[bucket]);
}

bool
engine_updated_on_host(const struct engine *e, const struct part *p)
{
	return p->in_optim >= e->mem.optim_device && e->mem.optim_device < e->mem.optim_elements;
}

struct stream *
engine_stream(const struct engine *e, const struct part *p)
{
	return engine_updated_on_host(e, p) ? e->host_stream : e->stream;
}

/* A part in one of the arrays of what the host updates. */
static struct tensor
host_part(const struct engine *e, int b, const struct part *p)
{
	struct tensor t = engine_buffer(e, b);

	return t.data ? tensor_rows(&t, p->in_optim - e->mem.optim_device, p->count) : t;
}

/* Without sharding all offsets but the state's are equal. */
struct tensor
engine_part(const struct engine *e, int b, const struct part *p)
{
	struct tensor t = engine_buffer(e, b);
	bool state = b >= BUF_STATE && b <= BUF_STATE_LAST,
	     owned = b != BUF_WEIGHTS && b != BUF_GRADS;

	if (b != BUF_WEIGHTS && memory_host_copy(b) != b && engine_updated_on_host(e, p))
		return host_part(e, memory_host_copy(b), p);
	if (!t.data)
		return t;
	return tensor_rows(&t,
	    state                                      ? p->state
		: owned                                ? p->in_optim
		: t.shape[0] == e->mem.shards.elements ? p->first
						       : p->in_shard,
	    p->count);
}

/* Zero bits are 0 in every type. */
void
engine_clear(struct engine *e, int b)
{
	struct tensor here = engine_buffer(e, b), host_copy = engine_buffer(e, memory_host_copy(b));

	if (here.dtype == DTYPE_U16)
		here.dtype = DTYPE_BF16;
	if (here.data && memory_buffer(&e->mem, b)->place == ARENA_HOST)
		memset(here.data, 0, tensor_bytes(&here));
	else if (here.data)
		e->ops->fill(e->stream, &(struct fill){ here, 0 });
	if (host_copy.data)
		memset(host_copy.data, 0, tensor_bytes(&host_copy));
}

bool
engine_keeps(const struct engine *e, int bucket, int i)
{
	return optim_keeps(e->mem.rule, i, e->mem.shards.bucket[bucket].layers);
}

struct tensor
engine_updated(const struct engine *e, const struct part *p)
{
	return engine_updated_on_host(e, p) ? host_part(e, BUF_HOST_WEIGHTS, p)
					    : engine_part(e, BUF_WEIGHTS, p);
}

struct tensor
engine_masters(const struct engine *e, const struct part *p)
{
	return memory_has(&e->mem, BUF_MASTER) ? engine_part(e, BUF_MASTER, p)
					       : engine_updated(e, p);
}

/* [rows, columns] or [rows] of this tensor rank's share, in the run's type; no data when the
 * model has no such parameter. */
struct tensor
engine_weight(const struct engine *e, int layer, int number)
{
	return engine_joined(e, false, layer, number, number);
}

/* A parameter in the main gradients. */
struct tensor
engine_grad(const struct engine *e, int layer, int number)
{
	return engine_joined(e, true, layer, number, number);
}

/* Parameters of a layer that follow each other, `times` times. */
struct run {
	int layer;
	int first, last;
	int64_t times;
};

static struct tensor
joined(const struct engine *e, bool grad, const struct run *r)
{
	const struct shard *s = find_shard(e, r->layer, r->first);
	struct tensor none = { .data = NULL };
	int64_t rows = 0;

	if (!s)
		return none;
	for (int i = r->first; i <= r->last; i++)
		rows += find_shard(e, r->layer, i)->shape[0];
	return view(e, grad, s, r->times * rows);
}

/* Parameters first .. last of a layer as one matrix. They are adjacent in the flat order and have
 * rows of equal length (q k v, gate up), so one GEMM computes all of them. */
struct tensor
engine_joined(const struct engine *e, bool grad, int layer, int first, int last)
{
	return joined(e, grad, &(struct run){ layer, first, last, 1 });
}

/* Every expert's matrices are followed by those of the next. */
struct tensor
engine_experts(const struct engine *e, bool grad, int layer, int first, int last)
{
	int64_t n = e->plan.model.num_experts / layout_expert_ranks(&e->plan.layout);

	return joined(e, grad, &(struct run){ layer, first, last, n });
}

/* Masters that are kept as weights and low bits. */
static void
init_split(struct engine *e, const struct normal *n, const struct part *p)
{
	struct stream *st = engine_stream(e, p);
	struct tensor weights = engine_updated(e, p), low_bits = engine_part(e, BUF_LOW_BITS, p);
	float *buf = engine_updated_on_host(e, p) ? mem_alloc((size_t)p->count, sizeof *buf) : NULL;
	struct tensor scratch =
	    tensor_1d(buf ? (void *)buf : e->arena[ARENA_SCRATCH], DTYPE_F32, p->count);
	struct normal values = *n;

	values.x = scratch;
	st->ops->normal(st, &values);
	st->ops->split(st, &(struct halves){ weights, low_bits, scratch });
	free(buf);
}

/* Few elements, an operation each. */
static void
init_logs(struct stream *st, const struct param *param, int64_t first, const struct tensor *to)
{
	for (int64_t i = 0; i < tensor_elements(to); i++) {
		double share = ((double)(first + i) + 0.5) / (double)param->shape[0];
		struct tensor at =
		    tensor_1d((char *)to->data + (size_t)i * dtype_size(to->dtype), to->dtype, 1);

		st->ops->fill(st, &(struct fill){ at, log(param->init_log * share) });
	}
}

/* Initialises the masters of part p, which are elements from `first` on of the whole parameter.
 * Their values depend only on seed, name and index, so every layout starts from the same model. */
static void
init_values(struct engine *e, const struct param *param, int64_t first, const struct part *p)
{
	struct stream *st = engine_stream(e, p);
	struct tensor dst = engine_masters(e, p);
	struct normal n = { .x = dst,
		.key = e->seed,
		.stream = rng_stream(param->name),
		.first = first,
		.std = param->init_std };

	if (param->init_log > 0)
		init_logs(st, param, first, &dst);
	else if (param->init_std == 0)
		st->ops->fill(st, &(struct fill){ dst, param->init_value });
	else if (memory_has(&e->mem, BUF_LOW_BITS))
		init_split(e, &n, p);
	else
		st->ops->normal(st, &n);
}

/* Initialises the real rows of one shard: in one run where they are contiguous in the whole
 * parameter, row by row for a matrix that is split by columns. Not more elements at a time than the
 * scratch arena can hold. */
static void
init_shard(struct engine *e, const struct shard *s)
{
	const struct param *p = &e->table[s->param];
	struct part own = engine_optim_part_of(e, s), run, some;
	int64_t most = (int64_t)(e->mem.arena[ARENA_SCRATCH] / sizeof(float));
	int64_t rows = p->ndim == 2 ? s->slice.count[0] : 1, columns = s->slice.count[p->ndim - 1];
	int64_t width = p->ndim == 2 ? p->shape[1] : 0, row = p->ndim == 2 ? s->slice.start[0] : 0;
	int64_t first = row * width + s->slice.start[p->ndim - 1];

	if (columns == width) {
		columns *= rows;
		rows = 1;
	}
	for (int64_t r = 0; r < rows; r++) {
		int64_t begin = s->offset + r * columns;

		run = part_cut(&own, begin, columns);
		for (int64_t i = 0; i < run.count; i += some.count) {
			some = part_cut(&run, run.first + i, int64_min(most, run.count - i));
			init_values(e, p, first + r * width + some.first - begin, &some);
		}
	}
}

/* Masters get values that are not rounded to the weights' type: from rounded ones, 16-bit weights
 * would not change before their updates add up to half a unit in the last place. Padding of the
 * vocabulary and between shards is zero. */
void
engine_init_weights(struct engine *e)
{
	struct tensor to =
	    engine_buffer(e, memory_buffer(&e->mem, BUF_MASTER)->bytes ? BUF_MASTER : BUF_WEIGHTS);

	/* What lies on the host is zero. */
	e->ops->fill(e->stream, &(struct fill){ to, 0 });
	for (int i = 0; i < e->mem.shards.count; i++)
		init_shard(e, &e->mem.shards.item[i]);
}

/* What micro batches of a step add to: sums of loss, norm and faults, F64 on the device, which are
 * read once; and statistics of attention and routers. */
void
engine_zero_scalars(struct engine *e)
{
	static const int of_step[] = { BUF_SCALARS, BUF_SCORES, BUF_ROUTER_SUMS, BUF_ROUTER_LOADS };

	for (size_t i = 0; i < sizeof of_step / sizeof *of_step; i++) {
		struct tensor t = engine_buffer(e, of_step[i]);

		if (t.data)
			e->ops->fill(e->stream, &(struct fill){ t, 0 });
	}
	engine_weigh_routers(e, 1);
}

/* On the device, so that passes which were recorded follow it. */
void
engine_weigh_routers(struct engine *e, double factor)
{
	struct tensor all = engine_buffer(e, BUF_SCALARS),
		      one = tensor_rows(&all, SCALAR_ROUTERS, 1);

	one = tensor_flat(&one);
	if (e->plan.model.num_experts)
		e->ops->fill(e->stream, &(struct fill){ one, factor });
}

/* Waits for all queued work; the only sync of a step before its update. */
void
engine_read_scalars(struct engine *e, double out[SCALAR_COUNT])
{
	e->backend->copy_out(
	    e->stream, out, engine_buffer(e, BUF_SCALARS).data, SCALAR_COUNT * sizeof *out);
	engine_sync(e);
}
