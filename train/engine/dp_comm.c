/*
 * dp_comm.c - overlaps reductions and gathers with the passes
 *
 * Each bucket has an event for its reduction and one for its gather. The host knows which
 * operations are pending, so each wait is queued once, on the first use of the bucket, and a step
 * with one data rank queues none.
 */
#include "lib/base/mem.h"
#include "lib/model/weight_slots.h"
#include "train/engine/streams.h"
#include "train/engine/dp_comm.h"
#include "train/engine/offload.h"

#include <stdlib.h>

/* The state of one bucket. */
struct lane {
	struct event
	    *ready; /* recorded when the compute stream has written the gradients or weights */
	struct event *reduced, *gathered;
	bool reducing, gathering; /* pending; the compute stream has not waited for it */
};

struct dp_comm {
	struct stream *grads, *weights; /* for reductions and gathers */
	struct lane *lane;
	bool alone;          /* the rank is the only data rank of all its buckets */
	int next;            /* the bucket that this pass reduces next */
	struct p2p *message; /* for exchanges: two with each data rank */
	bool fresh;          /* the own gradients contain no reduction of this step yet */
	bool complete;       /* they will with the next one */
	struct weight_slots slots;
};

/* The ranks that hold the same bucket. */
static struct comm *
data_ranks_of(const struct engine *e, int k)
{
	return e->mem.shards.bucket[k].experts ? e->groups.edp : e->groups.dp;
}

/* Those of the own instance, which share it, and those of the others with the same share. */
static struct comm *
shard_ranks_of(const struct engine *e, int k)
{
	return e->mem.shards.bucket[k].experts ? e->groups.eshard : e->groups.shard;
}

static struct comm *
instances_of(const struct engine *e, int k)
{
	return e->mem.shards.bucket[k].experts ? e->groups.einstance : e->groups.instance;
}

/* The most data ranks of any bucket. */
static int
most_data_ranks(const struct engine *e)
{
	int most = 1;

	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		most = data_ranks_of(e, k)->size > most ? data_ranks_of(e, k)->size : most;
	return most;
}

/* Whether collectives of a bucket do nothing: its rank is alone, and has no copy of its own. */
static bool
is_idle(const struct engine *e, int k, enum sharding what)
{
	return data_ranks_of(e, k)->size == 1 && !engine_shards(e, what);
}

struct dp_comm *
dp_comm_open(struct engine *e, bool overlap_grads, bool overlap_weights)
{
	const struct backend *b = e->backend;
	struct dp_comm *t = mem_zalloc(1, sizeof *t);
	struct stream *data = b->stream(e->device, STREAM_DATA);

	t->grads = overlap_grads ? data : e->stream;
	t->weights = overlap_weights ? data : e->stream;
	t->lane = mem_zalloc((size_t)e->mem.shards.num_buckets, sizeof *t->lane);
	weight_slots_clear(&t->slots);
	t->alone = most_data_ranks(e) == 1;
	if (t->alone)
		return t;
	t->message = mem_alloc(2 * (size_t)most_data_ranks(e), sizeof *t->message);
	for (int k = 0; k < e->mem.shards.num_buckets; k++) {
		t->lane[k].ready = b->event(e->device);
		t->lane[k].reduced = b->event(e->device);
		t->lane[k].gathered = b->event(e->device);
	}
	return t;
}

void
dp_comm_close(struct dp_comm *t)
{
	if (!t)
		return;
	free(t->lane);
	free(t->message);
	free(t);
}

/* --- one bucket ------------------------------------------------------------------------------- */

static void
wait_reduced(struct engine *e, int k)
{
	struct lane *l = &e->dp_comm->lane[k];

	if (l->reducing)
		streams_join(e, e->dp_comm->grads, l->reduced, SPAN_REDUCE);
	l->reducing = false;
}

/* A bucket that the host has updated is gathered when it is waited for. */
static void
wait_returned(struct engine *e, int k)
{
	if (!offload_pending(e, k))
		return;
	timing_begin(e, SPAN_RETURN);
	offload_await(e, k);
	timing_end(e, SPAN_RETURN);
	dp_comm_updated(e, k);
}

