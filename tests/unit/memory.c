/* memory.c - tests of the memory plan: buffers never overlap where they may not, arenas are the
 * sums of their parts */
#include "lib/model/block/attention.h"
#include "lib/model/block/head.h"
#include "lib/model/block/linears.h"
#include "lib/model/block/mlp.h"
#include "lib/model/block/moe.h"
#include "lib/model/block/workspace.h"
#include "lib/model/capacity.h"
#include "lib/model/family.h"
#include "lib/model/fp8.h"
#include "lib/model/memory.h"
#include "lib/model/place.h"
#include "lib/model/schedule.h"
#include "tests/check.h"
#include "tests/sized_model.h"

/* A model of four layers with grouped queries. */
static struct model_config
tiny(void)
{
	return sized_llama((struct model_sizes){ 4, 64, 8, 2, 176, 32, 500 });
}

/* Buffers in use at the same time, by phase of the trainer. */
static const int phases[][28] = {
	{ BUF_FP8_X, BUF_FP8_X_LINES, BUF_GATHERED, BUF_PARTIAL_SUMS, HEAD_NORM_OUT, BUF_BRANCH,
	    ATTENTION_NORM_OUT, MLP_INPUT + FFN_NORM_OUT, MLP_ACT_OUT, ATTENTION_CONTEXT_KEYS,
	    ATTENTION_CONTEXT_QKV, ATTENTION_CONTEXT_OUT, ATTENTION_CONTEXT_PACKED, BLOCK_NUMBERS },
	{ BUF_FP8_X, BUF_FP8_DY, BUF_FP8_DY_TRANSPOSED, BUF_FP8_FC2_DY_TRANSPOSED, BUF_FP8_X_LINES,
	    BUF_FP8_DY_LINES, BUF_FP8_DY_TRANSPOSED_LINES, BUF_FP8_FC2_DY_TRANSPOSED_LINES,
	    BUF_GATHERED, BUF_DGATHERED, BUF_PARTIAL_SUMS, BUF_PARTIAL, BUF_DBRANCH, BUF_DPOST,
	    BUF_DSUM, BUF_DNORM, MLP_DACT, MLP_INPUT + FFN_NORM_OUT, BLOCK_NUMBERS },
	{ BUF_FP8_X, BUF_FP8_DY, BUF_FP8_DY_TRANSPOSED, BUF_FP8_X_LINES, BUF_FP8_DY_LINES,
	    BUF_FP8_DY_TRANSPOSED_LINES, BUF_GATHERED, BUF_DGATHERED, BUF_DBRANCH, BUF_DPOST,
	    BUF_DSUM, ATTENTION_DOUT, ATTENTION_DQKV, ATTENTION_DELTA, ATTENTION_WORK,
	    ATTENTION_CONTEXT_KEYS, ATTENTION_CONTEXT_PARTIAL, ATTENTION_CONTEXT_SUMS,
	    ATTENTION_CONTEXT_QKV, ATTENTION_CONTEXT_OUT, ATTENTION_CONTEXT_DOUT,
	    ATTENTION_CONTEXT_DQKV, ATTENTION_CONTEXT_PACKED, ATTENTION_DQK, ATTENTION_QK,
	    BLOCK_NUMBERS },
	{ BUF_FP8_X, BUF_FP8_DY, BUF_FP8_DY_TRANSPOSED, BUF_FP8_X_LINES, BUF_FP8_DY_LINES,
	    BUF_FP8_DY_TRANSPOSED_LINES, BUF_GATHERED, BUF_DGATHERED, BUF_PARTIAL_SUMS, BUF_PARTIAL,
	    BUF_DNORM, ATTENTION_DQKV, ATTENTION_DQK, ATTENTION_CONTEXT_PARTIAL,
	    ATTENTION_CONTEXT_SUMS, ATTENTION_CONTEXT_DQKV, ATTENTION_CONTEXT_PACKED,
	    ATTENTION_NORM_OUT, BLOCK_NUMBERS },
	{ BUF_GATHERED, BUF_PARTIAL_SUMS, HEAD_NORM_OUT, HEAD_LOGITS, HEAD_STATS, HEAD_LOSS,
	    HEAD_ZLOSS, BLOCK_NUMBERS },
};

/* Buffers a and b of one level share no byte, and both end inside `size`. */
static void
check_apart(const struct memory_plan *m, int a, int b, uint64_t size)
{
	const struct buffer *x = memory_buffer(m, a), *y = memory_buffer(m, b);
	uint64_t a0 = x->offset, a1 = a0 + x->bytes, b0 = y->offset, b1 = b0 + y->bytes;

	if (!x->bytes || !y->bytes || a == b)
		return;
	CHECK(a1 <= b0 || b1 <= a0);
	CHECK(a1 <= size && b1 <= size);
}

/* Buffers of one phase share no byte. */
static void
check_scratch(const struct memory_plan *m)
{
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
		for (int a = 0; phases[i][a] != BLOCK_NUMBERS; a++)
			for (int b = 0; phases[i][b] != BLOCK_NUMBERS; b++)
				if (memory_buffer(m, phases[i][a])->place == ARENA_SCRATCH &&
				    memory_buffer(m, phases[i][b])->place == ARENA_SCRATCH)
					check_apart(
					    m, phases[i][a], phases[i][b], m->recompute_base);
}

enum { BUFFERS_MAX = 256 }; /* of a plan */

/* Plans, and those of them whose scratch is no larger than what its fullest phase holds. */
static struct {
	long all, tight;
} plans;

/* Scratch and layers hold at least what is alive at the fullest time. */
static void
check_bounds(const struct memory_plan *m)
{
	struct placed scratch[BUFFERS_MAX], layer[BUFFERS_MAX];
	int n = 0, layers = 0;

	CHECK(m->num_buffers <= BUFFERS_MAX);
	for (int i = 0; i < m->num_buffers; i++) {
		const struct buffer *b = &m->buffer[i];
		struct placed p = { i, b->alive, memory_aligned(b->bytes), 0 };

		if (p.bytes && b->level == LAYER)
			layer[layers++] = p;
		else if (p.bytes && b->level == STEP)
			scratch[n++] = p;
	}
	CHECK(m->recompute_base >= place_bound(scratch, n));
	CHECK(m->layer_bytes == place_bound(layer, layers));
	plans.tight += m->recompute_base == place_bound(scratch, n);
	plans.all++;
}

/* Buffers of params, of a slot and of a layer lie apart; the layers lie after the slot's own
 * buffers. */
static void
check_levels(const struct memory_plan *m)
{
	for (int i = 0; i < m->num_buffers * m->num_buffers; i++) {
		const struct buffer *a = &m->buffer[i / m->num_buffers],
				    *b = &m->buffer[i % m->num_buffers];
		bool layer = a->level == LAYER;

		CHECK(a->offset % 256 == 0);
		if (a->place != ARENA_SCRATCH && b->place == a->place &&
		    (b->level == LAYER) == layer && a->per == b->per)
			check_apart(m, a->number, b->number,
			    a->per == ONCE           ? m->arena[a->place]
				: layer              ? m->layer_bytes
				: a->per == PER_SLOT ? m->inputs_base
						     : m->batch_bytes);
	}
}

/* Copies for micro batches and stage outputs do not overlap and come after the rest of their
 * arena. */
static void
check_copies(const struct memory_plan *m)
{
	for (int i = 0; i < m->num_buffers; i++) {
		const struct buffer *b = &m->buffer[i];
		const struct memory_copy ends[] = { { 0 },
			{ b->copies - 1, 0, b->copies - 1, b->copies - 1 } };
		uint64_t first = memory_at(m, b->number, &ends[0], 0).offset, end;

		if (!b->bytes || (b->per != PER_BATCH && b->per != PER_STAGE_OUTPUT))
			continue;
		end = memory_at(m, b->number, &ends[1], 0).offset + b->bytes;
		CHECK(b->copies > 0 && b->stride >= b->bytes);
		CHECK(end <= m->arena[b->place]);
		CHECK(first >= (b->per == PER_BATCH ? m->batch_base : m->recompute_base));
	}
}

/* Layers of different chunks share scratch, and units that leave share places: the first chunk, and
 * the first units of the first slot, represent all. */
static bool
represents(const struct memory_plan *m, enum arena arena, int slot, int64_t layer)
{
	int number = activation_offload_number(&m->activation_offload, layer);

	if (arena == ARENA_SCRATCH)
		return slot == 0 && layer < m->recompute_chunk;
	return number < 0 || (slot == 0 && number < m->activation_offload.places);
}

/* An instance of a layer buffer lies inside its arena, and what represents it shares no byte with
 * others: taken has a mark for each 256 bytes. */
