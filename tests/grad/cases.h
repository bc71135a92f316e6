/* cases.h - how each operation is run forward and backward, and its test cases */
#ifndef TESTS_GRAD_CASES_H
#define TESTS_GRAD_CASES_H

#include "tests/grad/problem.h"

#define SHAPE(r, c) ((const int64_t[SLOT_DIMS]){ (r), (c) })
#define VECTOR_PARAM (SLOT_REAL_GRAD | SLOT_ADDED | SLOT_VECTOR)
#define VECTOR_WRITTEN (SLOT_REAL_GRAD | SLOT_VECTOR)
#define T(i) (&p->slot[i].t)
#define G(i) (&p->slot[i].g)

/* A case with a residual stream of type real. */
enum { WIDE = 16 };

/* The type of the slots of the residual stream. */
static unsigned
stream_slot(const struct op_case *c)
{
	return c->flags & WIDE ? SLOT_REAL | SLOT_REAL_GRAD : 0;
}

/* The dropout counters of every case. */
static struct dropout
case_dropout(const struct op_case *c, int64_t width)
{
	return (struct dropout){ .p = c->drop,
		.key = 42,
		.stream = 3,
		.step = 5,
		.first_sample = 6,
		.seq_length = 1000,
		.first_position = 2,
		.second_position = 500,
		.turn = c->turn ? c->turn : c->rows,
		.width = width,
		.first_column = 1,
		.first_row = 5,
		.micro_batch = c->batch };
}

/* --- gemm: 0 a, 1 b, 2 c before, 3 c, 4 bias or aux read, 5 aux kept, 6 gradient through the
 * activation --- */
enum { TRANS_A = 1, TRANS_B = 2, REAL_C = 4, BETA = 8, BIAS = 16, GELU = 32, DBIAS = 64 };

/* The bias gradient accumulates, unless it comes with a GEMM that does not. */
static bool
gemm_dbias_added(const struct op_case *c)
{
	return !(c->flags & DBIAS) || c->flags & BETA;
}

static void
gemm_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	unsigned real = c->flags & REAL_C ? SLOT_REAL : 0;

	slot_add(p, 0, SLOT_INPUT, 0,
	    c->flags & TRANS_A ? SHAPE(c->inner, c->rows) : SHAPE(c->rows, c->inner));
	slot_add(p, 1, SLOT_INPUT, 0,
	    c->flags & TRANS_B ? SHAPE(c->columns, c->inner) : SHAPE(c->inner, c->columns));
	slot_add(p, 2, SLOT_INPUT, real, SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_OUTPUT, real, SHAPE(c->rows, c->columns));
	if (c->flags & BIAS)
		slot_add(p, 4, SLOT_INPUT, gemm_dbias_added(c) ? VECTOR_PARAM : VECTOR_WRITTEN,
		    SHAPE(c->columns, 1));
	if (c->flags & GELU) {
		slot_add(p, 5, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
		slot_add(p, 6, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
	}
}

static void
gemm_forward(struct problem *p)
{
	struct gemm g = { .c = *T(3),
		.a = *T(0),
		.b = *T(1),
		.trans_a = p->c->flags & TRANS_A,
		.trans_b = p->c->flags & TRANS_B,
		.alpha = 0.5,
		.beta = p->c->flags & BETA ? 0.75 : 0,
		.bias = *T(4),
		.aux = *T(5),
		.act = p->c->flags & GELU ? GEMM_GELU : GEMM_LINEAR };

	p->st->ops->cast(p->st, &(struct pair){ *T(3), *T(2) });
	p->st->ops->gemm(p->st, &g);
}

/* The gradient of the GEMM's output through the activation after it, by a GEMM with a unit matrix,
 * which leaves only the epilogue to differentiate. */
static const struct tensor *
gemm_outer(struct problem *p)
{
	const struct op_case *c = p->c;
	struct tensor unit;
	struct gemm g;

	if (!(c->flags & GELU))
		return G(3);
	unit = unit_matrix(p, c->columns);
	g = (struct gemm){
		.c = *T(6), .a = *G(3), .b = unit, .alpha = 1, .aux = *T(5), .act = GEMM_GELU_GRAD
	};
	p->st->ops->gemm(p->st, &g);
	p->backend->release(p->device, unit.data);
	return T(6);
}

/* The gradients of a GEMM are GEMMs; the gradient of c is act, as in the engine. The bias gradient
 * is an epilogue of the one that reads the operand to be summed over rows. */
static void
gemm_backward(struct problem *p)
{
	bool ta = p->c->flags & TRANS_A, tb = p->c->flags & TRANS_B;
	struct tensor dc = *gemm_outer(p);
	struct gemm da = { .c = *G(0),
		.a = ta ? *T(1) : dc,
		.b = ta ? dc : *T(1),
		.trans_a = ta && tb,
		.trans_b = ta || !tb,
		.alpha = 0.5 };
	struct gemm db = { .c = *G(1),
		.a = tb ? dc : *T(0),
		.b = tb ? *T(0) : dc,
		.trans_a = tb || !ta,
		.trans_b = tb && ta,
		.alpha = 0.5 };

	if (p->c->flags & DBIAS) {
		db.dbias = *G(4);
		db.beta = gemm_dbias_added(p->c) ? 1 : 0;
		p->st->ops->fill(p->st, &(struct fill){ *G(1), 0 });
	} else if (p->c->flags & BIAS)
		add_column_sums(p, G(4), &dc);
	p->st->ops->gemm(p->st, &da);
	p->st->ops->gemm(p->st, &db);
	for (int64_t k = 0; k < slot_count(&p->slot[2]); k++)
		p->slot[2].grad[k] = p->c->flags & BETA ? 0.75 * p->slot[3].grad[k] : 0;
	upload(p, G(2), p->slot[2].grad);
}

static const struct op_case gemm_cases[] = {
	{ .rows = 1, .columns = 1, .inner = 1 },
	{ .rows = 1, .columns = 5, .inner = 7, .flags = BETA },
	{ .rows = 13, .columns = 9, .inner = 11, .flags = TRANS_A },
	{ .rows = 13, .columns = 1, .inner = 11, .flags = TRANS_B | BETA },
	{ .rows = 8, .columns = 9, .inner = 3, .flags = TRANS_A | TRANS_B },
	{ .rows = 150, .columns = 131, .inner = 300, .flags = TRANS_B },
	{ .rows = 131, .columns = 310, .inner = 150, .flags = TRANS_A | REAL_C | BETA },
	{ .rows = 70, .columns = 600, .inner = 65 },
	{ .rows = 7, .columns = 13, .inner = 5, .flags = TRANS_B | BIAS },
	{ .rows = 7, .columns = 13, .inner = 5, .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ .rows = 64, .columns = 96, .inner = 40, .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ .rows = 70, .columns = 600, .inner = 65, .flags = BIAS | GELU },
	{ .rows = 33,
	    .columns = 16,
	    .inner = 24,
	    .flags = TRANS_A | TRANS_B | BIAS | BETA | DBIAS },
	{ 0 },
};

/* --- norm: 0 x, 1 weight, 2 bias, 3 y, 4 mean, 5 rstd, 6 x and dx of heads, with APART in a call
 * each --- */
enum { LAYER_NORM = 1, WRITE_GRAD = 2, LESS_ONE = 32, APART = 64, WRITE_DX = 128 };

static int64_t
norm_length(const struct op_case *c)
{
	return c->heads ? c->columns / c->heads : c->columns;
}

static void
norm_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	unsigned param = c->flags & WRITE_GRAD ? VECTOR_WRITTEN : VECTOR_PARAM;
	int64_t length = norm_length(c), stats = c->rows * (c->columns / length);

	slot_add(p, 0, SLOT_INPUT, stream_slot(c) | (c->flags & WRITE_DX ? 0 : SLOT_ADDED),
	    SHAPE(c->rows, c->columns));
	slot_add(p, 1, SLOT_INPUT, param, SHAPE(length, 1));
	if (c->flags & LAYER_NORM) {
		slot_add(p, 2, SLOT_INPUT, param, SHAPE(length, 1));
		slot_add(p, 4, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(stats, 1));
	}
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 5, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(stats, 1));
	if (c->heads)
		slot_add(p, 6, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, 2 * c->columns + 16));
}

