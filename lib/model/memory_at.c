/* memory_at.c - which buffers a plan has, and where they lie */
#include "lib/base/int64.h"
#include "lib/model/memory.h"

/* Whether it is the input of a block with which a chunk of recomputed layers may begin. */
static bool
is_saved_input(const struct memory_plan *m, int number)
{
	int kind = number >> BLOCK_SHIFT;

	return m->recompute_kinds >> kind & 1 && block_kinds[kind - 1]->input == number;
}

/* The bytes of a unit come first in its place. */
struct memory_offloaded
memory_offloaded(const struct memory_plan *m, int slot, int number)
{
	int64_t inputs = int64_min(number, m->offload_inputs), layers = number - inputs;
	bool input = number < m->offload_inputs;

	return (struct memory_offloaded){ m->offload_base +
		    m->offload_bytes * (uint64_t)(number % m->activation_offload.places),
		m->offload_host + m->offload_host_bytes * (uint64_t)slot +
		    m->input_bytes * (uint64_t)inputs + m->layer_bytes * (uint64_t)layers,
		input ? memory_buffer(m, m->recompute_input)->bytes : m->layer_bytes };
}

/* The place of bytes that have this offset in a slot with room for all layers. */
static uint64_t
saved_at(const struct memory_plan *m, const struct memory_copy *copy, uint64_t offset)
{
	if (offset < m->slot_bytes)
		return m->slot_bytes * (uint64_t)copy->slot + offset;
	return m->tail_base + m->tail_bytes * (uint64_t)copy->tail + offset - m->slot_bytes;
}

/* A buffer of a unit, which lies among those of its slot or tail that stay, or in the place of one
 * that leaves. */
static struct memory_place
unit_at(const struct memory_plan *m, const struct buffer *b, const struct memory_copy *copy,
    int64_t layer)
{
	int64_t unit = layer / m->activation_offload.layers,
		stay = unit - activation_offload_before(&m->activation_offload, unit),
		inputs = m->recompute_inputs - m->offload_inputs;
	int number = activation_offload_number(&m->activation_offload, layer);
	bool input = layer < m->recompute_layers;
	uint64_t in = input ? 0 : b->offset, at;

	if (number >= 0)
		at = memory_offloaded(m, 0, number).device;
	else if (input)
		at = saved_at(m, copy, m->inputs_base + m->input_bytes * (uint64_t)stay);
	else
		at = saved_at(m, copy, m->layer_base + m->layer_bytes * (uint64_t)(stay - inputs));
	return (struct memory_place){ ARENA_SAVED, at + in };
}

const struct buffer *
memory_buffer(const struct memory_plan *m, int number)
{
	static const struct buffer none = { .name = NULL };

	return m->at[number] ? &m->buffer[m->at[number] - 1] : &none;
}

uint64_t
memory_later_bytes(const struct memory_plan *m)
{
	return m->later_bytes + m->kept_bytes + m->layer_bytes;
}

/* The offset in a slot of a buffer of a layer after the head: its own buffers come first, then what
 * every layer keeps. */
static uint64_t
later_at(const struct memory_plan *m, const struct buffer *b, int64_t number)
{
	uint64_t before = b->level == LATER ? 0 : m->later_bytes;

	before += b->level == LAYER ? m->kept_bytes : 0;
	return m->later_base + memory_later_bytes(m) * (uint64_t)number + before + b->offset;
}

/* Recomputed layers lie in scratch by their index in the chunk, except for the input of the first,
 * which was saved. */
struct memory_place
memory_at(const struct memory_plan *m, int number, const struct memory_copy *copy, int64_t layer)
{
	const struct buffer *b = memory_buffer(m, number);
	const int of[] = { 0, copy->slot, copy->batch, copy->stage_output };
	uint64_t base = b->base + b->stride * (uint64_t)of[b->per];
	bool of_layer = b->level == LATER || b->level == LAYER || b->level == KEPT;

	if (b->level == HEADS)
		return (struct memory_place){ ARENA_SAVED,
			base + m->head_bytes * (uint64_t)layer + b->offset };
	if (of_layer && layer >= m->num_layers)
		return (struct memory_place){ ARENA_SAVED,
			m->slot_bytes * (uint64_t)copy->slot +
			    later_at(m, b, layer - m->num_layers) };
	if (b->level == KEPT)
		return (struct memory_place){ ARENA_SAVED,
			base + m->kept_base + m->kept_bytes * (uint64_t)layer + b->offset };
	if (b->level != LAYER)
		return (struct memory_place){ b->place, base + b->offset };
	if (layer >= m->recompute_layers ||
	    (is_saved_input(m, number) && layer % m->recompute_chunk == 0))
		return unit_at(m, b, copy, layer);
	return (struct memory_place){ ARENA_SCRATCH,
		m->recompute_base + m->layer_bytes * (uint64_t)(layer % m->recompute_chunk) +
		    b->offset };
}