static void
check_instance(const struct memory_plan *m, const struct buffer *b, int64_t i,
    unsigned char taken[ARENA_COUNT][1 << 14])
{
	int slot = (int)(i / m->num_layers);
	const struct memory_copy copy = { .slot = slot, .tail = slot };
	struct memory_place p = memory_at(m, b->number, &copy, i % m->num_layers);

	if (i % m->num_layers >= m->slot_layers && slot >= m->use.tails)
		return;
	CHECK(p.offset + b->bytes <= m->arena[p.arena] && p.offset % 256 == 0);
	CHECK(p.arena != ARENA_SCRATCH || p.offset >= m->recompute_base);
	if (!represents(m, p.arena, slot, i % m->num_layers))
		return;
	for (uint64_t at = p.offset / 256; at < (p.offset + b->bytes + 255) / 256; at++) {
		CHECK(at < sizeof taken[0] && !taken[p.arena][at]);
		taken[p.arena][at] = 1;
	}
}

/* No two instances of layer buffers share a byte, whatever is recomputed. */
static void
check_layers(const struct memory_plan *m)
{
	static unsigned char taken[ARENA_COUNT][1 << 14];

	memset(taken, 0, sizeof taken);
	for (int k = 0; k < m->num_buffers; k++)
		for (int64_t i = 0; m->buffer[k].bytes && m->buffer[k].level == LAYER &&
		     i < m->num_layers * m->use.slots;
		     i++)
			check_instance(m, &m->buffer[k], i, taken);
}

/* Arena sizes are the sums of their buffers; a slot is its own buffers and its layers. */
static void
check_sums(const struct memory_plan *m)
{
	uint64_t sum[ARENA_COUNT] = { 0 };

	for (int i = 0; i < m->num_buffers; i++)
		for (int a = 0; a < ARENA_COUNT; a++)
			sum[a] +=
			    (uint64_t)memory_instances(m, m->buffer[i].number, (enum arena)a) *
			    memory_aligned(m->buffer[i].bytes);
	CHECK(sum[ARENA_PARAMS] == m->arena[ARENA_PARAMS]);
	CHECK(sum[ARENA_SAVED] == m->arena[ARENA_SAVED]);
	CHECK(sum[ARENA_HOST] == m->arena[ARENA_HOST]);
	CHECK(sum[ARENA_SCRATCH] >= m->arena[ARENA_SCRATCH]);
	CHECK(m->slot_bytes + m->tail_bytes ==
	    m->layer_base +
		m->layer_bytes *
		    (uint64_t)(m->num_layers - m->recompute_layers - m->offload_layers));
	CHECK(m->tail_bytes == 0 || m->slot_layers < m->num_layers);
	CHECK(m->offload_base ==
	    m->slot_bytes * (uint64_t)m->use.slots + m->tail_bytes * (uint64_t)m->use.tails +
		m->batch_bytes * (uint64_t)m->use.batches);
	CHECK(m->arena[ARENA_SAVED] ==
	    m->offload_base + m->offload_bytes * (uint64_t)m->activation_offload.places);
	CHECK(memory_total(m) == m->arena[0] + m->arena[1] + m->arena[2]);
}

/* Units that leave follow each other through their places, and lie on the host one after the other;
 * the buffers of their layers are in them. */
static void
check_activation_offload(const struct memory_plan *m)
{
	uint64_t at = m->offload_host;

	CHECK(m->activation_offload.moved == m->offload_inputs + m->offload_layers);
	for (int i = 0; i < m->use.slots * m->activation_offload.moved; i++) {
		int number = (int)(i % m->activation_offload.moved),
		    slot = (int)(i / m->activation_offload.moved);
		struct memory_offloaded u = memory_offloaded(m, slot, number);

		CHECK(number >= m->activation_offload.copied || u.host == at);
		CHECK(u.bytes > 0 && u.bytes <= m->offload_bytes);
		CHECK(u.device ==
		    m->offload_base +
			m->offload_bytes * (uint64_t)(number % m->activation_offload.places));
		at += number < m->activation_offload.copied ? memory_aligned(u.bytes) : 0;
		for (int64_t l = 0; l < m->num_layers; l++)
			for (int k = 0; k < m->num_buffers &&
			     activation_offload_number(&m->activation_offload, l) == number;
			     k++) {
				const struct buffer *b = &m->buffer[k];
				const struct memory_copy copy = { .slot = slot };
				struct memory_place p = memory_at(m, b->number, &copy, l);

				if (b->bytes && b->level == LAYER && p.arena == ARENA_SAVED)
					CHECK(p.offset >= u.device &&
					    p.offset + b->bytes <= u.device + u.bytes);
			}
	}
	CHECK(at == m->arena[ARENA_HOST]);
}

/* The bytes of all buffers by number; and whether a plan has buffers of these. */
static void
sizes_of(const struct memory_plan *m, uint64_t bytes[BLOCK_NUMBERS])
{
	for (int b = 0; b < BLOCK_NUMBERS; b++)
		bytes[b] = memory_buffer(m, b)->bytes;
}

static bool
has_sizes(const struct memory_plan *m, const uint64_t bytes[BLOCK_NUMBERS])
{
	uint64_t has[BLOCK_NUMBERS];

	sizes_of(m, has);
	return !memcmp(has, bytes, sizeof has);
}

/* Micro batches in flight under 1F1B. */
static int
in_flight(const struct layout *l, const struct train_shape *s, int stage)
{
	int64_t n = l->pipeline_model_parallel_size - stage;

	return s->forward_only ? 1 : (int)(n < s->num_microbatches ? n : s->num_microbatches);
}

/* Every rank of a layout has a valid plan. */
static void
check_all(const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	for (int64_t r = 0; r < layout_world(l); r++) {
		struct memory_plan m;
		int coord[AX_COUNT];

		layout_coord(l, r, coord);
		memory_plan(&m, c, l, s, coord);
		check_scratch(&m);
		check_bounds(&m);
		check_levels(&m);
		check_sums(&m);
		check_layers(&m);
		check_activation_offload(&m);
		check_copies(&m);
		CHECK(m.use.slots == in_flight(l, s, coord[AX_PP]) && m.use.batches == m.use.slots);
		CHECK(memory_buffer(&m, BUF_WEIGHTS)->bytes ==
		    (uint64_t)m.shards.elements * dtype_size(s->dtype));
		CHECK(!s->forward_only ||
		    (!memory_buffer(&m, BUF_GRADS)->bytes &&
			!memory_buffer(&m, BUF_MASTER)->bytes &&
			!memory_buffer(&m, BUF_STATE)->bytes));
		CHECK((memory_buffer(&m, HEAD_LOGITS)->bytes != 0) ==
		    (coord[AX_PP] == l->pipeline_model_parallel_size - 1));
		memory_release(&m);
	}
}

/* The ways to recompute the four layers of the tiny model. */
static const struct recompute recomputes[] = {
	{ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 },
	{ RECOMPUTE_SELECTIVE, RECOMPUTE_UNIFORM, 1 },
	{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 },
	{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 3 },
	{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 9 },
	{ RECOMPUTE_FULL, RECOMPUTE_BLOCK, 1 },
	{ RECOMPUTE_FULL, RECOMPUTE_BLOCK, 2 },
	{ RECOMPUTE_SELECTIVE, RECOMPUTE_UNIFORM, 1, RECOMPUTE_MLP },
};

enum { NUM_RECOMPUTES = sizeof recomputes / sizeof *recomputes };

/* Every combination of layout, type, optimizer sharing, use and recomputation, with some layers
 * that leave. */
static void
test_combinations(void)
{
	static const enum dtype dtypes[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64 };

	for (int i = 0; i < 4 * 4 * 16 * NUM_RECOMPUTES; i++) {
		int bits = i / NUM_RECOMPUTES;
		struct model_config c = tiny();
		struct layout l = { 1 << (bits & 3), 1 << (bits >> 2 & 1), 1 + (bits >> 4 & 1) * 2,
			1 << (bits >> 2 & 3) / 2, bits >> 7 & 1 };
		struct train_shape s = { 32, 2, 3, dtypes[bits >> 6 & 3], bits >> 5 & 1,
			optim_rules + (bits & 1), bits >> 3 & 1, recomputes[i % NUM_RECOMPUTES],
			.tp_comm_overlap = bits >> 6 & 1, .offloaded_layers = i % 5 };
		struct err e;

		s.context_form = bits & 3 || bits >> 5 & 1 ? CONTEXT_GATHER : CONTEXT_HEADS;
		c.untie_embeddings_and_output_weights = bits >> 4 & 1;
		c.qk_layernorm = bits >> 1 & 1;
		s.fp32_residual_connection = bits & 1;
		s.fp8.format = bits >> 2 & 1 ? FP8_HYBRID : FP8_NONE;
		s.fp8.history_len = 3;
		s.fp8.recipe = (enum fp8_recipe)(bits % 3);
		c.normalization = (enum normalization)(bits >> 5 & 1);
		c.activation = bits & 4 ? ACTIVATION_GELU_TANH : ACTIVATION_SWIGLU;
		CHECK(model_check(&c, &e) == 0 && layout_check(&l, &c, &e) == 0);
		check_all(&c, &l, &s);
	}
	/* Of larger models more: where all is small, so are the parts that fill gaps. */
	CHECK(100 * plans.tight >= 97 * plans.all);
}

