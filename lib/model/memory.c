/*
 * memory.c - the buffers of a rank from the rows of its blocks
 *
 * A row gives a buffer's condition, type and two dimensions by name; a rank has the rows of its
 * blocks (block/) and those below, and the rest is addition. Saved buffers are laid out as slot,
 * then layers in it, so that the address of a buffer is one multiplication. Buffers that are cheap
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

#include <stdlib.h>
#include <string.h>

/* MORE: buffers for which a plan's array grows at a time. */
enum { ALIGN = 256, SCALARS = 64, LAYERS_MAX = 32, MORE = 64 };

/* Buffers of no block or of several: the run's arrays, a micro batch, and the scratch through which
 * blocks pass data. Sharded weights and gradients hold the rank's own elements, plus slots in which
 * buckets are whole. */
static const struct buffer_row rank_rows[] = {
	{ "messages of stages", BUF_LANDING, RUN, IF_CHANNELS, STREAM, { D_LANDING, D_HIDDEN }, 0 },
	{ "weights", BUF_WEIGHTS, RUN, ALWAYS, ACT, { D_WEIGHTS, D_ONE }, 0 },
	{ "gathered weights", BUF_WEIGHT_SLOTS, RUN, IF_WEIGHT_SLOTS, ACT, { D_PLACES, D_ONE }, 0 },
	{ "main gradients", BUF_GRADS, RUN, IF_TRAINING, GRADS, { D_GRADS, D_ONE }, 0 },
	{ "gradients to reduce", BUF_GRAD_SLOTS, RUN, IF_GRAD_SLOTS, REAL, { D_PLACES, D_ONE }, 0 },
	{ "narrow gradients", BUF_NARROW_GRADS, RUN, IF_NARROW, BF16, { D_LARGEST, D_ONE }, 0 },
	{ "replicas' gradients", BUF_REPLICA_GRADS, RUN, IF_NARROW, BF16, { D_LARGEST, D_ONE }, 0 },
	{ "replicas' gradients", BUF_REPLICA_GRADS, RUN, IF_PASSING, REAL, { D_PASSING, D_ONE },
	    0 },
	{ "master weights", BUF_MASTER, RUN, IF_MASTER, REAL, { D_OWN_DEVICE, D_ONE }, 0 },
	{ "remainders of weights", BUF_REMAINDER, RUN, IF_REMAINDER, U16, { D_OWN_DEVICE, D_ONE },
	    0 },
	{ "rotary table", BUF_ROPE, RUN, IF_ROPE, REAL, { D_SEQ, D_ROTARY }, 0 },
	{ "window rotary table", BUF_WINDOW_ROPE, RUN, IF_WINDOW_ROPE, REAL, { D_SEQ, D_ROTARY },
	    0 },
	{ "scalars", BUF_SCALARS, RUN, ALWAYS, F64, { D_SCALARS, D_ONE }, 0 },
	{ "largest scores", BUF_SCORES, RUN, IF_QK_CLIP, REAL, { D_SCORES, D_ONE }, 0 },
	{ "weights", BUF_HOST_WEIGHTS, HOST, IF_TRAINING, ACT, { D_OWN_HOST, D_ONE }, 0 },
	{ "master weights", BUF_HOST_MASTER, HOST, IF_MASTER, REAL, { D_OWN_HOST, D_ONE }, 0 },
	{ "remainders of weights", BUF_HOST_REMAINDER, HOST, IF_REMAINDER, U16,
	    { D_OWN_HOST, D_ONE }, 0 },
	{ "average of weights", BUF_AVERAGE, HOST, IF_AVERAGE, REAL, { D_OWN, D_ONE }, 0 },
	{ "ring to the host", BUF_RING, HOST, IF_TRAINING, REAL, { D_RING, D_ONE }, 0 },
	{ "hashes", BUF_HASHES, RUN, IF_HASHED, I64, { D_HASHES, D_ONE }, 0 },
	/* of a stage's linears in the order of their layers, renewed when weights change */
	{ "fp8 weights", BUF_FP8_WEIGHTS, RUN, IF_FP8, F8, { D_FP8_WEIGHTS, D_ONE }, 0 },
	{ "fp8 transposed weights", BUF_FP8_TRANSPOSED, RUN, IF_FP8_TRAINING, F8,
	    { D_FP8_WEIGHTS, D_ONE }, 0 },
	{ "fp8 scales", BUF_FP8_SCALE, RUN, IF_FP8_SLOTS, F32, { D_FP8_SLOTS, D_FP8_SCALE }, 0 },
	{ "fp8 amax", BUF_FP8_AMAX, RUN, IF_FP8_HISTORY, F32, { D_FP8_SLOTS, D_ONE }, 0 },
	{ "fp8 amax history", BUF_FP8_HISTORY, RUN, IF_FP8_HISTORY, F32,
	    { D_FP8_SLOTS, D_FP8_HISTORY }, 0 },
	{ "fp8 largest numbers", BUF_FP8_LARGEST, RUN, IF_FP8_HISTORY, F32, { D_FP8_SLOTS, D_ONE },
	    0 },
	/* of every layer with experts: their loads, and the sums of its losses */
	{ "router sums", BUF_ROUTER_SUMS, RUN, IF_EXPERTS_TRAINING, F64,
	    { D_EXPERT_LAYERS, D_ROUTER_SUMS }, 0 },
	{ "fp8 scales of weights", BUF_FP8_SQUARES, RUN, IF_FP8_BLOCKS, F32,
	    { D_FP8_SQUARES, D_ONE }, 0 },
	{ "fp8 scales of transposed weights", BUF_FP8_SQUARES_TRANSPOSED, RUN,
	    IF_FP8_BLOCKS_TRAINING, F32, { D_FP8_SQUARES_TRANSPOSED, D_ONE }, 0 },
	{ "tokens", BUF_TOKENS, BATCH, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	{ "labels", BUF_LABELS, BATCH, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	{ "positions", BUF_POSITIONS, BATCH, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	{ "loss mask", BUF_LOSS_MASK, BATCH, ALWAYS, F32, { D_TOKENS, D_ONE }, 0 },
	{ "starts of documents", BUF_DOCUMENTS, BATCH, IF_DOCUMENTS, I32, { D_DOCUMENTS, D_ONE },
	    0 },
	/* a pass's output, or the gradient that it updates in place */
	{ "output or gradient", BUF_LINK, LINK, IF_LINKS, STREAM, { D_ROWS, D_HIDDEN }, 0 },
	/* the gathered input of a GEMM, or a GEMM's partial sums before they are scattered */
	{ "rows of all tensor ranks", BUF_WHOLE, STEP, IF_SEQUENCE, ACT, { D_TOKENS, D_HIDDEN },
	    ANY },
	/* until the weight's gradient is made, beside what comes for other GEMMs */
	{ "output gradients of all tensor ranks", BUF_DWHOLE, STEP, IF_OVERLAP, ACT,
	    { D_TOKENS, D_HIDDEN }, MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "sums of other tensor ranks", BUF_SLOTS, STEP, IF_PARTS, ACT, { D_OTHERS, D_HIDDEN },
	    FWD | MLP_BWD | QKV_BWD | HEAD },
	/* of one GEMM; the gradient of an output both ways, for two, but that of fc2 (block/mlp.c)
	 */
	{ "fp8 input", BUF_FP8_X, STEP, IF_FP8, F8, { D_TOKENS, D_FP8_IN },
	    FWD | MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "fp8 output gradient", BUF_FP8_DY, STEP, IF_FP8_TRAINING, F8_GRAD,
	    { D_TOKENS, D_FP8_OUT }, MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "fp8 transposed output gradient", BUF_FP8_DY_TRANSPOSED, STEP, IF_FP8_TRAINING, F8_GRAD,
	    { D_TOKENS, D_FP8_OUT }, MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "fp8 scales of input", BUF_FP8_X_LINES, STEP, IF_FP8_BLOCKS, F32,
	    { D_FP8_X_LINES, D_ONE }, FWD | MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "fp8 scales of output gradient", BUF_FP8_DY_LINES, STEP, IF_FP8_BLOCKS_TRAINING, F32,
	    { D_FP8_DY_LINES, D_ONE }, MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "fp8 scales of transposed output gradient", BUF_FP8_DY_TRANSPOSED_LINES, STEP,
	    IF_FP8_BLOCKS_TRAINING, F32, { D_FP8_DY_TRANSPOSED_LINES, D_ONE },
	    MLP_BWD | ATTN_BWD | QKV_BWD },
	{ "partial sums", BUF_PARTIAL, STEP, IF_OVERLAP, ACT, { D_TOKENS, D_HIDDEN },
	    MLP_BWD | QKV_BWD },
	{ "block output", BUF_BRANCH, STEP, ALWAYS, ACT, { D_ROWS, D_HIDDEN }, FWD },
	{ "block output gradient", BUF_DBRANCH, STEP, IF_BRANCH_GRAD, ACT, { D_ROWS, D_HIDDEN },
	    MLP_BWD | ATTN_BWD },
	{ "post norm input gradient", BUF_DPOST, STEP, IF_POST_NORM_TRAINING, ACT,
	    { D_ROWS, D_HIDDEN }, MLP_BWD | ATTN_BWD },
	/* of the sum at the end of a layer, without what its MLP adds to that of its input */
	{ "layer output gradient", BUF_DSUM, STEP, IF_PARALLEL_TRAINING, STREAM,
	    { D_ROWS, D_HIDDEN }, MLP_BWD | ATTN_BWD },
	{ "norm output gradient", BUF_DNORM, STEP, IF_TRAINING, ACT, { D_ROWS, D_HIDDEN },
	    MLP_BWD | QKV_BWD },
	/* of a matrix for each tensor rank, this rank's part; then of one matrix all parts */
	{ "updates of matrices", BUF_UPDATES, STEP, IF_MATRICES, REAL, { D_UPDATES, D_ONE },
	    OPTIM },
	{ "gathered update", BUF_UPDATES_GATHERED, STEP, IF_MATRICES_CUT, REAL, { D_MATRIX, D_ONE },
	    OPTIM },
	{ "matrix", BUF_MATRIX, STEP, IF_MATRICES, UPDATE, { D_MATRIX, D_ONE }, OPTIM },
	{ "next matrix", BUF_MATRIX_NEXT, STEP, IF_MATRICES, UPDATE, { D_MATRIX, D_ONE }, OPTIM },
	{ "Gram matrix", BUF_GRAM, STEP, IF_MATRICES, UPDATE, { D_GRAM, D_ONE }, OPTIM },
	{ "next Gram matrix", BUF_GRAM_NEXT, STEP, IF_MATRICES, UPDATE, { D_GRAM, D_ONE }, OPTIM },
	{ .name = NULL },
};

/* The row of a state of an update rule, but for its type, by what it is kept of. */
#define STATE_ROW(d) \
	{ \
		"optimizer state", BUF_STATE, RUN, IF_TRAINING, REAL, { d, D_ONE }, 0 \
	}
static const struct buffer_row state_rows[] = { STATE_ROW(D_OWN_DEVICE), STATE_ROW(D_OWN_MATRICES),
	STATE_ROW(D_OWN_OTHERS) };

/* The same on the host. */
static const struct buffer_row host_state_row = { "optimizer state", BUF_HOST_STATE, HOST,
	IF_TRAINING, REAL, { D_OWN_HOST, D_ONE }, 0 };

/* What is recomputed is not kept by the layer. */
static enum level
level_of(const struct buffer_row *r, const struct train_shape *s)
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
	/* bits of block_kinds[]: the kinds that state a buffer, and the kinds of each composition
	 * of a layer that the stage has; 0 after the last */
	unsigned kinds[BUF_COUNT], layers[LAYERS_MAX];
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
take_row(struct memory_plan *m, const struct rank *r, const struct buffer_row *row,
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
take_rows(struct memory_plan *m, struct rank *r, const struct buffer_row *rows, unsigned kind)
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

/* Bits of the compositions of layers in which a kind states the buffer. */
static unsigned
layers_with(const struct rank *r, int number)
{
	unsigned bits = 0;

	for (int i = 0; i < LAYERS_MAX; i++)
		if (r->layers[i] & r->kinds[number])
			bits |= 1U << i;
	return bits;
}

/* Places the buffers of one level; returns the bytes they take. Buffers of scratch are alive in
 * their phases, those of a layer in the layers that have a kind which states them, and all others
 * at one time: they lie one after the other. */
static uint64_t
place(struct memory_plan *m, const struct rank *r, enum level which)
{
	bool layer = which == LAYER || which == KEPT, tight = layer || which == STEP;
	struct placed *p = mem_alloc((size_t)m->num_buffers, sizeof *p);
	uint64_t size;
	int n = 0;

	for (int i = 0; i < m->num_buffers; i++) {
		struct buffer *b = &m->buffer[i];

		if (!b->bytes || b->level != which)
			continue;
		b->alive = layer ? layers_with(r, b->number) : which == STEP ? b->alive : 1;
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
		dims_copies(r->dim, &m->block[i]);
	r->dim[D_HASHES] = 2 * (1 + m->shards.count);
}

/* Another layer of the stage has these kinds of block. Compositions beyond LAYERS_MAX are taken
 * for one that has all kinds of each. */
static void
add_layer(struct rank *r, unsigned kinds)
{
	int i = 0;

	while (i < LAYERS_MAX - 1 && r->layers[i] && r->layers[i] != kinds)
		i++;
	r->layers[i] |= kinds;
}

/* The rows of the kinds of the stage's blocks, each kind once, and the compositions of its layers.
 * The norm of a block writes its output wherever the rank has the buffer, if another kind alone
 * states it too. */
static void
take_kinds(struct memory_plan *m, struct rank *r)
{
	unsigned has = 0, layer = 0;

	for (int i = 0; i < m->num_blocks; i++) {
		const struct block *b = &m->block[i];
		unsigned kind = 1U << block_number(b->kind);

		if (!(has & kind))
			take_rows(m, r, b->kind->buffers, kind);
		if (b->norm)
			r->kinds[b->norm->out] |= kind;
		has |= kind;
		layer |= kind;
		if (i + 1 == m->num_blocks || m->block[i + 1].layer != b->layer) {
			add_layer(r, layer);
			layer = 0;
		}
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
	m->head_rows = r->dim[D_HEAD_ROWS];
	take_rows(m, r, rank_rows, 0);
	take_states(m, r);
	take_kinds(m, r);
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