/* Those of a buffer of layers that stay in a slot with room for so many. */
static int64_t
instances_up_to(const struct memory_plan *m, int64_t layers, bool input)
{
	int64_t units = int64_div_up(layers, m->activation_offload.layers),
		stay = units - activation_offload_before(&m->activation_offload, units),
		inputs = int64_min(stay, m->recompute_inputs - m->offload_inputs);

	return stay - inputs + (input ? inputs : 0);
}

/*
 * Of a buffer of layers: those that stay in each slot and tail and those in places, those that are
 * copied to the host, or those in scratch, which share bytes, so their sizes may add up to more
 * than the arena. The place of a chunk's first input in scratch stays unused.
 */
int64_t
memory_instances(const struct memory_plan *m, int number, enum arena where)
{
	const struct buffer *b = memory_buffer(m, number);
	bool input = is_saved_input(m, number);
	int64_t host_inputs = int64_min(m->offload_inputs, m->activation_offload.copied),
		moved = m->offload_layers + (input ? m->offload_inputs : 0),
		slot = instances_up_to(m, m->slot_layers, input),
		tail = instances_up_to(m, m->num_layers, input) - slot;

	if (!b->bytes)
		return 0;
	if (b->level == HEADS || b->level == LATER)
		return where == ARENA_SAVED ? b->copies * (m->later + (b->level == HEADS)) : 0;
	if (b->level == KEPT)
		return where == ARENA_SAVED ? b->copies * (m->num_layers + m->later) : 0;
	if (b->level != LAYER)
		return b->place == where ? b->copies : 0;
	switch (where) {
	case ARENA_SAVED:
		return b->copies * (slot + m->later) + m->use.tails * tail +
		    (moved ? m->activation_offload.places : 0);
	case ARENA_HOST:
		return b->copies * (m->activation_offload.copied - (input ? 0 : host_inputs));
	case ARENA_SCRATCH: return m->recompute_chunk;
	default: return 0;
	}
}

int
memory_host_copy(int b)
{
	switch (b) {
	case BUF_WEIGHTS: return BUF_HOST_WEIGHTS;
	case BUF_MASTER: return BUF_HOST_MASTER;
	case BUF_LOW_BITS: return BUF_HOST_LOW_BITS;
	default: return b >= BUF_STATE && b <= BUF_STATE_LAST ? b - BUF_STATE + BUF_HOST_STATE : b;
	}
}

bool
memory_has(const struct memory_plan *m, int b)
{
	return memory_buffer(m, b)->bytes || memory_buffer(m, memory_host_copy(b))->bytes;
}

/*
 * Bytes allocated by this plan; libraries, communication buffers and the context come on top.
 */
uint64_t
memory_total(const struct memory_plan *m)
{
	return m->arena[ARENA_PARAMS] + m->arena[ARENA_SAVED] + m->arena[ARENA_SCRATCH];
}

struct part
memory_optim_part(const struct memory_plan *m, int bucket)
{
	const struct bucket *b = &m->shards.bucket[bucket];

	return m->sharded ? bucket_optim_part(b) : bucket_part(b, 0, 1);
}

int64_t
memory_staging_slot(const struct memory_plan *m)
{
	int64_t own = 0;

	for (int k = 0; k < m->shards.num_buckets; k++)
		own = int64_max(own, memory_optim_part(m, k).count);
	return own < BUCKET_CHUNK ? own : BUCKET_CHUNK;
}

bool
memory_bucket_chunk(const struct memory_plan *m, struct bucket_chunk *p)
{
	int64_t at = p->part.first + p->part.count;

	for (; p->bucket < m->shards.num_buckets; p->bucket++) {
		struct part own = memory_optim_part(m, p->bucket);

		p->part = part_cut(&own, at > own.first ? at : own.first, memory_staging_slot(m));
		if (p->part.count)
			return true;
	}
	return false;
}
