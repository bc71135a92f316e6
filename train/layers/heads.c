/*
 * heads.c - context ranks exchange positions of all heads for all positions of some heads
 *
 * Attention runs over whole sequences with n / (c t) heads per rank; before and after it ranks
 * exchange a matrix [T, c w] of their own positions and all heads of the tensor rank for [s b, w]
 * of all positions in order and their own heads. Columns for other ranks are packed first, since
 * what is sent is contiguous. k and v go beside the GEMM of q, what the backward pass reads beside
 * the projection's, and dq beside the gradient of the weight of k and v. Source: Jacobs 2023,
 * arXiv:2309.14509.
 */
#include "lib/model/block/attention.h"
#include "train/engine/streams.h"
#include "train/layers/context.h"

/* The most matrices of an exchange: q, k, v and the output. */
enum { MATRICES = 4 };

/* One matrix in both forms; part i of packed, with as many rows as local, goes to or comes from
 * rank i. */
struct matrix {
	struct tensor local, gathered, packed;
};

/* Several matrices, exchanged together. */
struct matrices {
	struct matrix m[MATRICES];
	int count;
	int64_t packed; /* elements of the buffer in use, of others too */
};

/* Elements [first, first + rows * columns) of a buffer as a matrix. */
static struct tensor
block(const struct tensor *buffer, int64_t first, int64_t rows, int64_t columns)
{
	struct tensor flat = tensor_flat(buffer), part = tensor_rows(&flat, first, rows * columns);

	return tensor_2d(part.data, part.dtype, rows, columns);
}

static void
add_matrix(const struct engine *e, struct matrices *all, const struct tensor *local,
    const struct tensor *gathered)
{
	struct tensor packed = engine_buffer(e, ATTENTION_CONTEXT_PACKED);
	struct matrix *m = &all->m[all->count++];

	*m = (struct matrix){ *local, *gathered,
		block(&packed, all->packed, gathered->shape[0], gathered->shape[1]) };
	all->packed += tensor_elements(gathered);
}

/* The heads of a rank in this rank's rows, and the packed part for that rank. */
static struct tensor
columns_of(const struct matrix *m, int rank)
{
	return tensor_columns(&m->local, rank * m->gathered.shape[1], m->gathered.shape[1]);
}

static struct tensor
part_of(const struct matrix *m, int rank)
{
	return tensor_rows(&m->packed, rank * m->local.shape[0], m->local.shape[0]);
}

/* Copies the part that stays on this rank from one form to the other. */
static void
keep_own(struct engine *e, const struct matrix *m, bool to_heads)
{
	struct tensor own = columns_of(m, e->groups.cp->rank);

	for (int i = 0; i < e->num_ranges; i++) {
		struct tensor local = context_range(e, &own, i),
			      gathered = context_positions(e, &m->gathered, &e->position_range[i]);

		e->ops->cast(e->stream,
		    &(struct pair){ to_heads ? gathered : local, to_heads ? local : gathered });
	}
}

/* Copies the parts of other ranks: to heads, out of the columns for them; back, into those. */
static void
pack(struct engine *e, const struct matrices *all, bool to_heads)
{
	int size = e->groups.cp->size;

	for (int i = 0; i < all->count * size; i++) {
		struct tensor columns = columns_of(&all->m[i / size], i % size),
			      part = part_of(&all->m[i / size], i % size);

		if (i % size != e->groups.cp->rank)
			e->ops->cast(e->stream,
			    &(struct pair){ to_heads ? part : columns, to_heads ? columns : part });
	}
}

