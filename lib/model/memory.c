/*
 * memory.c - the buffers of a rank as a table
 *
 * A row says when a buffer exists, its type and its two dimensions by name; dims() puts numbers to
 * the names and the rest is adding up. Saved buffers are laid out as slot, then layers in it, so
 * that the address of a buffer is one multiplication. Rows that are marked as cheap to make again
 * move from the layer to scratch under recomputation. Scratch buffers carry the phases in which
 * they are alive, and those without a common phase share bytes. Every offset is a multiple of 256,
 * which suits every vector load.
 */
#include "lib/model/block/attention.h"
#include "lib/model/memory.h"
#include "lib/model/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, SCALARS = 64, HEAD_TILE = 128 };

enum dim {
	D_NONE,
	D_TOKENS,
	D_HIDDEN,
	D_QKV,
	D_Q,
	D_FFN,
	D_FC1,
	D_HEADS,
	D_SEQ,
	D_HEAD_ROWS,
	D_VOCAB,
	D_STAT_ROWS,
	D_THREE,
	D_ROTARY,
	D_ATTN_WORK,
	D_WEIGHTS,
	D_GRADS,
	D_PLACES,
	D_OWN,
	D_SCALARS,
	D_ONE,
	D_COUNT
};
enum kind { ACT, REAL, I32, F32, F64 };
enum level { RUN, SLOT, LAYER, LAST, STEP };
enum when {
	ALWAYS,
	IF_LAYERNORM,
	IF_ROPE,
	IF_TRAINING,
	IF_WEIGHT_SLOTS,
	IF_GRAD_SLOTS,
	IF_MASTER,
	IF_ADAM,
	IF_LAST,
	IF_LAST_LAYERNORM,
	IF_PIPELINE,
	IF_TRAINING_LAST,
	IF_LAST_TENSOR,
	IF_DOCUMENTS,
	IF_DROPOUT
};

/* Scratch buffers live in phases; those without a common phase share bytes. The backward pass of an
 * attention block is two: down to the gradients of q, k and v, and on from there. */
enum { FWD = 1, MLP_BWD = 2, ATTN_BWD = 4, QKV_BWD = 8, HEAD = 16, PHASES = 5, ANY = 31 };

