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
#include "train/engine/fp8.h"
#include "train/engine/grads.h"
#include "train/engine/traffic.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"

#define DECLARE(name, ...) extern const struct optim_kind optim_##name;
#define ENTRY(name, ...) &optim_##name,

OPTIM_RULES(DECLARE)

const struct optim_kind *const optim_kinds[] = { OPTIM_RULES(ENTRY) };

/* Called before weights, masters or moments change: waits for copies that read them; those of 8
 * bits are of old weights then. */
static void
hold(struct engine *e)
{
	if (e->held)
		e->backend->wait(e->stream, e->held);
	e->held = NULL;
	ema_settle(e);
	traffic_settle(e);
	fp8_stale(e);
}

/* Converts this rank's part of bucket k: from weights to masters, or back. */
static void
convert(struct engine *e, int k, bool to_weights)
{
	struct part own = engine_own(e, k);
	struct tensor master = engine_part(e, BUF_MASTER, &own);
	struct tensor weights = engine_part(e, BUF_WEIGHTS, &own);

	if (master.data)
		e->ops->cast(
		    e->stream, to_weights ? &weights : &master, to_weights ? &master : &weights);
}

/* Widening is exact: the masters are as precise as the file. Zero bits are 0 in every type. */
void
optim_from_weights(struct engine *e)
{
	struct tensor remainder = engine_buffer(e, BUF_REMAINDER);

	remainder.dtype = DTYPE_BF16;
	if (remainder.data)
		e->ops->fill(e->stream, &remainder, 0);
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		convert(e, k, false);
}

/* Rounds this rank's parts, then gathers the parts of all replicas. Collective over the data group.
 */
void
optim_to_weights(struct engine *e)
{
	hold(e);
	for (int k = 0; k < e->mem.shards.num_buckets; k++) {
		convert(e, k, true);
		traffic_updated(e, k);
	}
}

/* What all pieces of an update have in common. */
struct updating {
	struct engine *e;
	const struct optim_options *o;
	const struct optim_update *u;
};

/* Updates a part of bucket k. draws is NULL for states that are not rounded stochastically. */
static void
update_part(const struct updating *x, int k, const struct part *p, const struct draws *draws)
{
	struct engine *e = x->e;
	struct optim_piece op = {
		.master = engine_masters(e, p),
		.remainder = engine_part(e, BUF_REMAINDER, p),
		.grad = engine_part(e, BUF_GRADS, p),
		.lr = e->mem.shards.bucket[k].vocab ? x->u->vocab_lr : x->u->lr,
		.grad_scale = x->u->grad_scale,
		.step = x->u->step,
		.weight_decay = e->mem.shards.bucket[k].decay ? x->u->weight_decay : 0,
	};

	if (p->count == 0)
		return;
	if (draws)
		op.draws = *draws;
	if (e->mem.bytes[BUF_MASTER])
		op.weight = engine_part(e, BUF_WEIGHTS, p);
	for (int s = 0, n = 0; s < optim_num_states(e->mem.rule); s++)
		if (engine_keeps(e, k, s))
			op.state[n++] = engine_part(e, (enum buffer)(BUF_STATE + s), p);
	optim_kinds[x->o->kind]->update(e, x->o, &op);
}

/* Moves biases of experts in a part of a bucket. */
static void
balance_part(const struct updating *x, const struct part *p)
{
	struct engine *e = x->e;
	struct balance b = { .master = engine_masters(e, p),
		.load = engine_part(e, BUF_GRADS, p),
		.mean = x->u->expert_rows,
		.rate = e->plan.model.moe_router_bias_update_rate };

	if (p->count == 0)
		return;
	if (e->mem.bytes[BUF_MASTER])
		b.weight = engine_part(e, BUF_WEIGHTS, p);
	e->ops->balance(e->stream, &b);
}

/* The random bits of the real elements of a shard from p on, which is a part of them. They depend
 * on the parameter's name, as its initial values do; those have step 0. */
static struct draws
shard_draws(const struct updating *x, const struct shard *s, const struct part *p)
{
	const struct param *param = &x->e->table[s->param];
	int last = param->ndim - 1;
	int64_t row = param->ndim == 2 ? s->box.start[0] : 0;

	return (struct draws){ .key = x->e->seed,
		.stream = rng_stream(param->name),
		.step = (uint32_t)x->u->step,
		.start = row * param->shape[last] + s->box.start[last],
		.first = p->first - s->offset,
		.columns = s->box.count[last],
		.width = param->shape[last] };
}

/* True when a state is rounded stochastically. */
static bool
draws_bits(const struct engine *e)
{
	for (int s = 0; s < optim_num_states(e->mem.rule); s++)
		if (e->mem.dtype[BUF_STATE + s] == DTYPE_BF16)
			return true;
	return false;
}

/* Updates bucket k shard by shard. Elements outside the shards' boxes are zero and stay so. */
static void
update_shards(const struct updating *x, int k)
{
	struct engine *e = x->e;

	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		struct part own = engine_own_shard(e, s);
		struct part p = part_cut(&own, s->offset, slice_elements(&s->box));
		struct draws draws;

		if (s->bucket != k || p.count == 0)
			continue;
		if (e->table[s->param].flags & PARAM_BALANCE) {
			balance_part(x, &p);
			continue;
		}
		draws = shard_draws(x, s, &p);
		update_part(x, k, &p, &draws);
	}
}

/* Updates bucket k in as few pieces as it has runs. */
static void
update_runs(const struct updating *x, int k)
{
	for (int i = 0; i < x->e->mem.shards.num_runs; i++) {
		const struct shard_run *run = &x->e->mem.shards.run[i];
		struct part p = grads_run(x->e, i);

		if (run->bucket != k)
			continue;
		if (run->balance)
			balance_part(x, &p);
		else
			update_part(x, k, &p, NULL);
	}
}

/* Collective over the data group: each bucket is sent to the others as soon as it is updated. The
 * gradient is scaled inside the update (one factor for loss scale, number of tokens and clipping),
 * which saves a pass over it. */
void
optim_step(struct engine *e, const struct optim_options *o, const struct optim_update *u)
{
	const struct shards *s = &e->mem.shards;
	const struct updating x = { e, o, u };
	bool by_shard = draws_bits(e);

	hold(e);
	for (int k = 0; k < s->num_buckets; k++) {
		if (s->bucket[k].layers && optim_kinds[o->kind]->matrices)
			optim_kinds[o->kind]->matrices(e, o, u, k);
		else if (by_shard)
			update_shards(&x, k);
		else
			update_runs(&x, k);
		if (u->scores)
			qk_clip_bucket(e, &o->qk_clip, u->scores, k);
		traffic_updated(e, k);
	}
}

/* The first hysteresis - 1 overflows leave the scale as it is, each later one halves it; a full
 * window of clean steps doubles it and restores the hysteresis. A fixed scale never changes. Rule:
 * Megatron-LM core/optimizer/grad_scaler.py. */
void
scaler_update(struct scaler *s, bool overflow)
{
	if (!s->dynamic)
		return;
	if (overflow) {
		s->growth = 0;
		if (--s->hysteresis_left <= 0)
			s->scale = s->scale / 2 > s->min_scale ? s->scale / 2 : s->min_scale;
	} else if (++s->growth == s->window) {
		s->growth = 0;
		s->hysteresis_left = s->hysteresis;
		s->scale *= 2;
	}
}
