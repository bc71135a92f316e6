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

static const struct hopper_tiles tiles[] = {
	{ 64, HOPPER_TILE_64, HOPPER_COLUMN, 1 },
	{ 128, HOPPER_TILE_128, HOPPER_COLUMN, 1 },
	{ 256, HOPPER_TILE_128, HOPPER_COLUMN_256, HOPPER_TURNS_256 },
};
enum { WIDTHS = sizeof tiles / sizeof *tiles };

/* Those of the widest for heads that are too wide. */
struct hopper_tiles
hopper_tiles_of(int64_t head_dim)
{
	const struct hopper_tiles *t = tiles;

	while (head_dim > t->width && t < tiles + WIDTHS - 1)
		t++;
	return *t;
}

/* Capped scores of narrow heads, and dropout in wide ones, would need more registers than there
 * are. Dropout is drawn for four neighbouring keys at once. */
bool
hopper_takes(const struct attention_kind *k, int64_t seq_length)
{
	return k->head_dim % 8 == 0 && k->head_dim <= tiles[WIDTHS - 1].width &&
	    (!k->capped || k->head_dim > tiles[0].width) &&
	    (!k->dropped ||
		(!k->capped && k->head_dim <= tiles[WIDTHS - 2].width && seq_length % 4 == 0));
}

/* As measured on an H200, beside cuDNN 9.19, or beside the tiled kernels where that has none:
 * docs/gpu.md 1.6. */
static const struct {
	struct attention_kind kind;
	bool forward, backward;
} fastest[] = {
	{ { 64, false, false, false }, true, true },
	{ { 64, true, false, false }, true, true },
	{ { 128, false, false, false }, true, true },
	{ { 128, true, false, false }, true, true },
	{ { 128, false, true, false }, true, true },
	{ { 96, false, false, false }, true, false },
	{ { 256, false, false, false }, true, true },
	{ { 256, false, true, false }, true, true },
};

/* With dropout they are faster than the tiled kernels in both passes, of all widths measured. */
bool
hopper_is_fastest(const struct attention_kind *k, bool backward)
{
	if (k->dropped)
		return true;
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
	struct hopper_tiles t = hopper_tiles_of(s->head_dim);
	int64_t heads = s->micro_batch_size * s->num_heads,
		rows = heads * int64_div_up(s->num_queries, t.rows),
		blocks = int64_div_up(s->num_keys, t.block);
	bool apart = s->num_heads > s->num_groups &&
	    s->micro_batch_size * s->num_groups * blocks < FEW_COLUMNS;

	return (struct hopper_work){ .sums = rows * t.rows * t.width,
		.parts = apart ? heads * s->num_keys * t.width : 0,
		.statistics = 3 * rows * t.rows,
		.turns = rows * t.turns,
		.last = s->micro_batch_size * blocks };
}

uint64_t
hopper_workspace(const struct attention_shape *s)
{
	struct hopper_work w = hopper_work_of(s);
	int64_t bytes = 4 * (w.sums + 2 * w.parts + w.statistics + w.turns + 2 * w.last + 1);

	return (uint64_t)int64_div_up(bytes, 256) * 256;
}
