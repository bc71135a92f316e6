/*
 * memory.c - the buffers of a rank from the rows of its blocks
 *
 * A row gives a buffer's condition, type and sizes; a rank has the rows of its blocks (block/) and
 * those of rank_buffers.c, and the rest is addition. Saved buffers are laid out as slot, then
 * layers in it, so that the address of a buffer is one multiplication. Buffers that are cheap
 * to recompute move from the layer to scratch under recomputation. Scratch buffers list the phases
 * in which they are alive; those without a common phase share bytes, and so do buffers of a layer
 * whose kinds of block no layer has together (place.h). Every offset is a multiple of 256, which
 * suits every vector load.
 */
#include "lib/model/memory.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/block/rows.h"
#include "lib/model/capacity.h"
#include "lib/model/cut.h"
#include "lib/model/fp8.h"
#include "lib/model/place.h"
#include "lib/model/rank_buffers.h"

#include <stdlib.h>
#include <string.h>

/* MORE: buffers for which a plan's array grows at a time. */
enum { ALIGN = 256, SCALARS = 64, TOGETHER_MAX = 64 / PHASES, MORE = 64 };

/* The row of a state of an update rule, but for its type, by what it is kept of. */
#define STATE_ROW(d) \
	{ \
		"optimizer state", BUF_STATE, RUN, IF_TRAINING, REAL, { d, D_ONE }, 0 \
	}
static const struct named_row state_rows[] = { STATE_ROW(D_OWN_DEVICE), STATE_ROW(D_OWN_MATRICES),
	STATE_ROW(D_OWN_OTHERS) };

/* The same on the host. */
static const struct named_row host_state_row = { "optimizer state", BUF_HOST_STATE, HOST,
	IF_TRAINING, REAL, { D_OWN_HOST, D_ONE }, 0 };

/* What is recomputed is not kept by the layer. */
static enum level
level_of(const struct named_row *r, const struct train_shape *s)
{
	return r->recompute & recompute_modules(&s->recompute) ? STEP : r->level;
}

/* True when there are context ranks that share a sequence in this form. */
static bool
shares(const struct layout *l, const struct train_shape *s, enum context_form form)
{
	return l->context_parallel_size > 1 && s->context_form == form;
}

/* Sequence parallelism has seen to it that rows divide. */
bool
memory_in_parts(const struct layout *l, const struct train_shape *s)
{
	int64_t rows = layout_held(l, s->seq_length) * s->micro_batch_size;

	return l->tensor_model_parallel_size > 1 && rows % l->tensor_model_parallel_size == 0;
}

/* Ranks among which a bucket is reduced. */
static int64_t
most_replicas(const struct layout *l)
{
	int64_t dense = layout_replicas(l),
		experts = layout_expert_holders(l) > 1 ? layout_expert_replicas(l) : 1;

	return dense > experts ? dense : experts;
}

/* The conditions on 8-bit operands; false for others. */
static bool
present_fp8(enum condition when, const struct model_config *c, const struct train_shape *s)
{
	const struct fp8 *f = &s->fp8;
	bool trains = !s->forward_only;

	if (f->format == FP8_NONE)
		return false;
	switch (when) {
	case IF_FP8: return true;
	case IF_FP8_TRAINING: return trains;
	case IF_FP8_SLOTS: return f->recipe != FP8_BLOCKWISE;
	case IF_FP8_HISTORY: return f->recipe == FP8_DELAYED && trains;
	case IF_FP8_BLOCKS: return f->recipe == FP8_BLOCKWISE;
	case IF_FP8_BLOCKS_TRAINING: return f->recipe == FP8_BLOCKWISE && trains;
	case IF_FP8_SHARED_TRAINING: return trains && model_meets(c, IF_SHARED);
	case IF_FP8_SHARED_BLOCKS_TRAINING:
		return f->recipe == FP8_BLOCKWISE && trains && model_meets(c, IF_SHARED);
	default: return false;
	}
}

