/*
 * linear.c - column and row parallel linear layers
 *
 * All communication between tensor ranks in a layer is here. Without sequence parallelism the input
 * of a column layer and the output of a row layer are whole on every tensor rank: each sums a part
 * of the rows and gathers the others. With it each rank holds a part of the rows, which is gathered
 * for a GEMM and scattered with the sum. Biases and the tanh GELU are in the GEMMs' epilogues,
 * which saves a pass over memory. Source: Shoeybi 2019 arXiv:1909.08053; Korthikanti 2022
 * arXiv:2205.05198.
 */
#include "train/engine/streams.h"
#include "train/layers/fp8.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"

int64_t
first_row(const struct step *s)
{
	int64_t shards = layout_row_shards(&s->e->plan.layout);

	return shards == 1
	    ? 0
	    : memory_buffer(&s->e->mem, BUF_GATHERED)->shape[0] / shards * s->e->coord[AX_TP];
}

/* Rows of a buffer that are as wide as those of t. */
static struct tensor
rows_like(const struct step *s, int buffer, const struct tensor *t)
{
	struct tensor b = engine_buffer(s->e, buffer);

	return tensor_2d(b.data, b.dtype, b.shape[0], t->shape[1]);
}

struct tensor
partial_sums(struct step *s, const struct tensor *y)
{
	return layout_row_shards(&s->e->plan.layout) == 1 ? *y : rows_like(s, BUF_GATHERED, y);
}

/* Whether tensor ranks sum rows in parts: they have as many each. */
static bool
in_parts(const struct step *s)
{
	return memory_buffer(&s->e->mem, BUF_PARTIAL_SUMS)->bytes > 0;
}

/* Of T rows those of a tensor rank; none of a tensor that is none. */
static struct tensor
rank_rows(const struct step *s, const struct tensor *t, int rank)
{
	int64_t rows = t->shape[0] / s->e->groups.tp->size;

	return t->data ? tensor_rows(t, rank * rows, rows) : *t;
}

/* All rows of whole but the own ones, which are x. */
static void
gather_others(
    struct step *s, struct stream *st, const struct tensor *gathered, const struct tensor *x)
{
	struct comm *tp = s->e->groups.tp;
	struct comm_parts p = { .whole = *gathered, .part = *x, .event = s->e->overlap.arrived };

	tp->ops->all_gather_parts(COMM_HERE(tp), st, &p);
}

/* All rows of whole. The span is the host's where the collective is not on the compute stream: what
 * that waits for is timed by streams_join. */
static void
gather_on(struct step *s, struct stream *st, const struct tensor *gathered, const struct tensor *x)
{
	struct comm *tp = s->e->groups.tp;
	struct tensor own = rank_rows(s, gathered, tp->rank);

	timing_begin(s->e, SPAN_TENSOR);
	gather_others(s, st, gathered, x);
	st->ops->cast(st, &(struct pair){ own, *x });
	timing_end(s->e, SPAN_TENSOR);
}

/* This rank has made its share of the sum of a rank's rows. */
static void
made(struct step *s, int rank)
{
	s->e->backend->record(s->e->stream, s->e->overlap.made[rank]);
}

/* This rank has made its share of the sum of all ranks' rows, by one GEMM. */
static void
made_all(struct step *s)
{
	for (int rank = 0; in_parts(s) && rank < s->e->groups.tp->size; rank++)
		made(s, rank);
}

/* What was made. Where rows are not shared the own ones are summed in their place, and the others
 * come from the ranks that have summed them. */
static void
sum_parts(struct step *s, struct stream *st, const struct tensor *y, const struct tensor *gathered)
{
	struct comm *tp = s->e->groups.tp;
	bool shards = gathered->data != y->data;
	struct comm_parts p = { .whole = *gathered,
		.part = shards ? *y : rank_rows(s, y, tp->rank),
		.partial_sums = rows_like(s, BUF_PARTIAL_SUMS, y),
		.event = s->e->overlap.made };

	tp->ops->reduce_scatter_parts(COMM_HERE(tp), st, &p);
	p.event = s->e->overlap.arrived;
	if (!shards)
		tp->ops->all_gather_parts(COMM_HERE(tp), st, &p);
}

/* The span as in gather_on. */
static void
sum_on(struct step *s, struct stream *st, const struct tensor *y, const struct tensor *gathered)
{
	struct comm *tp = s->e->groups.tp;

	timing_begin(s->e, SPAN_TENSOR);
	if (in_parts(s))
		sum_parts(s, st, y, gathered);
	else
		tp->ops->all_reduce(COMM_HERE(tp), st, &(struct comm_reduce){ *y, REDUCE_SUM });
	timing_end(s->e, SPAN_TENSOR);
}

/* Queued on the compute stream, as the next operation needs all rows. */
struct tensor
gather_rows(struct step *s, const struct tensor *x)
{
	struct tensor gathered = partial_sums(s, x);

	if (gathered.data != x->data)
		gather_on(s, s->e->stream, &gathered, x);
	return gathered;
}