/* Heads lie in longer rows, as those of q and of k do: x (0) and dx (1). */
static struct tensor
norm_window(struct problem *p, int i)
{
	return tensor_columns(T(6), 16 + i * p->c->columns, p->c->columns);
}

/* The columns, and the statistics, of one of the calls that make the norm. */
static int
norm_calls(const struct op_case *c)
{
	return c->flags & APART ? c->heads : 1;
}

static struct tensor
norm_columns(const struct op_case *c, const struct tensor *t, int call)
{
	int64_t width = c->columns / norm_calls(c);

	return tensor_columns(t, call * width, width);
}

static struct tensor
norm_stats(const struct op_case *c, const struct tensor *t, int call)
{
	int64_t count = t->shape[0] / norm_calls(c);

	return t->data ? tensor_rows(t, call * count, count) : *t;
}

static void
norm_forward(struct problem *p)
{
	struct tensor x = *T(0);
	struct norm n = {
		.weight = *T(1), .bias = *T(2), .eps = 1e-3, .shift = p->c->flags & LESS_ONE ? 1 : 0
	};

	if (p->c->heads) {
		x = norm_window(p, 0);
		p->st->ops->cast(p->st, &(struct pair){ x, *T(0) });
	}
	for (int i = 0; i < norm_calls(p->c); i++) {
		n.x = norm_columns(p->c, &x, i);
		n.y = norm_columns(p->c, T(3), i);
		n.mean = norm_stats(p->c, T(4), i);
		n.rstd = norm_stats(p->c, T(5), i);
		p->st->ops->norm_fwd(p->st, &n);
	}
}

