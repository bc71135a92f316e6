/*
 * gather.c - context ranks gather keys and values
 *
 * A rank has the queries of its own positions, two stretches of the sequence, and all keys and
 * values. Each stretch is one call of attention, with the keys up to its last query. The backward
 * pass gathers the keys again, since saving them would undo the division of the sequence; the
 * gradients of keys are sent to the ranks that hold the keys, which sum them in real precision, in
 * the order of ranks and their stretches. Source: spec/training.md 9.
 */
#include "train/layers/context.h"

/* --- one stretch ------------------------------------------------------------------------------ */

/* The part of lse or delta that belongs to a stretch, [b * n, positions of the stretch]. */
static struct tensor
stretch_statistics(const struct engine *e, const struct tensor *t, int stretch)
{
	int64_t heads = t->shape[0], first = heads * context_before(e, stretch);

	return tensor_2d((char *)t->data + (size_t)first * dtype_size(t->dtype), t->dtype, heads,
	    e->stretch[stretch].count);
}

/* k or v of a matrix that has them side by side. */
static struct tensor
half(const struct tensor *pair, bool v)
{
	int64_t width = pair->shape[1] / 2;

	return tensor_columns(pair, v ? width : 0, width);
}

/* --- keys and values -------------------------------------------------------------------------- */

/* Gathers the keys and values of all positions in their buffer. */
static void
gather_keys(struct engine *e, const struct attention *a)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_KEYS);
	int n = 0;

	for (int i = 0; i < e->num_stretches; i++) {
		struct tensor own = context_positions(e, &all, &e->stretch[i]);
		struct tensor k = half(&own, false), from_k = context_stretch(e, &a->k, i);
		struct tensor v = half(&own, true), from_v = context_stretch(e, &a->v, i);

		e->ops->cast(e->stream, &k, &from_k);
		e->ops->cast(e->stream, &v, &from_v);
	}
	for (int k = 0; k < e->groups.cp->size * e->num_stretches; k++) {
		int peer = k / e->num_stretches, i = k % e->num_stretches;
		struct stretch its[STRETCHES];
		struct p2p out = { true, peer, i, context_positions(e, &all, &e->stretch[i]) };

		if (peer == e->groups.cp->rank)
			continue;
		context_stretches(e, peer, its);
		n = context_message(e, n, &out);
		n = context_message(
		    e, n, &(struct p2p){ false, peer, i, context_positions(e, &all, &its[i]) });
	}
	context_exchange(e, n);
}

/* The positions whose keys some query of a stretch sees: from 0 to the stretch's end. */
static struct stretch
seen(const struct stretch *queries)
{
	return (struct stretch){ 0, queries->first + queries->count };
}

/* The arguments for one stretch of queries. */
static struct attention
stretch_attention(const struct engine *e, const struct attention *a, int i)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_KEYS);
	struct stretch s = seen(&e->stretch[i]);
	struct tensor keys = context_positions(e, &all, &s);
	struct attention part = *a;

	part.out = context_stretch(e, &a->out, i);
	part.lse = stretch_statistics(e, &a->lse, i);
	part.q = context_stretch(e, &a->q, i);
	part.first = context_stretch(e, &a->first, i);
	part.k = half(&keys, false);
	part.v = half(&keys, true);
	return part;
}

/* --- their gradients -------------------------------------------------------------------------- */

/* The gradients, k beside v, of the keys that a stretch of this rank sees, from its own queries. */
static struct tensor
partial_gradients(const struct engine *e, int i)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_PARTIAL);
	int64_t at = i > 0 ? seen(&e->stretch[0]).count : 0;

	return tensor_rows(&all, context_rows(e, at), context_rows(e, seen(&e->stretch[i]).count));
}

/* The number-th gradients that other ranks send for a stretch of this rank's keys.
 */
static struct tensor
received_gradients(const struct engine *e, int number)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_RECEIVED);
	int64_t rows = context_rows(e, e->stretch[0].count);

	return tensor_rows(&all, number * rows, rows);
}

/* A stretch of this rank and one of any rank, one of keys and the other of queries that may see
 * them. */