/* An array for each stretch of each matrix; returns how many. */
static int
list_blocks(struct engine *e, const struct matrices *all, bool to_heads)
{
	int size = e->groups.cp->size;

	for (int rank = 0; rank < size; rank++) {
		struct position_range its[POSITION_RANGES];

		context_ranges(e, rank, its);
		for (int i = 0; i < all->count * e->num_ranges; i++) {
			const struct matrix *m = &all->m[i / e->num_ranges];
			int position_range = i % e->num_ranges;
			struct tensor part = part_of(m, rank),
				      rows = context_range(e, &part, position_range),
				      gathered =
					  context_positions(e, &m->gathered, &its[position_range]);

			e->blocks[i * size + rank] = to_heads
			    ? (struct comm_block){ rows, gathered }
			    : (struct comm_block){ gathered, rows };
		}
	}
	return all->count * e->num_ranges;
}

/* Exchanges all matrices on the other stream; `there` is recorded when they have come. The span is
 * the host's: what the compute stream waits for is timed by streams_join. */
static void
send(struct engine *e, const struct matrices *all, bool to_heads, struct event *there)
{
	struct comm *cp = e->groups.cp;
	int count = list_blocks(e, all, to_heads);

	for (int i = 0; i < all->count; i++)
		keep_own(e, &all->m[i], to_heads);
	if (to_heads)
		pack(e, all, true);
	streams_fork(e, e->context.stream, e->context.ready);
	timing_begin(e, SPAN_CONTEXT);
	cp->ops->all_to_all(
	    COMM_HERE(cp), e->context.stream, &(struct comm_arrays){ e->blocks, count });
	timing_end(e, SPAN_CONTEXT);
	e->backend->record(e->context.stream, there);
}

/* What has come back from heads goes to its columns. */
static void
receive(struct engine *e, const struct matrices *all, struct event *there)
{
	streams_join(e, e->context.stream, there, SPAN_CONTEXT);
	pack(e, all, false);
}

/* --- attention -------------------------------------------------------------------------------- */

/* q, k and v, or their gradients, of all positions. */
struct qkv {
	struct tensor q, k, v;
};

/* One after the other in buffer b. */
static struct qkv
gathered_qkv(const struct engine *e, int b, const struct attention *a)
{
	struct tensor buffer = engine_buffer(e, b);
	int64_t size = e->groups.cp->size, rows = a->q.shape[0] * size;
	int64_t q = a->q.shape[1] / size, k = a->k.shape[1] / size, v = a->v.shape[1] / size;

	return (struct qkv){ block(&buffer, 0, rows, q), block(&buffer, rows * q, rows, k),
		block(&buffer, rows * (q + k), rows, v) };
}

/* lse or delta in the same memory, with fewer heads and more positions. */
static struct tensor
gathered_statistics(const struct engine *e, const struct tensor *t)
{
	int64_t size = e->groups.cp->size;

	return block(t, 0, t->shape[0] / size, t->shape[1] * size);
}

/* Of a number for each head of the tensor rank, if there are any, those of this rank's heads. */
static struct tensor
own_heads(const struct engine *e, const struct tensor *t)
{
	int64_t n = t->data ? t->shape[0] / e->groups.cp->size : 0;

	return t->data ? tensor_rows(t, n * e->groups.cp->rank, n) : *t;
}

/* Attention over all positions and this rank's heads. Dropout masks number heads over all ranks. */
static struct attention
gathered_attention(const struct engine *e, const struct attention *a)
{
	struct qkv x = gathered_qkv(e, ATTENTION_CONTEXT_QKV, a);
	struct attention h = *a;

	h.q = x.q;
	h.k = x.k;
	h.v = x.v;
	h.out = engine_buffer(e, ATTENTION_CONTEXT_OUT);
	h.lse = gathered_statistics(e, &a->lse);
	h.sink = own_heads(e, &a->sink);
	h.num_heads /= e->groups.cp->size;
	h.num_groups /= e->groups.cp->size;
	h.drop.first_column += (int64_t)h.num_heads * e->groups.cp->rank;
	return h;
}

/* q, and k and v, which are packed after it. */
static struct matrices
queries(const struct engine *e, const struct tensor *local, const struct tensor *gathered)
{
	struct matrices all = { .count = 0 };

	add_matrix(e, &all, local, gathered);
	return all;
}

