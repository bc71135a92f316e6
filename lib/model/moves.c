/*
 * moves.c - the list of a pass's moves, and its legs
 */
#include "lib/model/moves.h"

#include "lib/base/mem.h"

#include <stdlib.h>

/* Blocks that are recomputed together run again before the backward pass of the last of them. */
static void
add_backward(struct moves *out, const struct memory_plan *m, const struct block_range *r)
{
	int kept = r->end; /* from this block on, nothing has to run again */

	for (int i = r->end; i-- > r->first;) {
		if (i < kept) {
			int number = m->block[i].recompute_chunk;

			kept = i + 1;
			while (number >= 0 && kept > r->first &&
			    m->block[kept - 1].recompute_chunk == number)
				kept--;
			for (int k = kept; k <= i; k++)
				out->move[out->num_moves++] =
				    (struct move){ MOVE_RECOMPUTE, k, k == kept, k == i };
			kept = kept > i ? i : kept;
		}
		out->move[out->num_moves++] = (struct move){ .kind = MOVE_BACKWARD, .block = i };
	}
}

static bool
uses(const struct bucket *b, int layer)
{
	return b->first_layer <= layer && layer <= b->last_layer;
}

/* Whether something may happen between two moves that follow each other: replicas communicate, or
 * saved activations leave or come back. */
static bool
parted(const struct memory_plan *m, const struct move *a, const struct move *b)
{
	int from = m->block[a->block].layer, to = m->block[b->block].layer;

	if ((a->kind == MOVE_BACKWARD) != (b->kind == MOVE_BACKWARD) ||
	    m->block[a->block].stash != m->block[b->block].stash)
		return true;
	for (int k = 0; k < m->shards.num_buckets; k++)
		if (uses(&m->shards.bucket[k], from) != uses(&m->shards.bucket[k], to))
			return true;
	return false;
}

void
moves_init(struct moves *out, const struct memory_plan *m, int chunk, bool backward)
{
	const struct block_range *r = &m->chunk[chunk];
	size_t most = 2 * (size_t)(r->end - r->first);
	int n, first = 0;

	*out = (struct moves){ .backward = backward,
		.move = mem_alloc(most, sizeof *out->move),
		.leg = mem_alloc(most + 1, sizeof *out->leg) };
	if (backward)
		add_backward(out, m, r);
	else
		for (int i = r->first; i < r->end; i++)
			out->move[out->num_moves++] =
			    (struct move){ .kind = MOVE_FORWARD, .block = i };
	n = out->num_moves;
	out->leg[out->num_legs++] = (struct leg){ 0, 0, n };
	for (int i = 1; i <= n; i++)
		if (i == n || parted(m, &out->move[i - 1], &out->move[i])) {
			out->leg[out->num_legs] = (struct leg){ out->num_legs, first, i };
			out->num_legs++;
			first = i;
		}
}

void
moves_release(struct moves *m)
{
	free(m->move);
	free(m->leg);
}