/* An absent buffer has 0 bytes and no address. */
static bool
present(enum condition when, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, int pp)
{
	switch (when) {
	case IF_TRAINING: return !s->forward_only;
	case IF_EXPERTS_TRAINING: return !s->forward_only && c->num_experts;
	case IF_EXPERT_RANKS: return layout_expert_holders(l) > 1;
	case IF_CAPACITY: return s->expert_capacity > 0;
	case IF_WINDOWS: return capacity_arriving(c, l, s).windows > 1;
	case IF_WINDOWS_TRAINING: return !s->forward_only && present(IF_WINDOWS, c, l, s, pp);
	case IF_SHARED_TRAINING: return !s->forward_only && model_meets(c, IF_SHARED);
	case IF_QK_NORM_TRAINING: return !s->forward_only && c->qk_layernorm;
	case IF_POST_NORM_TRAINING: return !s->forward_only && model_meets(c, IF_POST_NORM);
	case IF_PARALLEL_TRAINING: return !s->forward_only && model_meets(c, IF_PARALLEL);
	case IF_BRANCH_GRAD:
		return !s->forward_only &&
		    (c->hidden_dropout > 0 || c->embedding_dropout > 0 ||
			memory_stream(s) != s->dtype);
	case IF_GATED_OUT: return model_gated(c) && !fp8_makes_activations(c, l, &s->fp8);
	case IF_UNGATED_OUT: return !model_gated(c) && !fp8_makes_activations(c, l, &s->fp8);
	case IF_NORM_OUT: return model_meets(c, IF_PRE_NORM) && !fp8_makes_norms(l, &s->fp8);
	case IF_DOCUMENTS: return s->reset_attention_mask;
	case IF_TENSOR: return l->tensor_model_parallel_size > 1;
	case IF_SEQUENCE: return layout_row_shards(l) > 1;
	case IF_OVERLAP: return layout_row_shards(l) > 1 && s->tp_comm_overlap && !s->forward_only;
	case IF_PARTS: return memory_in_parts(l, s);
	case IF_GATHER: return shares(l, s, CONTEXT_GATHER);
	case IF_GATHER_TRAINING: return !s->forward_only && shares(l, s, CONTEXT_GATHER);
	case IF_HEADS: return shares(l, s, CONTEXT_HEADS);
	case IF_HEADS_TRAINING: return !s->forward_only && shares(l, s, CONTEXT_HEADS);
	case IF_LINKS:
		return !s->forward_only || layout_chunks(l) > 1 ||
		    pp < l->pipeline_model_parallel_size - 1;
	case IF_CHANNELS: return layout_schedule(l, 1, true).overlap;
	case IF_WEIGHT_SLOTS: return s->sharding >= SHARDING_PARAMS && most_replicas(l) > 1;
	case IF_NARROW: return !s->forward_only && s->grad_reduce_in_bf16 && most_replicas(l) > 1;
	case IF_PASSING: return !s->forward_only && !s->grad_reduce_in_bf16 && most_replicas(l) > 1;
	case IF_GRAD_SLOTS:
		return !s->forward_only && s->sharding >= SHARDING_GRADS && most_replicas(l) > 1;
	case IF_HASHED: return !s->forward_only && s->hashed;
	case IF_MASTER:
		return !s->forward_only && s->dtype != memory_real(s->dtype) &&
		    !s->optim.remainders;
	case IF_AVERAGE: return !s->forward_only && s->averaged;
	case IF_REMAINDER: return !s->forward_only && s->optim.remainders;
	case IF_QK_CLIP: return !s->forward_only && s->qk_clip;
	case IF_MATRICES: return !s->forward_only && s->rule && s->rule->matrix_states;
	case IF_MATRICES_CUT:
		return present(IF_MATRICES, c, l, s, pp) &&
		    (l->tensor_model_parallel_size > 1 || layout_expert_slices(l) > 1);
	default: return present_fp8(when, c, s) || model_meets(c, when);
	}
}

/* The loss mask stays F32 and the scalars F64 in every precision: both are summed over many tokens.
 */
static enum dtype
element_dtype(enum element k, const struct layout *l, const struct train_shape *s)
{
	switch (k) {
	case ACT: return s->dtype;
	case REAL: return memory_real(s->dtype);
	case STREAM: return memory_stream(s);
	case UPDATE: return memory_update(s);
	case GRADS: return most_replicas(l) > 1 ? memory_own_grads(s) : memory_real(s->dtype);
	case F64: return DTYPE_F64;
	case I64: return DTYPE_I64;
	case U16: return DTYPE_U16;
	case F32: return DTYPE_F32;
	case BF16: return DTYPE_BF16;
	case F8: return fp8_type(&s->fp8, FP8_X);
	case F8_GRAD: return fp8_type(&s->fp8, FP8_DY);
	default: return DTYPE_I32;
	}
}

