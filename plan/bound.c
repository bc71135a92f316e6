/* bound.c - adds up what a stage holds and saves */
#include "plan/bound.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/block/embedding.h"

#include <stdlib.h>
#include <string.h>

/* What a stage at an end of a pipeline needs besides what it holds of the parameters: in all, and
 * of a saved slot, what each layer has there, and each input of recomputed ones. */
struct acts {
	int key[TABLE_KEY];
	bool known;
	uint64_t fixed, slot, kept, layer, input;
};

/* Bytes of an element of each kind, in the order of struct holding: of all that a rank holds, of
 * those that its optimizer owns, and of those of slots. */
enum { KINDS = 3 };
struct rates {
	int key[TABLE_KEY];
	bool known;
	uint64_t all[KINDS], shard[KINDS], own[KINDS], slot;
};

void
bounds_init(struct bounds *b, const struct model_config *c)
{
	*b = (struct bounds){
		.model = c, .acts.size = sizeof(struct acts), .rates.size = sizeof(struct rates)
	};
	b->table.model = c;
	b->table.num_params = model_params(c, &b->table.table);
}

void
bounds_release(struct bounds *b)
{
	for (int i = 0; i < b->count; i++)
		free(b->item[i].before);
	free(b->item);
	free(b->stage);
	free(b->table.table);
	schedule_counts_release(&b->counts);
	place_sizes_release(&b->sizes);
	table_release(&b->acts);
	table_release(&b->rates);
}

/* --- elements --------------------------------------------------------------------------------- */

static void
add_holding(struct holding *to, const struct holding *x, int sign)
{
	to->matrices += sign * x->matrices;
	to->experts += sign * x->experts;
	to->rest += sign * x->rest;
}

/* The elements of a parameter that the first rank of a layout holds. */
static int64_t
held_of(const struct bounds *b, const struct layout *l, const struct param *p)
{
	const int first[AX_COUNT] = { 0 };
	int64_t rows, n = 1;

	if (p->expert >= 0 && p->expert >= b->model->num_experts / layout_expert_ranks(l))
		return 0;
	param_slice(p, b->model, l, first, &rows);
	for (int k = 0; k < p->ndim; k++)
		n *= k == p->shard_dim ? rows : p->shape[k];
	return n;
}

static void
add_layers(const struct bounds *b, const struct layout *l, struct layer_holdings *h)
{
	int64_t layers = model_end(b->model) + 2;

	h->before = mem_zalloc((size_t)layers + 1, sizeof *h->before);
	for (int i = 0; i < b->table.num_params; i++) {
		const struct param *p = &b->table.table[i];
		struct holding *to = &h->before[p->layer + 2];
		int64_t n = held_of(b, l, p);

		if (!param_is_layer_matrix(p, b->model))
			to->rest += n;
		else if (param_among_experts(p, l))
			to->experts += n;
		else
			to->matrices += n;
		if (p->number == EMBEDDING_WORDS)
			h->table = n;
	}
	for (int64_t i = 1; i <= layers; i++) {
		const struct holding *x = &h->before[i];

		h->largest.matrices = int64_max(h->largest.matrices, x->matrices);
		h->largest.experts = int64_max(h->largest.experts, x->experts);
		add_holding(&h->before[i], &h->before[i - 1], 1);
	}
}

/* What ranks of a layout hold of each layer, from before if it is known. */
static const struct layer_holdings *
layers_of(struct bounds *b, const struct layout *l)
{
	int64_t t = l->tensor_model_parallel_size, e = layout_expert_ranks(l),
		slices = layout_expert_slices(l);

	for (int i = 0; i < b->count; i++)
		if (b->item[i].tensor == t && b->item[i].expert_ranks == e &&
		    b->item[i].expert_slices == slices)
			return &b->item[i];
	b->item = mem_realloc(b->item, (size_t)b->count + 1, sizeof *b->item);
	b->item[b->count] =
	    (struct layer_holdings){ .tensor = t, .expert_ranks = e, .expert_slices = slices };
	add_layers(b, l, &b->item[b->count]);
	return &b->item[b->count++];
}

/* Layers [first, end), where -1 stands before the layers. */
static struct holding
between(const struct layer_holdings *h, int64_t first, int64_t end)
{
	struct holding x = h->before[end + 1];

	add_holding(&x, &h->before[first + 1], -1);
	return x;
}