/* Buffers of one list lie apart in a layer. */
static void
check_all_apart(const struct memory_plan *m, const int *of, size_t n)
{
	for (size_t i = 0; i < n * n; i++)
		check_apart(m, of[i / n], of[i % n], m->layer_bytes);
}

/* Of layers with experts and layers without, what only one of them has lies in the same bytes: a
 * layer of such a model takes no more than one of a model whose layers are alike. So it is in
 * scratch. */
static void
test_mixed(void)
{
	static const int dense[] = { ATTENTION_INPUT, ATTENTION_QKV, ATTENTION_OUT, MLP_INPUT,
		MLP_INPUT + FFN_NORM_OUT, MLP_FC1_OUT, MLP_ACT_OUT };
	static const int sparse[] = { ATTENTION_INPUT, ATTENTION_QKV, ATTENTION_OUT, MOE_INPUT,
		MOE_INPUT + FFN_NORM_OUT, MOE_IN, MOE_UP, MOE_PERMUTATION };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 1, 1 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	const int rank[AX_COUNT] = { 0 };
	struct memory_plan m, alike[2];

	c.activation = ACTIVATION_GELU_TANH;
	memory_plan(&alike[0], &c, &l, &s, rank);
	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	memory_plan(&alike[1], &c, &l, &s, rank);
	c.moe_layer_freq = pattern_every(2);
	memory_plan(&m, &c, &l, &s, rank);
	check_bounds(&m);
	check_all_apart(&m, dense, sizeof dense / sizeof *dense);
	check_all_apart(&m, sparse, sizeof sparse / sizeof *sparse);
	CHECK(m.layer_bytes ==
	    (alike[0].layer_bytes > alike[1].layer_bytes ? alike[0].layer_bytes
							 : alike[1].layer_bytes));
	CHECK(m.recompute_base ==
	    (alike[0].recompute_base > alike[1].recompute_base ? alike[0].recompute_base
							       : alike[1].recompute_base));
	memory_release(&m);
	/* Norms of dense layers are made in 8 bits, and those whose rows go to experts in 16. */
	s.fp8 = (struct fp8){ .format = FP8_HYBRID, .recipe = FP8_TENSORWISE };
	memory_plan(&m, &c, &l, &s, rank);
	CHECK(!memory_buffer(&m, MLP_INPUT + FFN_NORM_OUT)->bytes);
	CHECK(memory_buffer(&m, MOE_INPUT + FFN_NORM_OUT)->level == LAYER);
	CHECK(memory_buffer(&m, MLP_FC1_OUT)->level == LAYER);
	memory_release(&alike[0]);
	memory_release(&alike[1]);
	memory_release(&m);
}

/* Figures worked out by hand for the tiny model on one rank, bf16, Adam. */
static void
test_figures(void)
{
	struct model_config c = tiny();
	struct layout l = { 1, 1, 1, 1 }, two = { 1, 1, 2, 1 }, shared = { 1, 2, 1, 1 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	int coord[AX_COUNT] = { 0 };
	struct memory_plan m, half, recomputed;

	memory_plan(&m, &c, &l, &s, coord);
	CHECK(memory_buffer(&m, ATTENTION_QKV)->bytes == 64 * (64 + 2 * 16) * 2);
	CHECK(memory_buffer(&m, MLP_FC1_OUT)->bytes == 64 * 2 * 176 * 2);
	CHECK(memory_buffer(&m, ATTENTION_LSE)->bytes == 2 * 8 * 32 * 4);
	CHECK(memory_buffer(&m, BUF_ROPE)->bytes == 32 * 8 * 4);
	CHECK(memory_buffer(&m, HEAD_LOGITS)->bytes == 64 * 512 * 2);
	CHECK(m.use.slots == 1 && memory_buffer(&m, ATTENTION_NORM_MEAN)->bytes == 0 &&
	    m.use.stage_outputs == 1);
	CHECK(memory_buffer(&m, BUF_MASTER)->bytes == 2 * memory_buffer(&m, BUF_WEIGHTS)->bytes &&
	    memory_buffer(&m, BUF_GRADS)->bytes == 2 * memory_buffer(&m, BUF_WEIGHTS)->bytes);
	CHECK(memory_buffer(&m, BUF_STATE)->bytes == memory_buffer(&m, BUF_MASTER)->bytes);
	s.optim = (struct optim_types){ true, { DTYPE_BF16, DTYPE_F32 }, DTYPE_F32 };
	memory_plan(&half, &c, &l, &s, coord);
	CHECK(memory_buffer(&half, BUF_STATE)->bytes == memory_buffer(&m, BUF_WEIGHTS)->bytes &&
	    memory_buffer(&half, BUF_STATE + 1)->bytes == memory_buffer(&m, BUF_STATE + 1)->bytes);
	CHECK(m.arena[ARENA_PARAMS] - half.arena[ARENA_PARAMS] ==
	    memory_aligned(memory_buffer(&m, BUF_STATE)->bytes) -
		memory_aligned(memory_buffer(&m, BUF_WEIGHTS)->bytes));
	memory_release(&half);
	s.optim.low_bits = true;
	memory_plan(&half, &c, &two, &s, coord);
	CHECK(memory_buffer(&half, BUF_MASTER)->bytes == 0 &&
	    memory_buffer(&half, BUF_LOW_BITS)->bytes * 2 ==
		memory_buffer(&half, BUF_WEIGHTS)->bytes);
	memory_release(&half);
	s.optim.low_bits = false;
	s.optim.grads = DTYPE_BF16;
	s.sharding = SHARDING_GRADS;
	memory_plan(&half, &c, &two, &s, coord);
	CHECK(memory_buffer(&half, BUF_GRADS)->bytes * 2 ==
		memory_buffer(&half, BUF_WEIGHTS)->bytes &&
	    memory_buffer(&half, BUF_GRAD_SLOTS)->dtype == DTYPE_F32);
	memory_release(&half);
	s.sharding = SHARDING_OPTIM;
	s.optim.chosen = false;
	memory_plan(&half, &c, &two, &s, coord);
	CHECK(
	    memory_buffer(&half, BUF_MASTER)->bytes * 2 == memory_buffer(&half, BUF_GRADS)->bytes);
	memory_release(&half);
	/* Half the positions; k and v of all; gradients of 6 pieces of 8 positions, and of one from
	 * the other rank. */
	memory_plan(&half, &c, &shared, &s, coord);
	CHECK(memory_buffer(&half, ATTENTION_QKV)->bytes * 2 ==
		memory_buffer(&m, ATTENTION_QKV)->bytes &&
	    memory_buffer(&half, ATTENTION_LSE)->bytes == 2 * 8 * 16 * 4);
	CHECK(memory_buffer(&half, BUF_ROPE)->bytes == memory_buffer(&m, BUF_ROPE)->bytes &&
	    memory_buffer(&half, BUF_TOKENS)->bytes == 32 * 4);
	CHECK(memory_buffer(&half, ATTENTION_CONTEXT_KEYS)->bytes == 64 * 2 * 16 * 2);
	CHECK(memory_buffer(&half, ATTENTION_CONTEXT_PARTIAL)->bytes == 6 * 16 * 2 * 16 * 2);
	CHECK(memory_buffer(&half, ATTENTION_CONTEXT_SUMS)->bytes == 1 * 16 * 2 * 16 * 2);
	memory_release(&half);
	/* All positions of half the heads. */
	s.context_form = CONTEXT_HEADS;
	memory_plan(&half, &c, &shared, &s, coord);
	CHECK(!memory_buffer(&half, ATTENTION_CONTEXT_KEYS)->bytes &&
	    memory_buffer(&half, ATTENTION_CONTEXT_OUT)->bytes == 64 * 32 * 2);
	CHECK(memory_buffer(&half, ATTENTION_CONTEXT_QKV)->bytes ==
	    memory_buffer(&half, ATTENTION_QKV)->bytes);
	CHECK(memory_buffer(&half, ATTENTION_CONTEXT_PACKED)->bytes ==
	    memory_buffer(&half, ATTENTION_QKV)->bytes + 2 * 32 * 64 * 2);
	s.context_form = CONTEXT_GATHER;
	/* A hash of the loss and of each tensor, for two runs. */
	CHECK(memory_buffer(&m, BUF_HASHES)->bytes == 0);
	s.hashed = true;
	memory_plan(&recomputed, &c, &l, &s, coord);
	CHECK(memory_buffer(&recomputed, BUF_HASHES)->bytes ==
	    2 * 8 * (1 + (uint64_t)m.shards.count));
	memory_release(&recomputed);
	s.hashed = false;
	/* A gated activation is never saved; with selective recompute neither are the norms'
	 * outputs; with full recompute one input per layer is. */
	CHECK(memory_buffer(&m, MLP_ACT_OUT)->place == ARENA_SCRATCH &&
	    memory_buffer(&m, ATTENTION_NORM_OUT)->place == ARENA_SAVED);
	s.recompute.granularity = RECOMPUTE_SELECTIVE;
	memory_plan(&recomputed, &c, &l, &s, coord);
	CHECK(m.layer_bytes - recomputed.layer_bytes == 2 * 64 * 64 * 2);
	memory_release(&recomputed);
	/* The MLP from its norm on: what remains of it is the input and the norm. */
	s.recompute.modules = RECOMPUTE_MLP | RECOMPUTE_CORE_ATTN;
	memory_plan(&recomputed, &c, &l, &s, coord);
	CHECK(memory_buffer(&recomputed, MLP_FC1_OUT)->place == ARENA_SCRATCH);
	CHECK(memory_buffer(&recomputed, MLP_INPUT + FFN_NORM_OUT)->place == ARENA_SAVED);
	CHECK(m.layer_bytes - recomputed.layer_bytes == memory_buffer(&m, MLP_FC1_OUT)->bytes);
	memory_release(&recomputed);
	s.recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 };
	memory_plan(&recomputed, &c, &l, &s, coord);
	CHECK(recomputed.slot_bytes == recomputed.inputs_base + 4 * 64 * 64 * 2);
	CHECK(recomputed.arena[ARENA_SCRATCH] ==
	    recomputed.recompute_base + recomputed.layer_bytes +
		memory_buffer(&recomputed, BUF_STAGE_OUTPUT)->bytes);
	memory_release(&recomputed);
	memory_release(&half);
	memory_release(&m);
}

