/*
 * optim.c - the registry of update rules, and an update of all that a rank owns
 *
 * Weights exist up to three times: in the run's type for the layers, as F32 master copies of the
 * own range when that type is narrower, and in the moments' buffers beside it. Without a master
 * copy the weights themselves are updated. Updates go by runs of the flat buffer, because weight
 * decay is a property of a parameter.
 */
#include "train/engine/grads.h"
#include "train/optim/optim.h"

/* The registry: by the option's value, which lib/model plans the memory of the moments by. */
static const struct optim_kind *const kinds[] = {
	[OPTIMIZER_ADAM] = &optim_adamw, [OPTIMIZER_SGD] = &optim_sgd
};

/* Elements [first, first + count) of the flat buffer in a buffer that holds the own range alone. */
static struct tensor
own(const struct engine *e, enum buffer b, int64_t first, int64_t count)
{
	struct tensor t = engine_buffer(e, b);

	return t.data ? tensor_rows(&t, first - e->own_first, count) : t;
}

/* For buffers that hold every shard of the rank, own or not. */
static struct tensor
flat(const struct engine *e, enum buffer b, int64_t first, int64_t count)
{
	struct tensor t = engine_buffer(e, b);

	return tensor_rows(&t, first, count);
}

/* Where the updates of these elements of the flat order happen: the master copy, or the weights
 * when the run's type needs none. */
static struct tensor
master(const struct engine *e, int64_t first, int64_t count)
{
	struct tensor t = own(e, BUF_MASTER, first, count);

	return t.data ? t : flat(e, BUF_WEIGHTS, first, count);
}

/* After weights came from a seed or a foreign file: widening is exact, so nothing is lost but
 * what the file's rounding lost before. */
void
optim_from_weights(struct engine *e)
{
	struct tensor master = engine_buffer(e, BUF_MASTER);
	struct tensor weights = flat(e, BUF_WEIGHTS, e->own_first, e->mem.own_elements);

	if (master.data)
		e->ops->cast(e->stream, &master, &weights);
}

/* Every data rank's part to all of them. Collective over the data group, and a no-op when each
 * of its ranks updates everything. */
static void
gather_weights(struct engine *e)
{
	struct comm *dp = e->groups.dp;
	struct tensor all = engine_buffer(e, BUF_WEIGHTS),
		      mine = tensor_rows(&all, e->own_first, e->mem.own_elements);

	if (dp->size > 1 && e->mem.own_elements < e->mem.shards.elements)
		dp->ops->all_gather(dp, e->stream, &all, &mine);
}

/* After master copies were loaded: rounds the own range, then every data rank gets all.
 * Collective over the data group. */
void
optim_to_weights(struct engine *e)
{
	struct tensor master = engine_buffer(e, BUF_MASTER);
	struct tensor weights = flat(e, BUF_WEIGHTS, e->own_first, e->mem.own_elements);

	if (master.data)
		e->ops->cast(e->stream, &weights, &master);
	gather_weights(e);
}

/* Collective over the data group because of the gather. The gradient is scaled inside the update
 * (one factor for loss scale, number of tokens and clipping), so it is not written again. */
void
optim_step(struct engine *e, const struct optim_options *o, const struct optim_update *u)
{
	struct shard_run r;

	if (e->held)
		e->backend->wait(e->stream, e->held);
	e->held = NULL;
	for (int i = 0; grads_run(e, i, &r); i++) {
		struct optim_piece op = {
			.master = master(e, r.first, r.count),
			.exp_avg = own(e, BUF_EXP_AVG, r.first, r.count),
			.exp_avg_sq = own(e, BUF_EXP_AVG_SQ, r.first, r.count),
			.grad = flat(e, BUF_GRADS, r.first, r.count),
			.lr = u->lr,
			.grad_scale = u->grad_scale,
			.step = u->step,
			.weight_decay = r.decay ? u->weight_decay : 0,
		};

		if (e->mem.bytes[BUF_MASTER])
			op.weight = flat(e, BUF_WEIGHTS, r.first, r.count);
		kinds[o->kind]->update(e, o, &op);
	}
	gather_weights(e);
}

/* The first hysteresis - 1 overflows leave the scale, each later one halves it; a full window
 * of clean steps doubles it and restores the hysteresis. A fixed scale never changes. Rule:
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