static void
wait_gathered(struct engine *e, int k)
{
	struct lane *l = &e->dp_comm->lane[k];

	wait_returned(e, k);
	if (l->gathering)
		streams_join(e, e->dp_comm->weights, l->gathered, SPAN_GATHER);
	l->gathering = false;
}

/* Copies the sums of sharded gradients from their slot to the own gradients, or adds them to those
 * of earlier micro batches. Calls the stream's own operations, since only those of the compute
 * stream may be observed. */
static void
keep_sum(struct engine *e, int k, const struct tensor *all)
{
	struct stream *st = e->dp_comm->grads;
	struct part own = engine_shard(e, k);
	struct tensor to = engine_part(e, BUF_GRADS, &own);
	struct tensor sum = tensor_rows(all, own.first - e->mem.shards.bucket[k].first, own.count);

	if (own.count == 0)
		return;
	if (e->dp_comm->fresh)
		st->ops->cast(st, &(struct pair){ to, sum });
	else
		st->ops->add(st, &(struct pair){ to, sum });
}

/* A sum over the data ranks of a bucket: all of it is added up, and the own part becomes the
 * sum. */
struct summing {
	struct comm *dp;
	struct tensor own, all;
};

/* Every rank sends the others their parts of a bucket in BF16; own becomes their sum, taken in its
 * own type. */
static void
sum_in_16(struct engine *e, const struct summing *x)
{
	struct stream *st = e->dp_comm->grads;
	struct tensor send = engine_buffer(e, BUF_BF16_GRADS);
	struct comm_parts p = { .whole = tensor_rows(&send, 0, x->all.shape[0]),
		.part = x->own,
		.partial_sums = engine_buffer(e, BUF_DATA_RANK_GRADS) };

	st->ops->cast(st, &(struct pair){ p.whole, x->all });
	x->dp->ops->reduce_scatter_parts(COMM_HERE(x->dp), st, &p);
}

/* Own becomes the sum. */
static void
sum_in_full(struct engine *e, const struct summing *x)
{
	struct comm_parts p = { .whole = x->all,
		.part = x->own,
		.partial_sums = engine_buffer(e, BUF_DATA_RANK_GRADS) };

	x->dp->ops->reduce_scatter_parts(COMM_HERE(x->dp), e->dp_comm->grads, &p);
}

/* A bucket that passes from one division among the data ranks to another. */
struct redivision {
	const struct bucket *bucket;
	struct part (*before)(const struct bucket *, int, int),
	    (*after)(const struct bucket *, int, int);
	struct comm *dp;    /* they */
	int ranks;          /* among whom it is divided after; rank r of them has part r % ranks */
	struct tensor held; /* this rank's part before */
	/* the bucket, or the elements of it from `first` on that are divided, into which its part
	 * after goes */
	struct tensor all;
	int64_t first;
};

/* The elements that are in both parts, of a tensor that begins with the element `first`. */
static struct tensor
both(const struct tensor *t, int64_t first, const struct part *a, const struct part *b)
{
	struct part p = part_cut(a, b->first, b->count);

	return tensor_rows(t, p.first - first, p.count);
}

/* Collectives share elements equally, and an optimizer that needs whole matrices does not, nor do
 * instances, which each have all of a bucket: each rank sends the others what becomes theirs. */