static void
norm_backward(struct problem *p)
{
	struct tensor x = *T(0), dx = *G(0);
	struct norm_grad n = { .weight = *T(1),
		.dweight = *G(1),
		.dbias = *G(2),
		.writes_dx = p->c->flags & WRITE_DX,
		.shift = p->c->flags & LESS_ONE ? 1 : 0 };

	if (p->c->heads) {
		x = norm_window(p, 0);
		dx = norm_window(p, 1);
		p->st->ops->cast(p->st, &(struct pair){ dx, *G(0) });
	}
	for (int i = 0; i < norm_calls(p->c); i++) {
		n.x = norm_columns(p->c, &x, i);
		n.dx = norm_columns(p->c, &dx, i);
		n.dy = norm_columns(p->c, G(3), i);
		n.mean = norm_stats(p->c, T(4), i);
		n.rstd = norm_stats(p->c, T(5), i);
		n.accumulate = !(p->c->flags & WRITE_GRAD) || i > 0;
		p->st->ops->norm_bwd(p->st, &n);
	}
	if (p->c->heads)
		p->st->ops->cast(p->st, &(struct pair){ *G(0), dx });
}

static const struct op_case norm_cases[] = {
	{ .rows = 1, .columns = 2 },
	{ .rows = 1, .columns = 7, .flags = LAYER_NORM },
	{ .rows = 5, .columns = 33 },
	{ .rows = 150, .columns = 300 },
	{ .rows = 131, .columns = 257, .flags = LAYER_NORM },
	{ .rows = 70, .columns = 64, .flags = LAYER_NORM | WRITE_GRAD },
	{ .rows = 9, .columns = 65, .flags = WRITE_GRAD },
	{ .rows = 70, .columns = 64, .flags = WIDE },
	{ .rows = 5, .columns = 33, .flags = LAYER_NORM | WRITE_GRAD | WIDE },
	{ .rows = 70, .columns = 64, .flags = LESS_ONE },
	{ .rows = 9, .columns = 65, .flags = LAYER_NORM | WRITE_GRAD | LESS_ONE },
	{ .rows = 5, .columns = 66, .heads = 2 },
	{ .rows = 70, .columns = 256, .heads = 4 },
	{ .rows = 131, .columns = 240, .heads = 3, .flags = LAYER_NORM },
	{ .rows = 9, .columns = 192, .heads = 2, .flags = LAYER_NORM | WRITE_GRAD | LESS_ONE },
	{ .rows = 3, .columns = 24, .heads = 3, .flags = WRITE_GRAD },
	{ .rows = 131, .columns = 240, .heads = 3, .flags = WRITE_DX },
	{ .rows = 9, .columns = 66, .heads = 2, .flags = LAYER_NORM | WRITE_DX },
	{ .rows = 70, .columns = 64, .flags = LAYER_NORM | WRITE_DX },
	{ .rows = 9, .columns = 65, .flags = WRITE_DX | WIDE },
	{ 0 },
};

/* --- rope: 0 x, 1 y, 2 table, 3 positions ----------------------------------------------------- */
enum { INTERLEAVED = 1 };

/* inner is rotary_dim; positions of a sample are 0..rows-1, the table alternates cos and sin. */
static void
rope_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	int64_t width = (int64_t)c->heads * c->head_dim;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, width));
	slot_add(p, 1, SLOT_OUTPUT, 0, SHAPE(c->rows, width));
	slot_add(p, 2, SLOT_FIXED, SLOT_REAL, SHAPE(c->rows, c->inner));
	slot_add(p, 3, SLOT_IDS, SLOT_VECTOR, SHAPE(c->rows, 1));
	for (int64_t i = 0; i < c->rows; i++) {
		p->slot[3].value[i] = (double)(i / c->batch);
		for (int64_t j = 0; j < c->inner; j++) {
			double angle =
			    (double)i * pow(100, -2.0 * (double)(j / 2) / (double)c->inner);

			p->slot[2].value[i * c->inner + j] = j % 2 ? sin(angle) : cos(angle);
		}
	}
}

static void
rope_run(struct problem *p, const struct tensor *to, const struct tensor *from, bool backward)
{
	struct rope r = { .x = *to,
		.table = *T(2),
		.positions = *T(3),
		.num_heads = p->c->heads,
		.head_dim = p->c->head_dim,
		.rotary_dim = (int)p->c->inner,
		.interleaved = p->c->flags & INTERLEAVED,
		.backward = backward };

	p->st->ops->cast(p->st, &(struct pair){ *to, *from });
	p->st->ops->rope(p->st, &r);
}

static void
rope_forward(struct problem *p)
{
	rope_run(p, T(1), T(0), false);
}

static void
rope_backward(struct problem *p)
{
	rope_run(p, G(0), G(1), true);
}

static const struct op_case rope_cases[] = {
	{ .rows = 1, .batch = 1, .heads = 1, .head_dim = 2, .inner = 2 },
	{ .rows = 10, .batch = 2, .heads = 3, .head_dim = 8, .inner = 8 },
	{ .rows = 9, .batch = 3, .heads = 2, .head_dim = 10, .inner = 10, .flags = INTERLEAVED },
	{ .rows = 600, .batch = 1, .heads = 4, .head_dim = 16, .inner = 6 },
	{ .rows = 7, .batch = 1, .heads = 2, .head_dim = 12, .inner = 4, .flags = INTERLEAVED },
	{ 0 },
};

/* --- attention: 0 q, 1 k, 2 v, 3 out, 4 lse, 5 delta, 6 first with DOCUMENTS; rows is S, inner the
 * position of the first query ------------------------------------------------------------------ */
enum { DOCUMENTS = 1 };

/* Documents of 1 to about 100 tokens, different in every sample: one begins at a position with
 * probability 1 / 16, less often after position 256. */
