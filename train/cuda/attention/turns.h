/*
 * turns.h - the backward pass: which rows of queries see a block of keys, in which order the blocks
 * of keys are worked on, and in which order their parts of dq are added
 *
 * One source for kernels and for tests on the host. A column is all work of one block of keys of
 * one pair of a sample and a group of heads: for each of its tiles of rows, last first, that of
 * each head of the group. Columns are claimed from a counter in the order of column_of. Every row
 * tile has a counter of the columns that have been added to its dq; a column adds its part when the
 * counter stands at its turn, the first one stores, and the last one writes dq. Columns of a pair
 * are claimed in the order of their turns, so a column waits only for columns that were claimed
 * before it: there is no deadlock with any number of blocks at work.
 */
#ifndef TRAIN_CUDA_ATTENTION_TURNS_H
#define TRAIN_CUDA_ATTENTION_TURNS_H

#include "train/cuda/attention/ranges.h"

/* Columns of a call. */
struct column_order {
	int pairs, columns; /* columns of a pair */
	int together;       /* pairs whose columns are interleaved */
};

struct column_at {
	int pair, column;
};

RANGES int
columns_of(struct column_order o)
{
	return o.pairs * o.columns;
}

/* Column i in the order of work. Of the pairs that are together the first columns come first, which
 * the most queries see; neighbours of a pair are as many claims apart as there are pairs. */
RANGES struct column_at
column_of(struct column_order o, int i)
{
	int chunk = i / (o.together * o.columns), first = chunk * o.together;
	int pairs = o.pairs - first < o.together ? o.pairs - first : o.together;
	struct column_at c;

	i -= first * o.columns;
	c.column = i / pairs;
	c.pair = first + i % pairs;
	return c;
}

/* Pairs that are together: so many that a column begins when the one before it is well under way,
 * and so few that the L2 cache holds much of what they read. Of 16 to 264 this number was the best,
 * or within 3 % of it, for each shape of tests/bench/attention.c on an H200. */
RANGES int
pairs_together(int pairs)
{
	enum { MOST = 80 };

	return pairs < MOST ? pairs : MOST;
}

/* The queries of a sample, at positions [begin, end), in tiles of `rows`. */
struct row_tiles {
	int begin, end, rows;
};

RANGES int
row_tiles_of(struct row_tiles r)
{
	return (r.end - r.begin + r.rows - 1) / r.rows;
}

/* Positions of the first and of the last query of a tile. */
RANGES int
row_tile_from(struct row_tiles r, int tile)
{
	return r.begin + tile * r.rows;
}

RANGES int
row_tile_to(struct row_tiles r, int tile)
{
	int to = row_tile_from(r, tile) + r.rows - 1;

	return to < r.end ? to : r.end - 1;
}

/* The tiles that see a block of keys, [begin, end). `last`: the last query whose first key comes
 * before the block's end, or one before all queries. */
RANGES struct key_range
tiles_of_column(struct row_tiles r, int column, int block, int last)
{
	int from = column * block > r.begin ? column * block : r.begin;
	struct key_range none = { 0, 0 }, t;

	if (last < from)
		return none;
	t.begin = (from - r.begin) / r.rows;
	t.end = (last - r.begin) / r.rows + 1;
	return t;
}

/* How many columns add to a tile before this one. `first`: the first key that its first query sees.
 */
RANGES int
turn_of(int column, int block, int first)
{
	return column - first / block;
}

/* Whether a column is the last that adds to a tile. */
RANGES int
is_last_turn(struct row_tiles r, int tile, int column, int block)
{
	return column == row_tile_to(r, tile) / block;
}

/* Blocks of keys whose last query is this one, [begin, end): each block has one. `first` is the
 * first key that it sees, `next` that of the query after it, or there is none and it is the number
 * of all keys, rounded up to whole blocks. Blocks before that of the first query's first key have
 * none. */
RANGES struct key_range
blocks_that_end(int first, int next, int block)
{
	struct key_range r = { first / block, next / block };

	return r;
}

#endif
