/*
 * open.c - builds a rank: its memory, its communicators, its layers
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/evaluation.h"
#include "lib/model/fit.h"
#include "lib/model/generation.h"
#include "lib/model/gpu.h"
#include "lib/model/rope.h"
#include "train/engine/fp8.h"
#include "train/engine/p2p.h"
#include "train/engine/hashes.h"
#include "train/engine/host.h"
#include "train/engine/offload.h"
#include "train/engine/activation_offload.h"
#include "train/engine/timing.h"
#include "train/engine/dp_comm.h"
#include "train/layers/context.h"
#include "train/optim/ema.h"
#include "train/step/open.h"
#include "train/watch/comm_log.h"

#include <stdlib.h>
#include <string.h>

/* The index of each (layer, number) in the list of shards: the embedding first, then the model's
 * layers, then the head and those after it; -1 (0xff bytes) where this rank has no such
 * parameter. */
static void
index_shards(struct engine *e)
{
	size_t layers = (size_t)model_end(&e->plan.model) + 2;

	e->shard_of = mem_alloc(layers, sizeof *e->shard_of);
	memset(e->shard_of, 0xff, layers * sizeof *e->shard_of);
	for (int i = e->mem.shards.count; i-- > 0;) {
		const struct param *p = &e->table[e->mem.shards.item[i].param];

		e->shard_of[p->layer + 1][p->number] = i;
	}
}

#define LAYER_ENTRY(name) &layer_##name,

static const struct layer_kind *const kinds[] = { BLOCKS(LAYER_ENTRY) };

/* The layer kind that computes a block. */
static const struct layer_kind *
layer_of(const struct block_kind *block)
{
	const struct layer_kind *kind = kinds[block_number(block) - 1];

	if (kind->block != block)
		BUG("the layer of block '%s' computes '%s'", block->name, kind->block->name);
	return kind;
}

int
engine_check_uses(const struct model_config *c, const struct backend *b, struct err *e)
{
	char who[64];

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		snprintf(who, sizeof who, "block '%s'", kinds[i]->block->name);
		if (block_in_model(kinds[i]->block, c) && uses_check(kinds[i]->uses, b, who, e) < 0)
			return -1;
	}
	return 0;
}

/* A layer for each block of the stage, in the order of the forward pass. */
static void
build_layers(struct engine *e)
{
	int n = e->mem.num_blocks;
	struct layer *l = e->layer = mem_zalloc((size_t)n, sizeof *l);

	for (int i = 0; i < n; i++) {
		const struct block *b = &e->mem.block[i];

		l[i].kind = layer_of(b->kind);
		l[i].block = b;
		if (b->norm_taken)
			l[i - 1].norm_after = &l[i];
		if (b->bias_taken)
			l[i + 1].bias_before = &l[i];
	}
}

static void
list_items(struct engine *e)
{
	int chunks = layout_chunks(&e->plan.layout);

	e->items = mem_alloc((size_t)chunks, sizeof *e->items);
	for (int i = 0; i < PASS_KINDS * chunks; i++)
		pass_items_init(&e->items[i / PASS_KINDS][i % PASS_KINDS], &e->mem, i / PASS_KINDS,
		    (enum pass_kind)(i % PASS_KINDS));
}

/* Checks first that everything fits, with the communicators that are made later, so that the
 * message can give advice. engine_close frees what was allocated before a failure. */
static int
take_memory(struct engine *e, const struct device_config *dev, struct err *err)
{
	static const char *const names[] = { "parameters", "saved activations", "scratch" };
	size_t available = e->backend->free_memory(e->device);
	const struct run_plan *p = &e->plan;
	uint64_t later = e->backend->comm
	    ? gpu_communicators(&p->layout, &p->model, &p->shape, e->coord[AX_PP])
	    : 0;
	struct err why;

	if (available && memory_fit(p, e->coord, later, available, err) < 0)
		return -1;

	for (int a = 0; a < ARENA_HOST; a++) {
		e->arena[a] = e->backend->alloc(e->device, e->mem.arena[a], &why);
		if (!e->arena[a])
			return err_set(err, "cannot take %.1f MiB for %s: %s",
			    (double)e->mem.arena[a] / 1048576, names[a], why.msg);
	}
	return host_open(e, dev, err);
}

/* [positions, d/2, 2] of cosine and sine, computed in double and rounded once to the table's type;
 * nothing where the model has no such table. Waits for the copy, since the host buffer is freed. */
static void
fill_rope_table(struct engine *e, enum rope_table which, int64_t length)
{
	struct tensor t = engine_rope_table(e, which);
	double *exact;
	void *rounded;
	int64_t n;

	if (!t.data)
		return;
	n = tensor_elements(&t);
	exact = mem_alloc((size_t)n, sizeof *exact);
	rounded = mem_alloc((size_t)n, dtype_size(t.dtype));
	model_rope_table(&e->plan.model, which, length, t.shape[0], exact);
	dtype_convert(rounded, t.dtype, exact, DTYPE_F64, n);
	e->backend->copy_in(e->stream, t.data, rounded, tensor_bytes(&t));
	engine_sync(e);
	free(exact);
	free(rounded);
}

