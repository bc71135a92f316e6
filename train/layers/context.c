/*
 * context.c - attention over sequences that context ranks share
 *
 * A rank has the queries of its own positions, two stretches of the sequence (layout_positions),
 * and gathers the keys and values of all. A stretch is one call: its queries are the last of the
 * keys that it sees. Backward keys are gathered once more, since saved they would take what the
 * ranks share out; the gradients of keys go to the ranks whose keys they are, which add them up in
 * real precision, in the order of ranks and their stretches. Source: spec/training.md 9.
 */
#include "train/engine/timing.h"
#include "train/layers/layer.h"

#include <stddef.h>

/* --- rows ------------------------------------------------------------------------------------- */

/* Rows of b samples, from the stretches' positions. */
static int64_t
rows_of(const struct engine *e, int64_t positions)
{
	return positions * e->plan.shape.micro_batch_size;
}

/* The positions of this rank before a stretch of it. */
static int64_t
before(const struct engine *e, int stretch)
{
	return stretch > 0 ? e->stretch[0].count : 0;
}

/* The rows of one stretch of what this rank holds; none of none. */
static struct tensor
stretch_rows(const struct engine *e, const struct tensor *t, int stretch)
{
	return t->data
	    ? tensor_rows(t, rows_of(e, before(e, stretch)), rows_of(e, e->stretch[stretch].count))
	    : *t;
}

/* The same of lse or delta, [b * n, positions of the stretch]. */
static struct tensor
stretch_statistics(const struct engine *e, const struct tensor *t, int stretch)
{
	int64_t heads = t->shape[0], first = heads * before(e, stretch);

	return tensor_2d((char *)t->data + (size_t)first * dtype_size(t->dtype), t->dtype, heads,
	    e->stretch[stretch].count);
}

/* Of rows that are all positions in order, those of a stretch. */
static struct tensor
positions(const struct engine *e, const struct tensor *t, const struct stretch *s)
{
	return tensor_rows(t, rows_of(e, s->first), rows_of(e, s->count));
}

/* k, or v, where they lie side by side. */
static struct tensor
half(const struct tensor *pair, bool v)
{
	int64_t width = pair->shape[1] / 2;

	return tensor_columns(pair, v ? width : 0, width);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Every rank sends each of the others a message for each of its stretches and each of theirs. */
size_t
context_messages(const struct layout *l)
{
	return (size_t)(2 * STRETCHES * STRETCHES * l->context_parallel_size);
}

/* One more of the n messages that are collected. */
static int
add_message(struct engine *e, int n, bool send, int peer, int tag, struct tensor buf)
{
	e->message[n] = (struct p2p){ send, peer, tag, buf };
	return n + 1;
}

static void
exchange(struct engine *e, int n)
{
	struct comm *cp = e->groups.cp;

	timing_begin(e, SPAN_CONTEXT);
	cp->ops->exchange(COMM_HERE(cp), e->stream, e->message, n);
	timing_end(e, SPAN_CONTEXT);
}

/* The stretches of a rank of the group. */
static void
stretches_of(const struct engine *e, int rank, struct stretch out[STRETCHES])
{
	layout_positions(&e->plan.layout, e->plan.shape.seq_length, rank, out);
}

/* --- keys and values -------------------------------------------------------------------------- */

/* Those of all positions into their buffer. */
static void
gather_keys(struct engine *e, const struct attention *a)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_KEYS);
	int n = 0;

	for (int i = 0; i < e->num_stretches; i++) {
		struct tensor own = positions(e, &all, &e->stretch[i]);
		struct tensor k = half(&own, false), from_k = stretch_rows(e, &a->k, i);
		struct tensor v = half(&own, true), from_v = stretch_rows(e, &a->v, i);

		e->ops->cast(e->stream, &k, &from_k);
		e->ops->cast(e->stream, &v, &from_v);
	}
	for (int k = 0; k < e->groups.cp->size * e->num_stretches; k++) {
		int peer = k / e->num_stretches, i = k % e->num_stretches;
		struct stretch has[STRETCHES];

		if (peer == e->groups.cp->rank)
			continue;
		stretches_of(e, peer, has);
		n = add_message(e, n, true, peer, i, positions(e, &all, &e->stretch[i]));
		n = add_message(e, n, false, peer, i, positions(e, &all, &has[i]));
	}
	exchange(e, n);
}

/* Positions whose keys any query of a stretch sees: from the first to its own last. */
static struct stretch
seen(const struct stretch *queries)
{
	return (struct stretch){ 0, queries->first + queries->count };
}