static int64_t
document_start(int64_t sample, int64_t position)
{
	while (position > 0 &&
	    rng_uniform(17, (uint64_t)position, (uint32_t)sample, 0) >=
		(position < 256 ? 1.0f / 16 : 1.0f / 64))
		position--;
	return position;
}

static void
attention_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	int64_t rows = c->rows * c->batch, q = (int64_t)c->heads * c->head_dim,
		kv = (int64_t)c->groups * c->head_dim;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(rows, q));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, kv));
	slot_add(p, 2, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, kv));
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(rows, q));
	for (int i = 4; i < 6; i++)
		slot_add(p, i, SLOT_SCRATCH, 0, SHAPE((int64_t)c->batch * c->heads, c->rows));
	if (!(c->flags & DOCUMENTS))
		return;
	slot_add(p, 6, SLOT_IDS, SLOT_VECTOR, SHAPE(rows, 1));
	for (int64_t r = 0; r < rows; r++)
		p->slot[6].value[r] = (double)document_start(r % c->batch, c->inner + r / c->batch);
}

static struct attention
attention_of(struct problem *p)
{
	const struct op_case *c = p->c;

	return (struct attention){ .out = *T(3),
		.lse = *T(4),
		.q = *T(0),
		.k = *T(1),
		.v = *T(2),
		.first = *T(6),
		.micro_batch = c->batch,
		.num_heads = c->heads,
		.num_groups = c->groups,
		.head_dim = c->head_dim,
		.scale = 1.3,
		.softcap = c->cap,
		.window = c->window,
		.drop = case_dropout(c, c->heads + 2) };
}

static void
attention_forward(struct problem *p)
{
	struct attention a = attention_of(p);

	p->st->ops->attention_fwd(p->st, &a);
}

static void
attention_backward(struct problem *p)
{
	struct attention_grad a = { .fwd = attention_of(p),
		.dout = *G(3),
		.dq = *G(0),
		.dk = *G(1),
		.dv = *G(2),
		.delta = *T(5) };

	p->st->ops->attention_bwd(p->st, &a);
}

static const struct op_case attention_cases[] = {
	{ .rows = 1, .batch = 1, .heads = 1, .groups = 1, .head_dim = 1 },
	{ .rows = 7, .batch = 3, .heads = 2, .groups = 2, .head_dim = 5 },
	{ .rows = 9, .batch = 2, .heads = 6, .groups = 2, .head_dim = 4, .window = 3 },
	{ .rows = 64, .batch = 1, .heads = 2, .groups = 1, .head_dim = 8, .drop = 0.3 },
	{ .rows = 150, .batch = 2, .heads = 2, .groups = 1, .head_dim = 8 },
	{ .rows = 200,
	    .batch = 1,
	    .heads = 2,
	    .groups = 2,
	    .head_dim = 16,
	    .window = 70,
	    .drop = 0.1 },
	{ .rows = 1, .batch = 2, .heads = 1, .groups = 1, .head_dim = 3, .flags = DOCUMENTS },
	{ .rows = 50, .batch = 3, .heads = 4, .groups = 2, .head_dim = 6, .flags = DOCUMENTS },
	{ .rows = 210,
	    .batch = 2,
	    .heads = 2,
	    .groups = 1,
	    .head_dim = 8,
	    .window = 20,
	    .drop = 0.2,
	    .flags = DOCUMENTS },
	{ .rows = 140, .batch = 1, .heads = 2, .groups = 1, .head_dim = 4, .flags = DOCUMENTS },
	{ .rows = 1, .inner = 9, .batch = 2, .heads = 2, .groups = 1, .head_dim = 4 },
	{ .rows = 70, .inner = 140, .batch = 2, .heads = 4, .groups = 2, .head_dim = 8 },
	{ .rows = 67,
	    .inner = 35,
	    .batch = 1,
	    .heads = 2,
	    .groups = 1,
	    .head_dim = 8,
	    .window = 30,
	    .drop = 0.2 },
	{ .rows = 80,
	    .inner = 130,
	    .batch = 2,
	    .heads = 2,
	    .groups = 2,
	    .head_dim = 16,
	    .drop = 0.1,
	    .flags = DOCUMENTS },
	{ .rows = 9, .batch = 2, .heads = 6, .groups = 2, .head_dim = 4, .window = 3, .cap = 0.7 },
	{ .rows = 150, .batch = 1, .heads = 2, .groups = 1, .head_dim = 8, .drop = 0.2, .cap = 2 },
	{ .rows = 70, .inner = 80, .batch = 2, .heads = 2, .groups = 2, .head_dim = 8, .cap = 1 },
	{ 0 },
};

/* --- act: 0 x, 1 y, 2 y rebuilt; columns is f ------------------------------------------------- */
enum { REBUILD = 1, IN_PLACE = 2 };

static void
act_declare(struct problem *p)
{
	bool gated = p->c->kind == ACT_SWIGLU || p->c->kind == ACT_GEGLU_TANH;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns * (gated ? 2 : 1)));
	slot_add(p, 1, SLOT_OUTPUT, 0, SHAPE(p->c->rows, p->c->columns));
	if (p->c->flags & REBUILD)
		slot_add(p, 2, SLOT_REBUILT, 0, SHAPE(p->c->rows, p->c->columns));
	for (int64_t i = 0; i < slot_count(&p->slot[0]); i++)
		p->slot[0].value[i] *= 4;
}

