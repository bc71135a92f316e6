/*
 * hopper.h - attention of our own for Hopper: which heads it takes, where it is the fastest, and
 * the memory that its backward pass works in
 *
 * One source for the memory plan and for the kernels of train/cuda/attention.
 */
#ifndef MODEL_HOPPER_H
#define MODEL_HOPPER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One call of attention of a rank; queries and keys of a sample. */
struct attention_shape {
	int64_t micro_batch_size, num_queries, num_keys, num_heads, num_groups, head_dim;
	bool backward, deterministic;
};

/* What an implementation is chosen by. */
struct attention_kind {
	int64_t head_dim;
	bool documents, capped, dropped;
};

/* Whether the kernels take such heads of sequences of so many positions, and whether they are the
 * fastest of either pass. */
bool hopper_takes(const struct attention_kind *k, int64_t seq_length);
bool hopper_is_fastest(const struct attention_kind *k, bool backward);

/* The backward pass: rows of a tile, of heads of up to 64 columns and of wider ones; keys of a
 * block, and of heads of more than 128 columns, of which a tile has as many counters of turns. */
enum {
	HOPPER_TILE_64 = 128,
	HOPPER_TILE_128 = 64,
	HOPPER_COLUMN = 128,
	HOPPER_COLUMN_256 = 64,
	HOPPER_TURNS_256 = 2,
};

/* What of these heads of up to so many columns have. */
struct hopper_tiles {
	int width, rows, block, turns;
};
struct hopper_tiles hopper_tiles_of(int64_t head_dim);

/* Where it works, in elements of 4 bytes: sums of dq; parts of dk, and as many of dv, of heads
 * whose keys are worked on apart from those of their group, or 0; statistics of rows; turns of
 * tiles; last queries of blocks of keys, and as many words for their order. After these comes one
 * counter. */
struct hopper_work {
	int64_t sums, parts, statistics, turns, last;
};
struct hopper_work hopper_work_of(const struct attention_shape *s);
/* All of it in bytes, a multiple of 256. */
uint64_t hopper_workspace(const struct attention_shape *s);

#ifdef __cplusplus
}
#endif

#endif
