/*
 * ranges.c - the blocks of keys of tiles of queries against whole masks, and the order of tiles
 *
 * Random problems with documents, windows and queries that are the last of their keys. Every
 * visible key lies in the range of its tile, every block of a range has one, and a block counts as
 * whole exactly when all of its keys are visible to all queries of the tile.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/cuda/attention/ranges.h"

#include <stdbool.h>

enum { PROBLEMS = 1000, KEYS = 700, PAIRS = 12 };

/* A sample: queries stand at positions [begin, keys). */
struct problem {
	int keys, begin, window;
	int start[KEYS]; /* of each position's document */
};

static int
below(struct mt19937 *rng, int n)
{
	return (int)mt19937_interval(rng, (uint64_t)n - 1);
}

/* A third has documents, of a few or of many tokens; a half has a window. */
static struct problem
draw(struct mt19937 *rng)
{
	struct problem p = { .keys = 1 + below(rng, KEYS) };
	int length = below(rng, 3) ? 0 : 2 + below(rng, 2 * p.keys);

	p.begin = below(rng, 2) ? below(rng, p.keys) : 0;
	p.window = below(rng, 2) ? 1 + below(rng, p.keys + 9) : 0;
	for (int i = 1; i < p.keys; i++)
		p.start[i] = length && below(rng, length) == 0 ? i : p.start[i - 1];
	return p;
}

static bool
sees(const struct problem *p, int query, int key)
{
	return key <= query && key >= p->start[query] &&
	    (p->window == 0 || key > query - p->window);
}

/* How many of a block's keys, also of those after the last position, so many queries see. */
static int
count_seen(const struct problem *p, int from, int to, int key, int block)
{
	int seen = 0;

	for (int q = from; q <= to; q++)
		for (int k = key; k < key + block; k++)
			seen += sees(p, q, k);
	return seen;
}

/* All blocks for one tile. */
static void
check_tile(const struct problem *p, int from, int rows, int block)
{
	int to = from + rows - 1 < p->keys ? from + rows - 1 : p->keys - 1;
	struct query_range q = { from, to, range_first_key(from, p->start[from], p->window),
		range_first_key(to, p->start[to], p->window) };
	struct key_range r = range_of_keys(q, block);
	bool right = true;

	for (int k = 0; k * block < p->keys; k++) {
		int seen = count_seen(p, from, to, k * block, block);
		bool inside = k >= r.begin && k < r.end,
		     whole = inside && !range_ends_in(q, k * block, block) &&
		    !range_begins_in(q, k * block);

		right = right && inside == (seen > 0) && whole == (seen == (to - from + 1) * block);
	}
	CHECK(right && r.begin >= 0 && (r.end - 1) * block < p->keys);
}

static void
check_problem(struct mt19937 *rng)
{
	static const int blocks[] = { 64, 80, 128 };
	struct problem p = draw(rng);
	int rows = 64 * (1 + below(rng, 3)), block = blocks[below(rng, 3)];

	for (int q = p.begin; q < p.keys; q += rows)
		check_tile(&p, q, rows, block);
}

/* Each tile comes once; within the pairs that are together tiles never rise, and within a tile's
 * number the heads of a pair follow each other. */
static void
check_order(struct mt19937 *rng)
{
	struct tile_order o = { 1 + below(rng, PAIRS), 1 + below(rng, 5), 1 + below(rng, 7),
		1 + below(rng, PAIRS) };
	int count = tiles_of(o);
	bool *seen = mem_zalloc((size_t)count, sizeof *seen), right = true;
	struct tile_at last = { 0, 0, 0 };

	for (int i = 0; i < count; i++) {
		struct tile_at t = tile_of(o, i);
		int at = (t.pair * o.heads + t.head) * o.tiles + t.tile;

		right = right && at >= 0 && at < count && !seen[at];
		right = right && (i % o.heads == 0 ? t.head == 0 : t.head == last.head + 1);
		if (i > 0 && t.pair / o.together == last.pair / o.together)
			right = right && t.tile <= last.tile;
		if (!right)
			break;
		seen[at] = true;
		last = t;
	}
	CHECK(right);
	free(seen);
}

int
main(void)
{
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int i = 0; i < PROBLEMS; i++) {
		check_problem(&rng);
		check_order(&rng);
	}
	return check_done();
}
