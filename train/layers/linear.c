/*
 * linear.c - column and row parallel linear layers
 *
 * All communication between tensor ranks in a layer is here. Without sequence parallelism the input
 * of a column layer and the output of a row layer are whole on every tensor rank: sums are
 * all-reduces. With it each rank holds a part of the rows, which is gathered for a GEMM and
 * scattered with the sum. Biases and the tanh GELU are in the GEMMs' epilogues, which saves a pass
 * over memory. Source: Shoeybi 2019 arXiv:1909.08053; Korthikanti 2022 arXiv:2205.05198.
 */
#include "train/engine/streams.h"
#include "train/layers/layer.h"

int64_t
first_row(const struct step *s)
{
	int64_t shards = layout_row_shards(&s->e->plan.layout);

	return shards == 1 ? 0 : s->e->mem.shape[BUF_WHOLE][0] / shards * s->e->coord[AX_TP];
}

struct tensor
partial_sums(struct step *s, const struct tensor *y)
{
	return layout_row_shards(&s->e->plan.layout) == 1 ? *y : engine_buffer(s->e, BUF_WHOLE);
}

/* The span is the host's where the collective is not on the compute stream: what that waits for is
 * timed by streams_join. */
static void
gather_on(struct step *s, struct stream *st, const struct tensor *whole, const struct tensor *x)
{
	struct comm *tp = s->e->groups.tp;

	timing_begin(s->e, SPAN_TENSOR);
	tp->ops->all_gather(COMM_HERE(tp), st, whole, x);
	timing_end(s->e, SPAN_TENSOR);
}

/* As gather_on. */
static void
sum_on(struct step *s, struct stream *st, const struct tensor *y, const struct tensor *whole)
{
	struct comm *tp = s->e->groups.tp;

	timing_begin(s->e, SPAN_TENSOR);
	if (whole->data == y->data)
		tp->ops->all_reduce(COMM_HERE(tp), st, y, REDUCE_SUM);
	else
		tp->ops->reduce_scatter(COMM_HERE(tp), st, y, whole);
	timing_end(s->e, SPAN_TENSOR);
}

/* Queued on the compute stream, as the next operation needs all rows. */
struct tensor
gather_rows(struct step *s, const struct tensor *x)
{
	struct tensor whole = partial_sums(s, x);

	if (whole.data != x->data)
		gather_on(s, s->e->stream, &whole, x);
	return whole;
}

/* As gather_rows. */
void
scatter_sums(struct step *s, const struct tensor *y)
{
	struct tensor whole = partial_sums(s, y);

	if (s->e->groups.tp->size > 1)
		sum_on(s, s->e->stream, y, &whole);
}

/* Sums are in F32 or wider whatever the storage. */
void
forward_product(struct step *s, const struct linear *l)
{
	struct gemm g = { .c = l->y,
		.a = l->x,
		.b = l->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU : GEMM_LINEAR };

	s->e->ops->gemm(s->e->stream, &g);
}

void
input_product(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dx,
		.a = l->dy,
		.b = l->weight,
		.alpha = 1,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU_GRAD : GEMM_LINEAR };

	s->e->ops->gemm(s->e->stream, &g);
}

/* The first micro batch of a step writes main gradients, the others add to them in their own
 * precision: nothing has to be cleared. */
void
weight_product(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dweight,
		.a = l->dy,
		.b = l->x,
		.trans_a = true,
		.alpha = 1,
		.beta = s->accumulate ? 1 : 0,
		.dbias = l->dbias };

	s->e->ops->gemm(s->e->stream, &g);
}

/* --- beside products -------------------------------------------------------------------------- */

/* Whether rows are shared, and gathered while products go on. */
static bool
gathers_beside(const struct step *s)
{
	return s->e->beside.stream && layout_row_shards(&s->e->plan.layout) > 1;
}

/* All rows of x, those of each of the others by a message of its own: the next rank's first. Each
 * is to be asked for by part_rows before it is read. */
static struct tensor
gather_parts(struct step *s, const struct tensor *x)
{
	struct engine *e = s->e;
	struct comm *tp = e->groups.tp;
	int64_t rows = x->shape[0];
	struct tensor whole = partial_sums(s, x), own = tensor_rows(&whole, tp->rank * rows, rows);

	e->ops->cast(e->stream, &own, x);
	streams_fork(s->e, s->e->beside.stream, s->e->beside.ready);
	for (int i = 1; i < tp->size; i++) {
		int from = (tp->rank + i) % tp->size, to = (tp->rank + tp->size - i) % tp->size;
		struct p2p message[] = { { true, to, 0, own },
			{ false, from, 0, tensor_rows(&whole, from * rows, rows) } };

		timing_begin(e, SPAN_TENSOR);
		tp->ops->exchange(COMM_HERE(tp), e->beside.stream, message, 2);
		timing_end(e, SPAN_TENSOR);
		e->backend->record(e->beside.stream, e->beside.arrived[i]);
	}
	return whole;
}

