/*
 * memory.c - the buffers of a rank from the rows of its blocks
 *
 * A row gives a buffer's condition, type and sizes; a rank has the rows of its blocks (block/) and
 * those of rank_buffers.c, and the rest is addition. Saved buffers are laid out as slot, then
 * layers in it, so that the address of a buffer is one multiplication. Chunks of a stage may differ
 * in layers: slots have room for some of them, and larger chunks have the rest in a tail, of which
 * there are as many as such chunks are in flight. Buffers that are cheap
 * to recompute move from the layer to scratch under recomputation. Scratch buffers list the phases
 * in which they are alive; those without a common phase share bytes, and so do buffers of a layer
 * whose kinds of block no layer has together (place.h). Every offset is a multiple of 256, which
 * suits every vector load.
 */
#include "lib/model/memory.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/block/rows.h"
#include "lib/model/cut.h"
#include "lib/model/fp8.h"
#include "lib/model/place.h"
#include "lib/model/rank_buffers.h"

#include <stdlib.h>
#include <string.h>

/* MORE: buffers for which a plan's array grows at a time. */
enum { ALIGN = 256, TOGETHER_MAX = 64 / PHASES, MORE = 64 };

/* The loss mask stays F32 and the scalars F64 in every precision: both are summed over many tokens.
 */
static enum dtype
element_dtype(enum element k, const struct layout *l, const struct train_shape *s)
{
	switch (k) {
	case ACT: return s->dtype;
	case COMPUTE: return memory_compute(s->dtype);
	case RESIDUAL: return memory_residual(s);
	case UPDATE: return memory_update(s);
	case GRADS:
		return layout_most_data_ranks(l) > 1 ? memory_main_grads(s)
						     : memory_compute(s->dtype);
	case F64: return DTYPE_F64;
	case I64: return DTYPE_I64;
	case U16: return DTYPE_U16;
	case F32: return DTYPE_F32;
	case BF16: return DTYPE_BF16;
	case F8: return fp8_type(&s->fp8, FP8_X);
	case F8_GRAD: return fp8_type(&s->fp8, FP8_DY);
	case I32: return DTYPE_I32;
	default: return memory_state(s, (int)k - STATE);
	}
}

/* What a plan follows from. */
struct rank {
	const struct model_config *model;
	const struct layout *layout;
	const struct train_shape *shape;
	const struct memory_stage *stage;
	struct schedule_counts *counts; /* of all stages; NULL: only this one is planned */
	struct place_sizes *sizes;      /* NULL: offsets are wanted */
	int pp;
	/* bits by block_number: kinds of block that a layer of the stage has together, and those of
	 * a pass through one; 0 after the last */
	unsigned layers[TOGETHER_MAX], passes[TOGETHER_MAX];
};

/* Where the buffers of a level are, and what there is one of each for. */
static const struct {
	enum arena arena;
	enum memory_per per;
} levels[] = {
	[RUN] = { ARENA_PARAMS, ONCE },
	[HOST] = { ARENA_HOST, ONCE },
	[HEADS] = { ARENA_SAVED, PER_SLOT },
	[LATER] = { ARENA_SAVED, PER_SLOT },
	[LAYER] = { ARENA_SAVED, PER_SLOT },
	[KEPT] = { ARENA_SAVED, PER_SLOT },
	[BATCH] = { ARENA_SAVED, PER_BATCH },
	[STAGE_OUTPUT] = { ARENA_SCRATCH, PER_STAGE_OUTPUT },
	[STEP] = { ARENA_SCRATCH, ONCE },
};

