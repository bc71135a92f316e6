/*
 * seek.c - plans in the order of their time, until enough of them fit
 *
 * A queue holds ways to share the work by a time that none of their plans can beat, and plans by
 * their time without what a bound leaves out. The first entry is taken. A way becomes its chunks
 * and splits; a plan is planned to the byte unless its bound is too large, and where it does not
 * fit it gives way to those that save more memory, which take longer. layout_check decides
 * legality, as in training.
 */
#include "plan/seek.h"
#include "lib/base/mem.h"
#include "lib/model/optim_types.h"
#include "plan/allocated.h"
#include "plan/bound.h"
#include "plan/memtable.h"
#include "plan/saving.h"
#include "plan/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Chunks and a split of a way, with the numbers of savings: those in the queue at some time, and
 * those that fit. */
struct staged {
	int way, chunks;
	enum split_form split;
	bool counted; /* in the limit */
	uint64_t tried, fits;
};

/* A way, whose time is a bound of its plans', or a plan. */
struct entry {
	double time;
	int way, staged; /* -1: none */
	struct saving saving;
};

struct queue {
	struct entry *item; /* a heap, the least time first */
	int count, cap;
};

/* The costs of blocks, by all that they depend on. */
struct priced {
	int key[TABLE_KEY];
	bool known;
	struct block_costs costs;
	double model; /* seconds of all blocks */
};

/* What stages hold of the parameters, which is most of the work of planning experts. */
struct held {
	struct layout layout;
	struct memory_stages stages;
	bool used;
};
enum { HELD = 1024 };

struct found {
	struct bounds bounds;
	struct table priced;
	struct held *held;             /* [HELD] */
	struct memory_stages common;   /* for planning to the byte */
	struct schedule_counts counts; /* of it */
};

/* The state of a search. */
struct seeking {
	const struct search_input *in;
	struct search *out;
	struct way *way;
	struct staged *staged;
	int num_ways, way_cap, num_staged, staged_cap;
	struct queue queue;
	struct found *found;
	double *fastest; /* plans of the fastest layouts that fit, a heap, slowest first */
	int num_fastest;
	double limit;      /* no plan that takes longer is wanted */
	bool bf16_moments; /* every plan has moments of 16 bits */
};

/* --- the queue -------------------------------------------------------------------------------- */

static int
level(struct saving s)
{
	return s.sharding + s.recompute + s.offload + s.optimizer;
}

/* Of equal times the plan that saves less is first. */
static bool
before(const struct entry *a, const struct entry *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	return level(a->saving) < level(b->saving);
}

static void
push(struct seeking *k, const struct entry *e)
{
	struct queue *q = &k->queue;
	int i = q->count;

	if (e->time > k->limit)
		return;
	if (q->count++ == q->cap) {
		q->cap = q->cap ? 2 * q->cap : 1024;
		q->item = mem_realloc(q->item, (size_t)q->cap, sizeof *q->item);
	}
	for (; i > 0 && before(e, &q->item[(i - 1) / 2]); i = (i - 1) / 2)
		q->item[i] = q->item[(i - 1) / 2];
	q->item[i] = *e;
}

static struct entry
pop(struct queue *q)
{
	struct entry first = q->item[0], last = q->item[--q->count];
	int i = 0;

	for (int k; (k = 2 * i + 1) < q->count; i = k) {
		k += k + 1 < q->count && before(&q->item[k + 1], &q->item[k]);
		if (!before(&q->item[k], &last))
			break;
		q->item[i] = q->item[k];
	}
	q->item[i] = last;
	return first;
}

/* --- the limit -------------------------------------------------------------------------------- */

