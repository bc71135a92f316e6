/*
 * gather.c - context ranks gather keys and values
 *
 * A rank has the queries of its own positions, two stretches of the sequence, and all keys and
 * values. Each stretch is one call of attention, with the keys up to its last query. In the first
 * half of the sequence the stretches lie in the order of ranks, in the second half in reverse: keys
 * are gathered, and their gradients summed, by one collective in parts for each half, beside what
 * the rank computes meanwhile. The backward pass gathers the keys again, since saving them would
 * undo the division of the sequence. Source: docs/parallelism.md 6.
 */
#include "lib/model/block/attention.h"
#include "train/engine/streams.h"
#include "train/layers/context.h"
#include "train/layers/linear.h"

/* k or v, which is as wide as `like` of it, of a matrix that has them side by side. */
static struct tensor
side(const struct tensor *pair, const struct tensor *like, bool v)
{
	int64_t width = like->shape[1];

	return tensor_columns(pair, v ? pair->shape[1] - width : 0, width);
}

/* --- collectives ------------------------------------------------------------------------------ */

/* All positions in order, or their gradients from the queries of this rank. */
static struct tensor
all_positions(const struct engine *e, int b)
{
	struct tensor t = engine_buffer(e, b);

	return context_positions(e, &t, &(struct position_range){ 0, e->plan.shape.seq_length });
}

/* The half in which a stretch of each rank lies. */
static struct comm_parts
half(const struct engine *e, const struct tensor *all, int position_range)
{
	int64_t rows = all->shape[0] / POSITION_RANGES;

	return (struct comm_parts){
		.whole = tensor_rows(all, position_range * rows, rows),
		.part = context_positions(e, all, &e->position_range[position_range]),
		.reversed = position_range > 0,
	};
}

/* The span is the host's, as of all that is not on the compute stream: what that waits for is timed
 * by streams_join. */
static void
gather_keys(struct engine *e)
{
	struct tensor all = all_positions(e, ATTENTION_CONTEXT_KEYS);
	struct comm *cp = e->groups.cp;

	streams_fork(e, e->context.stream, e->context.ready);
	timing_begin(e, SPAN_CONTEXT);
	for (int i = 0; i < POSITION_RANGES; i++) {
		struct comm_parts p = half(e, &all, i);

		cp->ops->all_gather_parts(COMM_HERE(cp), e->context.stream, &p);
	}
	timing_end(e, SPAN_CONTEXT);
	e->backend->record(e->context.stream, e->context.gathered);
}

/* The gradients of a stretch's keys become their sums over all ranks. */
static void
sum_gradients(struct engine *e, int position_range)
{
	struct tensor all = all_positions(e, ATTENTION_CONTEXT_PARTIAL);
	struct comm_parts p = half(e, &all, position_range);
	struct comm *cp = e->groups.cp;

	p.partial_sums = engine_buffer(e, ATTENTION_CONTEXT_SUMS);
	streams_fork(e, e->context.stream, e->context.ready);
	timing_begin(e, SPAN_CONTEXT);
	cp->ops->reduce_scatter_parts(COMM_HERE(cp), e->context.stream, &p);
	timing_end(e, SPAN_CONTEXT);
	e->backend->record(e->context.stream, e->context.summed);
}

/* --- one stretch ------------------------------------------------------------------------------ */

/* The part of lse or delta that belongs to a stretch, [b * n, positions of the stretch]. */
static struct tensor
range_statistics(const struct engine *e, const struct tensor *t, int position_range)
{
	int64_t heads = t->shape[0], first = heads * context_before(e, position_range);

	return tensor_2d((char *)t->data + (size_t)first * dtype_size(t->dtype), t->dtype, heads,
	    e->position_range[position_range].count);
}

/* The positions whose keys some query of a stretch sees: from 0 to the stretch's end. */
static struct position_range
seen(const struct engine *e, int position_range)
{
	return (struct position_range){ 0,
		e->position_range[position_range].first + e->position_range[position_range].count };
}

/* The arguments for one stretch of queries. */
static struct attention
range_attention(const struct engine *e, const struct attention *a, int i)
{
	struct tensor all = engine_buffer(e, ATTENTION_CONTEXT_KEYS);
	struct position_range s = seen(e, i);
	struct tensor keys = context_positions(e, &all, &s);
	struct attention part = *a;

	part.out = context_range(e, &a->out, i);
	part.lse = range_statistics(e, &a->lse, i);
	part.q = context_range(e, &a->q, i);
	part.first = context_range(e, &a->first, i);
	part.k = side(&keys, &a->k, false);
	part.v = side(&keys, &a->v, true);
	return part;
}

