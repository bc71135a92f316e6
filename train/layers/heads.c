/*
 * heads.c - context ranks exchange positions of all heads for all positions of some heads
 *
 * Attention runs over whole sequences with n / (c t) heads per rank; before and after it ranks
 * exchange a matrix [T, c w] of their own positions and all heads of the tensor rank for [s b, w]
 * of all positions in order and their own heads. Columns for other ranks are packed first, since
 * messages are contiguous. Source: Jacobs 2023, arXiv:2309.14509.
 */
#include "train/layers/context.h"

/* The most matrices of an exchange: q, k, v, the output and its gradient. */
enum { MATRICES = 5 };

/* One matrix in both forms; part i of packed, with as many rows as local, goes to or comes from
 * rank i. */
struct matrix {
	struct tensor local, whole, packed;
};

/* Several matrices, exchanged together. */
struct matrices {
	struct matrix m[MATRICES];
	int count;
	int64_t packed; /* elements of the buffer in use */
};

/* A transfer of one of the matrices between this rank and another. */
struct transfer {
	int matrix, peer;
	bool to_heads;
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
    const struct tensor *whole)
{
	struct tensor packed = engine_buffer(e, BUF_CONTEXT_PACKED);
	struct matrix *m = &all->m[all->count++];

	*m = (struct matrix){ *local, *whole,
		block(&packed, all->packed, whole->shape[0], whole->shape[1]) };
	all->packed += tensor_elements(whole);
}

/* The heads of a rank in this rank's rows, and the packed part for that rank. */
static struct tensor
columns_of(const struct matrix *m, int rank)
{
	return tensor_columns(&m->local, rank * m->whole.shape[1], m->whole.shape[1]);
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

	for (int i = 0; i < e->num_stretches; i++) {
		struct tensor local = context_stretch(e, &own, i),
			      whole = context_positions(e, &m->whole, &e->stretch[i]);

		e->ops->cast(e->stream, to_heads ? &whole : &local, to_heads ? &local : &whole);
	}
}

/* Adds the messages of one transfer to n others; returns their number. */
static int
add_messages(struct engine *e, int n, const struct matrices *all, struct transfer w)
{
	struct tensor part = part_of(&all->m[w.matrix], w.peer);
	struct stretch its[STRETCHES];

	context_stretches(e, w.peer, its);
	for (int i = 0; i < e->num_stretches; i++) {
		struct p2p rows = { w.to_heads, w.peer, w.matrix * STRETCHES + i,
			context_stretch(e, &part, i) };
		struct p2p whole = { !w.to_heads, w.peer, rows.tag,
			context_positions(e, &all->m[w.matrix].whole, &its[i]) };

		n = context_message(e, n, &rows);
		n = context_message(e, n, &whole);
	}
	return n;
}

/* Exchanges all matrices at once: to heads, packs the columns for other ranks first; back, unpacks
 * the received ones afterwards. */
static void
move(struct engine *e, const struct matrices *all, bool to_heads)
{
	int size = e->groups.cp->size, rank = e->groups.cp->rank, n = 0;

	for (int i = 0; i < all->count * size; i++) {
		struct transfer w = { i / size, i % size, to_heads };
		struct tensor from = columns_of(&all->m[w.matrix], w.peer),
			      to = part_of(&all->m[w.matrix], w.peer);

		if (w.peer == rank) {
			keep_own(e, &all->m[w.matrix], to_heads);
			continue;
		}
		if (to_heads)
			e->ops->cast(e->stream, &to, &from);
		n = add_messages(e, n, all, w);
	}
	context_exchange(e, n);
	for (int i = 0; !to_heads && i < all->count * size; i++) {
		struct tensor from = part_of(&all->m[i / size], i % size),
			      to = columns_of(&all->m[i / size], i % size);

		if (i % size != rank)
			e->ops->cast(e->stream, &to, &from);
	}
}

/* --- attention -------------------------------------------------------------------------------- */

/* q, k and v, or their gradients, of all positions. */
struct qkv {
	struct tensor q, k, v;
};

/* One after the other in buffer b. */
static struct qkv
whole_qkv(const struct engine *e, enum buffer b, const struct attention *a)
{
	struct tensor buffer = engine_buffer(e, b);
	int64_t size = e->groups.cp->size, rows = a->q.shape[0] * size;
	int64_t q = a->q.shape[1] / size, k = a->k.shape[1] / size;

	return (struct qkv){ block(&buffer, 0, rows, q), block(&buffer, rows * q, rows, k),
		block(&buffer, rows * (q + k), rows, k) };
}

/* lse or delta in the same memory, with fewer heads and more positions. */
static struct tensor
whole_statistics(const struct engine *e, const struct tensor *t)
{
	int64_t size = e->groups.cp->size;

	return block(t, 0, t->shape[0] / size, t->shape[1] * size);
}

/* Attention over all positions and this rank's heads. Dropout masks number heads over all ranks. */
static struct attention
whole_attention(const struct engine *e, const struct attention *a)
{
	struct qkv x = whole_qkv(e, BUF_CONTEXT_QKV, a);
	struct attention h = *a;

	h.q = x.q;
	h.k = x.k;
	h.v = x.v;
	h.out = engine_buffer(e, BUF_CONTEXT_OUT);
	h.lse = whole_statistics(e, &a->lse);
	h.num_heads /= e->groups.cp->size;
	h.num_groups /= e->groups.cp->size;
	h.drop.first_column += (int64_t)h.num_heads * e->groups.cp->rank;
	return h;
}

/* q, k and v. */
static struct matrices
inputs(const struct engine *e, const struct attention *a, const struct attention *h)
{
	struct matrices all = { .count = 0 };

	add_matrix(e, &all, &a->q, &h->q);
	add_matrix(e, &all, &a->k, &h->k);
	add_matrix(e, &all, &a->v, &h->v);
	return all;
}

static void
forward(struct step *s, const struct attention *a)
{
	struct engine *e = s->e;
	struct attention h = whole_attention(e, a);
	struct matrices in = inputs(e, a, &h), out = { .count = 0 };

	move(e, &in, true);
	e->ops->attention_fwd(e->stream, &h);
	add_matrix(e, &out, &a->out, &h.out);
	move(e, &out, false);
}

static void
backward(struct step *s, const struct attention_grad *g)
{
	struct engine *e = s->e;
	struct qkv d = whole_qkv(e, BUF_CONTEXT_DQKV, &g->fwd);
	struct attention_grad h = { .fwd = whole_attention(e, &g->fwd),
		.dout = engine_buffer(e, BUF_CONTEXT_DOUT),
		.dq = d.q,
		.dk = d.k,
		.dv = d.v,
		.delta = whole_statistics(e, &g->delta),
		.work = g->work };
	struct matrices in = inputs(e, &g->fwd, &h.fwd), out = { .count = 0 };

	add_matrix(e, &in, &g->fwd.out, &h.fwd.out);
	add_matrix(e, &in, &g->dout, &h.dout);
	move(e, &in, true);
	e->ops->attention_bwd(e->stream, &h);
	add_matrix(e, &out, &g->dq, &h.dq);
	add_matrix(e, &out, &g->dk, &h.dk);
	add_matrix(e, &out, &g->dv, &h.dv);
	move(e, &out, false);
}

/* One message in each direction per stretch of each matrix. */
const struct context_kind context_heads = {
	.forward = forward, .backward = backward, .messages = 2 * STRETCHES * MATRICES
};