/* Moves the last of a heap, the largest first, to its place. */
static void
rise(double *heap, int i)
{
	double x = heap[i];

	for (; i > 0 && heap[(i - 1) / 2] < x; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = x;
}

static void
replace_largest(double *heap, int n, double x)
{
	int i = 0;

	for (int k; (k = 2 * i + 1) < n; i = k) {
		k += k + 1 < n && heap[k + 1] > heap[k];
		if (heap[k] <= x)
			break;
		heap[i] = heap[k];
	}
	heap[i] = x;
}

/* A layout has a plan that fits: where enough have, plans that are slower than ties with the last
 * of them are not wanted. */
static void
count_layout(struct seeking *k, double time)
{
	int top = k->in->top > 1 << 20 ? 0 : (int)k->in->top;

	if (!top)
		return;
	if (!k->fastest)
		k->fastest = mem_alloc((size_t)top, sizeof *k->fastest);
	if (k->num_fastest < top) {
		k->fastest[k->num_fastest] = time;
		rise(k->fastest, k->num_fastest++);
	} else if (time < k->fastest[0]) {
		replace_largest(k->fastest, top, time);
	}
	if (k->num_fastest == top)
		k->limit = (1 + SEARCH_TIE) * k->fastest[0];
}

/* --- a plan ----------------------------------------------------------------------------------- */

/* The layout and the shape of a way, without a split. */
static void
plan_way(const struct seeking *k, const struct way *w, struct candidate *c)
{
	way_shape(k->in, w, &c->shape);
	way_layout(w, &c->layout);
	price_hosts(&c->layout, &k->in->model, &k->in->hw);
	if (k->bf16_moments)
		optim_types_bf16_moments(&c->shape);
}

/* Splits the layers of a plan; false where that is not legal, or the stages cannot take turns. */
static bool
plan_split(const struct seeking *k, int chunks, enum split_form split, struct candidate *c)
{
	const struct search_input *in = k->in;
	struct split_options o = in->split;
	struct schedule_shape passes;
	struct err ignored;

	if (split == SPLIT_EQUAL)
		o.num_layers_per_virtual_pipeline_stage =
		    in->model.num_layers / (c->layout.pipeline_model_parallel_size * chunks);
	else if (split == SPLIT_BY_WORK && chunks > 1)
		o.num_virtual_stages_per_pipeline_rank = chunks;
	c->split = split;
	if (split_resolve(&o, &in->model, in->shape.seq_length, &c->layout, &ignored) < 0)
		return false;
	c->layout.overlap_p2p = in->overlap_p2p && layout_chunks(&c->layout) > 1;
	passes = layout_schedule(&c->layout, (int)c->shape.num_microbatches, true);
	return schedule_fits(&passes);
}

/* The plan of an entry, with so many layers where its saving has an amount. */
static void
plan_of(const struct seeking *k, const struct entry *e, int layers, struct candidate *c)
{
	const struct staged *g = &k->staged[e->staged];

	plan_way(k, &k->way[g->way], c);
	plan_split(k, g->chunks, g->split, c);
	saving_apply(e->saving, layers, &c->shape);
	c->number = e->staged;
}

/* What the blocks of a plan cost; plans that differ in their data and pipeline ranks and in what is
 * sharded alone have the same. */
static const struct priced *
costs_of(struct seeking *k, const struct candidate *c)
{
	const struct layout *l = &c->layout;
	const int key[TABLE_KEY] = { (int)l->tensor_model_parallel_size,
		(int)l->context_parallel_size, (int)layout_expert_ranks(l),
		(int)layout_expert_slices(l), l->sequence_parallel, (int)c->shape.context_form,
		(int)c->shape.micro_batch_size, (int)c->shape.recompute.granularity };
	struct run_case r = { &k->in->model, l, &c->shape, &k->in->hw, NULL, { 0 } };
	struct priced *p = table_get(&k->found->priced, key);

	if (!p->known) {
		time_blocks(&r, &p->costs);
		p->model = time_model(&r, &p->costs);
		p->known = true;
	}
	return p;
}

/* The time of a plan without what its bound leaves out, and what layers on the host cost. */
static double
foresee(struct seeking *k, const struct candidate *c)
{
	struct train_shape s = c->shape;
	struct bound b;
	struct run_case r = { &k->in->model, &c->layout, &s, &k->in->hw, NULL, { 0 } };

	bound_of(&k->found->bounds, &c->layout, s.sharding != SHARDING_NONE, &b);
	r.owned.elements = b.elements;
	r.owned.of_experts = b.holds.experts;
	r.owned.own = b.own;
	r.owned.after_update[0] = b.holds.rest;
	bound_gathers(&b, &c->layout, &s, r.owned.in_passes);
	operation_count_matrices(&r.owned, &k->found->bounds.table, &c->layout, &s);
	s.offloaded_layers = 0;
	return time_bound(&r, &costs_of(k, c)->costs);
}

/* The stages of a plan's layout, from before if they are still there. */
static struct memory_stages *
hold(struct seeking *k, const struct candidate *c)
{
	const struct layout *l = &c->layout;
	const int key[] = { (int)l->tensor_model_parallel_size,
		(int)l->pipeline_model_parallel_size, (int)layout_data_ranks(l),
		(int)layout_expert_ranks(l), (int)layout_expert_slices(l), layout_chunks(l),
		(int)c->split, (int)layout_instances(l), (int)layout_row_shards(l) };
	unsigned place = 0;
	struct held *h;
	struct layout same;

	for (size_t i = 0; i < sizeof key / sizeof *key; i++)
		place = place * 31 + (unsigned)key[i];
	h = &k->found->held[place % HELD];
	same = h->layout;
	same.context_parallel_size = l->context_parallel_size;
	same.data_parallel_size = l->data_parallel_size;
	if (layout_row_shards(&h->layout) == layout_row_shards(l))
		same.sequence_parallel = l->sequence_parallel;
	same.overlap_p2p = l->overlap_p2p;
	same.expert_hosts = l->expert_hosts;
	if (h->used && layout_data_ranks(&h->layout) == layout_data_ranks(l) &&
	    memcmp(&same, l, sizeof same) == 0) {
		h->layout = *l;
		return &h->stages;
	}
	if (h->used)
		memory_stages_release(&h->stages);
	h->used = true;
	h->layout = *l;
	memory_stages_like(&h->stages, &k->found->common, &h->layout, &c->shape);
	return &h->stages;
}

/* What the program whose constants the device has takes for a plan, which is no less than what this
 * one takes, so that its bounds hold. */
static uint64_t
taken_elsewhere(struct seeking *k, const struct candidate *c)
{
	struct run_plan p = { .model = k->in->model,
		.layout = c->layout,
		.shape = c->shape,
		.global_batch_size = k->in->global_batch_size };

	return (uint64_t)allocated_reserved(&p, allocated_with(&p, &k->in->hw, hold(k, c)));
}

/* Computes the memory of a plan, and whether it fits. */
static enum fit
weigh(struct seeking *k, struct candidate *c)
{
	c->bytes = memtable_most(hold(k, c), &c->shape, &c->elements, &c->own);
	if (allocated_elsewhere(&k->in->hw))
		c->bytes = taken_elsewhere(k, c);
	c->fit = search_fit(c, &k->in->hw);
	k->out->planned++;
	return c->fit;
}

/* The most that a plan may take by its bound. */
static enum fit
weigh_bound(struct seeking *k, const struct candidate *c)
{
	struct candidate x;
	struct bound b;

	bound_of(&k->found->bounds, &c->layout, c->shape.sharding != SHARDING_NONE, &b);
	x.bytes = bound_memory(&k->found->bounds, &c->layout, &c->shape, &b);
	return search_fit(&x, &k->in->hw);
}

/* The layers of the largest chunk of a layout. */
static int
largest_chunk(const struct layout *l)
{
	int most = 0;

	for (int i = 0; i < layout_stages(l); i++)
		most = l->split[i] > most ? l->split[i] : most;
	return most;
}

/* The fewest layers in [low, high] of an entry's saving that fit so well; high does. */
static int
fewest(struct seeking *k, const struct entry *e, enum fit wanted, int high,
    enum fit (*weigh_it)(struct seeking *k, struct candidate *c))
{
	int low = 1;

	while (low < high) {
		int middle = (low + high) / 2;
		struct candidate c;

		plan_of(k, e, middle, &c);
		if (weigh_it(k, &c) <= wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return high;
}

static enum fit
weigh_by_bound(struct seeking *k, struct candidate *c)
{
	return weigh_bound(k, c);
}

/* Whether a plan, which keeps as little on its host as will do, leaves that room. */
static bool
leaves_host_room(struct seeking *k, struct candidate *c)
{
	bool keeps = c->shape.offloaded_layers || c->shape.optimizer_offload > 0;

	c->host = keeps ? memtable_most_on_host(hold(k, c), &c->shape) : 0;
	return search_fits_host(c, &k->in->hw);
}

/* The plan of an entry that fits best, with the fewest layers with which it does. */
static enum fit
weigh_least(struct seeking *k, const struct entry *e, struct candidate *c)
{
	int layers;
	enum fit fit;

	plan_of(k, e, 0, c);
	layers = saving_amount(e->saving, largest_chunk(&c->layout));
	if (saving_has_amount(e->saving) && layers < 1)
		return FIT_NO;
	plan_of(k, e, layers, c);
	if (weigh_bound(k, c) == FIT_NO || (fit = weigh(k, c)) == FIT_NO)
		return FIT_NO;
	if (!saving_has_amount(e->saving))
		return leaves_host_room(k, c) ? fit : FIT_NO;
	/* Bounds are nearly exact: few plans are made to the byte. */
	plan_of(k, e, fewest(k, e, fit, layers, weigh_by_bound), c);
	if (weigh(k, c) > fit) {
		plan_of(k, e, fewest(k, e, fit, layers, weigh), c);
		weigh(k, c);
	}
	return leaves_host_room(k, c) ? c->fit : FIT_NO;
}

static void
keep(struct search *s, const struct candidate *c)
{
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->item = mem_realloc(s->item, (size_t)s->cap, sizeof *s->item);
	}
	s->item[s->count++] = *c;
}

/* Prices a plan that fits, and keeps it. */
static void
price(struct seeking *k, struct candidate *c)
{
	struct staged *g = &k->staged[c->number];
	struct memory_stages *stages = hold(k, c);
	struct run_case r = { &k->in->model, &c->layout, &c->shape, &k->in->hw, stages,
		operation_owned(stages, &c->shape, operation_stage(stages, c->elements), c->own) };

	time_step_of(&r, &costs_of(k, c)->costs, &c->time);
	if (c->time.total > k->limit)
		return;
	keep(k->out, c);
	if (c->fit == FIT_YES && !g->counted) {
		g->counted = true;
		count_layout(k, c->time.total);
	}
}

/* --- the order -------------------------------------------------------------------------------- */

/* A plan comes no earlier than those that save less. */
static void
push_plan(struct seeking *k, int staged, struct saving saving, double no_earlier)
{
	struct entry e = { no_earlier, -1, staged, saving };
	struct staged *g = &k->staged[staged];
	struct candidate c;

	if (g->tried & saving_bit(saving))
		return;
	g->tried |= saving_bit(saving);
	plan_of(k, &e, 1, &c);
	e.time = fmax(no_earlier, foresee(k, &c));
	push(k, &e);
}

/* Whether any plan of a layout may fit that saves no less than this. */
static bool
possible(struct seeking *k, int staged, struct saving least)
{
	struct entry e = { 0, -1, staged, least };
	struct saving most[SAVING_MOST];
	struct candidate c;
	int n, layers;

	plan_of(k, &e, 0, &c);
	layers = largest_chunk(&c.layout);
	n = saving_most(k->in, &c.layout, least, most);
	for (int i = 0; i < n; i++) {
		e.saving = most[i];
		if (least.sharding == SHARDING_NONE && e.saving.sharding != SHARDING_NONE)
			continue;
		plan_of(k, &e, saving_amount(e.saving, layers), &c);
		if (weigh_bound(k, &c) != FIT_NO)
			return true;
	}
	return false;
}

/* Whether the equal split of a way is another than that by work. */
static bool
differs(const struct seeking *k, int chunks, const struct candidate *equal)
{
	struct candidate c = { .layout = equal->layout, .shape = equal->shape };

	return !plan_split(k, chunks, SPLIT_BY_WORK, &c) ||
	    memcmp(c.layout.split, equal->layout.split, sizeof c.layout.split) != 0;
}

/* Adds chunks and a split of a way, with the savings that cost no time. */
static void
add_staged(struct seeking *k, int way, int chunks, enum split_form split)
{
	int64_t stages = k->way[way].pipeline * chunks;
	struct saving first[2];
	struct candidate c;
	int n;

	if (split == SPLIT_EQUAL && (stages == 1 || k->in->model.num_layers % stages))
		return;
	plan_way(k, &k->way[way], &c);
	if (!plan_split(k, chunks, split, &c) || (split == SPLIT_EQUAL && !differs(k, chunks, &c)))
		return;
	if (k->num_staged == k->staged_cap) {
		k->staged_cap = k->staged_cap ? 2 * k->staged_cap : 1024;
		k->staged = mem_realloc(k->staged, (size_t)k->staged_cap, sizeof *k->staged);
	}
	k->staged[k->num_staged++] = (struct staged){ way, chunks, split, false, 0, 0 };
	n = saving_first(k->in, &c.layout, first);
	for (int i = 0; i < n; i++)
		push_plan(k, k->num_staged - 1, first[i], 0);
}

/* Bytes that every plan of a way needs at least, with all that may be saved. */
static uint64_t
least_of(struct seeking *k, int way)
{
	struct saving most[SAVING_MOST];
	uint64_t least = UINT64_MAX;
	struct candidate c;
	int n;

	plan_way(k, &k->way[way], &c);
	n = saving_most(k->in, &c.layout, saving_none(k->in), most);
	for (int i = 0; i < n; i++) {
		uint64_t bytes;

		plan_way(k, &k->way[way], &c);
		saving_apply(most[i], (int)k->in->model.num_layers, &c.shape);
		bytes = bound_memory_any(&k->found->bounds, &c.layout, &c.shape);
		least = bytes < least ? bytes : least;
	}
	return least;
}

/* A way's chunks and splits: every number of chunks that leaves each of them a layer, or what was
 * typed. */
static void
add_all_staged(struct seeking *k, int way)
{
	const struct search_input *in = k->in;
	int p = k->way[way].pipeline;

	if (split_given(&in->split)) {
		add_staged(k, way, 1, SPLIT_TYPED);
		return;
	}
	for (int v = 1; v == 1 || (p > 1 && p * v <= in->model.num_layers + 1); v++) {
		add_staged(k, way, v, SPLIT_BY_WORK);
		add_staged(k, way, v, SPLIT_EQUAL);
	}
}

static void
expand(struct seeking *k, int way)
{
	struct candidate least = { .bytes = least_of(k, way) };

	if (search_fit(&least, &k->in->hw) != FIT_NO)
		add_all_staged(k, way);
}

/* Plans an entry, and where it does not fit queues those that save more. */
static void
try_plan(struct seeking *k, const struct entry *e)
{
	struct staged *g = &k->staged[e->staged];
	struct saving next[4];
	struct candidate c;
	enum fit fit;
	int n;

	if (g->fits & saving_less(e->saving))
		return;
	fit = weigh_least(k, e, &c);
	if (fit != FIT_NO)
		price(k, &c);
	if (fit == FIT_YES) {
		g->fits |= saving_bit(e->saving);
		return;
	}
	if (fit == FIT_NO && !possible(k, e->staged, e->saving))
		return;
	n = saving_next(k->in, &c.layout, e->saving, next);
	for (int i = 0; i < n; i++)
		push_plan(k, e->staged, next[i], e->time);
}

/* --- the search ------------------------------------------------------------------------------- */

static void
add_way(void *ctx, const struct way *w)
{
	struct seeking *k = ctx;

	if (k->num_ways == k->way_cap) {
		k->way_cap = k->way_cap ? 2 * k->way_cap : 1024;
		k->way = mem_realloc(k->way, (size_t)k->way_cap, sizeof *k->way);
	}
	k->way[k->num_ways++] = *w;
}

/* The ways in the queue, by the time of their blocks, evenly shared out over the stages. */
static void
push_ways(struct seeking *k)
{
	for (int i = 0; i < k->num_ways; i++) {
		const struct way *w = &k->way[i];
		struct candidate c;
		struct entry e = { 0, i, -1, { 0 } };

		plan_way(k, w, &c);
		e.time = (double)w->num_microbatches * costs_of(k, &c)->model / (double)w->pipeline;
		push(k, &e);
	}
}

static void
seeking_release(struct seeking *k)
{
	free(k->way);
	free(k->staged);
	free(k->queue.item);
	free(k->fastest);
}

struct found *
found_new(const struct model_config *c)
{
	struct found *f = mem_zalloc(1, sizeof *f);

	f->priced.size = sizeof(struct priced);
	f->held = mem_zalloc(HELD, sizeof *f->held);
	bounds_init(&f->bounds, c);
	f->common = f->bounds.table;
	f->common.shared = &f->counts;
	f->common.sizes = &f->bounds.sizes;
	return f;
}

void
found_free(struct found *f)
{
	if (!f)
		return;
	for (int i = 0; i < HELD; i++)
		if (f->held[i].used)
			memory_stages_release(&f->held[i].stages);
	table_release(&f->priced);
	free(f->held);
	bounds_release(&f->bounds);
	schedule_counts_release(&f->counts);
	free(f);
}

/* --- where none fits -------------------------------------------------------------------------- */

struct least {
	uint64_t bytes;
	int way;
};

static int
by_least(const void *a, const void *b)
{
	const struct least *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->way - y->way;
}

/* Plans the chunks and splits of a way with all that may be saved, and keeps the smallest plan. */
static void
weigh_smallest(struct seeking *k, int way)
{
	struct candidate *smallest = &k->out->smallest, c;
	int first = k->num_staged, n, layers;
	struct saving most[SAVING_MOST];

	add_all_staged(k, way);
	for (int i = first; i < k->num_staged; i++) {
		struct entry e = { 0, -1, i, saving_none(k->in) };

		plan_of(k, &e, 0, &c);
		layers = largest_chunk(&c.layout);
		n = saving_most(k->in, &c.layout, e.saving, most);
		for (int j = 0; j < n; j++) {
			e.saving = most[j];
			plan_of(k, &e, saving_amount(e.saving, layers), &c);
			weigh(k, &c);
			if (!smallest->bytes || c.bytes < smallest->bytes)
				*smallest = c;
		}
	}
}

/* The plan that needs the least memory, of the ways that may need the least. */
static void
find_smallest(struct seeking *k)
{
	enum { WAYS = 32 };
	struct least *least = mem_alloc((size_t)k->num_ways, sizeof *least);

	for (int i = 0; i < k->num_ways; i++)
		least[i] = (struct least){ least_of(k, i), i };
	qsort(least, (size_t)k->num_ways, sizeof *least, by_least);
	k->limit = -1; /* plans are not queued */
	for (int i = 0; i < k->num_ways && i < WAYS; i++)
		if (!k->out->smallest.bytes || least[i].bytes < k->out->smallest.bytes)
			weigh_smallest(k, least[i].way);
	leaves_host_room(k, &k->out->smallest);
	free(least);
}

/* --- the search ------------------------------------------------------------------------------- */

void
seek(struct search *s, const struct search_input *in, bool bf16_moments)
{
	struct found *known = in->found[bf16_moments];
	struct seeking k = { .in = in,
		.out = s,
		.limit = in->seconds > 0 ? in->seconds : INFINITY,
		.bf16_moments = bf16_moments,
		.found = known ? known : found_new(&in->model) };

	memset(s->refusals, 0, sizeof s->refusals);
	ways_each(in, s->refusals, add_way, &k);
	s->legal = k.num_ways;
	push_ways(&k);
	while (k.queue.count && !(in->seconds > 0 && s->count)) {
		struct entry e = pop(&k.queue);

		if (e.time > k.limit)
			break;
		if (e.staged < 0)
			expand(&k, e.way);
		else
			try_plan(&k, &e);
	}
	if (!s->count && k.num_ways && in->seconds <= 0)
		find_smallest(&k);
	seeking_release(&k);
	if (!known)
		found_free(k.found);
}