/* What other replicas push to a rank: their parts of the largest bucket, or as much of them as may
 * pass at a time; in BF16 always all. */
static void
test_data_ranks(void)
{
	static const int64_t vocab[] = { 512, 1 << 21 };
	struct layout l = { 1, 1, 4, 1 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, SHARDING_OPTIM, optim_rules, false, { 0 } };
	struct train_shape narrow = s, only = s;
	int coord[AX_COUNT] = { 0 };

	narrow.grad_reduce_in_bf16 = true;
	only.forward_only = true;
	for (size_t i = 0; i < sizeof vocab / sizeof *vocab; i++) {
		struct model_config c = tiny();
		struct memory_plan m;
		int64_t most = BUCKET_PASSING;

		c.vocab_size = vocab[i];
		memory_plan(&m, &c, &l, &s, coord);
		CHECK(i == 0 ? m.shards.largest < most : m.shards.largest / 4 * 3 > most);
		most = i == 0 ? m.shards.largest / 4 * 3 : most;
		CHECK(memory_buffer(&m, BUF_DATA_RANK_GRADS)->bytes == 4 * (uint64_t)most);
		memory_release(&m);
		memory_plan(&m, &c, &l, &narrow, coord);
		CHECK(memory_buffer(&m, BUF_DATA_RANK_GRADS)->bytes ==
		    2 * (uint64_t)m.shards.largest);
		memory_release(&m);
		memory_plan(&m, &c, &l, &only, coord);
		CHECK(memory_buffer(&m, BUF_DATA_RANK_GRADS)->bytes == 0);
		memory_release(&m);
	}
}

/* With --fp32-residual-connection only buffers between blocks are F32 in a 16-bit run; branches
 * then have a gradient of their own. */
static void
test_stream(void)
{
	static const int stream[] = { ATTENTION_INPUT, MLP_INPUT, HEAD_INPUT, BUF_STAGE_OUTPUT };
	static const enum dtype dtypes[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64 };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 1, 2 };

	for (int i = 0; i < 8; i++) {
		struct train_shape s = { 32, 2, 3, dtypes[i / 2], true, optim_rules, false, { 0 } };
		bool half = dtype_size(s.dtype) == 2;
		int coord[AX_COUNT] = { [AX_PP] = i % 2 };
		struct memory_plan m, w;
		uint64_t part[BLOCK_NUMBERS];

		memory_plan(&m, &c, &l, &s, coord);
		s.fp32_residual_connection = true;
		memory_plan(&w, &c, &l, &s, coord);
		sizes_of(&m, part);
		for (size_t k = 0; half && k < sizeof stream / sizeof *stream; k++)
			part[stream[k]] *= 2;
		part[BUF_DBRANCH] = half ? memory_buffer(&m, BUF_STAGE_OUTPUT)->bytes
					 : memory_buffer(&m, BUF_DBRANCH)->bytes;
		CHECK(has_sizes(&w, part));
		CHECK(memory_buffer(&w, BUF_STAGE_OUTPUT)->dtype == memory_compute(s.dtype));
		CHECK(!memory_buffer(&w, BUF_DBRANCH)->bytes ||
		    memory_buffer(&w, BUF_DBRANCH)->dtype == s.dtype);
		memory_release(&m);
		memory_release(&w);
	}
}

/* 8-bit operands: copies of the linears' weights on the rank, and of what one of them reads at a
 * time; histories with delayed scaling alone. Layers at the ends stay without. */
static void
test_fp8(void)
{
	enum { QKV = 64 + 2 * 16, OF_LAYER = 64 * (QKV + 64 + 2 * 176 + 176), SLOTS = 4 * 4 * 3 };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 1, 1 }, two = { 2, 1, 1, 2 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	int first[AX_COUNT] = { 0 }, second[AX_COUNT] = { [AX_PP] = 1 };
	struct memory_plan none, m;

	memory_plan(&none, &c, &l, &s, first);
	s.fp8 = (struct fp8){ .format = FP8_HYBRID, .history_len = 7 };
	memory_plan(&m, &c, &l, &s, first);
	CHECK(memory_buffer(&m, BUF_FP8_WEIGHTS)->bytes == 4 * OF_LAYER &&
	    memory_buffer(&m, BUF_FP8_TRANSPOSED)->bytes == 4 * OF_LAYER);
	CHECK(memory_buffer(&m, BUF_FP8_SCALE)->bytes == SLOTS * 4 * 4 &&
	    memory_buffer(&m, BUF_FP8_AMAX)->bytes == SLOTS * 4);
	CHECK(memory_buffer(&m, BUF_FP8_HISTORY)->bytes == SLOTS * 7 * 4 &&
	    memory_buffer(&m, BUF_FP8_LARGEST)->bytes == SLOTS * 4);
	CHECK(memory_buffer(&m, BUF_FP8_X)->bytes == 64 * 176 &&
	    memory_buffer(&m, BUF_FP8_DY)->bytes == 64 * 2 * 176);
	CHECK(memory_buffer(&m, BUF_FP8_X)->dtype == DTYPE_F8_E4M3 &&
	    memory_buffer(&m, BUF_FP8_DY)->dtype == DTYPE_F8_E5M2);
	CHECK(m.arena[ARENA_PARAMS] - none.arena[ARENA_PARAMS] ==
	    8 * OF_LAYER + memory_aligned(SLOTS * 4 * 4) + 2 * memory_aligned(SLOTS * 4) +
		memory_aligned(SLOTS * 7 * 4));
	/* Norms are made in 8 bits, two in a layer. */
	CHECK(memory_buffer(&none, ATTENTION_NORM_OUT)->bytes == 64 * 64 * 2 &&
	    !memory_buffer(&m, ATTENTION_NORM_OUT)->bytes);
	CHECK(none.arena[ARENA_SAVED] - m.arena[ARENA_SAVED] ==
	    (uint64_t)(none.use.slots * none.num_layers * 2) * 64 * 64 * 2);
	/* Activations are made in 8 bits, while the gradient of fc2's output waits; blocks must not
	 * have columns of both halves of theirs, which are 176 wide. */
	CHECK(memory_buffer(&none, MLP_ACT_OUT)->bytes && !memory_buffer(&m, MLP_ACT_OUT)->bytes);
	CHECK(memory_buffer(&m, BUF_FP8_FC2_DY_TRANSPOSED)->bytes == 64 * 64);
	memory_release(&m);
	s.fp8.recipe = FP8_BLOCKWISE;
	memory_plan(&m, &c, &l, &s, first);
	CHECK(memory_buffer(&m, MLP_ACT_OUT)->bytes &&
	    memory_buffer(&m, BUF_FP8_FC2_DY_TRANSPOSED_LINES)->bytes == 4 * 64);
	memory_release(&m);
	c.ffn_hidden_size = 256;
	memory_plan(&m, &c, &l, &s, first);
	CHECK(!memory_buffer(&m, MLP_ACT_OUT)->bytes);
	memory_release(&m);
	c.ffn_hidden_size = 176;
	s.fp8 = (struct fp8){
		.format = FP8_E4M3, .recipe = FP8_TENSORWISE, .bf16_first = 1, .bf16_last = 1
	};
	memory_plan(&m, &c, &two, &s, second);
	CHECK(m.block[0].layer == 2 && m.block[0].fp8 == 0 && m.block[1].fp8 == 0);
	CHECK(m.block[2].layer == 3 && m.block[2].fp8 == -1 && m.block[4].fp8 == -1);
	CHECK(memory_buffer(&m, BUF_FP8_WEIGHTS)->bytes == OF_LAYER / 2 &&
	    memory_buffer(&m, BUF_FP8_HISTORY)->bytes == 0);
	CHECK(memory_buffer(&m, MLP_ACT_OUT)->bytes);
	CHECK(memory_buffer(&m, BUF_FP8_DY)->dtype == DTYPE_F8_E4M3);
	memory_release(&m);
	/* Scales of blocks: 96 x 64 weights of q, k and v have one, on a row of 4. */
	s.fp8.recipe = FP8_BLOCKWISE;
	memory_plan(&m, &c, &l, &s, first);
	CHECK(memory_buffer(&m, BUF_FP8_SCALE)->bytes == 0);
	CHECK(memory_buffer(&m, BUF_FP8_SQUARES)->bytes == 2 * 4 * (4 + 4 + 3 * 4 + 4));
	CHECK(memory_buffer(&m, BUF_FP8_SQUARES_TRANSPOSED)->bytes == 2 * 4 * (4 + 4 + 4 + 2 * 4));
	CHECK(memory_buffer(&m, BUF_FP8_X_LINES)->bytes == 4 * 176 &&
	    memory_buffer(&m, BUF_FP8_DY_LINES)->bytes == 4 * 3 * 64);
	CHECK(memory_buffer(&m, BUF_FP8_DY_TRANSPOSED_LINES)->bytes == 4 * 2 * 176);
	memory_release(&m);
	s.fp8.recipe = FP8_TENSORWISE;
	s.forward_only = true;
	memory_plan(&m, &c, &two, &s, second);
	CHECK(memory_buffer(&m, BUF_FP8_X)->bytes &&
	    !memory_buffer(&m, BUF_FP8_TRANSPOSED)->bytes && !memory_buffer(&m, BUF_FP8_DY)->bytes);
	memory_release(&m);
	memory_release(&none);
}