static void
redivide(struct engine *e, struct stream *st, const struct redivision *d)
{
	struct comm *dp = d->dp;
	const struct bucket *b = d->bucket;
	struct part before = d->before(b, dp->rank, dp->size),
		    after = d->after(b, dp->rank % d->ranks, d->ranks);
	struct tensor from = both(&d->held, before.first, &before, &after),
		      to = both(&d->all, d->first, &before, &after);
	struct p2p *message = e->dp_comm->message;
	int count = 0;

	if (!b->part && d->ranks == dp->size)
		return;
	for (int r = 0; r < dp->size; r++) {
		struct part theirs = d->after(b, r % d->ranks, d->ranks),
			    ours = d->before(b, r, dp->size);
		struct tensor give = both(&d->held, before.first, &before, &theirs),
			      take = both(&d->all, d->first, &ours, &after);

		if (r != dp->rank && give.shape[0])
			message[count++] = (struct p2p){ true, r, 0, give };
		if (r != dp->rank && take.shape[0])
			message[count++] = (struct p2p){ false, r, 0, take };
	}
	if (from.shape[0] && from.data != to.data)
		st->ops->cast(st, &(struct pair){ to, from });
	dp->ops->exchange(COMM_HERE(dp), st, &(struct comm_messages){ message, count });
}

/* Of a shard what collectives of n instances that share it give number i; the part that it owns
 * where they share the optimizer's state; and all, which each holds. */
static struct part
instance_share(const struct bucket *b, int i, int n)
{
	struct part shard = bucket_own_shard(b);
	int64_t each = shard.count / n;

	return part_cut(&shard, shard.first + each * i, each);
}

static struct part
instance_part(const struct bucket *b, int i, int n)
{
	return bucket_part(b, b->data_rank * n + i, b->owners);
}

static struct part
instance_shard(const struct bucket *b, int i, int n)
{
	(void)i;
	(void)n;
	return bucket_own_shard(b);
}

/* The shard of the gradients becomes the sum over instances, which are added last; where they share
 * the optimizer's state, the own part of it. What does not divide among them goes to all. */
static void
sum_instances(struct engine *e, int k)
{
	struct stream *st = e->dp_comm->grads;
	struct comm *c = instances_of(e, k);
	const struct bucket *b = &e->mem.shards.bucket[k];
	struct part own = engine_shard(e, k);
	struct tensor grads = engine_part(e, BUF_GRADS, &own);
	int64_t n = own.count / c->size, rest = own.count % c->size;
	bool shared = b->owners > b->data_ranks;
	struct tensor whole = tensor_rows(&grads, 0, n * c->size),
		      room = engine_buffer(e, BUF_DATA_RANK_GRADS);
	int64_t fit = (int64_t)(tensor_bytes(&room) / dtype_size(grads.dtype));
	struct comm_parts p = { .whole = whole,
		.part = tensor_rows(&whole, n * c->rank, n),
		.partial_sums = tensor_1d(room.data, grads.dtype, fit) };

	if (n)
		c->ops->reduce_scatter_parts(COMM_HERE(c), st, &p);
	if (n && !shared)
		c->ops->all_gather(COMM_HERE(c), st, &(struct comm_gather){ whole, p.part });
	if (rest)
		c->ops->all_reduce(COMM_HERE(c), st,
		    &(struct comm_reduce){ tensor_rows(&grads, n * c->size, rest), REDUCE_SUM });
	if (shared)
		redivide(e, st,
		    &(struct redivision){
			b, instance_share, instance_part, c, c->size, p.part, grads, own.first });
}

/* Every instance gets all of the shard of weights, of which each updated a part. */
static void
gather_instances(struct engine *e, int k)
{
	struct dp_comm *t = e->dp_comm;
	struct comm *c = instances_of(e, k);
	const struct bucket *b = &e->mem.shards.bucket[k];
	struct part shard = engine_shard(e, k), part = engine_optim_part(e, k);
	struct tensor all = engine_part(e, BUF_WEIGHTS, &shard),
		      own = engine_part(e, BUF_WEIGHTS, &part);

	streams_fork(e, t->weights, t->lane[k].ready);
	timing_begin(e, SPAN_GATHER);
	if (b->part)
		redivide(e, t->weights,
		    &(struct redivision){
			b, instance_part, instance_shard, c, c->size, own, all, shard.first });
	else
		c->ops->all_gather(COMM_HERE(c), t->weights, &(struct comm_gather){ all, own });
	timing_end(e, SPAN_GATHER);
	e->backend->record(t->weights, t->lane[k].gathered);
	t->lane[k].gathering = true;
}