void
engine_set_length(struct engine *e, int64_t length)
{
	for (int i = 0; i < ROPE_TABLES; i++)
		fill_rope_table(e, (enum rope_table)i, length);
}

/* The same device, layers and communicators with another plan, in which only the buffers within a
 * pass have different sizes and places. Its memory plan is the caller's to make. */
static struct engine *
with_plan(const struct engine *e, const struct run_plan *p)
{
	struct engine *x = mem_alloc(1, sizeof *x);

	*x = *e;
	x->plan = *p;
	x->num_ranges =
	    layout_positions(&p->layout, p->shape.seq_length, e->coord[AX_CP], x->position_range);
	return x;
}

static void
open_evaluator(struct engine *e)
{
	struct run_plan p = evaluation_plan(&e->plan);

	e->evaluator = e;
	if (evaluation_micro_batch(&e->plan) == e->plan.shape.micro_batch_size)
		return;
	e->evaluator = with_plan(e, &p);
	evaluation_memory(&e->evaluator->mem, &e->plan, e->coord);
}

static void
open_tasks(struct engine *e)
{
	struct run_plan of_run = evaluation_tasks(&e->plan), p = evaluation_plan(&of_run);

	if (!e->plan.tasks)
		return;
	e->tasks = with_plan(e, &p);
	evaluation_memory(&e->tasks->mem, &of_run, e->coord);
}

static void
open_decoder(struct engine *e)
{
	struct run_plan p = generation_decoding(&e->plan);

	if (!e->plan.shape.kept_positions)
		return;
	e->decoder = with_plan(e, &p);
	generation_memory(&e->decoder->mem, &p, &e->mem, e->coord);
}

/* NULL is allowed. */
static void
close_view(struct engine *x)
{
	if (!x)
		return;
	memory_release(&x->mem);
	free(x);
}

static struct event **
open_events(struct engine *e, int count)
{
	struct event **ev = mem_alloc((size_t)count, sizeof *ev);

	for (int i = 0; i < count; i++)
		ev[i] = e->backend->event(e->device);
	return ev;
}

/* Ranks of c may write to each other's arenas from the first to the last of these. */
static bool
share_arenas(
    const struct engine *e, struct comm *c, enum arena first, enum arena last, struct err *why)
{
	struct comm_memory piece[ARENA_COUNT];
	int count = 0;

	for (int a = (int)first; a <= (int)last; a++)
		piece[count++] = (struct comm_memory){ e->arena[a], e->mem.arena[a] };
	return c->ops->share(c, piece, count, why);
}

/* Ranks of a host that share experts: likewise. Where they cannot the host waits for each exchange.
 */
static void
share_experts(struct engine *e, struct comm *world)
{
	const struct backend *b = e->backend;
	struct comm *ep = e->groups.ep_inside;
	struct err why;
	bool shared;

	if (e->groups.ep_rail)
		e->experts = (struct overlap){
			.stream = b->stream(e->device, STREAM_RAIL),
			.ready = b->event(e->device),
			.summed = b->event(e->device),
			.arrived = open_events(e, e->groups.ep_rail->size),
		};
	if (!ep || ep->size == 1)
		return;
	comm_log_begin(COMM_HERE(world), COMM_EXPERTS, "sharing of memory");
	shared = share_arenas(e, ep, ARENA_SAVED, ARENA_SCRATCH, &why);
	comm_log_end(world);
	if (!shared && world->rank == 0)
		warn("ranks that share experts send rows as messages, and wait for each exchange: "
		     "%s",
		    why.msg);
}

/* Data ranks share weights and gradients. Those of several hosts cannot, which needs no warning. */
static void
share_params(struct engine *e, struct comm *world)
{
	struct err why;

	if (e->groups.dp->size == 1)
		return;
	comm_log_begin(COMM_HERE(world), COMM_DATA, "sharing of memory");
	(void)share_arenas(e, e->groups.dp, ARENA_PARAMS, ARENA_PARAMS, &why);
	if (e->groups.instance) {
		(void)share_arenas(e, e->groups.shard, ARENA_PARAMS, ARENA_PARAMS, &why);
		(void)share_arenas(e, e->groups.instance, ARENA_PARAMS, ARENA_PARAMS, &why);
	}
	comm_log_end(world);
}

/* Tensor ranks share all memory in which layers pass on rows. Where they cannot, they send
 * messages, which is slower, and beside GEMMs takes multiprocessors from them. */
static void
open_overlap(struct engine *e, struct comm *world)
{
	const struct backend *b = e->backend;
	struct err why;
	bool shared;

	if (e->groups.tp->size == 1)
		return;
	comm_log_begin(COMM_HERE(world), COMM_TENSOR, "sharing of memory");
	shared = share_arenas(e, e->groups.tp, ARENA_SAVED, ARENA_SCRATCH, &why);
	comm_log_end(world);
	if (!shared && e->plan.shape.tp_comm_overlap && world->rank == 0)
		warn("--tp-comm-overlap: tensor ranks send messages: %s", why.msg);
	e->overlap = (struct overlap){
		.stream =
		    e->plan.shape.tp_comm_overlap ? b->stream(e->device, STREAM_TENSOR) : NULL,
		.ready = b->event(e->device),
		.gathered = b->event(e->device),
		.summed = b->event(e->device),
		.arrived = open_events(e, e->groups.tp->size),
		.made = open_events(e, e->groups.tp->size),
	};
}

