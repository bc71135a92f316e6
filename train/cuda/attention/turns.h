/*
 * turns.h - the backward pass: which rows of queries see a block of keys, in which order the blocks
 * of keys are worked on, and in which order their parts of dq are added
 *
 * One source for kernels and for tests on the host. A column is all work of one block of keys of
 * one pair of a sample and a group of heads: for each of its tiles of rows, last first, that of
 * each head of the group. Columns are claimed from a counter in the order of column_of, of a pair
 * the longest first: then neighbours of a document, which add to the same rows, are as many claims
 * apart as there are documents and pairs, and hardly wait for each other. Every row tile has a
 * counter of the columns that have been added to its dq; a column adds its part when the counter
 * stands at its turn, the first one stores, and the last one writes dq. Columns of a pair are
 * claimed in the order of their turns, so a column waits only for columns that were claimed before
 * it: there is no deadlock with any number of blocks at work.
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
	int pair, place; /* of the column among those of its pair: place_of_column */
};

RANGES int
columns_of(struct column_order o)
{
	return o.pairs * o.columns;
}

/* Column i in the order of work. Of the pairs that are together the first places come first;
 * neighbours of a pair are as many claims apart as there are pairs. */
RANGES struct column_at
column_of(struct column_order o, int i)
{
	int chunk = i / (o.together * o.columns), first = chunk * o.together;
	int pairs = o.pairs - first < o.together ? o.pairs - first : o.together;
	struct column_at c;

	i -= first * o.columns;
	c.place = i / pairs;
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

/* Whether column a comes before column b in the order of work of their sample: the one that reaches
 * farther from its beginning, of two that are equal the first. `last` is that of each column. */
RANGES int
column_comes_before(int a, int b, int block, const int32_t *last)
{
	int more = last[a] - last[b] + (b - a) * block;

	return more > 0 || (more == 0 && a < b);
}

/* How many of all columns come before this one. Without documents this is its own number. */
RANGES int
place_of_column(int column, int columns, int block, const int32_t *last)
{
	int place = 0;

	for (int i = 0; i < columns; i++)
		place += i != column && column_comes_before(i, column, block, last);
	return place;
}

/* Of a column in which a document begins within the block: how many tiles also see the column
 * before. These come first of all, since the columns of the document before, which may be claimed
 * soon after, would otherwise wait there until all other tiles are done. Otherwise 0. */
RANGES int
tiles_ahead(struct row_tiles r, int column, int block, const int32_t *last)
{
	int before = column > 0 ? last[column - 1] : -1;
	struct key_range t = tiles_of_column(r, column, block, last[column]);

	if (before < column * block || before < r.begin || last[column] <= before + block)
		return 0;
	return (before - r.begin) / r.rows + 1 - t.begin;
}

/* Tile i in the order of a column's work, of those in `t`, of which so many come ahead. */
RANGES int
tile_of_column(struct key_range t, int ahead, int i)
{
	return i < ahead ? t.begin + ahead - 1 - i : t.end - 1 - (i - ahead);
}

/* The columns that add to a tile: all of [begin, end), and of them `own` and those after it are
 * where its queries are. `first`: the first key that its first query sees. */
struct tile_columns {
	int begin, own, end;
};

RANGES struct tile_columns
columns_of_tile(struct row_tiles r, int tile, int block, int first)
{
	struct tile_columns c = { first / block, row_tile_from(r, tile) / block,
		row_tile_to(r, tile) / block + 1 };

	return c;
}

/* How many columns add to a tile before this one: those that come before it. Columns before the
 * tile's own are of one document, and come in their order. */
RANGES int
turn_of(struct tile_columns c, int column, int block, const int32_t *last)
{
	int low = c.begin, high = column < c.own ? column : c.own, turn;

	if (column < c.own)
		low = high;
	while (low < high) {
		int middle = (low + high) / 2;

		if (column_comes_before(middle, column, block, last))
			low = middle + 1;
		else
			high = middle;
	}
	turn = low - c.begin;
	for (int i = c.own; i < c.end; i++)
		turn += i != column && column_comes_before(i, column, block, last);
	return turn;
}

/* Whether a turn is the last of a tile. */
RANGES int
is_last_turn(struct tile_columns c, int turn)
{
	return turn == c.end - c.begin - 1;
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