/* Experts in every second layer: copies of the weights of those on the rank; of as many rows as
 * arrive, as wide as the wider side of a linear. */
static void
test_fp8_experts(void)
{
	enum { QKV = 64 + 2 * 16, ATTENTION = 64 * (QKV + 64), DENSE = 64 * 3 * 176 };
	enum { SPARSE = 64 * 3 * (4 * 48 + 80), ALL = 4 * ATTENTION + 2 * DENSE + 2 * SPARSE };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 2, 1, .expert_model_parallel_size = 2 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	const int rank[AX_COUNT] = { 0 };
	struct memory_plan m;

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	c.moe_shared_expert_intermediate_size = 80;
	c.moe_layer_freq = pattern_every(2);
	s.fp8 = (struct fp8){ .format = FP8_HYBRID, .recipe = FP8_BLOCKWISE };
	memory_plan(&m, &c, &l, &s, rank);
	CHECK(memory_buffer(&m, BUF_FP8_WEIGHTS)->bytes == ALL &&
	    memory_buffer(&m, BUF_FP8_TRANSPOSED)->bytes == ALL);
	CHECK(memory_buffer(&m, BUF_FP8_EXPERT)->bytes == 2 * 64 * 3 * 96);
	CHECK(memory_buffer(&m, BUF_FP8_EXPERT_LINES)->bytes == 4 * 2 * 64 * 3);
	CHECK(memory_buffer(&m, BUF_FP8_X)->bytes == 64 * 176 &&
	    memory_buffer(&m, BUF_FP8_FC2_DY_TRANSPOSED)->bytes == 64 * 64);
	/* fc1 of four experts: 384 x 64; fc2: 256 x 48; of the shared one 160 x 64 and 64 x 80 */
	CHECK(memory_buffer(&m, BUF_FP8_SQUARES)->bytes ==
	    4 * (4 * (4 + 4) + 2 * (3 * 4 + 4) + 2 * (3 * 4 + 2 * 4 + 2 * 4 + 4)));
	check_apart(&m, BUF_FP8_EXPERT, MOE_ACT, m.arena[ARENA_SCRATCH]);
	check_apart(&m, BUF_FP8_EXPERT, MOE_OUT, m.arena[ARENA_SCRATCH]);
	check_apart(&m, BUF_FP8_EXPERT, MOE_DACT, m.arena[ARENA_SCRATCH]);
	check_apart(&m, BUF_FP8_EXPERT, MOE_ROUTED, m.arena[ARENA_SCRATCH]);
	memory_release(&m);
}

/* Slots and their numbers belong to each other. */
static void
test_fp8_slots(void)
{
	struct model_config c = tiny();

	for (int64_t i = 0; i < fp8_num_slots(&c); i++) {
		struct fp8_slot s = fp8_slot_at(&c, i);

		CHECK(s.layer >= 0 && s.layer < 4 && s.linear < FP8_LINEARS);
		CHECK(s.operand < FP8_OPERANDS && fp8_slot_number(&c, &s) == i);
	}
	CHECK(fp8_num_slots(&c) == 4 * 4 * FP8_OPERANDS);
	c.num_experts = 8;
	for (int64_t i = 0; i < fp8_num_slots(&c); i++) {
		struct fp8_slot s = fp8_slot_at(&c, i);

		CHECK(s.layer < 4 && s.linear < FP8_LINEARS && fp8_slot_number(&c, &s) == i);
	}
	CHECK(fp8_num_slots(&c) == 4 * 8 * FP8_OPERANDS);
}

/* Checkpoints hold scales by these numbers. */
_Static_assert(FP8_QKV == 0 && FP8_PROJ == 1 && FP8_FC1 == 2 && FP8_FC2 == 3 &&
	FP8_EXPERT_FC1 == 4 && FP8_EXPERT_FC2 == 5 && FP8_SHARED_FC1 == 6 && FP8_SHARED_FC2 == 7,
    "slots of scales");

/* Each number has the linear that it has had in checkpoints from the first on. */
static void
test_fp8_linears(void)
{
	static const int first[] = { ATTENTION_Q, ATTENTION_PROJ, MLP_GATE, MLP_DOWN,
		MOE_EXPERT_GATE, MOE_EXPERT_DOWN, MOE_SHARED_GATE, MOE_SHARED_DOWN };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 1, 1 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	struct sizes z;
	struct linear_list x;

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	c.moe_shared_expert_intermediate_size = 80;
	c.moe_layer_freq = pattern_every(2);
	z = sizes_of_rank(&c, &l, &s, 0);
	x = model_linears(&z);
	CHECK(x.count == FP8_LINEARS);
	for (int i = 0; i < FP8_LINEARS; i++)
		CHECK(linear_of(&x, (enum fp8_linear)i)->first == first[i]);
	c.moe_layer_freq = (struct layer_pattern){ 0 };
	x = model_linears(&z);
	CHECK(x.count == FP8_LINEARS - 2 && !linear_of(&x, FP8_FC1));
	c.num_experts = 0;
	c.activation = ACTIVATION_GELU_TANH;
	x = model_linears(&z);
	CHECK(x.count == 4 && linear_of(&x, FP8_FC1)->first == MLP_UP);
}

/* The rows between blocks are shared over four tensor ranks, all others are whole on each; the rows
 * that one GEMM at a time needs have one buffer. */
static void
test_row_shards(void)
{
	static const int shared[] = { ATTENTION_INPUT, ATTENTION_NORM_RSTD, ATTENTION_NORM_OUT,
		MLP_INPUT, MLP_INPUT + FFN_NORM_RSTD, MLP_INPUT + FFN_NORM_OUT, HEAD_INPUT,
		HEAD_NORM_RSTD, HEAD_NORM_OUT, HEAD_GRAD, BUF_STAGE_OUTPUT, BUF_BRANCH, BUF_DNORM };
	struct model_config c = tiny();
	struct layout plain = { 4, 1, 1, 2 }, rows = { 4, 1, 1, 2, true };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false, { 0 } };
	struct train_shape overlap = s;

	overlap.tp_comm_overlap = true;
	for (int pp = 0; pp < 2; pp++) {
		int coord[AX_COUNT] = { [AX_PP] = pp };
		struct memory_plan m, w;
		uint64_t part[BLOCK_NUMBERS];

		memory_plan(&m, &c, &plain, &s, coord);
		memory_plan(&w, &c, &rows, &s, coord);
		sizes_of(&m, part);
		for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
			part[shared[i]] /= 4;
		CHECK(memory_buffer(&m, BUF_GATHERED)->bytes == 0);
		part[BUF_GATHERED] = memory_buffer(&m, BUF_STAGE_OUTPUT)->bytes;
		CHECK(has_sizes(&w, part));
		CHECK(memory_total(&w) < memory_total(&m));
		memory_release(&m);
		memory_release(&w);
		/* With overlap, the gathered rows and those to be scattered are alive at the same
		 * time, and so are the partial sums that three other ranks send. */
		memory_plan(&m, &c, &plain, &overlap, coord);
		memory_plan(&w, &c, &rows, &overlap, coord);
		part[BUF_PARTIAL] = part[BUF_DGATHERED] = part[BUF_GATHERED];
		part[BUF_PARTIAL_SUMS] = part[BUF_GATHERED] / 4 * 3;
		CHECK(memory_buffer(&m, BUF_PARTIAL_SUMS)->bytes == part[BUF_PARTIAL_SUMS]);
		CHECK(has_sizes(&w, part));
		CHECK(!memory_buffer(&m, BUF_PARTIAL)->bytes &&
		    !memory_buffer(&m, BUF_DGATHERED)->bytes);
		memory_release(&m);
		memory_release(&w);
	}
}