static void
act_forward(struct problem *p)
{
	p->st->ops->act_fwd(
	    p->st, &(struct act){ .kind = (enum act_kind)p->c->kind, .y = *T(1), .x = *T(0) });
}

/* Gradients in separate tensors, or dx in place of x and the value in place of dy. */
static void
act_backward(struct problem *p)
{
	struct act_grad a = {
		.kind = (enum act_kind)p->c->kind, .dx = *G(0), .dy = *G(1), .x = *T(0), .y = *T(2)
	};

	if (p->c->flags & IN_PLACE) {
		p->st->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
		a.x = *G(0);
	}
	if (p->c->flags & IN_PLACE && a.y.data) {
		p->st->ops->cast(p->st, &(struct pair){ *T(2), *G(1) });
		a.dy = *T(2);
	}
	p->st->ops->act_bwd(p->st, &a);
}

static const struct op_case act_cases[] = {
	{ .rows = 3, .columns = 37, .kind = ACT_GELU_TANH },
	{ .rows = 5, .columns = 2100, .kind = ACT_GELU_TANH },
	{ .rows = 3, .columns = 37, .kind = ACT_GELU_ERF },
	{ .rows = 3, .columns = 37, .kind = ACT_RELU2 },
	{ .rows = 1, .columns = 1, .kind = ACT_SWIGLU },
	{ .rows = 9, .columns = 2051, .kind = ACT_SWIGLU },
	{ .rows = 4, .columns = 19, .kind = ACT_GEGLU_TANH },
	{ .rows = 4, .columns = 72, .kind = ACT_GEGLU_TANH, .flags = REBUILD },
	{ .rows = 9, .columns = 2056, .kind = ACT_SWIGLU, .flags = REBUILD | IN_PLACE },
	{ .rows = 3, .columns = 37, .kind = ACT_SWIGLU, .flags = REBUILD | IN_PLACE },
	{ .rows = 5, .columns = 40, .kind = ACT_GELU_TANH, .flags = REBUILD | IN_PLACE },
	{ .rows = 5, .columns = 41, .kind = ACT_GELU_ERF, .flags = IN_PLACE },
	{ .rows = 5, .columns = 48, .kind = ACT_RELU2, .flags = REBUILD },
	{ 0 },
};

/* --- activation of a window of experts' rows: 0 x, 1 y, 2 weights, 3 y recomputed, 4 counts --- */
static void
expert_act_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	act_declare(p);
	slot_add(p, 2, SLOT_INPUT, SLOT_REAL | SLOT_REAL_GRAD, SHAPE(c->rows, 1));
	slot_add(p, 3, SLOT_REBUILT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 4, SLOT_IDS, 0, SHAPE(2, 3));
	for (int i = 0; i < 6; i++)
		p->slot[4].value[i] = i % 2 ? (double)(c->rows + c->inner) / 3 : 0;
}

/* The window starts after `inner` rows of the order and ends with it. */
static void
expert_act_forward(struct problem *p)
{
	struct expert_act a = { (enum act_kind)p->c->kind, *T(1), *T(0), *T(2), *T(4),
		p->c->inner };

	p->st->ops->expert_act(p->st, &a);
}

/* dx may take the place of x. */
static void
expert_act_backward(struct problem *p)
{
	struct expert_act_grad a = { .kind = (enum act_kind)p->c->kind,
		.dx = *G(0),
		.dy = *G(1),
		.y = *T(3),
		.dweight = *G(2),
		.x = *T(0),
		.weight = *T(2),
		.counts = *T(4),
		.first = p->c->inner };

	if (p->c->flags & IN_PLACE) {
		p->st->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
		a.x = *G(0);
	}
	p->st->ops->expert_act_grad(p->st, &a);
}

static const struct op_case expert_act_cases[] = {
	{ .rows = 3, .columns = 37, .kind = ACT_GELU_TANH },
	{ .rows = 9, .columns = 2051, .kind = ACT_SWIGLU, .inner = 6 },
	{ .rows = 5, .columns = 48, .kind = ACT_SWIGLU, .inner = 4, .flags = IN_PLACE },
	{ .rows = 4, .columns = 19, .kind = ACT_GEGLU_TANH, .inner = 2, .flags = IN_PLACE },
	{ .rows = 5, .columns = 2100, .kind = ACT_RELU2, .inner = 1, .flags = IN_PLACE },
	{ 0 },
};

/* --- dropout from a branch to the stream, and back: 0 x, 3 y ---------------------------------- */
static void
dropout_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_OUTPUT, stream_slot(c), SHAPE(c->rows, c->columns));
}

static void
dropout_forward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);

	p->st->ops->dropout_bwd(p->st, &(struct dropout_grad){ *T(3), *T(0), drop });
}

static void
dropout_backward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);

	p->st->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(3), drop });
}

static const struct op_case dropout_cases[] = {
	{ .rows = 9, .columns = 37, .batch = 3, .drop = 0.4 },
	{ .rows = 9, .columns = 37, .batch = 3, .flags = WIDE },
	{ .rows = 40, .columns = 64, .batch = 2, .drop = 0.4, .flags = WIDE },
	{ 0 },
};