/* Context ranks share the memory in which they gather or exchange. Those of several hosts cannot,
 * which needs no warning. */
static void
open_context(struct engine *e, struct comm *world)
{
	const struct backend *b = e->backend;
	struct err why;

	if (e->groups.cp->size == 1)
		return;
	comm_log_begin(COMM_HERE(world), COMM_CONTEXT, "sharing of memory");
	(void)share_arenas(e, e->groups.cp, ARENA_SCRATCH, ARENA_SCRATCH, &why);
	comm_log_end(world);
	e->context = (struct overlap){
		.stream = b->stream(e->device, STREAM_CONTEXT),
		.ready = b->event(e->device),
		.gathered = b->event(e->device),
		.summed = b->event(e->device),
	};
}

/* Collective over world; fails on all ranks if it fails on one, with the reason on rank 0. The plan
 * is copied, the backend is borrowed. Memory is allocated before the communicators, so that a rank
 * without enough can still tell the others. */
int
engine_open(struct engine *e, const struct engine_config *c, struct comm *world, struct err *err)
{
	struct device_config dev = { .num_threads = c->num_threads,
		.dtype = c->plan->shape.dtype,
		.deterministic = c->deterministic,
		.attention = c->attention,
		.float8_experts = c->plan->shape.fp8.format == FP8_NONE
		    ? 0
		    : c->plan->model.num_experts / layout_expert_ranks(&c->plan->layout) };
	int local_size;

	memset(e, 0, sizeof *e);
	e->plan = *c->plan;
	e->seed = c->seed;
	e->z_loss = c->z_loss;
	e->token_scale = 1;
	e->rank = world->rank;
	e->backend = c->backend;
	layout_coord(&e->plan.layout, e->rank, e->coord);
	e->num_ranges = layout_positions(
	    &e->plan.layout, e->plan.shape.seq_length, e->coord[AX_CP], e->position_range);
	e->first_stage = e->coord[AX_PP] == 0;
	e->last_stage = e->coord[AX_PP] == e->plan.layout.pipeline_model_parallel_size - 1;
	run_memory(&e->mem, &e->plan, e->coord);
	e->num_params = model_params(&e->plan.model, &e->table);
	index_shards(e);
	build_layers(e);
	list_items(e);
	dev.local_rank = mpi_local_rank(world, &local_size);
	e->device = e->backend->open(&dev, err);
	if (comm_agree(COMM_HERE(world), e->device ? take_memory(e, &dev, err) : -1, err) ||
	    groups_open(&e->groups, &(struct groups_config){ &e->plan, e->backend, e->device },
		world, err) < 0)
		return -1;
	e->stream = e->backend->stream(e->device, STREAM_COMPUTE);
	e->ops = e->stream->ops;
	e->timing = timing_new();
	e->hashes = hashes_new(e);
	e->offload = offload_new(e);
	e->ema = ema_new(e);
	e->activation_offload = activation_offload_open(e);
	open_overlap(e, world);
	open_context(e, world);
	share_experts(e, world);
	share_params(e, world);
	e->blocks = mem_alloc(
	    (size_t)(context_kind_of(&e->plan)->arrays * e->groups.cp->size), sizeof *e->blocks);
	e->stage_p2p = p2p_open(e);
	e->dp_comm = dp_comm_open(e, c->overlap_grad_reduce, c->overlap_param_gather);
	engine_set_length(e, e->plan.shape.seq_length);
	fp8_open(e);
	open_evaluator(e);
	open_tasks(e);
	open_decoder(e);
	return 0;
}

/* Communicators are freed first, since they may use the device's streams. May be called after
 * engine_open has failed. */
void
engine_close(struct engine *e)
{
	close_view(e->evaluator != e ? e->evaluator : NULL);
	close_view(e->tasks);
	close_view(e->decoder);
	fp8_close(e);
	dp_comm_close(e->dp_comm);
	free(e->overlap.arrived);
	free(e->overlap.made);
	free(e->experts.arrived);
	p2p_close(e->stage_p2p);
	hashes_free(e->hashes);
	timing_free(e->timing);
	groups_close(&e->groups);
	host_close(e);
	ema_free(e->ema);
	offload_free(e->offload);
	activation_offload_close(e->activation_offload);
	for (int a = 0; a < ARENA_HOST; a++)
		if (e->arena[a])
			e->backend->release(e->device, e->arena[a]);
	if (e->device)
		e->backend->close(e->device);
	for (int i = 0; e->items && i < PASS_KINDS * layout_chunks(&e->plan.layout); i++)
		pass_items_release(&e->items[i / PASS_KINDS][i % PASS_KINDS]);
	free(e->items);
	memory_release(&e->mem);
	free(e->blocks);
	free(e->table);
	free(e->shard_of);
	free(e->layer);
}