/* The rank has the buffer of a row, whose phases are its times for now. */
static void
take(struct memory_plan *m, const struct sizes *z, const struct buffer_row *r)
{
	bool again = r->recompute & recompute_modules(&z->shape->recompute);
	struct buffer b = { .name = r->name,
		.number = r->buffer,
		.level = again ? STEP : r->level,
		.shape = { r->size[0], r->size[1] ? r->size[1] : 1 },
		.vector = !r->size[1],
		.dtype = element_dtype(r->element, z->layout, z->shape),
		.alive = r->phase };

	if (m->at[b.number])
		BUG("buffer '%s' is stated twice", b.name);
	b.place = levels[b.level].arena;
	b.per = levels[b.level].per;
	b.bytes = (uint64_t)b.shape[0] * (uint64_t)b.shape[1] * dtype_size(b.dtype);
	if (m->num_buffers % MORE == 0)
		m->buffer = mem_realloc(m->buffer, (size_t)m->num_buffers + MORE, sizeof b);
	m->buffer[m->num_buffers++] = b;
	m->at[b.number] = (short)m->num_buffers;
}

/* The rank has the buffers of these rows. */
static void
take_rows(struct memory_plan *m, const struct sizes *z, const struct buffer_list *rows)
{
	for (int i = 0; i < rows->count; i++)
		take(m, z, &rows->row[i]);
}