/* The sizes that rows name, and what states the buffers of a rank. */
struct rank {
	const struct model_config *model;
	const struct layout *layout;
	const struct train_shape *shape;
	const struct memory_stage *stage;
	struct schedule_counts *counts; /* of all stages; NULL: only this one is planned */
	int pp;
	int64_t dim[D_COUNT];
	unsigned kinds[BUF_COUNT]; /* bits by block_number: those that state a buffer */
	/* bits by block_number: kinds of block that a layer of the stage has together, and those of
	 * a pass through one; 0 after the last */
	unsigned layers[TOGETHER_MAX], passes[TOGETHER_MAX];
};

/* The rank has the buffer; one that an earlier kind of block states must be the same. */
static void
take(struct memory_plan *m, const struct buffer *b)
{
	const struct buffer *before = memory_buffer(m, b->number);

	if (before->name) {
		if (strcmp(before->name, b->name) != 0 || before->level != b->level ||
		    before->dtype != b->dtype || before->bytes != b->bytes ||
		    before->alive != b->alive)
			BUG("buffer '%s' is stated twice", b->name);
		return;
	}
	if (m->num_buffers % MORE == 0)
		m->buffer = mem_realloc(m->buffer, (size_t)m->num_buffers + MORE, sizeof *b);
	m->buffer[m->num_buffers++] = *b;
	m->at[b->number] = (short)m->num_buffers;
}

/* The rank has the buffer of a row, whose phases are its times for now. */
static void
take_row(struct memory_plan *m, const struct rank *r, const struct named_row *row,
    const struct buffer *as)
{
	struct buffer b = *as;

	b.level = level_of(row, r->shape);
	b.shape[0] = r->dim[row->dim[0]];
	b.shape[1] = r->dim[row->dim[1]];
	b.vector = row->dim[1] == D_ONE;
	b.bytes = (uint64_t)b.shape[0] * (uint64_t)b.shape[1] * dtype_size(b.dtype);
	b.alive = row->phase;
	take(m, &b);
}

/* Selects the rows whose conditions hold on this rank, of the rank or of a kind of block, whose bit
 * is given. Only one row may describe a buffer. */
static void
take_rows(struct memory_plan *m, struct rank *r, const struct named_row *rows, unsigned kind)
{
	for (; rows->name; rows++) {
		struct buffer b = { .name = rows->name,
			.number = (int)rows->buffer,
			.dtype = element_dtype(rows->element, r->layout, r->shape) };

		if (!present(rows->when, r->model, r->layout, r->shape, r->pp))
			continue;
		take_row(m, r, rows, &b);
		r->kinds[rows->buffer] |= kind;
	}
}

/* A buffer for each state of the update rule, in the run's type for it. */
static void
take_states(struct memory_plan *m, struct rank *r)
{
	if (r->shape->forward_only)
		return;
	for (int i = 0; i < optim_num_states(m->rule); i++) {
		bool matrices = optim_keeps(m->rule, i, true),
		     others = optim_keeps(m->rule, i, false);
		struct buffer b = { .name = m->rule->states[i],
			.number = BUF_STATE + i,
			.dtype = memory_state(r->shape, i) };

		take_row(m, r, &state_rows[!matrices ? 2 : !others], &b);
		b.number = BUF_HOST_STATE + i;
		take_row(m, r, &host_state_row, &b);
	}
}