struct pair {
	int mine, rank, its;
};

static int
num_pairs(const struct engine *e)
{
	return e->num_stretches * e->groups.cp->size * e->num_stretches;
}

/* In the order in which gradients are summed. */
static struct pair
pair_at(const struct engine *e, int k)
{
	int n = e->num_stretches, size = e->groups.cp->size;

	return (struct pair){ k / (n * size), k / n % size, k % n };
}

/* Stretches have equal lengths, so the queries see all of the keys or none. */
static bool
sees(const struct engine *e, const struct pair *p, bool mine_are_queries)
{
	struct stretch its[STRETCHES];
	int64_t mine = e->stretch[p->mine].first;

	context_stretches(e, p->rank, its);
	return mine_are_queries ? its[p->its].first <= mine : mine <= its[p->its].first;
}

/* Sends each rank the gradients of its keys. The tag of a message has both stretches. */
static void
scatter_gradients(struct engine *e)
{
	int n = 0, number = 0;

	for (int k = 0; k < num_pairs(e); k++) {
		struct pair p = pair_at(e, k);
		struct stretch its[STRETCHES];
		struct tensor partial = partial_gradients(e, p.mine);
		struct p2p out = { true, p.rank, p.its * STRETCHES + p.mine, partial };
		struct p2p in = { false, p.rank, p.mine * STRETCHES + p.its, partial };

		if (p.rank == e->groups.cp->rank)
			continue;
		context_stretches(e, p.rank, its);
		if (sees(e, &p, true)) {
			out.buf = context_positions(e, &partial, &its[p.its]);
			n = context_message(e, n, &out);
		}
		if (sees(e, &p, false)) {
			in.buf = received_gradients(e, number++);
			n = context_message(e, n, &in);
		}
	}
	context_exchange(e, n);
}

/* Sums the gradients of this rank's keys over all ranks. */
static void
sum_gradients(struct engine *e, const struct attention_grad *g)
{
	struct tensor sum = engine_buffer(e, BUF_CONTEXT_SUM), k = half(&sum, false),
		      v = half(&sum, true);
	int begun = -1, number = 0;

	for (int i = 0; i < num_pairs(e); i++) {
		struct pair p = pair_at(e, i);
		struct tensor to = context_stretch(e, &sum, p.mine), from;

		if (!sees(e, &p, false))
			continue;
		if (p.rank == e->groups.cp->rank) {
			from = partial_gradients(e, p.its);
			from = context_positions(e, &from, &e->stretch[p.mine]);
		} else
			from = received_gradients(e, number++);
		(p.mine == begun ? e->ops->add : e->ops->cast)(e->stream, &to, &from);
		begun = p.mine;
	}
	e->ops->cast(e->stream, &g->dk, &k);
	e->ops->cast(e->stream, &g->dv, &v);
}

/* One stretch of queries in the backward pass. */
static struct attention_grad
stretch_gradients(const struct engine *e, const struct attention_grad *g, int i)
{
	struct tensor partial = partial_gradients(e, i);

	return (struct attention_grad){
		.fwd = stretch_attention(e, &g->fwd, i),
		.dout = context_stretch(e, &g->dout, i),
		.dq = context_stretch(e, &g->dq, i),
		.dk = half(&partial, false),
		.dv = half(&partial, true),
		.delta = stretch_statistics(e, &g->delta, i),
		.work = g->work,
	};
}

/* --- both passes ------------------------------------------------------------------------------ */

static void
forward(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;

	gather_keys(e, a);
	for (int i = 0; i < e->num_stretches; i++) {
		struct attention part = stretch_attention(e, a, i);

		e->ops->attention_fwd(e->stream, &part);
	}
}

static void
backward(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;

	gather_keys(e, &g->fwd);
	for (int i = 0; i < e->num_stretches; i++) {
		struct attention_grad part = stretch_gradients(e, g, i);

		e->ops->attention_bwd(e->stream, &part);
	}
	scatter_gradients(e);
	sum_gradients(e, g);
}

/* One message in each direction per pair of stretches. */
const struct context_kind context_gather = { forward, backward, 2 * STRETCHES *STRETCHES };
