/*
 * optim.c - the update rules by number, and an update of all that a rank owns
 *
 * Weights exist up to three times: in the run's type for the layers, as F32 master copies of the
 * own parts when that type is narrower, and the rule's states beside it. Without a master copy the
 * weights themselves are updated. Updates go by bucket, because weight decay is a property of a
 * bucket, and because an updated bucket can be sent immediately.
 */
#include "lib/base/rng.h"
#include "lib/model/optim_list.h"
#include "train/engine/dp_comm.h"
#include "train/engine/fp8.h"
#include "train/engine/grads.h"
#include "train/engine/offload.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "train/optim/qk_clip.h"

#define DECLARE(name, ...) extern const struct optim_kind optim_##name;
#define ENTRY(name, ...) &optim_##name,

OPTIM_RULES(DECLARE)

const struct optim_kind *const optim_kinds[] = { OPTIM_RULES(ENTRY) };

int
optim_check_uses(int kind, const struct backend *b, struct err *e)
{
	char who[64];

	snprintf(who, sizeof who, "--optimizer %s", optim_rules[kind].name);
	return uses_check(optim_kinds[kind]->uses, b, who, e);
}

void
optim_settle(struct engine *e)
{
	if (e->held)
		e->backend->wait(e->stream, e->held);
	e->held = NULL;
	ema_settle(e);
	dp_comm_settle(e);
	fp8_stale(e);
}

/* Converts this rank's part of bucket k: from weights to masters, or back. */
static void
convert(struct engine *e, int k, bool to_weights)
{
	struct part own = engine_optim_part(e, k);
	struct stream *st = engine_stream(e, &own);
	struct tensor master = engine_part(e, BUF_MASTER, &own), weights = engine_updated(e, &own);

	if (master.data)
		st->ops->cast(st,
		    &(struct pair){ to_weights ? weights : master, to_weights ? master : weights });
}

/* Widening is exact: the masters are as precise as the file. */
void
optim_from_weights(struct engine *e)
{
	engine_clear(e, BUF_LOW_BITS);
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		convert(e, k, false);
}

/* Rounds this rank's parts, then gathers the parts of all data ranks. Collective over the data
 * group.
 */
void
optim_to_weights(struct engine *e)
{
	optim_settle(e);
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		convert(e, k, true);
	offload_copy_weights(e, true);
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		dp_comm_updated(e, k);
}

/* What lies in part `within` of a bucket, whose gradients are in grads. */
struct optim_bucket {
	const struct optim_options *o;
	const struct optim_update *u;
	int bucket;
	struct part within;
	struct tensor grads;
};

/* Updates a part of it. draws is NULL for states that are not rounded stochastically. */
static void
update_part(
    struct engine *e, const struct optim_bucket *x, const struct part *p, const struct draws *draws)
{
	const struct bucket *b = &e->mem.shards.bucket[x->bucket];
	struct stream *st = engine_stream(e, p);
	struct optim_chunk op = {
		.stream = st,
		.ops = st == e->stream ? e->ops : st->ops,
		.master = engine_masters(e, p),
		.low_bits = engine_part(e, BUF_LOW_BITS, p),
		.grad = tensor_rows(&x->grads, p->first - x->within.first, p->count),
		.lr = b->vocab ? x->u->vocab_lr : x->u->lr,
		.grad_scale = x->u->grad_scale,
		.step = x->u->step,
		.weight_decay = b->decay ? x->u->weight_decay : 0,
	};

	if (p->count == 0)
		return;
	if (draws)
		op.draws = *draws;
	if (memory_has(&e->mem, BUF_MASTER))
		op.weight = engine_updated(e, p);
	for (int s = 0, n = 0; s < optim_num_states(e->mem.rule); s++)
		if (engine_keeps(e, x->bucket, s))
			op.state[n++] = engine_part(e, BUF_STATE + s, p);
	optim_kinds[x->o->kind]->update(e, x->o, &op);
}