/* One stretch of queries, as a call. */
static struct attention
stretch_attention(const struct engine *e, const struct attention *a, int i)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_KEYS);
	struct stretch s = seen(&e->stretch[i]);
	struct tensor keys = positions(e, &all, &s);
	struct attention part = *a;

	part.out = stretch_rows(e, &a->out, i);
	part.lse = stretch_statistics(e, &a->lse, i);
	part.q = stretch_rows(e, &a->q, i);
	part.first = stretch_rows(e, &a->first, i);
	part.k = half(&keys, false);
	part.v = half(&keys, true);
	return part;
}

/* --- their gradients -------------------------------------------------------------------------- */

/* What a stretch of this rank gives for the keys that it sees, k beside v. */
static struct tensor
given(const struct engine *e, int i)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_GIVEN);
	int64_t at = i > 0 ? seen(&e->stretch[0]).count : 0;

	return tensor_rows(&all, rows_of(e, at), rows_of(e, seen(&e->stretch[i]).count));
}

/* What other ranks give for a stretch of keys of this one, one after the other as it comes. */
static struct tensor
come(const struct engine *e, int number)
{
	struct tensor all = engine_buffer(e, BUF_CONTEXT_COME);
	int64_t rows = rows_of(e, e->stretch[0].count);

	return tensor_rows(&all, number * rows, rows);
}

/* A stretch of this rank, and one of any rank: keys and the queries that may see them, or queries
 * and such keys. */
struct pair {
	int mine, rank, its;
};

static int
num_pairs(const struct engine *e)
{
	return e->num_stretches * e->groups.cp->size * e->num_stretches;
}

/* In the order in which gradients are added up. */
static struct pair
pair_at(const struct engine *e, int k)
{
	int n = e->num_stretches, size = e->groups.cp->size;

	return (struct pair){ k / (n * size), k / n % size, k % n };
}

/* Stretches are pieces of equal length, so queries see all of such keys or none. */
static bool
sees(const struct engine *e, const struct pair *p, bool mine_are_queries)
{
	struct stretch its[STRETCHES];
	int64_t mine = e->stretch[p->mine].first;

	stretches_of(e, p->rank, its);
	return mine_are_queries ? its[p->its].first <= mine : mine <= its[p->its].first;
}

/* To each rank what this one gives for its keys. A message is known by both stretches. */
static void
scatter_gradients(struct engine *e)
{
	int n = 0, number = 0;

	for (int k = 0; k < num_pairs(e); k++) {
		struct pair p = pair_at(e, k);
		struct stretch its[STRETCHES];
		struct tensor gives = given(e, p.mine);

		if (p.rank == e->groups.cp->rank)
			continue;
		stretches_of(e, p.rank, its);
		if (sees(e, &p, true))
			n = add_message(e, n, true, p.rank, p.its * STRETCHES + p.mine,
			    positions(e, &gives, &its[p.its]));
		if (sees(e, &p, false))
			n = add_message(
			    e, n, false, p.rank, p.mine * STRETCHES + p.its, come(e, number++));
	}
	exchange(e, n);
}

/* The gradients of this rank's keys from all that is given for them. */
static void
sum_gradients(struct engine *e, const struct attention_grad *g)
{
	struct tensor sum = engine_buffer(e, BUF_CONTEXT_SUM), k = half(&sum, false),
		      v = half(&sum, true);
	int begun = -1, number = 0;

	for (int i = 0; i < num_pairs(e); i++) {
		struct pair p = pair_at(e, i);
		struct tensor to = stretch_rows(e, &sum, p.mine), from;

		if (!sees(e, &p, false))
			continue;
		if (p.rank == e->groups.cp->rank) {
			from = given(e, p.its);
			from = positions(e, &from, &e->stretch[p.mine]);
		} else
			from = come(e, number++);
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
	struct tensor gives = given(e, i);

	return (struct attention_grad){
		.fwd = stretch_attention(e, &g->fwd, i),
		.dout = stretch_rows(e, &g->dout, i),
		.dq = stretch_rows(e, &g->dq, i),
		.dk = half(&gives, false),
		.dv = half(&gives, true),
		.delta = stretch_statistics(e, &g->delta, i),
		.work = g->work,
	};
}

/* --- both passes ------------------------------------------------------------------------------ */

void
context_attention_fwd(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;

	if (e->groups.cp->size == 1) {
		e->ops->attention_fwd(e->stream, a);
		return;
	}
	gather_keys(e, a);
	for (int i = 0; i < e->num_stretches; i++) {
		struct attention part = stretch_attention(e, a, i);

		e->ops->attention_fwd(e->stream, &part);
	}
}

void
context_attention_bwd(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;

	if (e->groups.cp->size == 1) {
		e->ops->attention_bwd(e->stream, g);
		return;
	}
	gather_keys(e, &g->fwd);
	for (int i = 0; i < e->num_stretches; i++) {
		struct attention_grad part = stretch_gradients(e, g, i);

		e->ops->attention_bwd(e->stream, &part);
	}
	scatter_gradients(e);
	sum_gradients(e, g);
}