/* --- residual with dropout: 0 x, 2 residual, 3 y ---------------------------------------------- */
static void
residual_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 2, SLOT_INPUT, stream_slot(c), SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_OUTPUT, stream_slot(c), SHAPE(c->rows, c->columns));
}

static void
residual_forward(struct problem *p)
{
	struct residual r = { .y = *T(3),
		.x = *T(0),
		.residual = *T(3),
		.drop = case_dropout(p->c, p->c->columns + 3) };

	p->st->ops->cast(p->st, &(struct pair){ *T(3), *T(2) });
	p->st->ops->residual_fwd(p->st, &r);
}

static void
residual_backward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);

	p->st->ops->cast(p->st, &(struct pair){ *G(2), *G(3) });
	p->st->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(3), drop });
}

static const struct op_case residual_cases[] = {
	{ .rows = 6, .columns = 5, .batch = 2 },
	{ .rows = 9, .columns = 37, .batch = 3, .drop = 0.4 },
	{ .rows = 300, .columns = 130, .batch = 2, .drop = 0.1 },
	{ .rows = 90, .columns = 33, .batch = 3, .turn = 13, .drop = 0.3 },
	{ .rows = 6, .columns = 5, .batch = 2, .flags = WIDE },
	{ .rows = 30, .columns = 64, .batch = 3, .drop = 0.3, .flags = WIDE },
	{ 0 },
};

/* --- residual with the norm after it: 0 x, 1 bias of x, 2 residual, 3 norm's y, 4 weight, 5
 * norm's bias, 6 sum, 7 mean, 8 rstd, 9 x + bias, 10 the row of the bias in its table */
enum {
	NO_BIAS = 4,
	SUMMED = 8
}; /* SUMMED: the norm's backward pass gives the gradient of the bias */

static void
block_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	unsigned param = c->flags & WRITE_GRAD ? VECTOR_WRITTEN : VECTOR_PARAM;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	if (!(c->flags & NO_BIAS)) {
		slot_add(p, 1, SLOT_INPUT, c->flags & SUMMED ? param : VECTOR_PARAM,
		    SHAPE(c->columns, 1));
		slot_add(p, 9, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
		slot_add(p, 10, SLOT_IDS, SLOT_VECTOR, SHAPE(c->rows, 1));
		memset(p->slot[10].value, 0, (size_t)c->rows * sizeof(double));
	}
	slot_add(p, 2, SLOT_INPUT, stream_slot(c), SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 4, SLOT_INPUT, param, SHAPE(c->columns, 1));
	slot_add(p, 6, SLOT_OUTPUT, stream_slot(c), SHAPE(c->rows, c->columns));
	if (c->flags & LAYER_NORM) {
		slot_add(p, 5, SLOT_INPUT, param, SHAPE(c->columns, 1));
		slot_add(p, 7, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(c->rows, 1));
	}
	slot_add(p, 8, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(c->rows, 1));
}

static void
block_forward(struct problem *p)
{
	struct norm n = { .y = *T(3),
		.x = *T(6),
		.weight = *T(4),
		.bias = *T(5),
		.mean = *T(7),
		.rstd = *T(8),
		.eps = 1e-3 };
	struct residual r = { .y = *T(6),
		.x = *T(0),
		.residual = *T(2),
		.drop = case_dropout(p->c, p->c->columns + 3),
		.norm = n };
	struct embedding bias = { .y = *T(9),
		.scale = 1,
		.table = tensor_2d(T(1)->data, p->act, 1, p->c->columns),
		.ids = *T(10),
		.accumulate = true };

	if (!(p->c->flags & NO_BIAS)) {
		r.x = *T(9);
		p->st->ops->cast(p->st, &(struct pair){ r.x, *T(0) });
		p->st->ops->embedding_fwd(p->st, &bias);
	}
	p->st->ops->residual_fwd(p->st, &r);
}

/* The residual stream's gradient already contains that of the sum; the norm's is added to it.
 * Without dropout the column sums of the result are the gradient of the bias. */
static void
block_backward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);
	struct norm_grad n = { .dx = *G(2),
		.dy = *G(3),
		.x = *T(6),
		.weight = *T(4),
		.mean = *T(7),
		.rstd = *T(8),
		.dweight = *G(4),
		.dbias = *G(5),
		.accumulate = !(p->c->flags & WRITE_GRAD) };

	if (p->c->flags & SUMMED)
		n.dx_sum = *G(1);
	p->st->ops->cast(p->st, &(struct pair){ *G(2), *G(6) });
	p->st->ops->norm_bwd(p->st, &n);
	p->st->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(2), drop });
	if (!(p->c->flags & (NO_BIAS | SUMMED)))
		add_column_sums(p, G(1), G(0));
}

