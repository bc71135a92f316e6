/*
 * turns.c - the backward pass of attention for compute capability 9.0 as a model of its claims,
 * turns and counters
 *
 * Random problems with documents, windows and queries that are the last of their keys, worked on by
 * 1 to 132 blocks that advance in random order. Every visible pair of a row tile and a block of
 * keys is added once, and nothing twice; additions come in the order of work; the first is known as
 * such, and so is the last; some block can always advance.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/cuda/attention/turns.h"

#include <stdbool.h>
#include <string.h>

enum { PROBLEMS = 1500, KEYS = 900, SAMPLES = 3, BLOCKS = 132, COLUMNS = KEYS / 64 + 1 };

/* Samples of as many keys, of which queries stand at positions [begin, keys). */
struct problem {
	int samples, groups, heads; /* heads of a group */
	int keys, begin, window;
	int block; /* keys of a column */
	bool documents;
	int start[SAMPLES][KEYS]; /* of each position's document */
	struct row_tiles rows;
	struct column_order order;
};

static int
below(struct mt19937 *rng, int n)
{
	return (int)mt19937_interval(rng, (uint64_t)n - 1);
}

/* A third has documents, of a few or of many tokens; a half has a window. */
static void
draw(struct problem *p, struct mt19937 *rng)
{
	int pairs, length;

	p->samples = 1 + below(rng, SAMPLES);
	p->groups = 1 + below(rng, 4);
	p->heads = 1 + below(rng, 4);
	p->keys = 1 + below(rng, KEYS);
	p->begin = below(rng, 2) ? below(rng, p->keys) : 0;
	p->window = below(rng, 2) ? 1 + below(rng, p->keys + 9) : 0;
	length = below(rng, 3) ? 0 : 2 + below(rng, 2 * p->keys);
	p->documents = length > 0;
	for (int j = 0; j < p->samples; j++)
		for (int i = 0; i < p->keys; i++)
			p->start[j][i] = i == 0             ? 0
			    : length && !below(rng, length) ? i
							    : p->start[j][i - 1];
	p->rows = (struct row_tiles){ p->begin, p->keys, below(rng, 2) ? 64 : 128 };
	p->block = below(rng, 2) ? 64 : 128;
	pairs = p->samples * p->groups;
	p->order.pairs = pairs;
	p->order.columns = (p->keys + p->block - 1) / p->block;
	p->order.together = below(rng, 2) ? pairs_together(pairs) : 1 + below(rng, pairs);
}

static int
first_key(const struct problem *p, int sample, int query)
{
	return range_first_key(query, p->start[sample][query], p->window);
}

/* Whether a query of a tile sees a key of a block. */
static bool
sees(const struct problem *p, int sample, int tile, int column)
{
	for (int q = row_tile_from(p->rows, tile); q <= row_tile_to(p->rows, tile); q++)
		if (first_key(p, sample, q) < (column + 1) * p->block && q >= column * p->block)
			return true;
	return false;
}

/* --- the last query of each block of keys ----------------------------------------------------- */

/* Written by queries as in the kernel; each block by one. */
static void
find_last(const struct problem *p, int sample, int32_t *last)
{
	int all = p->order.columns * p->block, writes = 0;
	bool right = true;

	for (int q = p->begin; q < p->keys; q++) {
		struct key_range r = blocks_that_end(first_key(p, sample, q),
		    q + 1 < p->keys ? first_key(p, sample, q + 1) : all, p->block);

		for (int i = r.begin; i < r.end; i++, writes++)
			last[i] = q;
		for (int i = 0; q == p->begin && i < r.begin; i++, writes++)
			last[i] = q - 1;
	}
	for (int i = 0; i < p->order.columns; i++) {
		int want = p->begin - 1;

		for (int q = p->begin; q < p->keys; q++)
			if (first_key(p, sample, q) < (i + 1) * p->block)
				want = q;
		right = right && last[i] == want;
	}
	CHECK(right && writes == p->order.columns);
}

/* Each column has a place; without documents it is its own number. */
static void
find_places(const struct problem *p, const int32_t *last, int *places)
{
	int columns = p->order.columns;
	bool right = true;

	for (int i = 0; i < columns; i++)
		places[i] = -1;
	for (int i = 0; i < columns; i++) {
		int place = place_of_column(i, columns, p->block, last);

		right = right && places[place] < 0 && (p->documents || place == i);
		places[place] = i;
	}
	CHECK(right);
}

/* --- blocks at work --------------------------------------------------------------------------- */

/* What a block works on: a column, of which it has done so many steps, and its next claim. */
struct worker {
	int column, next, step;
};

struct state {
	const struct problem *p;
	int32_t last[SAMPLES][COLUMNS];
	int places[SAMPLES][COLUMNS]; /* columns in the order of work */
	int claimed, tiles;           /* tiles of a head */
	int *added;                   /* columns that were added to each tile of each head */
	bool *seen;                   /* whether a column was, of each */
	struct worker worker[BLOCKS];
	int workers;
	bool right;
};