static const struct row {
	const char *name;
	enum level level;
	enum when when;
	enum kind kind;
	enum dim dim[2];
	/* of scratch buffers; of layer buffers: 0, or where they live when they are made again */
	unsigned phase;
} rows[BUF_COUNT] = {
	[BUF_WEIGHTS] = { "weights", RUN, ALWAYS, ACT, { D_WEIGHTS, D_ONE }, 0 },
	[BUF_WEIGHT_SLOTS] = { "gathered weights", RUN, IF_WEIGHT_SLOTS, ACT, { D_PLACES, D_ONE },
	    0 },
	[BUF_GRADS] = { "main gradients", RUN, IF_TRAINING, REAL, { D_GRADS, D_ONE }, 0 },
	[BUF_GRAD_SLOTS] = { "gradients to reduce", RUN, IF_GRAD_SLOTS, REAL, { D_PLACES, D_ONE },
	    0 },
	[BUF_MASTER] = { "master weights", RUN, IF_MASTER, REAL, { D_OWN, D_ONE }, 0 },
	[BUF_EXP_AVG] = { "first moments", RUN, IF_TRAINING, REAL, { D_OWN, D_ONE }, 0 },
	[BUF_EXP_AVG_SQ] = { "second moments", RUN, IF_ADAM, REAL, { D_OWN, D_ONE }, 0 },
	[BUF_ROPE] = { "rotary table", RUN, IF_ROPE, REAL, { D_SEQ, D_ROTARY }, 0 },
	[BUF_SCALARS] = { "scalars", RUN, ALWAYS, F64, { D_SCALARS, D_ONE }, 0 },
	[BUF_TOKENS] = { "tokens", SLOT, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	[BUF_LABELS] = { "labels", SLOT, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	[BUF_POSITIONS] = { "positions", SLOT, ALWAYS, I32, { D_TOKENS, D_ONE }, 0 },
	[BUF_LOSS_MASK] = { "loss mask", SLOT, ALWAYS, F32, { D_TOKENS, D_ONE }, 0 },
	[BUF_DOCUMENTS] = { "starts of documents", SLOT, IF_DOCUMENTS, I32, { D_TOKENS, D_ONE },
	    0 },
	[BUF_LAYER_INPUT] = { "layer input", LAYER, ALWAYS, ACT, { D_TOKENS, D_HIDDEN }, 0 },
	[BUF_NORM1_MEAN] = { "norm 1 mean", LAYER, IF_LAYERNORM, REAL, { D_TOKENS, D_ONE }, 0 },
	[BUF_NORM1_RSTD] = { "norm 1 rstd", LAYER, ALWAYS, REAL, { D_TOKENS, D_ONE }, 0 },
	[BUF_NORM1_OUT] = { "norm 1 output", LAYER, ALWAYS, ACT, { D_TOKENS, D_HIDDEN },
	    FWD | QKV_BWD },
	[BUF_QKV] = { "q, k, v", LAYER, ALWAYS, ACT, { D_TOKENS, D_QKV }, 0 },
	[BUF_LSE] = { "log-sum-exp", LAYER, ALWAYS, REAL, { D_HEADS, D_SEQ }, 0 },
	[BUF_ATTN_OUT] = { "attention output", LAYER, ALWAYS, ACT, { D_TOKENS, D_Q }, 0 },
	[BUF_MLP_INPUT] = { "mlp input", LAYER, ALWAYS, ACT, { D_TOKENS, D_HIDDEN }, 0 },
	[BUF_NORM2_MEAN] = { "norm 2 mean", LAYER, IF_LAYERNORM, REAL, { D_TOKENS, D_ONE }, 0 },
	[BUF_NORM2_RSTD] = { "norm 2 rstd", LAYER, ALWAYS, REAL, { D_TOKENS, D_ONE }, 0 },
	[BUF_NORM2_OUT] = { "norm 2 output", LAYER, ALWAYS, ACT, { D_TOKENS, D_HIDDEN },
	    FWD | MLP_BWD },
	[BUF_FC1_OUT] = { "fc1 output", LAYER, ALWAYS, ACT, { D_TOKENS, D_FC1 }, 0 },
	[BUF_ACT_OUT] = { "activation output", LAYER, ALWAYS, ACT, { D_TOKENS, D_FFN },
	    FWD | MLP_BWD },
	[BUF_FINAL_INPUT] = { "final norm input", LAST, IF_LAST, ACT, { D_TOKENS, D_HIDDEN }, 0 },
	[BUF_FINAL_MEAN] = { "final norm mean", LAST, IF_LAST_LAYERNORM, REAL, { D_TOKENS, D_ONE },
	    0 },
	[BUF_FINAL_RSTD] = { "final norm rstd", LAST, IF_LAST, REAL, { D_TOKENS, D_ONE }, 0 },
	[BUF_HEAD_GRAD] = { "head gradient", LAST, IF_TRAINING_LAST, ACT, { D_TOKENS, D_HIDDEN },
	    0 },
	[BUF_DX] = { "residual gradient", STEP, IF_TRAINING, ACT, { D_TOKENS, D_HIDDEN }, ANY },
	[BUF_STAGE_OUT] = { "stage output", STEP, IF_PIPELINE, ACT, { D_TOKENS, D_HIDDEN }, ANY },
	[BUF_BRANCH] = { "block output", STEP, ALWAYS, ACT, { D_TOKENS, D_HIDDEN }, FWD },
	[BUF_DBRANCH] = { "block output gradient", STEP, IF_DROPOUT, ACT, { D_TOKENS, D_HIDDEN },
	    MLP_BWD | ATTN_BWD },
	[BUF_DNORM] = { "norm output gradient", STEP, IF_TRAINING, ACT, { D_TOKENS, D_HIDDEN },
	    MLP_BWD | QKV_BWD },
	[BUF_DACT] = { "activation gradient", STEP, IF_TRAINING, ACT, { D_TOKENS, D_FFN },
	    MLP_BWD },
	[BUF_DATTN] = { "attention output gradient", STEP, IF_TRAINING, ACT, { D_TOKENS, D_Q },
	    ATTN_BWD },
	[BUF_DQKV] = { "q, k, v gradient", STEP, IF_TRAINING, ACT, { D_TOKENS, D_QKV },
	    ATTN_BWD | QKV_BWD },
	[BUF_DELTA] = { "attention delta", STEP, IF_TRAINING, REAL, { D_HEADS, D_SEQ }, ATTN_BWD },
	[BUF_ATTN_WORK] = { "attention workspace", STEP, IF_TRAINING, F32, { D_ATTN_WORK, D_ONE },
	    ATTN_BWD },
	[BUF_FINAL_OUT] = { "final norm output", STEP, IF_LAST, ACT, { D_TOKENS, D_HIDDEN }, HEAD },
	[BUF_LOGITS] = { "logits", STEP, IF_LAST, ACT, { D_HEAD_ROWS, D_VOCAB }, HEAD },
	[BUF_STATS] = { "softmax statistics", STEP, IF_LAST_TENSOR, REAL, { D_STAT_ROWS, D_THREE },
	    HEAD },
	[BUF_LOSS] = { "token loss", STEP, IF_LAST, REAL, { D_TOKENS, D_ONE }, HEAD },
	[BUF_ZLOSS] = { "token z-loss", STEP, IF_LAST, REAL, { D_TOKENS, D_ONE }, HEAD },
};

/*
 * Statistics, moments and master weights: never narrower than F32, and F64 only where the whole run
 * is, for gradient checks.
 */
enum dtype
memory_real(enum dtype act)
{
	return act == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* As mplan prints it; static. */
const char *
memory_buffer_name(enum buffer b)
{
	return rows[b].name;
}

/* Layer buffers that are cheap to make again leave the layer under recomputation; a gated
 * activation's output always does, since its backward pass writes it on the way (over the gradient
 * that it reads, so it needs no place of its own there). */
static enum level
level_of(int b, const struct model_config *c, const struct train_shape *s)
{
	bool again =
	    s->recompute.granularity != RECOMPUTE_NONE || (b == BUF_ACT_OUT && model_gated(c));

	return rows[b].phase && again && rows[b].level == LAYER ? STEP : rows[b].level;
}

/* The phases in which a scratch buffer may not be overwritten. */
static unsigned
phase_of(int b, const struct model_config *c)
{
	return b == BUF_ACT_OUT && model_gated(c) ? FWD : rows[b].phase;
}

/* Token rows of logits that are held at once: about 2^25 elements over the whole vocabulary, and 3
 * 2^27 in the 16-bit types of GPUs, whose products need many rows, in chunks that are alike and of
 * whole tiles. */
static int64_t
head_rows(const struct model_config *c, const struct train_shape *s)
{
	bool half = dtype_size(s->dtype) == 2;
	int64_t most = (half ? (int64_t)3 << 27 : (int64_t)1 << 25) / c->vocab_size,
		tokens = s->seq_length * s->micro_batch_size, chunks;

	if (most < HEAD_TILE)
		most = HEAD_TILE;
	if (most >= tokens || !half)
		return most < tokens ? most : tokens;
	chunks = (tokens + most - 1) / most;
	return ((tokens + chunks - 1) / chunks + HEAD_TILE - 1) / HEAD_TILE * HEAD_TILE;
}

/* Local heads; every stage that has layers takes the same. */
uint64_t
attention_run_workspace(
    const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	struct attention_shape a = {
		.micro_batch_size = s->micro_batch_size,
		.seq_length = s->seq_length,
		.num_heads = c->num_attention_heads / l->tensor_model_parallel_size,
		.num_groups = layout_local_groups(l, c),
		.head_dim = c->kv_channels,
		.backward = !s->forward_only,
		.deterministic = s->deterministic,
	};

	if ((s->dtype != DTYPE_BF16 && s->dtype != DTYPE_F16) || c->attention_dropout > 0 ||
	    c->kv_channels % 8 || s->reset_attention_mask)
		return 0;
	return attention_workspace(&a);
}

/* What the symbolic dimensions are on this rank. */
static void
dims(int64_t d[D_COUNT], const struct memory_plan *m, const struct model_config *c,
    const struct layout *l, const struct train_shape *s)
{
	int64_t t = l->tensor_model_parallel_size, heads = c->num_attention_heads / t;

	d[D_ONE] = 1;
	d[D_THREE] = 3;
	d[D_TOKENS] = s->seq_length * s->micro_batch_size;
	d[D_HIDDEN] = c->hidden_size;
	d[D_Q] = heads * c->kv_channels;
	d[D_QKV] = d[D_Q] + 2 * layout_local_groups(l, c) * c->kv_channels;
	d[D_FFN] = c->ffn_hidden_size / t;
	d[D_FC1] = d[D_FFN] * (model_gated(c) ? 2 : 1);
	d[D_HEADS] = s->micro_batch_size * heads;
	d[D_SEQ] = s->seq_length;
	d[D_HEAD_ROWS] = m->head_rows;
	d[D_STAT_ROWS] = m->head_rows * t;
	d[D_VOCAB] = layout_vocab(l, c) / t;
	d[D_ROTARY] = model_rotary_dim(c);
	d[D_ATTN_WORK] = (int64_t)(attention_run_workspace(c, l, s) / sizeof(float));
	d[D_OWN] = m->own_elements;
	d[D_PLACES] = m->shards.places;
	d[D_WEIGHTS] = s->sharding >= SHARDING_PARAMS ? d[D_OWN] : m->shards.elements;
	d[D_GRADS] = s->sharding >= SHARDING_GRADS ? d[D_OWN] : m->shards.elements;
	d[D_SCALARS] = SCALARS;
}

/*
 * A buffer of which this is false has 0 bytes and no address. pp is the stage: the head and its
 * loss are on the last one alone.
 */
static bool
present(enum when when, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, int pp)
{
	bool last = pp == l->pipeline_model_parallel_size - 1;

	switch (when) {
	case IF_LAYERNORM: return c->normalization == NORMALIZATION_LAYERNORM;
	case IF_ROPE: return c->position == POSITION_ROPE;
	case IF_TRAINING: return !s->forward_only;
	case IF_WEIGHT_SLOTS: return s->sharding >= SHARDING_PARAMS && layout_replicas(l) > 1;
	case IF_GRAD_SLOTS:
		return !s->forward_only && s->sharding >= SHARDING_GRADS && layout_replicas(l) > 1;
	case IF_MASTER: return !s->forward_only && s->dtype != memory_real(s->dtype);
	case IF_DROPOUT: return !s->forward_only && c->hidden_dropout > 0;
	case IF_ADAM: return !s->forward_only && s->optimizer_states > 1;
	case IF_LAST: return last;
	case IF_LAST_LAYERNORM: return last && c->normalization == NORMALIZATION_LAYERNORM;
	case IF_TRAINING_LAST: return last && !s->forward_only;
	case IF_PIPELINE: return !last;
	case IF_LAST_TENSOR: return last && l->tensor_model_parallel_size > 1;
	case IF_DOCUMENTS: return s->reset_attention_mask;
	default: return true;
	}
}

/*
 * The loss mask stays F32 and the scalars F64 in every precision: both are summed over many tokens.
 */
static enum dtype
kind_dtype(enum kind k, enum dtype act)
{
	switch (k) {
	case ACT: return act;
	case REAL: return memory_real(act);
	case F64: return DTYPE_F64;
	case F32: return DTYPE_F32;
	default: return DTYPE_I32;
	}
}

/* Shape, type and bytes of one buffer. */
static void
measure(struct memory_plan *m, int b, const int64_t d[D_COUNT], enum dtype act)
{
	m->shape[b][0] = d[rows[b].dim[0]];
	m->shape[b][1] = d[rows[b].dim[1]];
	m->vector[b] = rows[b].dim[1] == D_ONE;
	m->dtype[b] = kind_dtype(rows[b].kind, act);
	m->bytes[b] = (uint64_t)m->shape[b][0] * (uint64_t)m->shape[b][1] * dtype_size(m->dtype[b]);
}

/* n of 0 stays 0, so absent buffers cost nothing. */
uint64_t
memory_aligned(uint64_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Places the buffers of one level one after the other; returns the bytes they take. */
static uint64_t
place(struct memory_plan *m, const enum level level[BUF_COUNT], enum level which, uint64_t at)
{
	for (int b = 0; b < BUF_COUNT; b++)
		if (level[b] == which && m->bytes[b]) {
			m->offset[b] = at;
			at += memory_aligned(m->bytes[b]);
		}
	return at;
}

/* Scratch: a buffer starts after everything already placed in any of its phases. */
static uint64_t
place_scratch(
    struct memory_plan *m, const enum level level[BUF_COUNT], const struct model_config *c)
{
	uint64_t top[PHASES] = { 0 }, size = 0;

	for (int b = 0; b < BUF_COUNT; b++) {
		unsigned phase = phase_of(b, c);
		uint64_t at = 0;

		if (level[b] != STEP || !m->bytes[b])
			continue;
		for (int i = 0; i < PHASES; i++)
			if (phase >> i & 1 && top[i] > at)
				at = top[i];
		m->offset[b] = at;
		at += memory_aligned(m->bytes[b]);
		for (int i = 0; i < PHASES; i++)
			if (phase >> i & 1)
				top[i] = at;
		if (at > size)
			size = at;
	}
	return size;
}

/* Which layers of the stage are made again, and in which pieces. A number beyond the stage's layers
 * means all of them. */
static void
plan_redo(struct memory_plan *m, const struct recompute *r)
{
	int64_t n = r->num_layers < m->num_layers ? r->num_layers : m->num_layers;

	if (r->granularity != RECOMPUTE_FULL)
		return;
	m->redo_layers = r->method == RECOMPUTE_UNIFORM ? m->num_layers : n;
	m->redo_chunk = r->method == RECOMPUTE_UNIFORM ? n : 1;
}

/* Chunks of recomputed layers; each saves the input of its first. */
static int64_t
redo_inputs(const struct memory_plan *m)
{
	return m->redo_layers ? (m->redo_layers + m->redo_chunk - 1) / m->redo_chunk : 0;
}

/* The three arenas from the sizes of the buffers. */
static void
place_all(struct memory_plan *m, const struct model_config *c, const struct train_shape *s)
{
	enum level level[BUF_COUNT];

	for (int b = 0; b < BUF_COUNT; b++) {
		level[b] = level_of(b, c, s);
		m->per_layer[b] = level[b] == LAYER;
		m->place[b] = level[b] == RUN ? ARENA_PARAMS
		    : level[b] == STEP        ? ARENA_SCRATCH
					      : ARENA_SAVED;
	}
	m->arena[ARENA_PARAMS] = place(m, level, RUN, 0);
	m->layer_bytes = place(m, level, LAYER, 0);
	m->inputs_base = place(m, level, LAST, place(m, level, SLOT, 0));
	m->layer_base =
	    m->inputs_base + memory_aligned(m->bytes[BUF_LAYER_INPUT]) * (uint64_t)redo_inputs(m);
	m->slot_bytes = m->layer_base + m->layer_bytes * (uint64_t)(m->num_layers - m->redo_layers);
	m->arena[ARENA_SAVED] = m->slot_bytes * (uint64_t)m->num_slots;
	m->redo_base = place_scratch(m, level, c);
	m->arena[ARENA_SCRATCH] = m->redo_base + m->layer_bytes * (uint64_t)m->redo_chunk;
}

/*
 * Shards first, because master weights and moments are as large as the share of them that this rank
 * owns. The layout has passed layout_check, so all divisions are exact. The number of slots is what
 * 1F1B holds at once on this stage.
 */
void
memory_plan(struct memory_plan *m, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, const int coord[AX_COUNT])
{
	struct param *table;
	int count = model_params(c, &table);
	int64_t d[D_COUNT] = { 0 };

	memset(m, 0, sizeof *m);
	shards_init(&m->shards, &(struct shards_of){ table, count, c, l, s->bucket_size }, coord);
	free(table);
	m->replicas = s->sharding ? (int)layout_replicas(l) : 1;
	m->replica = s->sharding ? layout_replica(l, coord) : 0;
	m->own_elements = m->shards.elements / m->replicas;
	layout_layers(l, c, coord[AX_PP], &m->first_layer, &m->num_layers);
	plan_redo(m, &s->recompute);
	m->num_slots = s->forward_only ? 1
				       : schedule_in_flight((int)l->pipeline_model_parallel_size,
					     coord[AX_PP], (int)s->num_microbatches);
	m->head_rows = head_rows(c, s);
	dims(d, m, c, l, s);
	for (int b = 0; b < BUF_COUNT; b++)
		if (present(rows[b].when, c, l, s, coord[AX_PP]))
			measure(m, b, d, s->dtype);
	place_all(m, c, s);
}

/* The plan holds no other memory; the arenas are whoever allocated them. */
void
memory_release(struct memory_plan *m)
{
	shards_release(&m->shards);
}

/*
 * What is allocated from this plan; libraries, communication buffers and the context come on top.
 */
uint64_t
memory_total(const struct memory_plan *m)
{
	return m->arena[ARENA_PARAMS] + m->arena[ARENA_SAVED] + m->arena[ARENA_SCRATCH];
}

/* Recomputed layers lie in scratch by their number in the chunk, but for the input of the first,
 * which is what was saved. */
struct memory_place
memory_at(const struct memory_plan *m, enum buffer b, int slot, int64_t layer)
{
	uint64_t base = m->place[b] == ARENA_SAVED ? m->slot_bytes * (uint64_t)slot : 0;

	if (!m->per_layer[b])
		return (struct memory_place){ m->place[b], base + m->offset[b] };
	if (layer >= m->redo_layers)
		return (struct memory_place){ ARENA_SAVED,
			base + m->layer_base + m->layer_bytes * (uint64_t)(layer - m->redo_layers) +
			    m->offset[b] };
	if (b == BUF_LAYER_INPUT && layer % m->redo_chunk == 0)
		return (struct memory_place){ ARENA_SAVED,
			base + m->inputs_base +
			    memory_aligned(m->bytes[b]) * (uint64_t)(layer / m->redo_chunk) };
	return (struct memory_place){ ARENA_SCRATCH,
		m->redo_base + m->layer_bytes * (uint64_t)(layer % m->redo_chunk) + m->offset[b] };
}

/*
 * Scratch buffers share bytes, so their sizes may add up to more than the arena. The place of a
 * chunk's first input in scratch is there but unused.
 */
int64_t
memory_instances(const struct memory_plan *m, enum buffer b, enum arena where)
{
	if (!m->bytes[b])
		return 0;
	if (!m->per_layer[b])
		return m->place[b] != where ? 0 : where == ARENA_SAVED ? m->num_slots : 1;
	if (where == ARENA_SCRATCH)
		return m->redo_chunk;
	return where == ARENA_SAVED ? m->num_slots *
		(m->num_layers - m->redo_layers + (b == BUF_LAYER_INPUT ? redo_inputs(m) : 0))
				    : 0;
}
