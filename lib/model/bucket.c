/*
 * bucket.c - places shards in buckets
 *
 * The list of shards in flat order is divided where a new bucket begins; the rest is addition.
 * Ranks that reduce together have buckets of equal size, because the sizes follow from shapes that
 * these ranks share: those of one stage, and those of a tied table on both its stages.
 */
#include "lib/base/int64.h"
#include "lib/model/block/embedding.h"
#include "lib/base/mem.h"
#include "lib/model/bucket.h"

#include <stdlib.h>
#include <string.h>

/* m is positive; n is far below 2^63. */
static int64_t
round_up(int64_t n, int64_t m)
{
	return (n + m - 1) / m * m;
}

/* Fills in the shard of parameter p on the rank at coord, whose stage has it, except its chunk and
 * place; false when the rank has none: p is of an expert of other ranks. */
static bool
shard_of(
    struct shard *sh, const struct param *p, const struct shards_of *of, const int coord[AX_COUNT])
{
	int64_t rows, experts = of->model->num_experts / layout_expert_ranks(of->layout);
	int at[EX_COUNT];

	layout_expert_coord(of->layout, coord, at);
	if (p->expert >= 0 && p->expert / experts != at[EX_EP])
		return false;
	sh->slice = param_slice(p, of->model, of->layout, coord, &rows);
	sh->count = 1;
	for (int k = 0; k < p->ndim; k++) {
		sh->shape[k] = k == p->shard_dim ? rows : p->shape[k];
		sh->count *= sh->shape[k];
	}
	sh->owner = !sh->tied_copy && param_owner(p, of->model, of->layout, coord[AX_TP]);
	return true;
}

/* The first row of the table that is of this layer or of one after it. The table is in their order,
 * and a model may have many times as many layers as a stage. */