/* A step of a column: its tile, counted over all heads, and the tile of its head. */
struct step {
	int sample, column, all, tile;
	bool none;
};

static struct step
step_of(const struct state *s, int claim, int i)
{
	const struct problem *p = s->p;
	struct column_at at = column_of(p->order, claim);
	int sample = at.pair / p->groups, group = at.pair % p->groups;
	int column = s->places[sample][at.place];
	const int32_t *last = s->last[sample];
	struct key_range r = tiles_of_column(p->rows, column, p->block, last[column]);
	int ahead = tiles_ahead(p->rows, column, p->block, last);
	struct step t = { sample, column, 0, tile_of_column(r, ahead, i / p->heads), false };
	int head = group * p->heads + i % p->heads;

	t.none = i >= (r.end - r.begin) * p->heads;
	t.all = (sample * p->groups * p->heads + head) * s->tiles + t.tile;
	return t;
}

/* A column's turn by the places of all that see the tile. */
static int
turn_by_count(const struct state *s, const struct step *t, struct tile_columns c)
{
	int turn = 0;

	for (int i = 0; s->places[t->sample][i] != t->column; i++)
		turn += s->places[t->sample][i] >= c.begin && s->places[t->sample][i] < c.end;
	return turn;
}

/* Adds to a tile, if it is the column's turn. */
static bool
add(struct state *s, const struct step *t)
{
	const struct problem *p = s->p;
	int first = first_key(p, t->sample, row_tile_from(p->rows, t->tile));
	struct tile_columns c = columns_of_tile(p->rows, t->tile, p->block, first);
	int turn = turn_of(c, t->column, p->block, s->last[t->sample]);
	bool *seen = &s->seen[t->all * p->order.columns + t->column];

	if (s->added[t->all] < turn)
		return false;
	s->right = s->right && s->added[t->all] == turn && turn >= 0 && !*seen;
	s->right = s->right && turn == turn_by_count(s, t, c) && t->tile >= 0 &&
	    (is_last_turn(c, turn) != 0) == (turn == c.end - c.begin - 1);
	s->added[t->all]++;
	*seen = true;
	return true;
}

/* A block does a step, or claims; false: it waits, or has nothing left. */
static bool
advance(struct state *s, struct worker *w)
{
	int all = columns_of(s->p->order);
	struct step t;

	if (w->column >= all)
		return false;
	t = step_of(s, w->column, w->step);
	if (!t.none) {
		bool done = add(s, &t);

		w->step += done;
		return done;
	}
	w->column = w->next;
	w->next = s->claimed++;
	w->step = 0;
	return true;
}

/* All blocks, in random order and for a random number of steps at a time, until none advances. */
static void
work(struct state *s, struct mt19937 *rng)
{
	bool some = true;

	for (int i = 0; i < s->workers; i++) {
		s->worker[i].column = s->claimed++;
		s->worker[i].next = s->claimed++;
	}
	while (some) {
		int from = below(rng, s->workers);

		some = false;
		for (int i = 0; i < s->workers; i++) {
			struct worker *w = &s->worker[(from + i) % s->workers];
			int steps = below(rng, 4);

			if (i == s->workers - 1 && !some)
				steps = 1;
			while (steps-- > 0 && advance(s, w))
				some = true;
		}
		for (int i = 0; !some && i < s->workers; i++)
			some = advance(s, &s->worker[i]);
	}
	for (int i = 0; i < s->workers; i++)
		s->right = s->right && s->worker[i].column >= columns_of(s->p->order);
}

static void
check_problem(struct mt19937 *rng)
{
	static struct problem p;
	struct state s = { .p = &p, .workers = 1 + below(rng, BLOCKS), .right = true };
	int tiles;

	draw(&p, rng);
	s.tiles = row_tiles_of(p.rows);
	tiles = p.samples * p.groups * p.heads * s.tiles;
	s.added = mem_zalloc((size_t)tiles, sizeof *s.added);
	s.seen = mem_zalloc((size_t)(tiles * p.order.columns), sizeof *s.seen);
	for (int i = 0; i < p.samples; i++) {
		find_last(&p, i, s.last[i]);
		find_places(&p, s.last[i], s.places[i]);
	}
	work(&s, rng);
	CHECK(s.right);
	for (int i = 0; s.right && i < tiles; i++)
		for (int n = 0; n < p.order.columns; n++)
			s.right = s.right &&
			    s.seen[i * p.order.columns + n] ==
				sees(&p, i / s.tiles / (p.groups * p.heads), i % s.tiles, n);
	CHECK(s.right);
	free(s.added);
	free(s.seen);
}

/* Each column comes once, and those of a pair in their order. */
static void
check_order(struct mt19937 *rng)
{
	struct column_order o = { 1 + below(rng, 40), 1 + below(rng, 20), 1 + below(rng, 40) };
	int next[40] = { 0 };
	bool right = true;

	for (int i = 0; right && i < columns_of(o); i++) {
		struct column_at c = column_of(o, i);

		right = c.pair >= 0 && c.pair < o.pairs && c.place == next[c.pair]++;
	}
	CHECK(right);
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