/* The gradients of the keys that a stretch sees, from its queries: those of the second stretch in
 * the place of their sums, those of the first after all of them. */
static struct tensor
partial_gradients(const struct engine *e, int i)
{
	struct tensor all = engine_buffer(e, ATTENTION_CONTEXT_PARTIAL);
	int64_t first = i > 0 ? 0 : e->plan.shape.seq_length;

	return context_positions(e, &all, &(struct position_range){ first, seen(e, i).count });
}

/* One stretch of queries in the backward pass. */
static struct attention_grad
range_gradients(const struct engine *e, const struct attention_grad *g, int i)
{
	struct tensor partial = partial_gradients(e, i);

	return (struct attention_grad){
		.fwd = range_attention(e, &g->fwd, i),
		.dout = context_range(e, &g->dout, i),
		.dq = context_range(e, &g->dq, i),
		.dk = side(&partial, &g->dk, false),
		.dv = side(&partial, &g->dv, true),
		.dsink = g->dsink,
		.delta = range_statistics(e, &g->delta, i),
		.work = g->work,
	};
}

/* --- both passes ------------------------------------------------------------------------------ */

/* Copies k and v of this rank's positions, or their gradients, to their places in a buffer of all
 * positions, or from there. */
static void
copy_own(struct engine *e, int b, const struct tensor kv[2], bool back)
{
	struct tensor all = all_positions(e, b);

	for (int i = 0; i < POSITION_RANGES * 2; i++) {
		struct tensor pair = context_positions(e, &all, &e->position_range[i / 2]),
			      there = side(&pair, &kv[i % 2], i % 2),
			      here = context_range(e, &kv[i % 2], i / 2);

		e->ops->cast(e->stream, &(struct pair){ back ? here : there, back ? there : here });
	}
}

static void
begin(struct step *s, const struct attention *a)
{
	copy_own(s->e, ATTENTION_CONTEXT_KEYS, (struct tensor[]){ a->k, a->v }, false);
	gather_keys(s->e);
}

static void
forward(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;

	streams_join(e, e->context.stream, e->context.gathered, SPAN_CONTEXT);
	for (int i = 0; i < POSITION_RANGES; i++) {
		struct attention part = range_attention(e, a, i);

		e->ops->attention_fwd(e->stream, &part);
	}
}

/* The second stretch first: no query of the first sees the keys of the second half, whose gradients
 * are summed meanwhile. */
static void
backward(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;
	struct attention_grad first = range_gradients(e, g, 0), second = range_gradients(e, g, 1);
	struct tensor all = all_positions(e, ATTENTION_CONTEXT_PARTIAL),
		      from = partial_gradients(e, 0);
	int64_t end = partial_gradients(e, 1).shape[0];
	struct tensor to = tensor_rows(&all, 0, from.shape[0]),
		      unseen = tensor_rows(&all, end, all.shape[0] - end);

	streams_join(e, e->context.stream, e->context.gathered, SPAN_CONTEXT);
	e->ops->attention_bwd(e->stream, &second);
	if (unseen.shape[0])
		e->ops->fill(e->stream, &(struct fill){ unseen, 0 });
	sum_gradients(e, 1);
	e->ops->attention_bwd(e->stream, &first);
	e->ops->add(e->stream, &(struct pair){ to, from });
	sum_gradients(e, 0);
}

/* The keys are still there. */
static void
max(struct step *s, const struct attention_max *m)
{
	struct engine *e = s->e;

	for (int i = 0; i < POSITION_RANGES; i++) {
		struct attention_max part = { range_attention(e, &m->fwd, i), m->max };

		e->ops->attention_max(e->stream, &part);
	}
}

static void
end(struct step *s, const struct attention_grad *g)
{
	streams_join(s->e, s->e->context.stream, s->e->context.summed, SPAN_CONTEXT);
	copy_own(s->e, ATTENTION_CONTEXT_PARTIAL, (struct tensor[]){ g->dk, g->dv }, true);
}

const struct context_kind context_gather = {
	.begin = begin,
	.fwd = forward,
	.begin_bwd = begin,
	.give_dout = context_nothing,
	.bwd = backward,
	.max = max,
	.end = end,
};
