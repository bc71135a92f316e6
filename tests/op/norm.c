/* norm.c - norms of rows, or of the heads in them */
#include "tests/gpu/rig.h"
#include "tests/op/op.h"

/* --- norm: 0 x, 1 weight, 2 bias, 3 y, 4 mean, 5 rstd, 6 x and dx of heads, with APART in a call
 * each --- */
enum { LAYER_NORM = 1, WRITE_GRAD = 2, LESS_ONE = 32, APART = 64, WRITE_DX = 128, NO_BIAS = 256 };

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
	if (c->flags & LAYER_NORM && !(c->flags & NO_BIAS))
		slot_add(p, 2, SLOT_INPUT, param, SHAPE(length, 1));
	if (c->flags & LAYER_NORM)
		slot_add(p, 4, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(stats, 1));
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
		p->ops->cast(p->st, &(struct pair){ x, *T(0) });
	}
	for (int i = 0; i < norm_calls(p->c); i++) {
		n.x = norm_columns(p->c, &x, i);
		n.y = norm_columns(p->c, T(3), i);
		n.mean = norm_stats(p->c, T(4), i);
		n.rstd = norm_stats(p->c, T(5), i);
		p->ops->norm_fwd(p->st, &n);
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
		p->ops->cast(p->st, &(struct pair){ dx, *G(0) });
	}
	for (int i = 0; i < norm_calls(p->c); i++) {
		n.x = norm_columns(p->c, &x, i);
		n.dx = norm_columns(p->c, &dx, i);
		n.dy = norm_columns(p->c, G(3), i);
		n.mean = norm_stats(p->c, T(4), i);
		n.rstd = norm_stats(p->c, T(5), i);
		n.accumulate = !(p->c->flags & WRITE_GRAD) || i > 0;
		p->ops->norm_bwd(p->st, &n);
	}
	if (p->c->heads)
		p->ops->cast(p->st, &(struct pair){ *G(0), dx });
}

static double
expect_norm(const struct problem *p, int64_t row, int64_t column)
{
	bool layer = p->c->flags & LAYER_NORM;
	int64_t length = norm_length(p->c), within = column % length, first = column - within;
	double mean = 0, square = 0, d = (double)length, y;

	for (int64_t i = 0; layer && i < length; i++)
		mean += value_at(p, 0, row, first + i) / d;
	for (int64_t i = 0; i < length; i++)
		square += pow(value_at(p, 0, row, first + i) - mean, 2) / d;
	y = (value_at(p, 0, row, column) - mean) / sqrt(square + 1e-3) *
	    (p->slot[1].value[within] + (p->c->flags & LESS_ONE ? 1 : 0));
	return layer && !(p->c->flags & NO_BIAS) ? y + p->slot[2].value[within] : y;
}

static const struct op_test norm_test = { "norm", norm_declare, norm_forward, norm_backward,
	expect_norm };

/* Heads in one call have the bits of a call for each, head after head. */
static void
test_heads(const struct backend *b)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const struct op_case of[] = {
		{ &norm_test, CASE_CPU, .rows = 131, .columns = 240, .heads = 3,
		    .flags = LAYER_NORM },
		{ &norm_test, CASE_CPU, .rows = 131, .columns = 240, .heads = 3,
		    .flags = LAYER_NORM | APART },
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i], types[i], 2 };
		struct problem *one = problem_solve(b, &of[0], config),
			       *two = problem_solve(b, &of[1], config);

		CHECK(!memcmp(one->slot[3].value, two->slot[3].value, 131 * 240 * sizeof(double)));
		CHECK(!memcmp(one->slot[0].grad, two->slot[0].grad, 131 * 240 * sizeof(double)));
		CHECK(!memcmp(one->slot[1].grad, two->slot[1].grad, 80 * sizeof(double)));
		CHECK(!memcmp(one->slot[2].grad, two->slot[2].grad, 80 * sizeof(double)));
		problem_free(one);
		problem_free(two);
	}
}