/* Rows that the tensor ranks cannot divide evenly are summed whole. */
static void
test_parts(void)
{
	struct model_config c = tiny();
	struct layout l = { 4, 1, 1, 1 };
	struct train_shape s = { 32, 1, 1, DTYPE_BF16, SHARDING_NONE, optim_rules, false, { 0 },
		.tp_comm_overlap = true };
	int coord[AX_COUNT] = { 0 };

	for (s.seq_length = 30; s.seq_length <= 32; s.seq_length++) {
		struct memory_plan m;

		memory_plan(&m, &c, &l, &s, coord);
		CHECK(memory_buffer(&m, BUF_PARTIAL_SUMS)->bytes ==
		    (s.seq_length == 32 ? 24 * (uint64_t)c.hidden_size * 2 : 0));
		memory_release(&m);
	}
}

/* Figures of cuDNN 9.19 for compute capability 9.0, with dq's sum added: the plan is never less and
 * at most a page more. */
static void
test_attention(void)
{
	static const struct {
		struct attention_shape a;
		uint64_t plan;
	} known[] = {
		{ { 64, 1024, 1024, 12, 12, 64, true, false }, 256 },
		{ { 4, 4096, 4096, 32, 8, 128, true, false }, 268435712 },
		{ { 4, 4096, 4096, 32, 8, 128, true, true }, 4563403008 },
		{ { 3, 137, 137, 4, 1, 128, true, true }, 2021632 },
		{ { 2, 200, 200, 8, 2, 64, true, true }, 2916608 },
		{ { 2, 300, 300, 4, 2, 256, true, true }, 4423936 },
		{ { 1, 70, 70, 3, 3, 40, true, true }, 98560 },
		{ { 3, 2, 2, 4, 2, 64, true, true }, 203008 },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const struct attention_shape *a = &known[i].a;
		uint64_t sum = a->backward && !a->deterministic
		    ? (uint64_t)(4 * a->micro_batch_size * a->num_heads * a->num_queries *
			  a->head_dim)
		    : 0;
		uint64_t got = attention_workspace(a);

		CHECK(got >= known[i].plan + sum && got <= known[i].plan + sum + 4096);
		CHECK(got % 256 == 0);
	}
	CHECK(attention_workspace(
		  &(struct attention_shape){ 64, 1024, 1024, 12, 12, 64, false, true }) == 0);
	CHECK(attention_workspace(
		  &(struct attention_shape){ 1, 65536, 65536, 32, 8, 128, true, true }) == 0);
}

/* Whether the kernels for Hopper take such heads. */
static bool
takes(int64_t head_dim, bool capped, bool dropped, int64_t seq_length)
{
	struct attention_kind k = { head_dim, true, capped, dropped };

	return hopper_takes(&k, seq_length);
}

/* The backward pass for Hopper: dq in whole tiles, of few heads their parts of dk and dv, three
 * statistics a row, counters. */
static void
test_hopper_attention(void)
{
	static const struct {
		struct attention_shape a;
		uint64_t sums, parts, statistics, counters;
	} known[] = {
		{ { 4, 4096, 4096, 32, 8, 128, true, false }, 256 << 20, 0, 6 << 20, 33796 },
		{ { 2, 8192, 8192, 32, 8, 128, true, true }, 256 << 20, 0, 6 << 20, 33796 },
		{ { 1, 8192, 8192, 8, 2, 128, true, true }, 32 << 20, 64 << 20, 786432, 4612 },
		{ { 1, 8192, 8192, 8, 8, 128, true, true }, 32 << 20, 0, 786432, 4612 },
		{ { 64, 1024, 1024, 12, 12, 64, true, false }, 192 << 20, 0, 9 << 20, 28676 },
		{ { 3, 137, 137, 4, 1, 128, true, true }, 1179648, 1683456, 27648, 196 },
		{ { 1, 65, 200, 2, 1, 40, true, false }, 65536, 204800, 3072, 28 },
		{ { 2, 8192, 8192, 8, 4, 256, true, false }, 128 << 20, 0, 1536 << 10, 18436 },
		{ { 1, 130, 130, 2, 1, 136, true, false }, 393216, 532480, 4608, 76 },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		uint64_t got = hopper_workspace(&known[i].a),
			 want = known[i].sums + known[i].parts + known[i].statistics +
		    known[i].counters;

		CHECK(got == (want + 255) / 256 * 256);
	}
	CHECK(
	    takes(64, false, false, 7) && takes(128, true, false, 7) && takes(72, true, false, 7));
	CHECK(takes(136, false, false, 7) && takes(256, true, false, 7));
	CHECK(!takes(64, true, false, 8) && !takes(264, false, false, 8));
	CHECK(!takes(60, false, false, 8));
	CHECK(takes(64, false, true, 8) && takes(128, false, true, 8));
	CHECK(!takes(136, false, true, 8) && !takes(128, true, true, 8) &&
	    !takes(64, false, true, 7));
}

/* A run plans it for that GPU, with documents and caps too, and for one that is not known the
 * larger of the two. Of context ranks the stretch with the fewest keys may need the most. */
static void
test_run_hopper(void)
{
	struct model_config c = tiny();
	struct layout one = { 1, 1, 1, 1 }, shared = one;
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false };
	struct attention_shape a = { 2, 32, 32, 8, 2, 8, true, false };
	uint64_t fast, own = hopper_workspace(&a);

	c.attention_dropout = 0;
	fast = attention_run_workspace(&c, &one, &s);
	s.hopper = HOPPER_NAMED;
	CHECK(own > fast && attention_run_workspace(&c, &one, &s) == own);
	c.attention_dropout = 0.1;
	CHECK(attention_run_workspace(&c, &one, &s) == own && hopper_serves(&c, &s, false));
	s.seq_length = 30; /* no multiple of 4 */
	CHECK(attention_run_workspace(&c, &one, &s) == 0 && !hopper_serves(&c, &s, true));
	s.seq_length = 32;
	c.attention_dropout = 0;
	s.reset_attention_mask = s.deterministic = true;
	CHECK(attention_run_workspace(&c, &one, &s) == own);
	s.reset_attention_mask = s.deterministic = false;
	s.hopper = HOPPER_YES; /* the table has no heads of 8 */
	CHECK(attention_run_workspace(&c, &one, &s) == fast && !hopper_serves(&c, &s, true));
	s.hopper = HOPPER_NAMED;
	CHECK(hopper_serves(&c, &s, false));
	c.attn_logit_softcapping = 50;
	CHECK(attention_run_workspace(&c, &one, &s) == 0);
	c.kv_channels = 128;
	CHECK(attention_run_workspace(&c, &one, &s) > own);
	c.kv_channels = a.head_dim = 256;
	CHECK(attention_run_workspace(&c, &one, &s) == hopper_workspace(&a));
	s.dtype = DTYPE_F32;
	CHECK(attention_run_workspace(&c, &one, &s) == 0);
	c = tiny();
	c.attention_dropout = 0;
	c.num_attention_heads = 8;
	c.num_query_groups = 4;
	c.kv_channels = 128;
	s = (struct train_shape){ 65536, 1, 3, DTYPE_BF16, true, optim_rules, false };
	s.hopper = HOPPER_YES;
	a = (struct attention_shape){ 1, 65536, 65536, 8, 4, 128, true, false };
	CHECK(attention_run_workspace(&c, &one, &s) == hopper_workspace(&a));
	shared.context_parallel_size = 4;
	a = (struct attention_shape){ 1, 8192, 8192, 8, 4, 128, true, false };
	CHECK(attention_run_workspace(&c, &shared, &s) == hopper_workspace(&a));
	CHECK(hopper_serves(&c, &s, false));
	s.hopper = HOPPER_NO;
	fast = attention_run_workspace(&c, &one, &s);
	CHECK(fast != hopper_workspace(&a) && !hopper_serves(&c, &s, true));
	s.hopper = HOPPER_PERHAPS;
	a = (struct attention_shape){ 1, 65536, 65536, 8, 4, 128, true, false };
	own = hopper_workspace(&a);
	CHECK(attention_run_workspace(&c, &one, &s) == (own > fast ? own : fast));
	CHECK(hopper_serves(&c, &s, true) && !hopper_serves(&c, &s, false));
}