/* As gather_rows. */
void
scatter_sums(struct step *s, const struct tensor *y)
{
	struct tensor gathered = partial_sums(s, y);

	if (s->e->groups.tp->size == 1)
		return;
	made_all(s);
	sum_on(s, s->e->stream, y, &gathered);
}

bool
linears_join(const struct step *s)
{
	const struct engine *e = s->e;
	const struct train_shape *shape = &e->plan.shape;

	return shape->kept_positions && shape->seq_length == 1 &&
	    shape->micro_batch_size <= e->backend->step_rows && e->groups.tp->size == 1 &&
	    !e->fp8 && e->plan.model.normalization == NORMALIZATION_RMSNORM;
}

void
linear_step(struct step *s, const struct linear *l, const struct linear_step *p)
{
	struct linear_step o = *p;

	o.y = l->y;
	o.x = l->x;
	o.weight = l->weight;
	o.bias = l->bias;
	s->e->ops->linear_step(s->e->stream, &o);
}

/* Sums are in F32 or wider whatever the storage. */
void
forward_gemm(struct step *s, const struct linear *l)
{
	struct gemm g = { .c = l->y,
		.a = l->x,
		.b = l->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU : GEMM_LINEAR };

	if (l->fp8)
		fp8_forward(s, l);
	else if (linears_join(s) && !l->pre.data)
		linear_step(s, l, &(struct linear_step){ .y.data = NULL });
	else
		s->e->ops->gemm(s->e->stream, &g);
}

void
input_gradient(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dx,
		.a = l->dy,
		.b = l->weight,
		.alpha = 1,
		.aux = l->pre,
		.act = l->pre.data ? GEMM_GELU_GRAD : GEMM_LINEAR };

	if (l->fp8)
		fp8_input_gradient(s, l);
	else
		s->e->ops->gemm(s->e->stream, &g);
}

/* The first micro batch of a step writes main gradients, the others add to them in their own
 * precision: nothing has to be cleared. */
void
weight_gradient(struct step *s, const struct linear_grad *l)
{
	struct gemm g = { .c = l->dweight,
		.a = l->dy,
		.b = l->x,
		.trans_a = true,
		.alpha = 1,
		.beta = s->accumulate ? 1 : 0,
		.dbias = l->dbias };

	if (l->fp8)
		fp8_weight_gradient(s, l);
	else
		s->e->ops->gemm(s->e->stream, &g);
}

void
weight_gradient_of(struct step *s, const struct linear_grad *l, const struct position_range *rows)
{
	struct linear_grad part = *l;

	if (rows->count == 0)
		return;
	part.dy = tensor_columns(&l->dy, rows->first, rows->count);
	part.dweight = tensor_rows(&l->dweight, rows->first, rows->count);
	if (l->dbias.data)
		part.dbias = tensor_rows(&l->dbias, rows->first, rows->count);
	weight_gradient(s, &part);
}

/* --- beside GEMMs ----------------------------------------------------------------------------- */

/* Whether there is a GEMM for the rows of each rank, while other rows are on their way. All rows of
 * an operand that is scaled by its own numbers have to be there before any is multiplied. */
static bool
splits(const struct step *s)
{
	return s->e->overlap.stream && in_parts(s) && !fp8_at_once(s->e) &&
	    memory_buffer(&s->e->mem, BUF_TOKENS)->shape[0] >=
	    s->e->backend->gemm_rows * s->e->groups.tp->size;
}

static bool
shares_rows(const struct step *s)
{
	return layout_row_shards(&s->e->plan.layout) > 1;
}

bool
rows_overlap(const struct step *s)
{
	return s->e->overlap.stream && shares_rows(s);
}

/* The i-th rank from this one on. */
static int
next_rank(const struct step *s, int i)
{
	struct comm *tp = s->e->groups.tp;

	return (tp->rank + i) % tp->size;
}

/* The rows of a rank may be read from here on; the own ones may in any case. */
static void
await_rows(struct step *s, int rank)
{
	struct overlap *b = &s->e->overlap;

	if (rank != s->e->groups.tp->rank)
		streams_join(s->e, b->stream, b->arrived[rank], SPAN_TENSOR);
}

/* The GEMM of the own rows, then those of the others' rows as they arrive. x is not needed whole.
 */
static void
column_forward_overlapped(struct step *s, const struct linear *l)
{
	struct overlap *b = &s->e->overlap;
	struct tensor x = partial_sums(s, &l->x);

	streams_fork(s->e, b->stream, b->ready);
	gather_others(s, b->stream, &x, &l->x);
	s->e->backend->record(b->stream, b->gathered);
	for (int i = 0; i < s->e->groups.tp->size; i++) {
		int rank = next_rank(s, i);
		struct linear part = *l;

		await_rows(s, rank);
		part.x = i == 0 ? l->x : rank_rows(s, &x, rank);
		part.y = rank_rows(s, &l->y, rank);
		part.pre = rank_rows(s, &l->pre, rank);
		forward_gemm(s, &part);
	}
	streams_join(s->e, b->stream, b->gathered, SPAN_TENSOR);
}