const struct op_case cases[] = {
	{ &norm_test, CASE_BOTH, .rows = 1, .columns = 2 },
	{ &norm_test, CASE_BOTH, .rows = 1, .columns = 7, .flags = LAYER_NORM },
	{ &norm_test, CASE_BOTH, .rows = 5, .columns = 33 },
	{ &norm_test, CASE_BOTH, .rows = 150, .columns = 300 },
	{ &norm_test, CASE_BOTH, .rows = 131, .columns = 257, .flags = LAYER_NORM },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 64, .flags = LAYER_NORM | WRITE_GRAD },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 65, .flags = WRITE_GRAD },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 64, .flags = WIDE },
	{ &norm_test, CASE_BOTH, .rows = 5, .columns = 33,
	    .flags = LAYER_NORM | WRITE_GRAD | WIDE },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 64, .flags = LESS_ONE },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 65,
	    .flags = LAYER_NORM | WRITE_GRAD | LESS_ONE },
	{ &norm_test, CASE_BOTH, .rows = 131, .columns = 257, .flags = LAYER_NORM | NO_BIAS },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 64,
	    .flags = LAYER_NORM | NO_BIAS | WRITE_GRAD },
	{ &norm_test, CASE_BOTH, .rows = 5, .columns = 66, .heads = 2 },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 256, .heads = 4 },
	{ &norm_test, CASE_BOTH, .rows = 131, .columns = 240, .heads = 3, .flags = LAYER_NORM },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 192, .heads = 2,
	    .flags = LAYER_NORM | WRITE_GRAD | LESS_ONE },
	{ &norm_test, CASE_BOTH, .rows = 3, .columns = 24, .heads = 3, .flags = WRITE_GRAD },
	{ &norm_test, CASE_BOTH, .rows = 131, .columns = 240, .heads = 3, .flags = WRITE_DX },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 66, .heads = 2,
	    .flags = LAYER_NORM | WRITE_DX },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 192, .heads = 2,
	    .flags = LAYER_NORM | NO_BIAS | WRITE_DX },
	{ &norm_test, CASE_BOTH, .rows = 70, .columns = 64, .flags = LAYER_NORM | WRITE_DX },
	{ &norm_test, CASE_BOTH, .rows = 9, .columns = 65, .flags = WRITE_DX | WIDE },
	{ &norm_test, CASE_LARGE, .rows = 257, .columns = 4096 },
	{ &norm_test, CASE_LARGE, .rows = 1000, .columns = 769, .flags = LAYER_NORM },
	{ &norm_test, CASE_LARGE, .rows = 3001, .columns = 768, .flags = LAYER_NORM },
	{ &norm_test, CASE_LARGE, .rows = 3001, .columns = 768, .flags = LAYER_NORM | NO_BIAS },
	{ &norm_test, CASE_LARGE, .rows = 1003, .columns = 2048 },
	{ &norm_test, CASE_LARGE, .rows = 515, .columns = 2560, .flags = LAYER_NORM | WRITE_GRAD },
	{ &norm_test, CASE_LARGE, .rows = 1030, .columns = 8192, .flags = WRITE_GRAD },
	{ &norm_test, CASE_LARGE, .rows = 65, .columns = 16384, .flags = LAYER_NORM },
	{ &norm_test, CASE_LARGE, .rows = 4099, .columns = 128 },
	{ &norm_test, CASE_LARGE, .rows = 1003, .columns = 2048, .flags = LESS_ONE },
	{ &norm_test, CASE_LARGE, .rows = 1000, .columns = 769, .flags = LAYER_NORM | LESS_ONE },
	{ &norm_test, CASE_LARGE, .rows = 1003, .columns = 2048, .flags = WIDE },
	{ &norm_test, CASE_LARGE, .rows = 1000, .columns = 769,
	    .flags = LAYER_NORM | WRITE_GRAD | WIDE },
	{ &norm_test, CASE_LARGE, .rows = 65, .columns = 16384, .flags = LAYER_NORM | WIDE },
	{ &norm_test, CASE_LARGE, .rows = 4099, .columns = 2048, .heads = 16, .flags = WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 20011, .columns = 1024, .heads = 16, .flags = WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 4099, .columns = 1024, .heads = 8,
	    .flags = WRITE_GRAD | WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 1003, .columns = 1024, .heads = 4,
	    .flags = LESS_ONE | WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 2001, .columns = 560, .heads = 7,
	    .flags = LAYER_NORM | WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 515, .columns = 768, .heads = 12,
	    .flags = LAYER_NORM | WRITE_GRAD | WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 1000, .columns = 480, .heads = 5, .flags = WRITE_GRAD },
	{ &norm_test, CASE_LARGE, .rows = 1003, .columns = 2048, .flags = WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 333, .columns = 231, .heads = 3, .flags = LAYER_NORM },
	{ &norm_test, CASE_LARGE, .rows = 257, .columns = 1024, .heads = 2,
	    .flags = LAYER_NORM | WRITE_GRAD | WRITE_DX },
	{ &norm_test, CASE_LARGE, .rows = 500, .columns = 640, .heads = 5,
	    .flags = LAYER_NORM | APART },
	CHECKED(CASE_CPU, test_heads),
	{ &norm_test, CASE_TIME, .rows = 8192, .columns = 4096 },
	{ &norm_test, CASE_TIME, .rows = 8192, .columns = 768, .flags = LAYER_NORM },
	{ &norm_test, CASE_TIME, .rows = 8192, .columns = 4096, .heads = 32, .flags = WRITE_DX },
	{ 0 },
};
