/*
 * hopper.c - attention of our own for Hopper: which heads it takes, where it is the fastest, and
 * the memory that its backward pass works in
 */
#include "lib/model/hopper.h"
#include "lib/base/int64.h"

#include <stddef.h>

/* Fewer blocks of keys keep no GPU busy, and heads of a group are then worked on apart. The number
 * is of no GPU in particular: bits depend on it. */
enum { FEW_COLUMNS = 264 };

enum { WIDEST_FORWARD = 256, WIDEST_BACKWARD = 128 };

bool
hopper_takes(int64_t head_dim, bool capped, bool backward)
{
	return head_dim % 8 == 0 && head_dim <= (backward ? WIDEST_BACKWARD : WIDEST_FORWARD) &&
	    (!capped || head_dim > 64);
}

/* As measured on an H200, beside cuDNN 9.19, or beside the tiled kernels where that has none:
 * docs/gpu.md 1.6. */
static const struct {
	struct attention_kind kind;
	bool forward, backward;
} fastest[] = {
	{ { 64, false, false }, true, true },
	{ { 64, true, false }, true, true },
	{ { 128, false, false }, true, true },
	{ { 128, true, false }, true, true },
	{ { 128, false, true }, true, true },
};

bool
hopper_is_fastest(const struct attention_kind *k, bool backward)
{
	for (size_t i = 0; i < sizeof fastest / sizeof *fastest; i++)
		if (fastest[i].kind.head_dim == k->head_dim &&
		    fastest[i].kind.documents == k->documents &&
		    fastest[i].kind.capped == k->capped)
			return backward ? fastest[i].backward : fastest[i].forward;
	return false;
}

struct hopper_work
hopper_work_of(const struct attention_shape *s)
{
	int64_t width = s->head_dim <= 64 ? 64 : 128,
		rows = s->head_dim <= 64 ? HOPPER_ROWS_64 : HOPPER_ROWS_128,
		heads = s->micro_batch_size * s->num_heads,
		tiles = heads * int64_div_up(s->num_queries, rows),
		blocks = int64_div_up(s->num_keys, HOPPER_BLOCK);
	bool apart = s->num_heads > s->num_groups &&
	    s->micro_batch_size * s->num_groups * blocks < FEW_COLUMNS;

	return (struct hopper_work){ .sums = tiles * rows * width,
		.parts = apart ? heads * s->num_keys * width : 0,
		.statistics = 3 * tiles * rows,
		.turns = tiles,
		.last = s->micro_batch_size * blocks };
}

uint64_t
hopper_workspace(const struct attention_shape *s)
{
	struct hopper_work w = hopper_work_of(s);
	int64_t bytes = 4 * (w.sums + 2 * w.parts + w.statistics + w.turns + 2 * w.last + 1);

	return (uint64_t)int64_div_up(bytes, 256) * 256;
}