static const struct op_case block_cases[] = {
	{ .rows = 6, .columns = 5, .batch = 2, .flags = NO_BIAS },
	{ .rows = 9, .columns = 37, .batch = 3, .drop = 0.4, .flags = LAYER_NORM },
	{ .rows = 8, .columns = 64, .batch = 2, .drop = 0.1 },
	{ .rows = 7, .columns = 96, .batch = 7, .flags = LAYER_NORM | NO_BIAS },
	{ .rows = 1, .columns = 7, .batch = 1, .flags = SUMMED },
	{ .rows = 70, .columns = 64, .batch = 2, .flags = LAYER_NORM | SUMMED },
	{ .rows = 131, .columns = 257, .batch = 1, .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ .rows = 9, .columns = 72, .batch = 3, .flags = SUMMED | WRITE_GRAD },
	{ .rows = 9, .columns = 37, .batch = 3, .drop = 0.4, .flags = LAYER_NORM | WIDE },
	{ .rows = 70, .columns = 64, .batch = 2, .flags = NO_BIAS | WIDE },
	{ .rows = 70, .columns = 64, .batch = 2, .flags = LAYER_NORM | SUMMED | WIDE },
	{ 0 },
};

/* --- add: 0 x, 1 z, 2 y; y = x + z ------------------------------------------------------------ */
static void
add_declare(struct problem *p)
{
	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(p->c->rows, p->c->columns));
}

static void
add_forward(struct problem *p)
{
	p->st->ops->cast(p->st, &(struct pair){ *T(2), *T(0) });
	p->st->ops->add(p->st, &(struct pair){ *T(2), *T(1) });
}

static void
add_backward(struct problem *p)
{
	p->st->ops->cast(p->st, &(struct pair){ *G(0), *G(2) });
	p->st->ops->cast(p->st, &(struct pair){ *G(1), *G(2) });
}

static const struct op_case add_cases[] = {
	{ .rows = 1, .columns = 5 },
	{ .rows = 150, .columns = 67 },
	{ .rows = 4, .columns = 5000 },
	{ 0 },
};

/* --- sum: 0 x, 1 others, 2 y; `batch` others, x the term number `heads`, with IN_PLACE where y is
 * to be --- */
static void
sum_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(1, c->rows * c->columns));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(c->batch, c->rows * c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(1, c->rows * c->columns));
}

static void
sum_forward(struct problem *p)
{
	bool in_place = p->c->flags & IN_PLACE;
	struct sum a = { .y = tensor_flat(T(2)), .others = *T(1), .own = p->c->heads };

	if (in_place)
		p->st->ops->cast(p->st, &(struct pair){ *T(2), *T(0) });
	a.x = tensor_flat(T(in_place ? 2 : 0));
	p->st->ops->sum(p->st, &a);
}

/* Each term's gradient is that of the sum. */
static void
sum_backward(struct problem *p)
{
	struct sum a = { .y = tensor_flat(G(0)), .x = tensor_flat(G(2)) };

	p->st->ops->sum(p->st, &a);
	for (int i = 0; i < p->c->batch; i++) {
		struct tensor row = tensor_rows(G(1), i, 1);

		p->st->ops->cast(p->st, &(struct pair){ row, *G(2) });
	}
}

static const struct op_case sum_cases[] = {
	{ .rows = 1, .columns = 5, .batch = 1, .heads = 1 },
	{ .rows = 15, .columns = 67, .batch = 4, .heads = 2, .flags = IN_PLACE },
	{ .rows = 4, .columns = 900, .batch = 18, .heads = 17 },
	{ 0 },
};

/* --- axpby: 0 x, 1 z, 2 y; y = -1.5 x + 0.25 z, or -1.5 x with WRITE_GRAD --------------------- */
static void
axpby_run(struct problem *p, struct tensor *y, const struct tensor *x, double a, double b)
{
	p->st->ops->axpby(p->st, &(struct axpby){ .y = *y, .x = *x, .a = a, .b = b });
}

static void
axpby_forward(struct problem *p)
{
	p->st->ops->cast(p->st, &(struct pair){ *T(2), *T(1) });
	axpby_run(p, T(2), T(0), -1.5, p->c->flags & WRITE_GRAD ? 0 : 0.25);
}

static void
axpby_backward(struct problem *p)
{
	axpby_run(p, G(0), G(2), -1.5, 0);
	axpby_run(p, G(1), G(2), p->c->flags & WRITE_GRAD ? 0 : 0.25, 0);
}

static const struct op_case axpby_cases[] = {
	{ .rows = 1, .columns = 5 },
	{ .rows = 150, .columns = 67, .flags = WRITE_GRAD },
	{ .rows = 4, .columns = 5000 },
	{ 0 },
};

/* --- embedding of words and positions: 0 words, 1 positions, 2 y, 3 ids, 4 position ids; inner
 * rows a table. The words' gradient is written, the positions' accumulated. */
static void
embedding_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, SLOT_REAL_GRAD, SHAPE(c->inner, c->columns));
	slot_add(p, 1, SLOT_INPUT, SLOT_REAL_GRAD | SLOT_ADDED, SHAPE(c->inner, c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_IDS, SLOT_VECTOR, SHAPE(c->rows, 1));
	slot_add(p, 4, SLOT_IDS, SLOT_VECTOR, SHAPE(c->rows, 1));
	for (int64_t i = 0; i < c->rows; i++) {
		/* the upper half is not held */
		p->slot[3].value[i] = floor((p->slot[3].value[i] + 1) * (double)c->inner);
		p->slot[4].value[i] = (double)(i % c->inner);
	}
}

