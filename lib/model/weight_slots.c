/* weight_slots.c - which buckets of layers are gathered where weights are sharded */
#include "lib/model/weight_slots.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

void
weight_slots_clear(struct weight_slots *w)
{
	for (int i = 0; i < BUCKET_TURNS; i++)
		w->bucket[i] = -1;
}

bool
weight_slots_take(struct weight_slots *w, const struct shards *s, int bucket, int *before)
{
	const struct bucket *b = &s->bucket[bucket];

	if (!b->layers || w->bucket[b->turn] == bucket)
		return false;
	*before = w->bucket[b->turn];
	w->bucket[b->turn] = bucket;
	return true;
}

bool
weight_slots_updated(struct weight_slots *w, const struct shards *s, int bucket)
{
	const struct bucket *b = &s->bucket[bucket];
	int before;

	return !b->layers || (w->bucket[b->turn] < 0 && weight_slots_take(w, s, bucket, &before));
}

/* The bucket of a kind that a layer uses; -1: none. */
static int
bucket_of(const struct shards *s, int layer, bool experts)
{
	for (int k = 0; k < s->num_buckets; k++)
		if (s->bucket[k].layers && s->bucket[k].experts == experts &&
		    bucket_serves(&s->bucket[k], layer))
			return k;
	return -1;
}

static int
layer_of(const struct memory_plan *m, const struct pass_items *of, const struct segment *now)
{
	return m->block[of->item[now->first].block].layer;
}

/* The first other bucket of a kind that the pass uses after a segment that uses one; -1 where there
 * is none, or where the one in use has its slot. */
static int
next_bucket(const struct memory_plan *m, const struct pass_items *of, const struct segment *now,
    bool experts)
{
	const struct shards *s = &m->shards;
	int own = bucket_of(s, layer_of(m, of, now), experts), next = own;

	for (int i = now->number + 1; i < of->num_segments && own >= 0 && (next < 0 || next == own);
	     i++)
		next = bucket_of(s, layer_of(m, of, &of->segment[i]), experts);
	return next < 0 || s->bucket[next].turn == s->bucket[own].turn ? -1 : next;
}

void
weight_slots_enter(const struct memory_plan *m, const struct pass_items *of,
    const struct segment *now, const struct weight_need *n)
{
	const struct shards *s = &m->shards;
	int layer = layer_of(m, of, now);

	for (int k = 0; k < s->num_buckets; k++)
		if (bucket_serves(&s->bucket[k], layer))
			n->need(n->ctx, k, true);
	for (int experts = 0; experts < 2; experts++) {
		int next = next_bucket(m, of, now, experts);

		if (next >= 0)
			n->need(n->ctx, next, false);
	}
}

/* --- a step ----------------------------------------------------------------------------------- */

/* What a stage gathers; items: of each chunk those of its two passes. */
struct counting {
	const struct memory_plan *m;
	const struct pass_items *items;
	struct weight_slots slots;
	int64_t *count, times;
};

static void
take(void *ctx, int bucket, bool used)
{
	struct counting *x = ctx;
	int before;

	(void)used;
	if (weight_slots_take(&x->slots, &x->m->shards, bucket, &before))
		x->count[bucket] += x->times;
}

static void
count_update(struct counting *x, int64_t times)
{
	weight_slots_clear(&x->slots);
	for (int k = 0; k < x->m->shards.num_buckets; k++)
		if (weight_slots_updated(&x->slots, &x->m->shards, k))
			x->count[k] += times;
}

/* Adds what a step gathers, times a number. Its passes begin with what the update before it left in
 * the slots. */
static void
count_step(struct counting *x, const struct schedule_shape *s, int stage, int64_t times)
{
	struct schedule_use use;
	struct action *list;
	int n = schedule_make(s, stage, &list, &use);

	x->times = times;
	count_update(x, 0);
	for (int i = 0; i < n; i++) {
		bool backward = list[i].kind == ACTION_BACKWARD;
		const struct pass_items *p = &x->items[2 * list[i].chunk + backward];

		if (!backward && list[i].kind != ACTION_FORWARD)
			continue;
		for (int k = 1; k < p->num_segments; k++)
			weight_slots_enter(
			    x->m, p, &p->segment[k], &(struct weight_need){ take, x });
	}
	count_update(x, times);
	free(list);
}

void
weight_slots_count(const struct memory_plan *m, const struct layout *l, int stage,
    int num_microbatches, int64_t *count)
{
	struct schedule_shape all = memory_schedule(m, l, num_microbatches, true), few, longer;
	int chunks = layout_chunks(l), period, periods;
	struct pass_items *items = mem_alloc(2 * (size_t)chunks, sizeof *items);
	struct counting x = { .m = m, .items = items, .count = count };

	for (int i = 0; i < 2 * chunks; i++)
		pass_items_init(&items[i], m, i / 2, i % 2 ? PASS_BACKWARD : PASS_FORWARD);
	memset(count, 0, (size_t)m->shards.num_buckets * sizeof *count);
	longer = few = schedule_short(&all, &period);
	periods = (num_microbatches - few.num_microbatches) / period;
	longer.num_microbatches += period;
	count_step(&x, &few, stage, 1 - periods);
	if (periods)
		count_step(&x, &longer, stage, periods);
	for (int i = 0; i < 2 * chunks; i++)
		pass_items_release(&items[i]);
	free(items);
}
