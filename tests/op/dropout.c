/* dropout.c - dropout, the residual sum, and the norm after it */
#include "tests/gpu/rig.h"
#include "tests/op/op.h"

/* Of residual sums with a norm. SUMMED: the norm's backward pass gives the gradient of the bias. */
enum { LAYER_NORM = 1, WRITE_GRAD = 2, NO_BIAS = 4, SUMMED = 8 };

/* The position of a row in its sample, in terms of case_dropout's counters. */
static int64_t
position_of(const struct problem *p, int64_t row)
{
	int64_t i = row / p->c->batch;

	return p->c->turn && i >= p->c->turn ? 500 + i - p->c->turn : 2 + i;
}

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

	p->ops->dropout_bwd(p->st, &(struct dropout_grad){ *T(3), *T(0), drop });
}

static void
dropout_backward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);

	p->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(3), drop });
}

static double
expect_dropout(const struct problem *p, int64_t row, int64_t column)
{
	struct dropout d = case_dropout(p->c, p->c->columns + 3);
	int64_t sample = d.first_sample + (d.first_row + row) % p->c->batch,
		position = position_of(p, d.first_row + row);
	int64_t index = (sample * d.seq_length + position) * d.width + d.first_column + column;

	return value_at(p, 0, row, column) * (d.p > 0 ? drawn(&d, index) : 1);
}

static const struct op_test dropout_test = { "dropout", dropout_declare, dropout_forward,
	dropout_backward, expect_dropout };

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

	p->ops->cast(p->st, &(struct pair){ *T(3), *T(2) });
	p->ops->residual_fwd(p->st, &r);
}

static void
residual_backward(struct problem *p)
{
	struct dropout drop = case_dropout(p->c, p->c->columns + 3);

	p->ops->cast(p->st, &(struct pair){ *G(2), *G(3) });
	p->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(3), drop });
}

static double
expect_residual(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 2, row, column) + expect_dropout(p, row, column);
}

static const struct op_test residual_test = { "residual", residual_declare, residual_forward,
	residual_backward, expect_residual };

/* --- residual with the norm after it: 0 x, 1 bias of x, 2 residual, 3 norm's y, 4 weight, 5
 * norm's bias, 6 sum, 7 mean, 8 rstd, 9 x + bias, 10 the row of the bias in its table */
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
		p->ops->cast(p->st, &(struct pair){ r.x, *T(0) });
		p->ops->embedding_fwd(p->st, &bias);
	}
	p->ops->residual_fwd(p->st, &r);
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
	p->ops->cast(p->st, &(struct pair){ *G(2), *G(6) });
	p->ops->norm_bwd(p->st, &n);
	p->ops->dropout_bwd(p->st, &(struct dropout_grad){ *G(0), *G(2), drop });
	if (!(p->c->flags & (NO_BIAS | SUMMED)))
		add_column_sums(p, G(1), G(0));
}

/* The sum of expect_residual with the residual in a slot of its own, then expect_norm's formula. */
static double
expect_block(const struct problem *p, int64_t row, int64_t column)
{
	struct dropout d = case_dropout(p->c, p->c->columns + 3);
	int64_t sample = d.first_sample + (d.first_row + row) % p->c->batch, h = p->c->columns,
		position = position_of(p, d.first_row + row);
	int64_t index = (sample * d.seq_length + position) * d.width + d.first_column;
	bool layer = p->c->flags & LAYER_NORM;
	double mean = 0, square = 0, at = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int64_t i = 0; i < h; i++) {
			double x =
			    value_at(p, 0, row, i) + (p->slot[1].value ? p->slot[1].value[i] : 0);

			x = value_at(p, 2, row, i) + x * (d.p > 0 ? drawn(&d, index + i) : 1);
			mean += pass == 0 && layer ? x / (double)h : 0;
			square += pass == 1 ? pow(x - mean, 2) / (double)h : 0;
			at = i == column ? x : at;
		}
	at = (at - mean) / sqrt(square + 1e-3) * p->slot[4].value[column];
	return layer ? at + p->slot[5].value[column] : at;
}