/* The own rows and those of the others are gathered on the other stream. */
static void
gather_beside(struct step *s, const struct tensor *to, const struct tensor *own)
{
	struct overlap *b = &s->e->overlap;

	streams_fork(s->e, b->stream, b->ready);
	gather_on(s, b->stream, to, own);
	s->e->backend->record(b->stream, b->gathered);
}

/* As column_forward_overlapped; dy becomes whole. What has been on its way since
 * row_backward_begin is there, so that one GEMM takes all rows. */
static void
row_backward_overlapped(struct step *s, struct linear_grad *g)
{
	struct overlap *b = &s->e->overlap;
	struct tensor own = g->dy;
	bool begun = b->coming == own.data;

	g->dy = engine_buffer(s->e, BUF_DGATHERED);
	if (!begun)
		gather_beside(s, &g->dy, &own);
	b->coming = NULL;
	if (begun || !splits(s)) {
		streams_join(s->e, b->stream, b->gathered, SPAN_TENSOR);
		input_gradient(s, g);
		return;
	}
	for (int i = 0; i < s->e->groups.tp->size; i++) {
		int rank = next_rank(s, i);
		struct linear_grad part = *g;

		await_rows(s, rank);
		part.dy = i == 0 ? own : rank_rows(s, &g->dy, rank);
		part.first_row = rank * own.shape[0];
		part.dx = rank_rows(s, &g->dx, rank);
		part.pre = rank_rows(s, &g->pre, rank);
		input_gradient(s, &part);
	}
	streams_join(s->e, b->stream, b->gathered, SPAN_TENSOR);
}

/* The others' rows first, the own ones last: what a rank is to sum is on its way to it while the
 * next GEMM runs. */
static void
row_forward_overlapped(struct step *s, const struct linear *l, const struct tensor *y)
{
	struct overlap *b = &s->e->overlap;

	streams_fork(s->e, b->stream, b->ready);
	for (int i = 1; i <= s->e->groups.tp->size; i++) {
		int rank = next_rank(s, i);
		struct linear part = *l;

		part.x = rank_rows(s, &l->x, rank);
		part.y = rank_rows(s, &l->y, rank);
		forward_gemm(s, &part);
		made(s, rank);
	}
	sum_on(s, b->stream, y, &l->y);
	s->e->backend->record(b->stream, b->summed);
	streams_join(s->e, b->stream, b->summed, SPAN_TENSOR);
}

/* The partial sums are added up beside the GEMM that makes the weight's gradient. The rows of x are
 * on their way or whole by then, hence a place of its own for the sums. */
static void
column_backward_overlapped(struct step *s, const struct linear_grad *g)
{
	struct overlap *b = &s->e->overlap;
	struct linear_grad all = *g;

	if (shares_rows(s))
		all.dx = engine_buffer(s->e, BUF_PARTIAL);
	input_gradient(s, &all);
	made_all(s);
	streams_fork(s->e, b->stream, b->ready);
	sum_on(s, b->stream, &g->dx, &all.dx);
	s->e->backend->record(b->stream, b->summed);
	if (shares_rows(s))
		streams_join(s->e, b->stream, b->gathered, SPAN_TENSOR);
}

/* --- the two linears -------------------------------------------------------------------------- */

void
column_forward(struct step *s, const struct linear *l)
{
	struct linear all = *l;

	if (splits(s) && shares_rows(s)) {
		column_forward_overlapped(s, l);
		return;
	}
	all.x = gather_rows(s, &l->x);
	forward_gemm(s, &all);
}

void
column_backward_begin(struct step *s, struct linear_grad *g)
{
	struct tensor own = g->x;

	if (!rows_overlap(s))
		return;
	g->x = partial_sums(s, &own);
	gather_beside(s, &g->x, &own);
}

/* Every rank's columns contribute to the whole dx, hence the sum. The rows of x are gathered again
 * after it, as keeping them all would take back what sequence parallelism saves. */
void
column_backward(struct step *s, struct linear_grad *g)
{
	struct linear_grad all = *g;

	if (s->e->overlap.stream) {
		column_backward_overlapped(s, g);
		return;
	}
	all.dx = partial_sums(s, &g->dx);
	input_gradient(s, &all);
	scatter_sums(s, &g->dx);
	g->x = gather_rows(s, &g->x);
}

void
column_backward_end(struct step *s)
{
	struct overlap *b = &s->e->overlap;

	if (b->stream)
		streams_join(s->e, b->stream, b->summed, SPAN_TENSOR);
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
	if (splits(s)) {
		row_forward_overlapped(s, &part, &l->y);
		return;
	}
	forward_gemm(s, &part);
	scatter_sums(s, &l->y);
}

void
row_backward_begin(struct step *s, const struct tensor *dy)
{
	struct tensor gathered = engine_buffer(s->e, BUF_DGATHERED);

	gather_beside(s, &gathered, dy);
	s->e->overlap.coming = dy->data;
}

/* dx has only this rank's columns, so there is no sum. */
void
row_backward(struct step *s, struct linear_grad *g)
{
	if (rows_overlap(s)) {
		row_backward_overlapped(s, g);
		return;
	}
	g->dy = gather_rows(s, &g->dy);
	input_gradient(s, g);
}