/* Runs that do not use cuDNN plan no workspace; tensor ranks share the heads. */
static void
test_run_attention(void)
{
	struct model_config c = tiny();
	struct layout one = { 1, 1, 1, 1 }, two = { 2, 1, 1, 1 };
	struct train_shape s = { 32, 2, 3, DTYPE_BF16, true, optim_rules, false }, f = s;

	c.attention_dropout = 0;
	CHECK(attention_run_workspace(&c, &one, &s) == 4096 + 2 * 2 * 8 * 32 * 8 * 4);
	CHECK(attention_run_workspace(&c, &two, &s) == 4096 + 2 * 2 * 4 * 32 * 8 * 4);
	f.deterministic = true;
	CHECK(attention_run_workspace(&c, &one, &f) ==
	    4096 + 2 * 8 * 32 * 8 * 4 + 2 * 2 * 8 * 64 * 128);
	f.dtype = DTYPE_F32;
	CHECK(attention_run_workspace(&c, &one, &f) == 0);
	f = s;
	f.forward_only = true;
	CHECK(attention_run_workspace(&c, &one, &f) == 0);
	f = s;
	f.reset_attention_mask = true;
	CHECK(attention_run_workspace(&c, &one, &f) == 0);
	c.attention_dropout = 0.1; /* cuDNN's has masks of its own */
	f = s;
	f.hopper = HOPPER_NO;
	CHECK(attention_run_workspace(&c, &one, &f) == 0);
	c.attention_dropout = 0;
	c.attn_logit_softcapping = 50;
	CHECK(attention_run_workspace(&c, &one, &s) == 0);
	c.attn_logit_softcapping = 0;
	c.kv_channels = 12;
	CHECK(attention_run_workspace(&c, &one, &s) == 0);
}

/* An average is as large as the masters of the rank, and lies with its ring on the host. */
static void
test_average(void)
{
	struct model_config c = tiny();
	struct layout l = { .tensor_model_parallel_size = 1,
		.pipeline_model_parallel_size = 1,
		.context_parallel_size = 1,
		.data_parallel_size = 4 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 1,
		.num_microbatches = 1,
		.dtype = DTYPE_BF16,
		.sharding = SHARDING_OPTIM,
		.rule = &optim_rules[0] };
	int coord[AX_COUNT] = { 0 };
	struct memory_plan without, with;
	struct bucket_chunk p = { 0 };
	int64_t own = 0;

	memory_plan(&without, &c, &l, &s, coord);
	s.averaged = true;
	memory_plan(&with, &c, &l, &s, coord);
	check_sums(&with);
	check_levels(&with);
	CHECK(without.arena[ARENA_HOST] == 0 && memory_total(&with) == memory_total(&without));
	CHECK(memory_buffer(&with, BUF_AVERAGE)->bytes == memory_buffer(&with, BUF_MASTER)->bytes);
	CHECK(memory_buffer(&with, BUF_STAGING_RING)->bytes ==
	    2 * sizeof(float) * (uint64_t)(with.shards.largest / 4));
	for (; memory_bucket_chunk(&with, &p); own += p.part.count)
		CHECK(p.part.in_optim == own &&
		    2 * (uint64_t)p.part.count * sizeof(float) <=
			memory_buffer(&with, BUF_STAGING_RING)->bytes);
	CHECK(own == with.optim_elements);
	memory_release(&without);
	memory_release(&with);
}

/* Of two instances of two data ranks each that share the optimizer's state every rank has half of
 * it, and as much of weights and gradients as without. */
static void
test_instances(void)
{
	static const int held[] = { BUF_WEIGHTS, BUF_GRADS, BUF_GRAD_SLOTS },
			 owned[] = { BUF_MASTER, BUF_STATE, BUF_STATE + 1 };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 4, 1, .optimizer_instances = 2 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 1,
		.num_microbatches = 1,
		.dtype = DTYPE_BF16,
		.sharding = SHARDING_PARAMS,
		.rule = &optim_rules[0] };
	int coord[AX_COUNT] = { 0 };
	struct memory_plan all, part;

	memory_plan(&all, &c, &l, &s, coord);
	l.outer_sharding = OUTER_OPTIM;
	memory_plan(&part, &c, &l, &s, coord);
	check_sums(&part);
	check_levels(&part);
	for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
		uint64_t bytes = memory_buffer(&all, held[i])->bytes;

		CHECK(bytes && memory_buffer(&part, held[i])->bytes == bytes);
	}
	for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
		uint64_t bytes = memory_buffer(&all, owned[i])->bytes;

		CHECK(bytes && 2 * memory_buffer(&part, owned[i])->bytes == bytes);
	}
	CHECK(memory_total(&part) < memory_total(&all));
	memory_release(&all);
	memory_release(&part);
}

/* What the host updates leaves the device, except for weights and gradients, and comes to the host
 * with a copy of the weights. */
static void
test_offload(void)
{
	static const int moved[] = { BUF_LOW_BITS, BUF_STATE, BUF_STATE + 1 };
	struct model_config c = tiny();
	struct layout l = { .tensor_model_parallel_size = 1,
		.pipeline_model_parallel_size = 1,
		.context_parallel_size = 1,
		.data_parallel_size = 2 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 1,
		.num_microbatches = 1,
		.dtype = DTYPE_BF16,
		.sharding = SHARDING_OPTIM,
		.rule = &optim_rules[0],
		.bucket_size = 4096,
		.optim = { true, { DTYPE_F32, DTYPE_F32 }, DTYPE_F32, true } };
	int coord[AX_COUNT] = { 0 };
	struct memory_plan all, m;

	memory_plan(&all, &c, &l, &s, coord);
	CHECK(all.optim_device == all.optim_elements && all.arena[ARENA_HOST] == 0);
	for (int share = 1; share <= 4; share++) {
		int64_t host;

		s.optimizer_offload = share / 4.0;
		memory_plan(&m, &c, &l, &s, coord);
		check_sums(&m);
		check_levels(&m);
		host = m.optim_elements - m.optim_device;
		CHECK(share < 4 ? host > 0 && m.optim_device > 0 : m.optim_device == 0);
		for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
			int twin = memory_host_copy(moved[i]);

			CHECK(memory_has(&m, moved[i]) &&
			    memory_buffer(&m, twin)->place == ARENA_HOST);
			CHECK(memory_buffer(&m, moved[i])->bytes + memory_buffer(&m, twin)->bytes ==
			    memory_buffer(&all, moved[i])->bytes);
			CHECK(memory_buffer(&m, twin)->shape[0] == host);
		}
		CHECK(memory_buffer(&m, BUF_HOST_WEIGHTS)->bytes == 2 * (uint64_t)host);
		CHECK(memory_buffer(&m, BUF_WEIGHTS)->bytes ==
		    memory_buffer(&all, BUF_WEIGHTS)->bytes);
		CHECK(memory_buffer(&m, BUF_GRADS)->bytes == memory_buffer(&all, BUF_GRADS)->bytes);
		memory_release(&m);
	}
	memory_release(&all);
}

/* Chunks of a stage with different numbers of layers: what a larger one has beyond a slot is in a
 * tail, of which there are as many as such chunks are in flight. */
static void
test_tails(void)
{
	static const struct {
		int split[6], slot_layers[2], slots[2], tails[2];
	} cases[] = {
		{ { 2, 2, 2, 2, 2, 2 }, { 2, 2 }, { 7, 5 }, { 0, 0 } },
		{ { 3, 2, 2, 2, 2, 1 }, { 2, 2 }, { 7, 5 }, { 4, 0 } },
		{ { 2, 2, 2, 3, 3, 0 }, { 2, 2 }, { 7, 5 }, { 2, 2 } },
		{ { 1, 1, 1, 1, 4, 4 }, { 1, 1 }, { 7, 5 }, { 2, 1 } },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases * NUM_RECOMPUTES * 3; i++) {
		size_t k = i / 3 / NUM_RECOMPUTES;
		struct model_config c = tiny();
		struct layout l = { 1, 1, 1, 2, .virtual_stages = 3 };
		struct train_shape s = { .seq_length = 32,
			.micro_batch_size = 2,
			.num_microbatches = 8,
			.dtype = DTYPE_BF16,
			.rule = optim_rules,
			.recompute = recomputes[i / 3 % NUM_RECOMPUTES],
			.offloaded_layers = (int64_t)i % 3 };

		c.num_layers = 12;
		memcpy(l.split, cases[k].split, sizeof cases[k].split);
		for (int stage = 0; stage < 2; stage++) {
			struct memory_plan m;

			memory_plan(&m, &c, &l, &s, (const int[AX_COUNT]){ [AX_PP] = stage });
			check_levels(&m);
			check_sums(&m);
			check_layers(&m);
			check_activation_offload(&m);
			check_copies(&m);
			CHECK(m.slot_layers == cases[k].slot_layers[stage] &&
			    m.use.slots == cases[k].slots[stage] &&
			    m.use.tails == cases[k].tails[stage]);
			memory_release(&m);
		}
	}
}

/* Of experts: rows of a rank, and of all ranks that share them, whose tokens have at most as many
 * of their k as the rank has experts, or slices of twice as many, half as wide; a choice outlives
 * recomputation, and what follows from it is in scratch. */