static struct matrices
keys(const struct engine *e, const struct qkv *local, const struct qkv *gathered)
{
	struct matrices all = { .packed = tensor_elements(&gathered->q) };

	add_matrix(e, &all, &local->k, &gathered->k);
	add_matrix(e, &all, &local->v, &gathered->v);
	return all;
}

static void
begin(struct step *s, const struct attention *a)
{
	struct qkv gathered = gathered_qkv(s->e, ATTENTION_CONTEXT_QKV, a);
	struct matrices in = keys(s->e, &(struct qkv){ a->q, a->k, a->v }, &gathered);

	send(s->e, &in, true, s->e->context.gathered);
}

static void
forward(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;
	struct attention h = gathered_attention(e, a);
	struct matrices in = queries(e, &a->q, &h.q), out = queries(e, &a->out, &h.out);

	send(e, &in, true, e->context.gathered);
	streams_join(e, e->context.stream, e->context.gathered, SPAN_CONTEXT);
	e->ops->attention_fwd(e->stream, &h);
	send(e, &out, false, e->context.gathered);
	receive(e, &out, e->context.gathered);
}

/* All that the forward pass has saved. */
static void
begin_backward(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;
	struct attention h = gathered_attention(e, a);
	struct matrices in = queries(e, &a->q, &h.q);

	add_matrix(e, &in, &a->k, &h.k);
	add_matrix(e, &in, &a->v, &h.v);
	add_matrix(e, &in, &a->out, &h.out);
	send(e, &in, true, e->context.gathered);
}

/* Packed after what the backward pass began with. */
static void
give_dout(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;
	struct attention h = gathered_attention(e, &g->fwd);
	struct tensor dout = engine_buffer(e, ATTENTION_CONTEXT_DOUT);
	struct matrices in = { .packed = tensor_elements(&h.q) + tensor_elements(&h.k) +
		    tensor_elements(&h.v) + tensor_elements(&h.out) };

	add_matrix(e, &in, &g->dout, &dout);
	send(e, &in, true, e->context.gathered);
}

/* dq comes after dk and dv, which are less: their GEMM runs meanwhile. */
static void
backward(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;
	struct qkv d = gathered_qkv(e, ATTENTION_CONTEXT_DQKV, &g->fwd);
	struct attention_grad h = { .fwd = gathered_attention(e, &g->fwd),
		.dout = engine_buffer(e, ATTENTION_CONTEXT_DOUT),
		.dq = d.q,
		.dk = d.k,
		.dv = d.v,
		.dsink = own_heads(e, &g->dsink),
		.delta = gathered_statistics(e, &g->delta),
		.work = g->work };
	struct matrices dq = queries(e, &g->dq, &d.q),
			dkv = keys(e, &(struct qkv){ g->dq, g->dk, g->dv }, &d);

	streams_join(e, e->context.stream, e->context.gathered, SPAN_CONTEXT);
	e->ops->attention_bwd(e->stream, &h);
	send(e, &dkv, false, e->context.gathered);
	send(e, &dq, false, e->context.summed);
	receive(e, &dkv, e->context.gathered);
}

static void
max(struct step *s, const struct attention_max *m)
{
	struct engine *e = s->e;
	struct attention_max h = { gathered_attention(e, &m->fwd), own_heads(e, &m->max) };

	e->ops->attention_max(e->stream, &h);
}

static void
end(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;
	struct qkv d = gathered_qkv(e, ATTENTION_CONTEXT_DQKV, &g->fwd);
	struct matrices dq = queries(e, &g->dq, &d.q);

	receive(e, &dq, e->context.summed);
}

const struct context_kind context_heads = {
	.begin = begin,
	.fwd = forward,
	.begin_bwd = begin_backward,
	.give_dout = give_dout,
	.bwd = backward,
	.max = max,
	.end = end,
	.keys_first = true,
	.arrays = POSITION_RANGES * MATRICES,
};