/* 0 stays 0, so absent buffers take no memory. */
uint64_t
memory_aligned(uint64_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bits of the sets of kinds that have one of these. */
static uint64_t
sets_with(const unsigned sets[TOGETHER_MAX], unsigned kinds)
{
	uint64_t bits = 0;

	for (int i = 0; i < TOGETHER_MAX; i++)
		bits |= (uint64_t)((sets[i] & kinds) != 0) << i;
	return bits;
}

/* The times at which a buffer of a level is alive, as in struct placed: in scratch a bit for each
 * of its phases in each pass that has a block of its kind, in layers one for each that has, and all
 * others are alive at one time. */
static uint64_t
times_of(const struct rank *r, const struct buffer *b)
{
	unsigned kinds = 1U << (b->number >> BLOCK_SHIFT);
	uint64_t in = sets_with(r->passes, kinds), times = 0;

	if (b->level == LAYER || b->level == KEPT)
		return sets_with(r->layers, kinds);
	if (b->level != STEP)
		return 1;
	for (int i = 0; i < PHASES; i++)
		times |= b->alive >> i & 1 ? in << (i * TOGETHER_MAX) : 0;
	return times;
}

/* Places the buffers of one level; returns the bytes they take. */
static uint64_t
place(struct memory_plan *m, const struct rank *r, enum level which)
{
	bool tight = which == LAYER || which == KEPT || which == STEP;
	struct placed *p = mem_alloc((size_t)m->num_buffers, sizeof *p);
	uint64_t size;
	int n = 0;

	for (int i = 0; i < m->num_buffers; i++) {
		struct buffer *b = &m->buffer[i];

		if (!b->bytes || b->level != which)
			continue;
		b->alive = times_of(r, b);
		if (!b->alive)
			BUG("buffer '%s' is alive at no time", b->name);
		p[n++] = (struct placed){ i, b->alive, memory_aligned(b->bytes), 0 };
	}
	size = !tight  ? place_in_order(p, n)
	    : r->sizes ? place_size(r->sizes, p, n)
		       : place_tight(p, n);
	for (int i = 0; i < n; i++)
		m->buffer[p[i].number].offset = p[i].offset;
	free(p);
	return size;
}

/* The bytes of a slot with room for so many layers. */
static uint64_t
bytes_up_to(const struct memory_plan *m, int64_t layers)
{
	int64_t units = int64_div_up(layers, m->activation_offload.layers),
		stay = units - activation_offload_before(&m->activation_offload, units),
		inputs = m->recompute_inputs - m->offload_inputs;

	return stay < inputs ? m->inputs_base + m->input_bytes * (uint64_t)stay
			     : m->layer_base + m->layer_bytes * (uint64_t)(stay - inputs);
}

/* What a slot and a tail have on the device without the units that leave them, and where these
 * lie. */
static void
place_slots(struct memory_plan *m)
{
	int64_t host_inputs;
	uint64_t slots = (uint64_t)m->use.slots;

	if (m->recompute_layers) {
		m->recompute_inputs = int64_div_up(m->recompute_layers, m->recompute_chunk);
		m->input_bytes = memory_aligned(memory_buffer(m, m->recompute_input)->bytes);
	}
	m->offload_inputs = activation_offload_before(&m->activation_offload, m->recompute_inputs);
	m->offload_layers = m->activation_offload.moved - m->offload_inputs;
	host_inputs = int64_min(m->offload_inputs, m->activation_offload.copied);
	m->later_base = m->head_bytes * (uint64_t)(1 + m->later);
	m->kept_base = m->later_base + memory_later_bytes(m) * (uint64_t)m->later;
	m->inputs_base = m->kept_base + m->kept_bytes * (uint64_t)m->num_layers;
	m->layer_base =
	    m->inputs_base + m->input_bytes * (uint64_t)(m->recompute_inputs - m->offload_inputs);
	m->slot_bytes = bytes_up_to(m, m->slot_layers);
	m->tail_bytes = bytes_up_to(m, m->num_layers) - m->slot_bytes;
	m->tail_base = m->slot_bytes * slots;
	m->batch_base = m->tail_base + m->tail_bytes * (uint64_t)m->use.tails;
	m->offload_base = m->batch_base + m->batch_bytes * (uint64_t)m->use.batches;
	m->offload_bytes = m->offload_layers ? m->layer_bytes : m->input_bytes;
	m->offload_host_bytes = m->input_bytes * (uint64_t)host_inputs +
	    m->layer_bytes * (uint64_t)(m->activation_offload.copied - host_inputs);
	m->arena[ARENA_SAVED] =
	    m->offload_base + m->offload_bytes * (uint64_t)m->activation_offload.places;
	m->offload_host = m->arena[ARENA_HOST];
	m->arena[ARENA_HOST] += m->offload_host_bytes * slots;
}

/* Where the copies of each buffer lie. */
static void
place_copies(struct memory_plan *m)
{
	const int copies[] = { 1, m->use.slots, m->use.batches, m->use.stage_outputs };

	for (int i = 0; i < m->num_buffers; i++) {
		struct buffer *b = &m->buffer[i];
		const uint64_t stride[] = { 0, m->slot_bytes, m->batch_bytes,
			memory_aligned(b->bytes) };
		const uint64_t base[] = { 0, 0, m->batch_base,
			m->recompute_base + m->layer_bytes * (uint64_t)m->recompute_chunk };

		b->copies = copies[b->per];
		b->stride = stride[b->per];
		b->base = base[b->per];
	}
}

/* Computes the arenas from the sizes of the buffers. */
static void
place_all(struct memory_plan *m, const struct rank *r)
{
	m->arena[ARENA_PARAMS] = place(m, r, RUN);
	m->arena[ARENA_HOST] = place(m, r, HOST);
	m->layer_bytes = place(m, r, LAYER);
	m->kept_bytes = place(m, r, KEPT);
	m->head_bytes = place(m, r, HEADS);
	m->later_bytes = place(m, r, LATER);
	m->batch_bytes = place(m, r, BATCH);
	place_slots(m);
	m->recompute_base = place(m, r, STEP);
	m->arena[ARENA_SCRATCH] = m->recompute_base +
	    m->layer_bytes * (uint64_t)m->recompute_chunk +
	    place(m, r, STAGE_OUTPUT) * (uint64_t)m->use.stage_outputs;
	place_copies(m);
}

/* Takes the shards, and finds the share of them that the optimizer owns. Master weights and moments
 * have the size of that share; where shares differ, of the largest, so that ranks of a stage are
 * alike. Of the own elements the device updates the first buckets, since passes need them first; to
 * the nearest bucket. */
static void
take_shards(struct memory_plan *m, const struct rank *r)
{
	double device;

	m->shards = r->stage->shards;
	m->sharded = r->shape->sharding != SHARDING_NONE;
	m->optim_matrices = shards_optim_elements(&m->shards, true, m->sharded);
	m->optim_elements = m->optim_device =
	    m->optim_matrices + shards_optim_elements(&m->shards, false, m->sharded);
	m->shard_elements = m->sharded
	    ? shards_shard_elements(&m->shards, true) + shards_shard_elements(&m->shards, false)
	    : m->optim_elements;
	device = (1 - r->shape->optimizer_offload) * (double)m->shards.elements;
	for (int k = 0; k < m->shards.num_buckets && !r->shape->forward_only; k++) {
		const struct bucket *b = &m->shards.bucket[k];

		if ((double)b->first + (double)b->count / 2 >= device) {
			m->optim_device = memory_optim_part(m, k).in_optim;
			break;
		}
	}
}

struct schedule_shape
memory_schedule(
    const struct memory_plan *m, const struct layout *l, int num_microbatches, bool training)
{
	struct schedule_shape s = layout_schedule(l, num_microbatches, training);

	s.layers = m->slot_layers < m->num_layers ? l->split : NULL;
	s.slot_layers = m->slot_layers;
	return s;
}

static void
count_use(const struct rank *r, const struct schedule_shape *s, struct schedule_use *use)
{
	if (r->counts)
		schedule_counts_get(r->counts, s, r->pp, use);
	else
		schedule_count(s, r->pp, use);
}

/* The layers of which saved slots and tails have room, over all of them. */
static int64_t
layers_saved(const struct memory_plan *m, const struct schedule_use *use, int slot_layers)
{
	return (int64_t)use->slots * slot_layers + use->tails * (m->num_layers - slot_layers);
}

/* Tails are as many as in a step of any number of micro batches, as those of a ramp: the last group
 * may have any legal size. The other numbers are largest in the largest step. */
static void
plan_tails(struct memory_plan *m, const struct rank *r)
{
	const struct layout *l = r->layout;
	struct schedule_shape s =
	    memory_schedule(m, l, (int)r->shape->num_microbatches, !r->shape->forward_only);
	int whole = s.num_microbatches - s.num_microbatches % s.group_size;

	for (int left = 0; m->use.tails && left < s.group_size; left++) {
		struct schedule_use use;

		s.num_microbatches = whole + left;
		if (!schedule_fits(&s))
			continue;
		count_use(r, &s, &use);
		m->use.tails = (int)int64_max(m->use.tails, use.tails);
	}
}

/* The memory in use at the same time in the largest step, with the slots that take the least;
 * evaluations reuse it. */
static void
plan_use(struct memory_plan *m, const struct rank *r)
{
	const struct layout *l = r->layout;
	struct schedule_shape s =
	    layout_schedule(l, (int)r->shape->num_microbatches, !r->shape->forward_only);
	struct schedule_use use;

	m->slot_layers = (int)m->num_layers;
	count_use(r, &s, &m->use);
	s.layers = l->split;
	for (int j = 0; j < s.num_chunks; j++) {
		int64_t first, count;

		layout_layers(l, r->model, layout_stage(l, r->pp, j), &first, &count);
		s.slot_layers = (int)count;
		if (count != s.layers[layout_stage(l, r->pp, j)] || count == m->num_layers ||
		    count == m->slot_layers)
			continue;
		count_use(r, &s, &use);
		if (layers_saved(m, &use, s.slot_layers) <
		    layers_saved(m, &m->use, m->slot_layers)) {
			m->use = use;
			m->slot_layers = s.slot_layers;
		}
	}
	plan_tails(m, r);
	s = memory_schedule(m, r->layout, SCHEDULE_STEADY * s.group_size, false);
	count_use(r, &s, &use);
	m->use.slots = (int)int64_max(m->use.slots, use.slots);
	m->use.tails = (int)int64_max(m->use.tails, use.tails);
	m->use.batches = (int)int64_max(m->use.batches, use.batches);
	m->use.stage_outputs = (int)int64_max(m->use.stage_outputs, use.stage_outputs);
}

/* The blocks of the stage and of each of its chunks. */
static void
plan_blocks(struct memory_plan *m, const struct rank *r)
{
	m->num_blocks = block_list(r->model, r->layout, r->shape, r->pp, &m->block);
	m->chunk = mem_alloc((size_t)layout_chunks(r->layout), sizeof *m->chunk);
	for (int j = 0; j < layout_chunks(r->layout); j++) {
		int64_t first, count;

		layout_layers(
		    r->layout, r->model, layout_stage(r->layout, r->pp, j), &first, &count);
		m->num_layers = count > m->num_layers ? count : m->num_layers;
		m->chunk[j] = block_chunk(m->block, m->num_blocks, j);
	}
}

/* Which layers are recomputed, and which leave their slots. */
static void
plan_saved(struct memory_plan *m, const struct rank *r)
{
	const struct train_shape *s = r->shape;
	struct recompute_span span = block_recompute(&s->recompute, m->num_layers);
	m->recompute_layers = span.layers;
	m->recompute_chunk = span.chunk;
	m->activation_offload = activation_offload_plan(
	    s->forward_only ? 0 : s->offloaded_layers, m->num_layers, span.chunk, m->use.slots);
	for (int i = m->num_blocks; i-- > 0;) {
		struct block *b = &m->block[i];

		b->activation_offload = block_in_layer(b, r->model)
		    ? activation_offload_number(&m->activation_offload, b->local)
		    : -1;
		if (b->recompute_chunk >= 0 && (i == 0 || b[-1].layer != b->layer)) {
			m->recompute_input = b->kind->input;
			m->recompute_kinds |= 1U << block_number(b->kind);
		}
	}
}

/* Some kinds of block are together. Of sets that are in others nothing is to be known; those beyond
 * TOGETHER_MAX are taken for one that has all of their kinds. */
static void
add_together(unsigned sets[TOGETHER_MAX], unsigned kinds)
{
	int i = 0;

	while (i < TOGETHER_MAX - 1 && sets[i] && (sets[i] | kinds) != sets[i] &&
	    (sets[i] | kinds) != kinds)
		i++;
	sets[i] |= kinds;
}

static void
take_rank(struct memory_plan *m, const struct rank *r, const struct sizes *z)
{
	const struct memory_stage *x = r->stage;
	const struct rank_share has = { .block = m->block,
		.num_blocks = m->num_blocks,
		.shards = &m->shards,
		.rule = m->rule,
		.optim_elements = m->optim_elements,
		.shard_elements = m->shard_elements,
		.optim_matrices = m->optim_matrices,
		.optim_device = m->optim_device,
		.staging = memory_staging_slot(m),
		.matrix = x->matrix,
		.updates = x->updates,
		.gram = x->gram };

	struct buffer_list rows = { .block = BLOCK_rank };

	rank_buffers(&rows, z, &has);
	take_rows(m, z, &rows);
}

/* The rows of the kinds of the stage's blocks, each kind once; returns the bits of those that have
 * buffers. */
static unsigned
take_kinds(struct memory_plan *m, const struct sizes *z)
{
	unsigned taken = 0, have = 0;

	for (int i = 0; i < m->num_blocks; i++) {
		const struct block_kind *k = m->block[i].kind;
		int number = block_number(k), before = m->num_buffers;
		unsigned kind = 1U << number;
		struct buffer_list rows = { .block = number };

		if (taken & kind)
			continue;
		taken |= kind;
		if (k->buffers)
			k->buffers(&rows, z);
		take_rows(m, z, &rows);
		have |= m->num_buffers > before ? kind : 0;
	}
	return have;
}

/* Which of these kinds layers have together, and what is the rank's with all of them, also where a
 * stage has no such kind. The pass through a layer may end with the norm of the block after it. */
static void
find_together(const struct memory_plan *m, struct rank *r, unsigned kinds)
{
	unsigned rank = 1U << BLOCK_rank, layer = 0;

	add_together(r->layers, rank);
	add_together(r->passes, rank);
	for (int i = 0; i < m->num_blocks; i++) {
		const struct block *b = &m->block[i];
		unsigned next = i + 1 < m->num_blocks ? 1U << block_number(b[1].kind) : 0;

		layer |= 1U << block_number(b->kind);
		if (next && b[1].layer == b->layer)
			continue;
		add_together(r->layers, (layer & kinds) | rank);
		add_together(r->passes, ((layer | next) & kinds) | rank);
		layer = 0;
	}
}

/* The layout has passed layout_check, so all divisions are exact. Blocks of one kind share the
 * places of their buffers, which are counted once. */
static void
plan_rank(struct memory_plan *m, struct rank *r)
{
	struct sizes z = sizes_of_rank(r->model, r->layout, r->shape, r->pp);

	memset(m, 0, sizeof *m);
	m->rule = r->shape->rule;
	m->later = z.later;
	take_shards(m, r);
	plan_blocks(m, r);
	plan_use(m, r);
	plan_saved(m, r);
	take_rank(m, r, &z);
	find_together(m, r, take_kinds(m, &z));
	place_all(m, r);
}

/* What the rank at coord holds of the parameters. */
static void
stage_init(struct memory_stage *x, const struct shards_of *of, const struct optim_rule *rule,
    const int coord[AX_COUNT])
{
	*x = (struct memory_stage){ 0 };
	shards_init(&x->shards, of, coord);
	if (rule && rule->matrix_states)
		cut_whole(&x->shards, of->table);
	for (int i = 0; i < x->shards.count; i++) {
		const struct shard *sh = &x->shards.item[i];
		const struct param *p = &of->table[sh->param];
		int64_t side = int64_min(p->shape[0], p->shape[1]);

		if (!x->shards.bucket[sh->bucket].layers)
			continue;
		x->matrix = int64_max(x->matrix, param_elements(p));
		x->updates = int64_max(x->updates, sh->count * param_ranks(p, of->layout));
		x->gram = int64_max(x->gram, side * side);
	}
}

/* The stages of what has a table of parameters. */
static void
stages_init(struct memory_stages *x, const struct train_shape *s)
{
	int stages = (int)x->layout->pipeline_model_parallel_size;
	struct shards_of of = { .model = x->model,
		.layout = x->layout,
		.table = x->table,
		.count = x->num_params,
		.bucket_size = s->bucket_size };

	x->stage = mem_alloc((size_t)stages, sizeof *x->stage);
	for (int i = 0; i < stages; i++)
		stage_init(&x->stage[i], &of, s->rule, (const int[AX_COUNT]){ [AX_PP] = i });
}

void
memory_stages_init(struct memory_stages *x, const struct model_config *c, const struct layout *l,
    const struct train_shape *s)
{
	*x = (struct memory_stages){ .model = c, .layout = l };
	x->num_params = model_params(c, &x->table);
	stages_init(x, s);
}

void
memory_stages_like(struct memory_stages *x, const struct memory_stages *others,
    const struct layout *l, const struct train_shape *s)
{
	*x = (struct memory_stages){ .model = others->model,
		.layout = l,
		.table = others->table,
		.num_params = others->num_params,
		.borrowed = true,
		.shared = others->shared,
		.sizes = others->sizes };
	stages_init(x, s);
	for (int i = 0; i < l->pipeline_model_parallel_size; i++)
		shards_forget(&x->stage[i].shards);
}

void
memory_stages_release(struct memory_stages *x)
{
	for (int i = 0; i < x->layout->pipeline_model_parallel_size; i++)
		shards_release(&x->stage[i].shards);
	schedule_counts_release(&x->counts);
	free(x->stage);
	if (!x->borrowed)
		free(x->table);
}

void
memory_plan_stage(
    struct memory_plan *m, struct memory_stages *x, const struct train_shape *s, int stage)
{
	struct rank r = { x->model, x->layout, s, &x->stage[stage],
		x->shared ? x->shared : &x->counts, x->sizes, .pp = stage };

	plan_rank(m, &r);
	m->shared = true;
}

void
memory_plan(struct memory_plan *m, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, const int coord[AX_COUNT])
{
	struct memory_stage stage;
	struct rank r = { c, l, s, &stage, NULL, NULL, .pp = coord[AX_PP] };
	struct shards_of of = { .model = c, .layout = l, .bucket_size = s->bucket_size };
	struct param *table;

	of.count = model_params(c, &table);
	of.table = table;
	stage_init(&stage, &of, s->rule, coord);
	free(table);
	plan_rank(m, &r);
}

/* Frees the plan; the arenas belong to the caller. */
void
memory_release(struct memory_plan *m)
{
	if (!m->shared)
		shards_release(&m->shards);
	free(m->block);
	free(m->chunk);
	free(m->buffer);
}