/* Moves biases of experts in a part of a bucket. */
static void
balance_part(struct engine *e, const struct optim_bucket *x, const struct part *p)
{
	struct stream *st = engine_stream(e, p);
	struct balance b = { .master = engine_masters(e, p),
		.low_bits = engine_part(e, BUF_LOW_BITS, p),
		.load = tensor_rows(&x->grads, p->first - x->within.first, p->count),
		.mean = x->u->expert_rows,
		.rate = e->plan.model.moe_router_bias_update_rate };

	if (p->count == 0)
		return;
	if (memory_has(&e->mem, BUF_MASTER))
		b.weight = engine_updated(e, p);
	(st == e->stream ? e->ops : st->ops)->balance(st, &b);
}

/* The random bits of the real elements of a shard from p on, which is a part of them. They depend
 * on the parameter's name, as its initial values do; those have step 0. */
static struct draws
shard_draws(const struct engine *e, const struct optim_bucket *x, const struct shard *s,
    const struct part *p)
{
	const struct param *param = &e->table[s->param];
	int last = param->ndim - 1;
	int64_t row = param->ndim == 2 ? s->slice.start[0] : 0;

	return (struct draws){ .key = e->seed,
		.stream = rng_stream(param->name),
		.step = (uint32_t)x->u->step,
		.start = row * param->shape[last] + s->slice.start[last],
		.first = p->first - s->offset,
		.columns = s->slice.count[last],
		.width = param->shape[last] };
}

/* True when a state is rounded stochastically. */
static bool
draws_bits(const struct engine *e)
{
	for (int s = 0; s < optim_num_states(e->mem.rule); s++)
		if (memory_buffer(&e->mem, BUF_STATE + s)->dtype == DTYPE_BF16)
			return true;
	return false;
}

/* Updates a bucket shard by shard. Elements outside the shards' boxes are zero and stay so. */
static void
update_shards(struct engine *e, const struct optim_bucket *x)
{
	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		struct part p = part_cut(&x->within, s->offset, slice_elements(&s->slice));
		struct draws draws;

		if (s->bucket != x->bucket || p.count == 0)
			continue;
		if (e->table[s->param].flags & PARAM_BALANCE) {
			balance_part(e, x, &p);
			continue;
		}
		draws = shard_draws(e, x, s, &p);
		update_part(e, x, &p, &draws);
	}
}

/* Updates it run by run, where nothing is rounded stochastically. */
static void
update_bucket(struct engine *e, const struct optim_bucket *x)
{
	if (draws_bits(e)) {
		update_shards(e, x);
		return;
	}
	for (int i = 0; i < e->mem.shards.num_runs; i++) {
		const struct shard_run *r = &e->mem.shards.run[i];
		struct part p = part_cut(&x->within, r->first, r->count);

		if (r->bucket != x->bucket)
			continue;
		if (r->balance)
			balance_part(e, x, &p);
		else
			update_part(e, x, &p, NULL);
	}
}

/* What the host needs of an update. */
struct updating {
	struct optim_options o;
	struct optim_update u;
};

static void
update_chunk(
    struct engine *e, const struct bucket_chunk *p, const struct tensor *grads, const void *ctx)
{
	const struct updating *x = ctx;

	update_bucket(e, &(struct optim_bucket){ &x->o, &x->u, p->bucket, p->part, *grads });
	qk_clip_part(e, &x->o.qk_clip, x->u.scores, p->bucket, &p->part);
}

/* Collective over the data group: each bucket is sent to the others as soon as it is updated, or
 * when a pass needs it, if the host does that. The gradient is scaled inside the update (one factor
 * for loss scale, number of tokens and clipping), which saves a pass over it. */
void
optim_step(struct engine *e, const struct optim_options *o, const struct optim_update *u)
{
	optim_settle(e);
	offload_begin(e,
	    &(struct offload_update){
		update_chunk, &(struct updating){ *o, *u }, sizeof(struct updating) });
	for (int k = 0; k < e->mem.shards.num_buckets; k++) {
		struct part own = engine_optim_part(e, k);

		if (engine_updated_on_host(e, &own))
			continue;
		if (e->mem.shards.bucket[k].layers && optim_kinds[o->kind]->matrices)
			optim_kinds[o->kind]->matrices(e, o, u, k);
		else
			update_bucket(e,
			    &(struct optim_bucket){
				o, u, k, own, engine_part(e, BUF_GRADS, &own) });
		qk_clip_part(e, &o->qk_clip, u->scores, k, &own);
		dp_comm_updated(e, k);
	}
}
