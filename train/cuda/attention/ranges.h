/*
 * ranges.h - which keys a tile of queries sees, in blocks, and the order of tiles
 *
 * One source for kernels and for tests on the host. Positions count from the beginning of a
 * sample. The first key that a query sees never falls from a query to the next, and consecutive
 * queries see overlapping or adjoining keys: so the blocks that a tile sees follow each other.
 */
#ifndef TRAIN_CUDA_ATTENTION_RANGES_H
#define TRAIN_CUDA_ATTENTION_RANGES_H

#include <stdint.h>

#ifdef __CUDACC__
#define RANGES static __host__ __device__ inline
#else
#define RANGES static inline
#endif

/* The first key that a query sees: its document begins at `start`; window 0: none. */
RANGES int
range_first_key(int query, int start, int window)
{
	int edge = query - window + 1;

	return window > 0 && edge > start ? edge : start;
}

/* Queries at positions from .. to, and the first keys that these two see. */
struct query_range {
	int from, to, first_from, first_to;
};

/* Blocks of keys [begin, end). */
struct key_range {
	int begin, end;
};

/* The blocks that these queries and those between them see. */
RANGES struct key_range
range_of_keys(struct query_range q, int block)
{
	struct key_range r = { q.first_from / block, q.to / block + 1 };

	return r;
}

/* Whether one of them comes before keys of the block from `key` on, and whether one sees none of
 * its first keys; if neither, all see the whole block. */
RANGES int
range_ends_in(struct query_range q, int key, int block)
{
	return key + block - 1 > q.from;
}

RANGES int
range_begins_in(struct query_range q, int key)
{
	return key < q.first_to;
}

/* Tiles of a call: of each pair of a sample and a group, for each of the group's heads. */
struct tile_order {
	int pairs, heads, tiles; /* tiles of a head */
	int together;            /* pairs whose keys and values the L2 cache holds at once */
};

struct tile_at {
	int pair, head, tile;
};

RANGES int
tiles_of(struct tile_order o)
{
	return o.pairs * o.heads * o.tiles;
}

/* Tile i in the order of work. Of the pairs that are together the last tiles come first, which see
 * the most keys, and the heads of a group follow each other. */
RANGES struct tile_at
tile_of(struct tile_order o, int i)
{
	int chunk = i / (o.together * o.heads * o.tiles), first = chunk * o.together;
	int pairs = o.pairs - first < o.together ? o.pairs - first : o.together;
	struct tile_at t;

	i -= first * o.heads * o.tiles;
	t.tile = o.tiles - 1 - i / (pairs * o.heads);
	t.pair = first + i % (pairs * o.heads) / o.heads;
	t.head = i % o.heads;
	return t;
}

#endif