/* The number of the first row of the i-th part that gather_parts brings: the own one is there. */
static int64_t
part_rows(struct step *s, int i, int64_t rows)
{
	struct comm *tp = s->e->groups.tp;

	if (i > 0)
		streams_join(s->e, s->e->beside.stream, s->e->beside.arrived[i], SPAN_TENSOR);
	return (tp->rank + i) % tp->size * rows;
}

/* Some rows of a tensor that may be none. */
static struct tensor
rows_of(const struct tensor *t, int64_t first, int64_t count)
{
	return t->data ? tensor_rows(t, first, count) : *t;
}

/* The product of each part's rows goes on while the next part comes. */
static void
column_forward_beside(struct step *s, const struct linear *l)
{
	struct tensor x = gather_parts(s, &l->x);
	int64_t rows = l->x.shape[0];

	for (int i = 0; i < s->e->groups.tp->size; i++) {
		int64_t first = part_rows(s, i, rows);
		struct linear part = *l;

		part.x = tensor_rows(&x, first, rows);
		part.y = tensor_rows(&l->y, first, rows);
		part.pre = rows_of(&l->pre, first, rows);
		forward_product(s, &part);
	}
}

/* As column_forward_beside. */
static void
row_backward_beside(struct step *s, struct linear_grad *g)
{
	int64_t rows = g->dy.shape[0];

	g->dy = gather_parts(s, &g->dy);
	for (int i = 0; i < s->e->groups.tp->size; i++) {
		int64_t first = part_rows(s, i, rows);
		struct linear_grad part = *g;

		part.dy = tensor_rows(&g->dy, first, rows);
		part.dx = tensor_rows(&g->dx, first, rows);
		part.pre = rows_of(&g->pre, first, rows);
		input_product(s, &part);
	}
}

/* The rows of x are gathered beside the product that makes the partial sums, and those are summed
 * beside the one that makes the weight's gradient. Both are whole at once, hence a place of its own
 * for the sums. */
static void
column_backward_beside(struct step *s, const struct linear_grad *g)
{
	struct beside *b = &s->e->beside;
	struct linear_grad all = *g;
	bool shards = gathers_beside(s);

	if (shards) {
		all.x = partial_sums(s, &g->x);
		all.dx = engine_buffer(s->e, BUF_PARTIAL);
		streams_fork(s->e, s->e->beside.stream, s->e->beside.ready);
		gather_on(s, b->stream, &all.x, &g->x);
		s->e->backend->record(b->stream, b->gathered);
	}
	input_product(s, &all);
	streams_fork(s->e, s->e->beside.stream, s->e->beside.ready);
	sum_on(s, b->stream, &g->dx, &all.dx);
	s->e->backend->record(b->stream, b->summed);
	if (shards)
		streams_join(s->e, s->e->beside.stream, b->gathered, SPAN_TENSOR);
	weight_product(s, &all);
	streams_join(s->e, s->e->beside.stream, b->summed, SPAN_TENSOR);
}

/* --- the two linears -------------------------------------------------------------------------- */

void
column_forward(struct step *s, const struct linear *l)
{
	struct linear all = *l;

	if (gathers_beside(s)) {
		column_forward_beside(s, l);
		return;
	}
	all.x = gather_rows(s, &l->x);
	forward_product(s, &all);
}

/* Every rank's columns contribute to the whole dx, hence the sum. The rows of x are gathered again
 * after it, as keeping them all would take back what sequence parallelism saves. */
void
column_backward(struct step *s, const struct linear_grad *g)
{
	struct linear_grad all = *g;

	if (s->e->beside.stream) {
		column_backward_beside(s, g);
		return;
	}
	all.dx = partial_sums(s, &g->dx);
	input_product(s, &all);
	scatter_sums(s, &g->dx);
	all.x = gather_rows(s, &g->x);
	weight_product(s, &all);
}

/* The first rank's part of the sum includes the bias, so that it is added once and before anything
 * is rounded to 16 bits. Added after rounding, a small bias would count far too much: the sum of
 * two 16-bit values is often a tie between two others, and the smallest addend then decides it by
 * half a unit. */
void
row_forward(struct step *s, const struct linear *l)
{
	struct linear part = *l;

	part.y = partial_sums(s, &l->y);
	if (s->e->coord[AX_TP] > 0)
		part.bias = (struct tensor){ .data = NULL };
	forward_product(s, &part);
	scatter_sums(s, &l->y);
}

/* dx has only this rank's columns, so there is no sum. */
void
row_backward(struct step *s, struct linear_grad *g)
{
	if (gathers_beside(s)) {
		row_backward_beside(s, g);
		return;
	}
	g->dy = gather_rows(s, &g->dy);
	input_product(s, g);
}