/* 0 stays 0, so absent buffers take no memory. */
uint64_t
memory_aligned(uint64_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bits by block_number: the kinds that state a buffer, and all for one of the rank. */
static unsigned
kinds_of(const struct rank *r, int number)
{
	if (number >= BUF_COUNT)
		return 1U << (number >> BLOCK_SHIFT);
	return r->kinds[number] ? r->kinds[number] : ~0U;
}

struct buffer_list {
	struct memory_plan *plan;
	const struct sizes *sizes;
	int block; /* whose numbers the rows must have */
};

void
state_buffers(struct buffer_list *to, const struct buffer_row *rows, size_t n)
{
	const struct sizes *z = to->sizes;

	for (const struct buffer_row *r = rows; r < rows + n; r++) {
		bool step = r->recompute & recompute_modules(&z->shape->recompute);
		struct buffer b = { .name = r->name,
			.number = r->buffer,
			.level = step ? STEP : r->level,
			.shape = { r->size[0], r->size[1] ? r->size[1] : 1 },
			.vector = !r->size[1],
			.dtype = element_dtype(r->element, z->layout, z->shape),
			.alive = r->phase };

		if (r->buffer >> BLOCK_SHIFT != to->block)
			BUG("block '%s' states buffer '%s' with a number of block '%s'",
			    block_name(to->block), r->name, block_name(r->buffer >> BLOCK_SHIFT));
		b.bytes = (uint64_t)b.shape[0] * (uint64_t)b.shape[1] * dtype_size(b.dtype);
		if (r->when)
			take(to->plan, &b);
	}
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
	unsigned kinds = kinds_of(r, b->number);
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
	size = tight ? place_tight(p, n) : place_in_order(p, n);
	for (int i = 0; i < n; i++)
		m->buffer[p[i].number].offset = p[i].offset;
	free(p);
	return size;
}

/* What a slot has on the device without the units that leave it, and where these lie. */
static void
place_slots(struct memory_plan *m)
{
	int64_t layers = m->num_layers - m->recompute_layers, host_inputs;
	uint64_t slots = (uint64_t)m->use.slots;

	if (m->recompute_layers) {
		m->recompute_inputs = int64_div_up(m->recompute_layers, m->recompute_chunk);
		m->input_bytes = memory_aligned(memory_buffer(m, m->recompute_input)->bytes);
	}
	m->stash_inputs = stash_before(&m->stash, m->recompute_inputs);
	m->stash_layers = m->stash.moved - m->stash_inputs;
	host_inputs = int64_min(m->stash_inputs, m->stash.copied);
	m->inputs_base = m->kept_base + m->kept_bytes * (uint64_t)m->num_layers;
	m->layer_base =
	    m->inputs_base + m->input_bytes * (uint64_t)(m->recompute_inputs - m->stash_inputs);
	m->slot_bytes = m->layer_base + m->layer_bytes * (uint64_t)(layers - m->stash_layers);
	m->stash_base = m->slot_bytes * slots + m->batch_bytes * (uint64_t)m->use.batches;
	m->stash_bytes = m->stash_layers ? m->layer_bytes : m->input_bytes;
	m->stash_host_bytes = m->input_bytes * (uint64_t)host_inputs +
	    m->layer_bytes * (uint64_t)(m->stash.copied - host_inputs);
	m->arena[ARENA_SAVED] = m->stash_base + m->stash_bytes * (uint64_t)m->stash.places;
	m->stash_host = m->arena[ARENA_HOST];
	m->arena[ARENA_HOST] += m->stash_host_bytes * slots;
}

/* Where the copies of each buffer lie. */
static void
place_copies(struct memory_plan *m)
{
	static const enum memory_per per[] = { [SLOT] = PER_SLOT,
		[LAYER] = PER_SLOT,
		[KEPT] = PER_SLOT,
		[BATCH] = PER_BATCH,
		[LINK] = PER_LINK,
		[STEP] = ONCE };
	const int copies[] = { 1, m->use.slots, m->use.batches, m->use.links };

	for (int i = 0; i < m->num_buffers; i++) {
		struct buffer *b = &m->buffer[i];
		const uint64_t stride[] = { 0, m->slot_bytes, m->batch_bytes,
			memory_aligned(b->bytes) };
		const uint64_t base[] = { 0, 0, m->slot_bytes * (uint64_t)m->use.slots,
			m->recompute_base + m->layer_bytes * (uint64_t)m->recompute_chunk };

		b->per = per[b->level];
		b->copies = copies[b->per];
		b->stride = stride[b->per];
		b->base = base[b->per];
	}
}

/* Computes the arenas from the sizes of the buffers. */
static void
place_all(struct memory_plan *m, const struct rank *r)
{
	static const enum arena arena[] = { [RUN] = ARENA_PARAMS,
		[HOST] = ARENA_HOST,
		[SLOT] = ARENA_SAVED,
		[LAYER] = ARENA_SAVED,
		[KEPT] = ARENA_SAVED,
		[BATCH] = ARENA_SAVED,
		[LINK] = ARENA_SCRATCH,
		[STEP] = ARENA_SCRATCH };

	for (int i = 0; i < m->num_buffers; i++)
		m->buffer[i].place = arena[m->buffer[i].level];
	m->arena[ARENA_PARAMS] = place(m, r, RUN);
	m->arena[ARENA_HOST] = place(m, r, HOST);
	m->layer_bytes = place(m, r, LAYER);
	m->kept_bytes = place(m, r, KEPT);
	m->kept_base = place(m, r, SLOT);
	m->batch_bytes = place(m, r, BATCH);
	place_slots(m);
	m->recompute_base = place(m, r, STEP);
	m->arena[ARENA_SCRATCH] = m->recompute_base +
	    m->layer_bytes * (uint64_t)m->recompute_chunk +
	    place(m, r, LINK) * (uint64_t)m->use.links;
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
	m->own_matrices = shards_own(&m->shards, true, m->sharded);
	m->own_elements = m->own_device =
	    m->own_matrices + shards_own(&m->shards, false, m->sharded);
	device = (1 - r->shape->optimizer_offload) * (double)m->shards.elements;
	for (int k = 0; k < m->shards.num_buckets && !r->shape->forward_only; k++) {
		const struct bucket *b = &m->shards.bucket[k];

		if ((double)b->first + (double)b->count / 2 >= device) {
			m->own_device = memory_own(m, k).own;
			break;
		}
	}
}

static int
larger(int a, int b)
{
	return a > b ? a : b;
}

static void
count_use(const struct rank *r, const struct schedule_shape *s, struct schedule_use *use)
{
	if (r->counts)
		schedule_counts_get(r->counts, s, r->pp, use);
	else
		schedule_count(s, r->pp, use);
}

/* The memory in use at the same time in the largest step; evaluations reuse it. */
static void
plan_use(struct memory_plan *m, const struct rank *r)
{
	struct schedule_shape s =
	    layout_schedule(r->layout, (int)r->shape->num_microbatches, !r->shape->forward_only);
	struct schedule_use forward;

	count_use(r, &s, &m->use);
	s = layout_schedule(r->layout, SCHEDULE_STEADY * s.group_size, false);
	count_use(r, &s, &forward);
	m->use.slots = larger(m->use.slots, forward.slots);
	m->use.batches = larger(m->use.batches, forward.batches);
	m->use.links = larger(m->use.links, forward.links);
}

/* The blocks of the stage, and which of its layers are recomputed. A slot has room for the layers
 * of any chunk. */
static void
plan_blocks(struct memory_plan *m, const struct rank *r)
{
	const struct train_shape *s = r->shape;
	struct recompute_span span;

	m->num_blocks = block_list(r->model, r->layout, s, r->pp, &m->block);
	m->chunk = mem_alloc((size_t)layout_chunks(r->layout), sizeof *m->chunk);
	for (int j = 0; j < layout_chunks(r->layout); j++) {
		int64_t first, count;

		layout_layers(
		    r->layout, r->model, layout_stage(r->layout, r->pp, j), &first, &count);
		m->num_layers = count > m->num_layers ? count : m->num_layers;
		m->chunk[j] = block_chunk(m->block, m->num_blocks, j);
	}
	span = block_recompute(&s->recompute, m->num_layers);
	m->recompute_layers = span.layers;
	m->recompute_chunk = span.chunk;
	m->stash = stash_plan(
	    s->forward_only ? 0 : s->offloaded_layers, m->num_layers, span.chunk, m->use.slots);
	for (int i = m->num_blocks; i-- > 0;) {
		struct block *b = &m->block[i];

		b->stash = b->kind->residual ? stash_number(&m->stash, b->local) : -1;
		if (b->recompute_chunk >= 0)
			m->recompute_input = b->kind->input;
	}
}

/* Computes the sizes of a block's rows, and of the rank's own. */
static void
plan_dims(struct rank *r, const struct memory_plan *m)
{
	const struct train_shape *s = r->shape;
	struct sizes z = sizes_of_rank(r->model, r->layout, s, r->pp);
	int64_t largest = m->shards.largest;

	dims_share(r->dim, r->model, r->layout, r->shape);
	r->dim[D_OWN] = m->own_elements;
	r->dim[D_OWN_DEVICE] = m->own_device;
	r->dim[D_OWN_HOST] = m->own_elements - m->own_device;
	r->dim[D_OWN_MATRICES] = m->own_matrices;
	r->dim[D_OWN_OTHERS] = m->own_elements - m->own_matrices;
	r->dim[D_RING] =
	    s->averaged || m->own_device < m->own_elements ? 2 * memory_ring_slot(m) : 0;
	r->dim[D_SCORES] = r->model->num_layers * r->model->num_attention_heads /
	    r->layout->tensor_model_parallel_size;
	r->dim[D_MATRIX] = r->stage->matrix;
	r->dim[D_UPDATES] = r->stage->updates;
	r->dim[D_GRAM] = r->stage->gram;
	r->dim[D_PLACES] = m->shards.places;
	r->dim[D_LARGEST] = largest;
	/* the parts that the other replicas have of a bucket, if no more than pass at a time */
	r->dim[D_PASSING] = int64_min(largest - largest / most_replicas(r->layout), BUCKET_PASSING);
	r->dim[D_WEIGHTS] =
	    r->shape->sharding >= SHARDING_PARAMS ? m->own_elements : m->shards.elements;
	r->dim[D_GRADS] =
	    r->shape->sharding >= SHARDING_GRADS ? m->own_elements : m->shards.elements;
	r->dim[D_SCALARS] = SCALARS;
	for (int i = 0; i < m->num_blocks; i++)
		dims_copies(r->dim, &m->block[i], &z);
	r->dim[D_HASHES] = 2 * (1 + m->shards.count);
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

/* The rows of the kinds of the stage's blocks, each kind once; returns the bits of those that have
 * buffers. */
static unsigned
take_kinds(struct memory_plan *m, struct rank *r)
{
	struct sizes z = sizes_of_rank(r->model, r->layout, r->shape, r->pp);
	unsigned taken = 0, have = 0;

	for (int i = 0; i < m->num_blocks; i++) {
		const struct block_kind *k = m->block[i].kind;
		int number = block_number(k), before = m->num_buffers;
		unsigned kind = 1U << number;

		if (taken & kind)
			continue;
		taken |= kind;
		take_rows(m, r, k->buffers, kind);
		if (k->state)
			k->state(&(struct buffer_list){ m, &z, number }, &z);
		have |= m->num_buffers > before ? kind : 0;
	}
	return have;
}

/* Which of these kinds layers have together. The pass through a layer may end with the norm of the
 * block after it. */
static void
find_together(const struct memory_plan *m, struct rank *r, unsigned kinds)
{
	unsigned layer = 0;

	for (int i = 0; i < m->num_blocks; i++) {
		const struct block *b = &m->block[i];
		unsigned next = i + 1 < m->num_blocks ? 1U << block_number(b[1].kind) : 0;

		layer |= 1U << block_number(b->kind);
		if (next && b[1].layer == b->layer)
			continue;
		add_together(r->layers, layer & kinds);
		add_together(r->passes, (layer | next) & kinds);
		layer = 0;
	}
}

/* The layout has passed layout_check, so all divisions are exact. Blocks of one kind share the
 * places of their buffers, which are counted once. */
static void
plan_rank(struct memory_plan *m, struct rank *r)
{
	memset(m, 0, sizeof *m);
	m->rule = r->shape->rule;
	take_shards(m, r);
	plan_use(m, r);
	plan_blocks(m, r);
	plan_dims(r, m);
	take_rows(m, r, rank_rows, 0);
	take_states(m, r);
	find_together(m, r, take_kinds(m, r));
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

void
memory_stages_init(struct memory_stages *x, const struct model_config *c, const struct layout *l,
    const struct train_shape *s)
{
	int stages = (int)l->pipeline_model_parallel_size;
	struct shards_of of = { .model = c, .layout = l, .bucket_size = s->bucket_size };

	*x = (struct memory_stages){ .model = c, .layout = l };
	x->num_params = model_params(c, &x->table);
	x->stage = mem_alloc((size_t)stages, sizeof *x->stage);
	of.table = x->table;
	of.count = x->num_params;
	for (int i = 0; i < stages; i++)
		stage_init(&x->stage[i], &of, s->rule, (const int[AX_COUNT]){ [AX_PP] = i });
}

void
memory_stages_release(struct memory_stages *x)
{
	for (int i = 0; i < x->layout->pipeline_model_parallel_size; i++)
		shards_release(&x->stage[i].shards);
	schedule_counts_release(&x->counts);
	free(x->stage);
	free(x->table);
}

void
memory_plan_stage(
    struct memory_plan *m, struct memory_stages *x, const struct train_shape *s, int stage)
{
	struct rank r = { x->model, x->layout, s, &x->stage[stage], &x->counts, .pp = stage };

	plan_rank(m, &r);
	m->shared = true;
}

void
memory_plan(struct memory_plan *m, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, const int coord[AX_COUNT])
{
	struct memory_stage stage;
	struct rank r = { c, l, s, &stage, NULL, .pp = coord[AX_PP] };
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