static const struct op_test block_test = { "block", block_declare, block_forward, block_backward,
	expect_block };

/* The column sums of dx by norm_bwd have the same bits as a GEMM's bias gradient: a layer at the
 * end of a stage in one layout and inside a stage in another gets the same gradient. */
static void
test_sums(const struct backend *b)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const struct op_case of[] = {
		{ &block_test, CASE_CPU, .rows = 131, .columns = 257, .batch = 1,
		    .flags = LAYER_NORM },
		{ &block_test, CASE_CPU, .rows = 131, .columns = 257, .batch = 1,
		    .flags = LAYER_NORM | SUMMED },
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i], types[i], 2 };
		struct problem *one = problem_solve(b, &of[0], config),
			       *two = problem_solve(b, &of[1], config);

		CHECK(!memcmp(one->slot[1].grad, two->slot[1].grad, 257 * sizeof(double)));
		CHECK(!memcmp(one->slot[4].grad, two->slot[4].grad, 257 * sizeof(double)));
		problem_free(one);
		problem_free(two);
	}
}

const struct op_case cases[] = {
	{ &dropout_test, CASE_BOTH, .rows = 9, .columns = 37, .batch = 3, .drop = 0.4 },
	{ &dropout_test, CASE_BOTH, .rows = 9, .columns = 37, .batch = 3, .flags = WIDE },
	{ &dropout_test, CASE_BOTH, .rows = 40, .columns = 64, .batch = 2, .drop = 0.4,
	    .flags = WIDE },
	{ &dropout_test, CASE_LARGE, .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1,
	    .flags = WIDE },
	{ &dropout_test, CASE_LARGE, .rows = 999, .columns = 771, .batch = 3, .flags = WIDE },
	{ &dropout_test, CASE_LARGE, .rows = 999, .columns = 768, .batch = 3, .drop = 0.2 },
	{ &residual_test, CASE_BOTH, .rows = 6, .columns = 5, .batch = 2 },
	{ &residual_test, CASE_BOTH, .rows = 9, .columns = 37, .batch = 3, .drop = 0.4 },
	{ &residual_test, CASE_BOTH, .rows = 300, .columns = 130, .batch = 2, .drop = 0.1 },
	{ &residual_test, CASE_BOTH, .rows = 90, .columns = 33, .batch = 3, .turn = 13,
	    .drop = 0.3 },
	{ &residual_test, CASE_BOTH, .rows = 6, .columns = 5, .batch = 2, .flags = WIDE },
	{ &residual_test, CASE_BOTH, .rows = 30, .columns = 64, .batch = 3, .drop = 0.3,
	    .flags = WIDE },
	{ &residual_test, CASE_LARGE, .rows = 2050, .columns = 1027, .batch = 5, .drop = 0.1 },
	{ &residual_test, CASE_LARGE, .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1 },
	{ &residual_test, CASE_LARGE, .rows = 999, .columns = 768, .batch = 3 },
	{ &residual_test, CASE_LARGE, .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1,
	    .flags = WIDE },
	{ &residual_test, CASE_LARGE, .rows = 999, .columns = 771, .batch = 3, .flags = WIDE },
	{ &block_test, CASE_BOTH, .rows = 6, .columns = 5, .batch = 2, .flags = NO_BIAS },
	{ &block_test, CASE_BOTH, .rows = 9, .columns = 37, .batch = 3, .drop = 0.4,
	    .flags = LAYER_NORM },
	{ &block_test, CASE_BOTH, .rows = 8, .columns = 64, .batch = 2, .drop = 0.1 },
	{ &block_test, CASE_BOTH, .rows = 7, .columns = 96, .batch = 7,
	    .flags = LAYER_NORM | NO_BIAS },
	{ &block_test, CASE_BOTH, .rows = 1, .columns = 7, .batch = 1, .flags = SUMMED },
	{ &block_test, CASE_BOTH, .rows = 70, .columns = 64, .batch = 2,
	    .flags = LAYER_NORM | SUMMED },
	{ &block_test, CASE_BOTH, .rows = 131, .columns = 257, .batch = 1,
	    .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ &block_test, CASE_BOTH, .rows = 9, .columns = 72, .batch = 3,
	    .flags = SUMMED | WRITE_GRAD },
	{ &block_test, CASE_BOTH, .rows = 9, .columns = 37, .batch = 3, .drop = 0.4,
	    .flags = LAYER_NORM | WIDE },
	{ &block_test, CASE_BOTH, .rows = 70, .columns = 64, .batch = 2, .flags = NO_BIAS | WIDE },
	{ &block_test, CASE_BOTH, .rows = 70, .columns = 64, .batch = 2,
	    .flags = LAYER_NORM | SUMMED | WIDE },
	{ &block_test, CASE_LARGE, .rows = 3000, .columns = 768, .batch = 3, .flags = LAYER_NORM },
	{ &block_test, CASE_LARGE, .rows = 700, .columns = 4096, .batch = 2, .drop = 0.1 },
	{ &block_test, CASE_LARGE, .rows = 700, .columns = 2048, .batch = 4, .drop = 0.3,
	    .flags = LAYER_NORM },
	{ &block_test, CASE_LARGE, .rows = 90, .columns = 16384, .batch = 3, .drop = 0.1,
	    .flags = LAYER_NORM | NO_BIAS },
	{ &block_test, CASE_LARGE, .rows = 514, .columns = 771, .batch = 2, .drop = 0.1,
	    .flags = LAYER_NORM },
	{ &block_test, CASE_LARGE, .rows = 3001, .columns = 768, .batch = 1,
	    .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ &block_test, CASE_LARGE, .rows = 1003, .columns = 1024, .batch = 1,
	    .flags = LAYER_NORM | SUMMED },
	{ &block_test, CASE_LARGE, .rows = 515, .columns = 2560, .batch = 5,
	    .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ &block_test, CASE_LARGE, .rows = 258, .columns = 4096, .batch = 3, .flags = SUMMED },
	{ &block_test, CASE_LARGE, .rows = 1030, .columns = 8192, .batch = 1,
	    .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ &block_test, CASE_LARGE, .rows = 65, .columns = 16384, .batch = 5,
	    .flags = LAYER_NORM | SUMMED },
	{ &block_test, CASE_LARGE, .rows = 1000, .columns = 769, .batch = 2,
	    .flags = SUMMED | WRITE_GRAD },
	{ &block_test, CASE_LARGE, .rows = 6, .columns = 1600, .batch = 2,
	    .flags = LAYER_NORM | SUMMED },
	{ &block_test, CASE_LARGE, .rows = 700, .columns = 4096, .batch = 2, .drop = 0.1,
	    .flags = WIDE },
	{ &block_test, CASE_LARGE, .rows = 514, .columns = 771, .batch = 2, .drop = 0.1,
	    .flags = LAYER_NORM | WIDE },
	{ &block_test, CASE_LARGE, .rows = 3001, .columns = 768, .batch = 1,
	    .flags = LAYER_NORM | SUMMED | WIDE },
	CHECKED(CASE_CPU, test_sums),
	{ &block_test, CASE_TIME, .rows = 8192, .columns = 4096, .batch = 1, .flags = NO_BIAS },
	{ &block_test, CASE_TIME, .rows = 8192, .columns = 768, .batch = 8, .drop = 0.1,
	    .flags = LAYER_NORM | NO_BIAS },
	{ &block_test, CASE_TIME, .rows = 8192, .columns = 768, .batch = 8,
	    .flags = LAYER_NORM | SUMMED },
	{ 0 },
};