static int64_t
elements_of(const struct holding *x)
{
	return x->matrices + x->experts + x->rest;
}

/* Those of them that a rank's optimizer owns. */
static int64_t
own_of(const struct holding *x, const struct layout *l, bool sharded)
{
	if (!sharded)
		return elements_of(x);
	return ((x->matrices + x->rest) / layout_shard_ranks(l) +
		   x->experts / layout_expert_shard_ranks(l)) /
	    layout_state_instances(l);
}

static bool
has_copy(const struct bounds *b, const struct layout *l)
{
	return l->pipeline_model_parallel_size > 1 && model_table_at_ends(b->model);
}

/* What each stage holds, of [p] stages. */
static void
fill_stages(const struct bounds *b, const struct layout *l, const struct layer_holdings *h,
    struct bound_stage *stage)
{
	int p = (int)l->pipeline_model_parallel_size, n = layout_stages(l);
	int64_t first = 0;

	for (int i = 0; i < n; i++) {
		struct bound_stage *s = &stage[i % p];
		struct holding x = between(h, i == 0 ? -1 : first,
		    i == n - 1 ? model_end(b->model) + 1 : first + l->split[i]);

		if (i < p)
			*s = (struct bound_stage){ .least = l->split[i] };
		add_holding(&s->holds, &x, 1);
		s->layers += l->split[i];
		s->least = s->least < l->split[i] ? s->least : l->split[i];
		first += l->split[i];
	}
	if (has_copy(b, l))
		stage[p - 1].holds.rest += h->table;
}

void
bound_of(struct bounds *b, const struct layout *l, bool sharded, struct bound *out)
{
	struct bound_stage stage[SPLIT_MAX];
	const struct layer_holdings *h = layers_of(b, l);
	int p = (int)l->pipeline_model_parallel_size;

	fill_stages(b, l, h, stage);
	*out = (struct bound){ .largest = h->largest, .end = { stage[0], stage[p - 1] } };
	for (int i = 0; i < p; i++)
		if (elements_of(&stage[i].holds) > out->elements) {
			out->elements = elements_of(&stage[i].holds);
			out->holds = stage[i].holds;
			out->own = own_of(&stage[i].holds, l, sharded);
		}
}

/* A pass of a chunk gathers all that its slots do not have, where a bucket is no larger than the
 * size from which on it is full, and a layer; and each bucket is gathered after an update. */
void
bound_gathers(
    const struct bound *of, const struct layout *l, const struct train_shape *s, int64_t least[2])
{
	const int64_t held[2] = { of->holds.matrices, of->holds.experts },
		      layer[2] = { of->largest.matrices, of->largest.experts },
		      size = s->bucket_size ? s->bucket_size : BUCKET_ELEMENTS;

	for (int k = 0; k < 2; k++) {
		int64_t kept = layout_chunks(l) * BUCKET_SLOTS * (size + layer[k]);

		least[k] = int64_max(held[k], 2 * s->num_microbatches * (held[k] - kept));
	}
}

/* --- a stage ---------------------------------------------------------------------------------- */

/* The plan of a stage with shards of these buckets and of one micro batch, and with one layer if
 * its chunks have any; the others are elsewhere. */
static void
plan_end(struct bounds *b, struct memory_plan *m, const struct layout *l,
    const struct train_shape *s, const struct shards *shards, int stage, bool any)
{
	struct layout one = *l;
	struct train_shape few = *s;
	struct memory_stages stages = {
		.model = b->model, .layout = &one, .shared = &b->counts, .sizes = &b->sizes
	};
	int p = (int)l->pipeline_model_parallel_size;

	if (p > b->num_stages) {
		b->stage = mem_realloc(b->stage, (size_t)p, sizeof *b->stage);
		b->num_stages = p;
	}
	memset(one.split, 0, sizeof one.split);
	one.virtual_stages = 1;
	one.overlap_p2p = false;
	one.split[stage] = p == 1 ? (int)b->model->num_layers : any;
	if (p > 1)
		one.split[stage == 0] = (int)b->model->num_layers - one.split[stage];
	few.num_microbatches = 1;
	few.offloaded_layers = 0;
	b->stage[stage] = (struct memory_stage){ .shards = *shards };
	stages.stage = b->stage;
	memory_plan_stage(m, &stages, &few, stage);
}