static void
test_experts(void)
{
	static const int backward[] = { MOE_ROUTED, MOE_ROUTED_WEIGHT, MOE_ACT, MOE_OUT, MOE_DACT,
		MOE_DWEIGHT, MOE_DTOPK_WEIGHT, MOE_DLOGITS, MOE_SHARED_ACT, MOE_SHARED_DACT,
		BUF_DNORM, BUF_DBRANCH };
	static const struct memory_copy first;
	enum { SOME = sizeof backward / sizeof *backward };
	struct model_config c = tiny();
	struct layout one = { 1, 1, 1, 1 }, four = { 1, 1, 4, 1, .expert_model_parallel_size = 4 },
		      slices = { 1, 1, 4, 1, .expert_model_parallel_size = 2,
			      .expert_tensor_parallel_size = 2 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 3,
		.num_microbatches = 4,
		.dtype = DTYPE_BF16,
		.rule = &optim_rules[0],
		.recompute = { RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 2 } };
	const int rank[AX_COUNT] = { 0 };
	struct memory_plan a, b, half;

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	c.moe_shared_expert_intermediate_size = 80;
	memory_plan(&a, &c, &one, &s, rank);
	memory_plan(&b, &c, &four, &s, rank);
	memory_plan(&half, &c, &slices, &s, rank);
	CHECK(memory_buffer(&a, MOE_IN)->shape[0] == 96 * 3 &&
	    memory_buffer(&b, MOE_IN)->shape[0] == 4 * 96 * 2);
	CHECK(memory_buffer(&a, MOE_ROUTED)->bytes == 0 &&
	    memory_buffer(&b, MOE_ROUTED)->shape[0] == 96 * 3);
	CHECK(memory_buffer(&b, MOE_UP)->shape[1] == 96 &&
	    memory_buffer(&b, MOE_LOGITS)->dtype == DTYPE_F32);
	CHECK(memory_buffer(&half, MOE_IN)->shape[0] == 4 * 96 * 3 &&
	    memory_buffer(&half, MOE_ROUTED)->shape[0] == 96 * 6);
	CHECK(memory_buffer(&half, MOE_UP)->shape[1] == 48 &&
	    memory_buffer(&half, MOE_PERMUTATION)->shape[1] == 6);
	CHECK(memory_buffer(&half, MOE_EXPERT_ROWS)->shape[0] == 4 &&
	    memory_buffer(&half, MOE_EXPERT_ROWS)->shape[1] == 16);
	CHECK(half.shards.elements == b.shards.elements);
	for (int64_t layer = 0; layer < 4; layer++) {
		struct memory_place choice = memory_at(&b, MOE_TOPK, &first, layer),
				    place = memory_at(&b, MOE_PERMUTATION, &first, layer);

		CHECK(choice.arena == ARENA_SAVED && place.arena == ARENA_SCRATCH);
		CHECK(choice.offset ==
		    memory_at(&b, MOE_TOPK, &first, 0).offset + (uint64_t)layer * b.kept_bytes);
		CHECK(choice.offset + memory_buffer(&b, MOE_TOPK)->bytes <= b.slot_bytes);
	}
	CHECK(
	    memory_instances(&b, MOE_TOPK, ARENA_SAVED) == 4 * memory_buffer(&b, MOE_TOPK)->copies);
	for (int i = 0; i < SOME * SOME; i++)
		check_apart(&b, backward[i / SOME], backward[i % SOME], b.arena[ARENA_SCRATCH]);
	memory_release(&a);
	memory_release(&b);
	memory_release(&half);
}

/* Room for some of the rows that may arrive: what is kept of a layer shrinks to that of a round,
 * and further rounds have room of their own in scratch. */
static void
test_windows(void)
{
	static const int shared[] = { MOE_ROUTED, MOE_ROUTED_INPUT, MOE_ROUND_IN, MOE_ROUND_WEIGHT,
		MOE_ROUND_UP, MOE_OUT, MOE_DACT, BUF_DNORM };
	enum { SOME = sizeof shared / sizeof *shared };
	struct model_config c = tiny();
	struct layout four = { 1, 1, 4, 1, .expert_model_parallel_size = 4 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 3,
		.num_microbatches = 4,
		.dtype = DTYPE_BF16,
		.rule = &optim_rules[0] };
	const int rank[AX_COUNT] = { 0 };
	struct memory_plan all, m;
	struct received_rows a;

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	memory_plan(&all, &c, &four, &s, rank);
	s.expert_rank_capacity = 1.05;
	a = capacity_received(&c, &four, &s);
	CHECK(a.most == 4 * 96 * 2 && a.round == 304 && a.rounds == 3);
	memory_plan(&m, &c, &four, &s, rank);
	check_sums(&m);
	CHECK(memory_buffer(&m, MOE_IN)->shape[0] == 304 &&
	    memory_buffer(&m, MOE_ROUND_UP)->shape[0] == 304);
	CHECK(m.layer_bytes < all.layer_bytes && memory_buffer(&all, MOE_ROUND_IN)->bytes == 0);
	for (int i = 0; i < SOME * SOME; i++)
		check_apart(&m, shared[i / SOME], shared[i % SOME], m.arena[ARENA_SCRATCH]);
	s.expert_rank_capacity = 2.7;
	a = capacity_received(&c, &four, &s);
	CHECK(a.round == a.most && a.rounds == 1);
	s.expert_capacity = 1.01; /* of 36 rows: 37 */
	a = capacity_received(&c, &four, &s);
	CHECK(a.most == 4 * 2 * 37 && a.rounds == 1);
	s.expert_capacity = 0;
	four.expert_model_parallel_size = 1;
	s.expert_rank_capacity = 0.01;
	a = capacity_received(&c, &four, &s);
	CHECK(a.most == 96 * 3 && a.rounds == 1);
	memory_release(&m);
	memory_release(&all);
}

/* Experts of four ranks on two hosts, and on four: rows of a turn, those of the other hosts, which
 * are saved where rounds are repeated, and what passes between hosts, apart from what experts use
 * meanwhile. */
static void
test_turns(void)
{
	static const int live[] = { MOE_ROUTED, MOE_ROUTED_WEIGHT, MOE_ROUTED_INPUT, MOE_ROUND_IN,
		MOE_ROUND_UP, MOE_OUT, MOE_DACT, MOE_GUEST_GRAD, MOE_GUEST_SUM, MOE_GUEST_DWEIGHT,
		MOE_HOST_SUMS, MOE_HOST_DWEIGHT, MOE_DTOPK_WEIGHT, BUF_DNORM };
	enum { LIVE = sizeof live / sizeof *live };
	struct model_config c = tiny();
	struct layout l = { 1, 1, 4, 1, .expert_model_parallel_size = 4 };
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 3,
		.num_microbatches = 4,
		.dtype = DTYPE_BF16,
		.rule = &optim_rules[0] };
	const int rank[AX_COUNT] = { 0 };

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 48;
	for (l.expert_hosts = 2; l.expert_hosts <= 4; l.expert_hosts += 2)
		for (int factor = 0; factor < 2; factor++) {
			int64_t h = l.expert_hosts, most = 4 / h * 96 * 2;
			struct memory_plan m;
			struct received_rows a;

			s.expert_rank_capacity = factor;
			a = capacity_received(&c, &l, &s);
			CHECK(a.most == most &&
			    a.round == (factor ? (96 * 3 / h + 15) / 16 * 16 : most));
			memory_plan(&m, &c, &l, &s, rank);
			check_sums(&m);
			CHECK(memory_buffer(&m, MOE_IN)->shape[0] == h * a.round);
			CHECK(memory_buffer(&m, MOE_OUT)->shape[0] == a.round);
			CHECK(memory_buffer(&m, MOE_PERMUTATION)->shape[0] == h * 96);
			CHECK(memory_buffer(&m, MOE_EXPERT_ROWS)->shape[0] == 4 &&
			    memory_buffer(&m, MOE_EXPERT_ROWS)->shape[1] == 8 / h);
			CHECK(memory_buffer(&m, MOE_GUESTS)->shape[0] == (h - 1) * 96);
			CHECK((memory_buffer(&m, MOE_GUESTS)->place == ARENA_SAVED) == factor);
			for (int i = 0; i < LIVE * LIVE; i++)
				check_apart(
				    &m, live[i / LIVE], live[i % LIVE], m.arena[ARENA_SCRATCH]);
			memory_release(&m);
		}
}

int
main(void)
{
	test_tails();
	test_experts();
	test_windows();
	test_turns();
	test_combinations();
	test_mixed();
	test_attention();
	test_run_attention();
	test_hopper_attention();
	test_run_hopper();
	test_figures();
	test_data_ranks();
	test_stream();
	test_fp8();
	test_fp8_experts();
	test_fp8_slots();
	test_fp8_linears();
	test_row_shards();
	test_parts();
	test_average();
	test_instances();
	test_offload();
	return check_done();
}