/* Buckets of layers take slots in turn: between the tensors of a layer lies what one of another
 * shape has left there, which becomes zeros before norms count it. */
static void
clear_gaps(struct engine *e, int k, const struct tensor *all)
{
	const struct shards *s = &e->mem.shards;
	const struct bucket *b = &s->bucket[k];
	struct stream *st = e->dp_comm->grads;
	int64_t end = b->first;

	for (int i = 0; b->gaps && i < s->count; i++) {
		const struct shard *sh = &s->item[i];

		if (sh->bucket != k)
			continue;
		if (sh->offset > end)
			st->ops->fill(st,
			    &(struct fill){
				tensor_rows(all, end - b->first, sh->offset - end), 0 });
		end = sh->offset + sh->count;
	}
}

/* Sums over the data ranks in place: each its own part, and all of them all parts where nothing is
 * sharded. Sharded gradients are summed in an instance, and over instances when they are
 * complete. */
static void
reduce(struct engine *e, int k)
{
	struct dp_comm *t = e->dp_comm;
	bool kept = engine_shards(e, SHARDING_GRADS);
	struct comm *shards = shard_ranks_of(e, k), *dp = kept ? shards : data_ranks_of(e, k);
	const struct bucket *b = &e->mem.shards.bucket[k];
	struct tensor all = engine_bucket(e, true, k);
	int64_t n = all.shape[0] / dp->size;
	struct tensor own = tensor_rows(&all, n * dp->rank, n);

	if (is_idle(e, k, SHARDING_GRADS))
		return;
	streams_fork(e, t->grads, t->lane[k].ready);
	timing_begin(e, SPAN_REDUCE);
	if (kept && b->layers)
		clear_gaps(e, k, &all);
	(memory_buffer(&e->mem, BUF_BF16_GRADS)->bytes ? sum_in_16 : sum_in_full)(
	    e, &(struct summing){ dp, own, all });
	if (!e->mem.sharded)
		dp->ops->all_gather(COMM_HERE(dp), t->grads, &(struct comm_gather){ all, own });
	else
		redivide(e, t->grads,
		    &(struct redivision){
			b, bucket_share, bucket_shard, dp, shards->size, own, all, b->first });
	if (kept)
		keep_sum(e, k, &all);
	if (kept && t->complete && instances_of(e, k))
		sum_instances(e, k);
	timing_end(e, SPAN_REDUCE);
	e->backend->record(t->grads, t->lane[k].reduced);
	t->lane[k].reducing = true;
}