/* --- bytes of an element ---------------------------------------------------------------------- */

/* The bytes of the run's arrays for so many elements of a kind, held by `ranks` data ranks. */
static uint64_t
params_of(struct bounds *b, const struct layout *l, const struct train_shape *s, int kind,
    struct bucket bucket)
{
	struct shards shards = { .num_buckets = 1,
		.bucket = &bucket,
		.elements = bucket.count,
		.slot_elements = kind < 0 ? bucket.count : 0 };
	struct memory_plan m;
	uint64_t bytes;

	bucket.layers = kind == 0 || kind == 1;
	bucket.experts = kind == 1;
	if (kind < 0)
		shards.elements = bucket.count = 0;
	plan_end(b, &m, l, s, &shards, 0, true);
	bytes = m.arena[ARENA_PARAMS];
	memory_release(&m);
	return bytes;
}

/* What elements take is linear in those that are held, those of shards and those that are owned:
 * three divisions of as many elements give all. */
static void
find_rates(struct bounds *b, const struct layout *l, const struct train_shape *s, struct rates *r)
{
	enum { N = 1 << 20 };
	const struct bucket none = { .data_ranks = 1, .owners = 1 },
			    two = { .count = N, .data_ranks = 2, .owners = 2 },
			    both = { .count = N, .data_ranks = 2, .owners = 4 },
			    four = { .count = N, .data_ranks = 4, .owners = 4 };
	uint64_t fixed = params_of(b, l, s, 0, none);

	for (int k = 0; k < KINDS; k++) {
		uint64_t half = params_of(b, l, s, k, two) - fixed,
			 owned = params_of(b, l, s, k, both) - fixed,
			 quarter = params_of(b, l, s, k, four) - fixed;

		if (s->sharding == SHARDING_NONE) {
			r->all[k] = half / N;
			continue;
		}
		r->own[k] = (half - owned) / (N / 4);
		r->shard[k] = (owned - quarter) / (N / 4);
		r->all[k] = (half - (r->own[k] + r->shard[k]) * (N / 2)) / N;
	}
	r->slot = (params_of(b, l, s, -1, two) - fixed) / N;
	r->known = true;
}

static const struct rates *
rates_of(struct bounds *b, const struct layout *l, const struct train_shape *s)
{
	const int key[TABLE_KEY] = { s->sharding, s->optimizer_offload > 0,
		layout_most_data_ranks(l) > 1 };
	struct rates *r = table_get(&b->rates, key);
	struct train_shape all = *s;

	/* A share of the optimizer on the host is rounded to buckets. */
	all.optimizer_offload = s->optimizer_offload > 0;
	if (!r->known)
		find_rates(b, l, &all, r);
	return r;
}

/* Bytes of the run's arrays. A slot in which buckets are whole in turn has room for a layer at
 * least. */
static uint64_t
held_bytes(const struct rates *r, const struct layout *l, const struct train_shape *s,
    const struct bound_stage *x)
{
	const int64_t count[KINDS] = { x->holds.matrices, x->holds.experts, x->holds.rest },
		      ranks[KINDS] = { layout_shard_ranks(l), layout_expert_shard_ranks(l),
			      layout_shard_ranks(l) };
	int64_t sharing = layout_state_instances(l);
	uint64_t bytes = 0;

	for (int k = 0; k < KINDS; k++) {
		int64_t shard = s->sharding == SHARDING_NONE ? count[k] : count[k] / ranks[k],
			layer = count[k] / (x->layers ? x->layers : 1),
			turns = int64_min(count[k], BUCKET_SLOTS * layer);

		bytes += r->all[k] * (uint64_t)count[k] + r->shard[k] * (uint64_t)shard +
		    r->own[k] * (uint64_t)(shard / sharing) +
		    r->slot * (uint64_t)(k == KINDS - 1 ? count[k] : turns);
	}
	return bytes;
}

/* --- what is saved ---------------------------------------------------------------------------- */