static int
first_row(const struct shards_of *of, int64_t layer)
{
	int low = 0, high = of->count;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (of->table[middle].layer < layer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Adds the shards that the rank at coord has of rows [rows[0], rows[1]), in this chunk; with
 * a copy of the tied table among them alone. */
static void
add_shards(struct shards *s, const struct shards_of *of, const int coord[AX_COUNT], int chunk,
    const int rows[2], bool tied_copy)
{
	s->item = mem_realloc(s->item, (size_t)(s->count + rows[1] - rows[0]), sizeof *s->item);
	for (int i = rows[0]; i < rows[1]; i++) {
		struct shard *sh = &s->item[s->count];

		*sh = (struct shard){ .param = i, .chunk = chunk, .tied_copy = tied_copy };
		if (!tied_copy || of->table[i].number == EMBEDDING_WORDS)
			s->count += shard_of(sh, &of->table[i], of, coord);
	}
}

/* What the blocks of the stage have: the layers of each chunk, what comes before them on the first
 * stage, and after them on the last one, which has a copy of the table of word embeddings too where
 * it reads that. */
static void
take_shards(struct shards *s, const struct shards_of *of, const int coord[AX_COUNT])
{
	const struct layout *l = of->layout;
	int pp = coord[AX_PP], chunks = layout_chunks(l), stages = layout_stages(l),
	    rows[2] = { 0, first_row(of, 0) };

	if (model_table_at_ends(of->model) && pp > 0 && pp == l->pipeline_model_parallel_size - 1)
		add_shards(s, of, coord, chunks - 1, rows, true);
	for (int j = 0; j < chunks; j++) {
		int stage = layout_stage(l, pp, j);
		int64_t first, count;

		layout_layers(l, of->model, stage, &first, &count);
		rows[0] = stage == 0 ? 0 : first_row(of, first);
		rows[1] = stage == stages - 1 ? of->count : first_row(of, first + count);
		add_shards(s, of, coord, j, rows, false);
	}
	s->item = mem_realloc(s->item, (size_t)s->count, sizeof *s->item);
}

/* --- placing ---------------------------------------------------------------------------------- */

struct placing {
	struct shards *s;
	const struct shards_of *of;
	int64_t size,
	    align;   /* a bucket is full from `size` on; its size is a multiple of `align` */
	int64_t end; /* end of the last shard placed */
	const int *coord;
	int chunk;       /* the chunk being placed */
	int first, last; /* its shards; shard 0 may be its copy of a tied table */
	bool fresh;      /* none of its shards is placed yet */
};

/* Classes of shards, in the order in which they are placed. */
enum class { WHOLE_VECTORS, BALANCES, CUT_VECTORS, EXPERT_VECTORS, MATRICES };

static enum class class_of(const struct placing *x, const struct param *p) {
	return p->ndim > 1                          ? MATRICES
	    : p->flags &PARAM_BALANCE               ? BALANCES
	    : param_among_experts(p, x->of->layout) ? EXPERT_VECTORS
	    : p->shard == SHARD_NONE                ? WHOLE_VECTORS
						    : CUT_VECTORS;
}

/* The layer that uses a shard: the head, for a copy of a tied table. */
static int
used_by(const struct placing *x, const struct shard *sh)
{
	return sh->tied_copy ? (int)x->of->model->num_layers : x->of->table[sh->param].layer;
}

/* The last layer that uses it: layers after the head read tables of words and positions. */
static int
last_use(const struct placing *x, const struct shard *sh)
{
	const struct param *p = &x->of->table[sh->param];
	const struct model_config *c = x->of->model;
	bool last = x->coord[AX_PP] == x->of->layout->pipeline_model_parallel_size - 1;

	bool table = p->shard == SHARD_VOCAB || p->number == EMBEDDING_POSITIONS;

	return c->mtp_num_layers && last && table ? (int)model_end(c) : used_by(x, sh);
}

static bool
is_layer(const struct placing *x, const struct param *p)
{
	return layer_transforms(x->of->model, p->layer);
}

/* True when a matrix begins a bucket. `before` is the one placed before it. Experts that ranks
 * share are reduced among others than the rest. A vocabulary table has its own bucket, so that both
 * copies of a tied one are divided equally. */
static bool
begins(const struct placing *x, const struct param *p, const struct param *before)
{
	const struct bucket *b = &x->s->bucket[x->s->num_buckets - 1];

	if (param_among_experts(p, x->of->layout) != param_among_experts(before, x->of->layout))
		return true;
	if (p->layer == before->layer)
		return p->shard == SHARD_VOCAB || before->shard == SHARD_VOCAB;
	return !is_layer(x, p) || !is_layer(x, before) || x->end - b->first >= x->size;
}

static void
end_bucket(struct placing *x)
{
	struct bucket *b = &x->s->bucket[x->s->num_buckets - 1];

	x->end = round_up(x->end, x->align);
	b->count = x->end - b->first;
}

static void
begin_bucket(struct placing *x, const struct shard *sh, const struct param *p)
{
	struct bucket *b = &x->s->bucket[x->s->num_buckets++];
	int layer = used_by(x, sh), sharing = (int)layout_state_instances(x->of->layout);

	x->fresh = false;
	*b = (struct bucket){ .first = x->end,
		.state = x->end,
		.chunk = x->chunk,
		.first_layer = layer,
		.last_layer = layer,
		.decay = p->ndim > 1,
		.layers = param_is_layer_matrix(p, x->of->model),
		.vocab = p->ndim > 1 && p->shard == SHARD_VOCAB,
		.experts = param_among_experts(p, x->of->layout),
		.data_rank = layout_data_rank(x->of->layout, x->coord),
		.data_ranks = (int)layout_shard_ranks(x->of->layout) };
	if (b->experts) {
		int at[EX_COUNT];

		layout_expert_coord(x->of->layout, x->coord, at);
		b->data_rank = at[EX_DP];
		b->data_ranks = (int)layout_expert_shard_ranks(x->of->layout);
	}
	b->instance = b->data_rank / b->data_ranks;
	b->data_rank %= b->data_ranks;
	b->owners = b->data_ranks * sharing;
	b->owner = b->data_rank * sharing + b->instance % sharing;
}

/* A run continues over the gap between shards while all that it says stays the same. So does a sum:
 * one collective serves many shards. */
static void
place(struct placing *x, struct shard *sh, const struct param *p)
{
	struct shards *s = x->s;
	struct bucket *b = &s->bucket[s->num_buckets - 1];
	struct shard_run *run = s->num_runs ? &s->run[s->num_runs - 1] : NULL;
	struct shard_sum *sum = s->num_sums ? &s->sum[s->num_sums - 1] : NULL;
	unsigned sums = param_sums(p, x->of->layout);
	bool balance = p->flags & PARAM_BALANCE;
	int layer = used_by(x, sh);

	sh->bucket = s->num_buckets - 1;
	sh->offset = p->flags & PARAM_JOINED ? x->end : round_up(x->end, SHARD_ALIGN);
	b->gaps |= sh->offset > x->end;
	x->end = sh->offset + sh->count;
	b->first_layer = layer < b->first_layer ? layer : b->first_layer;
	layer = last_use(x, sh);
	b->last_layer = layer > b->last_layer ? layer : b->last_layer;
	if (!run || run->bucket != sh->bucket || run->owner != sh->owner ||
	    run->balance != balance) {
		run = &s->run[s->num_runs++];
		*run = (struct shard_run){ sh->offset, 0, sh->bucket, sh->owner, balance };
	}
	run->count = x->end - run->first;
	if (!sum || sum->bucket != sh->bucket || sum->sums != sums) {
		sum = &s->sum[s->num_sums++];
		*sum = (struct shard_sum){ sh->offset, 0, sh->bucket, sums };
	}
	sum->count = x->end - sum->first;
}

/* Places one class of shards of the chunk, in model order. Vectors share one bucket, but for those
 * of experts that ranks share, which have their own. */
static void
place_class(struct placing *x, enum class class)
{
	const struct param *before = NULL;

	for (int i = x->s->item[0].tied_copy ? 0 : x->first; i < x->last;
	     i = i < x->first ? x->first : i + 1) {
		struct shard *sh = &x->s->item[i];
		const struct param *p = &x->of->table[sh->param];

		if (sh->chunk != x->chunk || class_of(x, p) != class)
			continue;
		if (x->fresh || (class == EXPERT_VECTORS && !before) ||
		    (class == MATRICES && (!before || begins(x, p, before)))) {
			if (x->s->num_buckets)
				end_bucket(x);
			begin_bucket(x, sh, p);
		}
		place(x, sh, p);
		before = p;
	}
}

/* A kind of buckets of layers share BUCKET_SLOTS slots in turn, or fewer if there are fewer
 * buckets; each slot has the size of the largest. A layer may need a bucket of each kind at once,
 * so the slots of experts are others. */
static void
place_turns(struct shards *s, bool experts)
{
	int64_t largest = 0;
	int n = 0;

	for (int k = 0; k < s->num_buckets; k++)
		if (s->bucket[k].layers && s->bucket[k].experts == experts)
			largest = int64_max(largest, s->bucket[k].count);
	for (int k = 0; k < s->num_buckets; k++) {
		struct bucket *b = &s->bucket[k];
		int slot = n % BUCKET_SLOTS;

		if (!b->layers || b->experts != experts)
			continue;
		b->turn = slot + (experts ? BUCKET_SLOTS : 0);
		b->place = s->slot_elements + slot * largest;
		n++;
	}
	s->slot_elements += int64_min(n, BUCKET_SLOTS) * largest;
}

void
shards_init(struct shards *s, const struct shards_of *of, const int coord[AX_COUNT])
{
	const struct layout *l = of->layout;
	int64_t experts = layout_expert_holders(l) > 1 ? layout_expert_data_ranks(l) : 1;
	struct placing x = { s, of, of->bucket_size ? of->bucket_size : BUCKET_ELEMENTS,
		layout_lcm(layout_lcm(layout_data_ranks(l), experts), BUCKET_ALIGN),
		.coord = coord };
	int64_t own = 0, held = 0;

	memset(s, 0, sizeof *s);
	take_shards(s, of, coord);
	s->bucket = mem_zalloc((size_t)s->count, sizeof *s->bucket);
	s->run = mem_zalloc((size_t)s->count, sizeof *s->run);
	s->sum = mem_zalloc((size_t)s->count, sizeof *s->sum);
	x.last = s->count > 0 && s->item[0].tied_copy;
	for (; x.chunk < layout_chunks(l); x.chunk++) {
		x.fresh = true;
		for (x.first = x.last; x.last < s->count && s->item[x.last].chunk == x.chunk;)
			x.last++;
		place_class(&x, WHOLE_VECTORS);
		place_class(&x, BALANCES);
		place_class(&x, CUT_VECTORS);
		place_class(&x, EXPERT_VECTORS);
		place_class(&x, MATRICES);
	}
	end_bucket(&x);
	s->elements = x.end;
	for (int k = 0; k < s->num_buckets; k++) {
		struct bucket *b = &s->bucket[k];

		b->in_shard = held;
		b->in_optim = b->in_state = own;
		held += b->count / b->data_ranks;
		own += b->count / b->owners;
		s->largest = int64_max(s->largest, b->count);
		if (!b->layers) {
			b->place = s->slot_elements;
			s->slot_elements += b->count;
		}
	}
	for (int i = 0; i < s->num_sums; i++)
		if (s->sum[i].sums & SUM_TENSOR) {
			s->num_tensor_sums++;
			s->tensor_sums += s->sum[i].count;
		}
	place_turns(s, false);
	place_turns(s, true);
}

/* The table of parameters belongs to the caller. */
void
shards_release(struct shards *s)
{
	free(s->item);
	free(s->bucket);
	free(s->run);
	free(s->sum);
	free(s->part);
	memset(s, 0, sizeof *s);
}

void
shards_forget(struct shards *s)
{
	free(s->item);
	free(s->run);
	free(s->sum);
	s->item = NULL;
	s->run = NULL;
	s->sum = NULL;
	s->bucket = mem_realloc(s->bucket, (size_t)s->num_buckets, sizeof *s->bucket);
}

bool
bucket_serves(const struct bucket *b, int layer)
{
	return b->first_layer <= layer && layer <= b->last_layer;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* The division is exact: every count is a multiple of the data ranks. */
struct part
bucket_share(const struct bucket *b, int data_rank, int data_ranks)
{
	int64_t n = b->count / data_ranks;

	return (struct part){ .first = b->first + n * data_rank, .count = n };
}

struct part
bucket_part(const struct bucket *b, int owner, int owners)
{
	struct part p = bucket_share(b, owner, owners);

	if (owners > 1)
		return b->part ? b->part[owner] : p;
	p.in_shard = p.in_optim = b->first;
	p.state = b->state;
	return p;
}

/* Owners without an element have no place. */
struct part
bucket_shard(const struct bucket *b, int data_rank, int data_ranks)
{
	int each = data_ranks > 1 ? b->owners / data_ranks : 1;
	struct part all = bucket_share(b, data_rank, data_ranks), p;

	if (data_ranks == 1 || !b->part)
		return all;
	all.count = 0;
	for (int i = data_rank * each; i < (data_rank + 1) * each; i++) {
		p = bucket_part(b, i, b->owners);
		if (p.count && (all.count == 0 || p.first < all.first))
			all.first = p.first;
		all.count += p.count;
	}
	return all;
}

struct part
bucket_own_shard(const struct bucket *b)
{
	struct part p = bucket_shard(b, b->data_rank, b->data_ranks);

	p.in_shard = b->in_shard;
	return p;
}

struct part
bucket_optim_part(const struct bucket *b)
{
	struct part p = bucket_part(b, b->owner, b->owners);

	p.in_shard = b->in_shard + (p.count ? p.first - bucket_own_shard(b).first : 0);
	p.in_optim = b->in_optim;
	p.state = b->in_state;
	return p;
}

bool
bucket_first_copy(const struct bucket *b)
{
	return b->instance == 0 || b->owners > b->data_ranks;
}

/* What the parts of buckets are of: all of a bucket, the ranks of an instance, or owners. */
enum division { UNDIVIDED, SHARDS, OWNERS };

/* The most that one of a division has of buckets that all are divided alike. */
static int64_t
most_elements(const struct shards *s, bool layers, bool experts, enum division by)
{
	int64_t most = 0, own;
	int i = 0, parts = 1;

	do {
		own = 0;
		for (int k = 0; k < s->num_buckets; k++) {
			const struct bucket *b = &s->bucket[k];
			int n = by == OWNERS ? b->owners : by == SHARDS ? b->data_ranks : 1;

			if (b->layers != layers || b->experts != experts)
				continue;
			own += (by == SHARDS ? bucket_shard : bucket_part)(b, i, n).count;
			parts = b->part ? n : 1;
		}
		most = int64_max(most, own);
	} while (++i < parts);
	return most;
}

/* A rank's number among the data ranks of its experts is another than among those of the rest. */
int64_t
shards_optim_elements(const struct shards *s, bool layers, bool sharded)
{
	enum division by = sharded ? OWNERS : UNDIVIDED;

	return most_elements(s, layers, false, by) + most_elements(s, layers, true, by);
}

int64_t
shards_shard_elements(const struct shards *s, bool layers)
{
	return most_elements(s, layers, false, SHARDS) + most_elements(s, layers, true, SHARDS);
}

struct part
part_cut(const struct part *p, int64_t first, int64_t count)
{
	int64_t end = first + count, part_end = p->first + p->count;

	end = end < part_end ? end : part_end;
	first = first > p->first ? first : p->first;
	return (struct part){ first, end > first ? end - first : 0, p->in_shard + first - p->first,
		p->in_optim + first - p->first, p->state + first - p->first };
}

struct part
shard_part(const struct shards *s, const struct shard *sh, int owner, int owners)
{
	struct part p = bucket_part(&s->bucket[sh->bucket], owner, owners);

	return part_cut(&p, sh->offset, sh->count);
}

struct part
shard_share(const struct shards *s, const struct shard *sh)
{
	struct part p = bucket_optim_part(&s->bucket[sh->bucket]);

	return part_cut(&p, sh->offset, sh->count);
}

/*
 * Real elements come first in a shard's memory, since vocabulary padding is always the last rows;
 * so the part is clipped to them and slice_flat does the rest.
 */
int
shard_slices(const struct shard *sh, const struct part *p, struct slice out[SLICE_FLAT_MAX])
{
	struct part real = part_cut(p, sh->offset, slice_elements(&sh->slice));

	return real.count ? slice_flat(&sh->slice, real.first - sh->offset, real.count, out) : 0;
}