/* Gathers the parts of all ranks of the instance. */
static void
gather(struct engine *e, int k)
{
	struct dp_comm *t = e->dp_comm;
	struct comm *dp = shard_ranks_of(e, k);
	const struct bucket *b = &e->mem.shards.bucket[k];
	struct part p = engine_shard(e, k), share = bucket_share(b, dp->rank, dp->size);
	struct tensor all = engine_bucket(e, false, k), own = engine_part(e, BUF_WEIGHTS, &p);

	if (is_idle(e, k, SHARDING_PARAMS))
		return;
	streams_fork(e, t->weights, t->lane[k].ready);
	timing_begin(e, SPAN_GATHER);
	redivide(e, t->weights,
	    &(struct redivision){
		b, bucket_shard, bucket_share, dp, dp->size, own, all, b->first });
	if (b->part)
		own = tensor_rows(&all, share.first - b->first, share.count);
	dp->ops->all_gather(COMM_HERE(dp), t->weights, &(struct comm_gather){ all, own });
	timing_end(e, SPAN_GATHER);
	e->backend->record(t->weights, t->lane[k].gathered);
	t->lane[k].gathering = true;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Gathers a bucket of layers into its slot, unless it is there already. All uses of the slot's
 * previous content have been queued. */
static void
fetch(struct engine *e, int k)
{
	int before;

	if (offload_pending(e, k) ||
	    !weight_slots_take(&e->dp_comm->slots, &e->mem.shards, k, &before))
		return;
	if (before >= 0)
		wait_gathered(e, before);
	gather(e, k);
}

/* A bucket that the pass uses is there when this returns, one that comes next on its way. */
static void
need_weights(void *ctx, int k, bool used)
{
	struct engine *e = ctx;

	if (used)
		wait_returned(e, k);
	if (engine_shards(e, SHARDING_PARAMS))
		fetch(e, k);
	if (used)
		wait_gathered(e, k);
}

/* True when this backward pass reduces gradients. */
static bool
reduces(const struct step *s)
{
	return !s->e->dp_comm->alone && (s->last || engine_shards(s->e, SHARDING_GRADS));
}

/* Prepares the slot for the gradients of a layer: waits until its previous content has been
 * reduced. */
static void
acquire_grads(struct step *s, int layer)
{
	const struct shards *sh = &s->e->mem.shards;

	for (int k = 0; engine_shards(s->e, SHARDING_GRADS) && k < sh->num_buckets; k++)
		for (int i = 0; i < sh->num_buckets && bucket_serves(&sh->bucket[k], layer); i++)
			if (sh->bucket[i].place == sh->bucket[k].place)
				wait_reduced(s->e, i);
}

/* Whether the pass waits for weights or for room for gradients. */
static bool
waits(const struct step *s)
{
	bool busy = !s->e->dp_comm->alone &&
	    (engine_shards(s->e, SHARDING_PARAMS) || engine_shards(s->e, SHARDING_GRADS));

	for (int k = 0; k < s->e->mem.shards.num_buckets; k++)
		busy |= s->e->dp_comm->lane[k].gathering || offload_pending(s->e, k);
	return busy;
}

/* A backward pass reduces from the last bucket of its chunk on. */
bool
dp_comm_begin(struct step *s, bool backward)
{
	const struct shards *sh = &s->e->mem.shards;
	int k = sh->num_buckets - 1;

	if (!backward)
		return waits(s);
	while (k >= 0 && sh->bucket[k].chunk > s->chunk)
		k--;
	s->e->dp_comm->next = k;
	return reduces(s) || waits(s);
}

void
dp_comm_enter(struct step *s, const struct pass_items *of, const struct segment *now)
{
	const struct pass_item *m = &of->item[now->first];
	int layer = s->e->mem.block[m->block].layer;
	bool backward = m->kind == ITEM_BACKWARD;

	weight_slots_enter(&s->e->mem, of, now, &(struct weight_need){ need_weights, s->e });
	/* The head's gradients are computed in the forward pass. */
	if (backward || (s->training && layer == s->e->plan.model.num_layers))
		acquire_grads(s, layer);
}

void
dp_comm_leave(struct step *s, const struct pass_item *m)
{
	struct dp_comm *t = s->e->dp_comm;
	const struct bucket *b = s->e->mem.shards.bucket;
	int layer = s->e->mem.block[m->block].layer;

	if (m->kind != ITEM_BACKWARD || !reduces(s))
		return;
	t->fresh = s->microbatch == 0;
	t->complete = s->last;
	for (int k = t->next; k >= 0 && b[k].chunk == s->chunk && b[k].first_layer >= layer;
	     t->next = --k)
		reduce(s->e, k);
}

/* --- the ends of a step ----------------------------------------------------------------------- */

void
dp_comm_reduced(struct engine *e)
{
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		wait_reduced(e, k);
}

void
dp_comm_settle(struct engine *e)
{
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		wait_gathered(e, k);
	weight_slots_clear(&e->dp_comm->slots);
}

void
dp_comm_updated(struct engine *e, int k)
{
	struct dp_comm *t = e->dp_comm;

	if (t->alone || !e->mem.sharded)
		return;
	if (e->mem.shards.bucket[k].owners > e->mem.shards.bucket[k].data_ranks)
		gather_instances(e, k);
	if (!engine_shards(e, SHARDING_PARAMS) ||
	    weight_slots_updated(&t->slots, &e->mem.shards, k))
		gather(e, k);
}