static const struct acts *
acts_of(struct bounds *b, const struct layout *l, const struct train_shape *s, int stage, bool any)
{
	const int key[TABLE_KEY] = { (int)l->tensor_model_parallel_size,
		(int)l->context_parallel_size, (int)layout_expert_ranks(l),
		(int)layout_expert_slices(l), l->sequence_parallel, (int)s->context_form,
		(int)s->micro_batch_size, (int)s->recompute.granularity,
		l->pipeline_model_parallel_size == 1 ? 0 : 1 + (stage > 0), any };
	struct acts *a = table_get(&b->acts, key);
	struct bucket none = { .data_ranks = 1, .owners = 1 };
	struct shards shards = { .num_buckets = 1, .bucket = &none };
	struct train_shape plain = *s;
	struct memory_plan m;

	if (a->known)
		return a;
	plain.sharding = SHARDING_NONE;
	plan_end(b, &m, l, &plain, &shards, stage, any);
	*a = (struct acts){ .known = true,
		.fixed = m.arena[ARENA_PARAMS] + m.arena[ARENA_SCRATCH] + m.batch_bytes,
		.slot = m.kept_base,
		.kept = m.kept_bytes,
		.layer = m.layer_bytes,
		.input = m.input_bytes };
	memcpy(a->key, key, sizeof a->key);
	memory_release(&m);
	return a;
}

/* The passes that a stage has in flight at the same time. */
static int64_t
in_flight(const struct layout *l, const struct train_shape *s, int64_t stage)
{
	int64_t p = l->pipeline_model_parallel_size, v = layout_chunks(l),
		group = l->microbatch_group ? l->microbatch_group : p,
		ahead = v > 1 ? 2 * (p - stage - 1) + (v - 1) * group + 1 : p - stage;

	return int64_min(ahead, s->num_microbatches * v);
}

/* Bytes of what a chunk of so many layers saves, on the device. */
static uint64_t
slot_of(const struct acts *a, const struct train_shape *s, int64_t layers, int slots)
{
	struct recompute_span span = block_recompute(&s->recompute, layers);
	struct activation_offload_plan gone =
	    activation_offload_plan(s->offloaded_layers, layers, span.chunk, slots);
	uint64_t inputs = span.layers ? (uint64_t)int64_div_up(span.layers, span.chunk) : 0,
		 whole = (uint64_t)(layers - span.layers), most = whole ? a->layer : 0,
		 bytes = a->input * inputs + a->layer * whole;

	if (inputs && a->input > most)
		most = a->input;
	most *= (uint64_t)gone.moved;
	return a->slot + a->kept * (uint64_t)layers + (bytes > most ? bytes - most : 0);
}

static uint64_t
stage_memory(struct bounds *b, const struct layout *l, const struct train_shape *s,
    const struct bound_stage *x, int stage)
{
	const struct acts *a = acts_of(b, l, s, stage, x->least > 0);
	int64_t slots = in_flight(l, s, stage);

	return held_bytes(rates_of(b, l, s), l, s, x) + a->fixed +
	    (uint64_t)slots * slot_of(a, s, x->least, (int)slots);
}

uint64_t
bound_memory(
    struct bounds *b, const struct layout *l, const struct train_shape *s, const struct bound *of)
{
	int last = (int)l->pipeline_model_parallel_size - 1;
	uint64_t first = stage_memory(b, l, s, &of->end[0], 0),
		 other = last ? stage_memory(b, l, s, &of->end[1], last) : 0;

	return first > other ? first : other;
}

/* One of the stages holds no less than the mean, and saves no less than a layer for a pass. */
uint64_t
bound_memory_any(struct bounds *b, const struct layout *l, const struct train_shape *s)
{
	const struct layer_holdings *h = layers_of(b, l);
	int64_t p = l->pipeline_model_parallel_size;
	struct train_shape few = *s;
	struct layout one = *l;
	struct bound_stage x = { .holds = between(h, -1, model_end(b->model) + 1) };

	x.holds.matrices /= p;
	x.holds.experts /= p;
	x.holds.rest /= p;
	x.least = p == 1 ? (int)b->model->num_layers : 1;
	/* A slot has room for a layer, and one of the stages may have none. */
	x.layers = 2 * BUCKET_SLOTS * (int)int64_div_up(b->model->num_layers, p);
	one.virtual_stages = 1;
	few.num_microbatches = 1;
	return stage_memory(b, &one, &few, &x, 0);
}