static struct embedding
embedding_of(struct problem *p, bool position)
{
	return (struct embedding){ .y = *T(2),
		.table = *T(position ? 1 : 0),
		.ids = *T(position ? 4 : 3),
		.scale = p->c->cap > 0 ? p->c->cap : 1,
		.accumulate = position };
}

static void
embedding_forward(struct problem *p)
{
	struct embedding word = embedding_of(p, false), position = embedding_of(p, true);

	p->st->ops->embedding_fwd(p->st, &word);
	p->st->ops->embedding_fwd(p->st, &position);
}

static void
embedding_backward(struct problem *p)
{
	for (int i = 0; i < 2; i++) {
		struct embedding_grad g = { .dtable = *G(i),
			.dy = *G(2),
			.ids = *T(3 + i),
			.scale = p->c->cap > 0 ? p->c->cap : 1,
			.accumulate = i == 1 };

		p->st->ops->embedding_bwd(p->st, &g);
	}
}

static const struct op_case embedding_cases[] = {
	{ .rows = 5, .columns = 3, .inner = 4 },
	{ .rows = 200, .columns = 130, .inner = 7 },
	{ .rows = 70, .columns = 64, .inner = 9, .cap = 5.5 },
	{ 0 },
};

/* --- xent: 0 logits, 1 loss, 2 zloss, 3 labels, 4 mask, 5 stats; `window` parts --------------- */
enum { PARTS_MAX = 4 };
static const double xent_scale = 3, xent_z = 0.01;

/* inner columns are real tokens, the rest padding; the differentiated loss is scale * sum of mask
 * (loss + zloss). */
static void
xent_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 1, SLOT_OUTPUT, SLOT_REAL | SLOT_VECTOR, SHAPE(c->rows, 1));
	slot_add(p, 2, SLOT_OUTPUT, SLOT_REAL | SLOT_VECTOR, SHAPE(c->rows, 1));
	slot_add(p, 3, SLOT_IDS, SLOT_VECTOR, SHAPE(c->rows, 1));
	slot_add(p, 4, SLOT_MASK, SLOT_VECTOR, SHAPE(c->rows, 1));
	if (c->window)
		slot_add(p, 5, SLOT_SCRATCH, 0, SHAPE(c->window * c->rows, 3));
	for (int64_t i = 0; i < c->rows; i++) {
		p->slot[3].value[i] = floor((p->slot[3].value[i] + 1) / 2 * (double)c->inner);
		p->slot[4].value[i] = p->slot[4].value[i] > -0.7;
		p->slot[1].grad[i] = p->slot[2].grad[i] = xent_scale * p->slot[4].value[i];
	}
	for (int64_t i = 0; i < slot_count(&p->slot[0]); i++)
		p->slot[0].value[i] *= 5;
}

/* The loss on `logits`: whole, or in parts that end with different padding. */
static void
xent_run(struct problem *p, const struct tensor *logits, double grad_scale)
{
	int parts = p->c->window ? (int)p->c->window : 1;
	int64_t v = p->c->columns, valid = p->c->inner, cut = v / parts, rows = p->c->rows;
	struct xent x[PARTS_MAX];

	for (int i = 0; i < parts; i++) {
		int64_t first = i * cut, count = i == parts - 1 ? v - first : cut;

		x[i] = (struct xent){ .logits = tensor_columns(logits, first, count),
			.labels = *T(3),
			.mask = *T(4),
			.parts = parts,
			.loss = *T(1),
			.zloss = *T(2),
			.first_column = first,
			.z_loss = xent_z,
			.softcap = p->c->cap,
			.grad_scale = grad_scale };
		x[i].valid_columns = valid - first < 0 ? 0
		    : valid - first < count            ? valid - first
						       : count;
		if (!p->c->window)
			continue;
		x[i].stats = tensor_rows(T(5), i * rows, rows);
		p->st->ops->xent_stats(p->st, &x[i]);
		x[i].stats = *T(5);
	}
	for (int i = 0; i < parts; i++)
		p->st->ops->xent_loss(p->st, &x[i]);
}

static void
xent_forward(struct problem *p)
{
	xent_run(p, T(0), 0);
}

static void
xent_backward(struct problem *p)
{
	p->st->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
	xent_run(p, G(0), xent_scale);
}

static const struct op_case xent_cases[] = {
	{ .rows = 1, .columns = 2, .inner = 2 },
	{ .rows = 7, .columns = 32, .inner = 29 },
	{ .rows = 7, .columns = 32, .inner = 29, .window = 1 },
	{ .rows = 7, .columns = 32, .inner = 29, .window = 2 },
	{ .rows = 5, .columns = 32, .inner = 13, .window = 2 },
	{ .rows = 9, .columns = 61, .inner = 40, .window = 4 },
	{ .rows = 3, .columns = 5000, .inner = 4999, .window = 3 },
	{ .rows = 11, .columns = 5003, .inner = 5000 },
	{ .rows = 6, .columns = 5008, .inner = 5000 },
	{ .rows = 7, .columns = 32, .inner = 29, .cap = 3 },
	{ .rows = 6, .columns = 5008, .inner = 5000, .window = 2, .cap = 2 },
	{ 0 },
};

#undef SHAPE
#undef VECTOR_PARAM
#undef VECTOR_WRITTEN
#undef T
#undef G

#endif
