/* rope.c - rotary positions */
#include "tests/op/op.h"

/* --- rope: 0 x, 1 y, 2 table, 3 positions ----------------------------------------------------- */
enum { INTERLEAVED = 1 };

/* inner is rotary_dim, columns the first of a head that rotates; positions of a sample are
 * 0..rows-1, the table alternates cos and sin. */
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
		.first = (int)p->c->columns,
		.interleaved = p->c->flags & INTERLEAVED,
		.backward = backward };

	p->ops->cast(p->st, &(struct pair){ *to, *from });
	p->ops->rope(p->st, &r);
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

static double
expect_rope(const struct problem *p, int64_t row, int64_t column)
{
	int64_t within = column % p->c->head_dim - p->c->columns, half = p->c->inner / 2,
		position = row / p->c->batch;
	bool pairs = p->c->flags & INTERLEAVED, second = pairs ? within % 2 : within >= half;
	int64_t pair = pairs ? within / 2 : within % half,
		partner = column + (pairs ? 1 : half) * (second ? -1 : 1);
	double angle = (double)position * pow(100, -2.0 * (double)pair / (double)p->c->inner);

	if (within < 0 || within >= p->c->inner)
		return value_at(p, 0, row, column);
	return value_at(p, 0, row, column) * cos(angle) +
	    value_at(p, 0, row, partner) * (second ? sin(angle) : -sin(angle));
}

static const struct op_test rope_test = { "rope", rope_declare, rope_forward, rope_backward,
	expect_rope };

const struct op_case cases[] = {
	{ &rope_test, CASE_BOTH, .rows = 1, .batch = 1, .heads = 1, .head_dim = 2, .inner = 2 },
	{ &rope_test, CASE_BOTH, .rows = 10, .batch = 2, .heads = 3, .head_dim = 8, .inner = 8 },
	{ &rope_test, CASE_BOTH, .rows = 9, .batch = 3, .heads = 2, .head_dim = 10, .inner = 10,
	    .flags = INTERLEAVED },
	{ &rope_test, CASE_BOTH, .rows = 600, .batch = 1, .heads = 4, .head_dim = 16, .inner = 6 },
	{ &rope_test, CASE_BOTH, .rows = 7, .batch = 1, .heads = 2, .head_dim = 12, .inner = 4,
	    .flags = INTERLEAVED },
	{ &rope_test, CASE_LARGE, .rows = 1000, .batch = 2, .heads = 12, .head_dim = 64,
	    .inner = 64 },
	{ &rope_test, CASE_LARGE, .rows = 1000, .batch = 1, .heads = 10, .head_dim = 128,
	    .inner = 128 },
	{ &rope_test, CASE_LARGE, .rows = 500, .batch = 1, .heads = 5, .head_dim = 128,
	    .inner = 128, .flags = INTERLEAVED },
	{ &rope_test, CASE_LARGE, .rows = 300, .batch = 3, .heads = 7, .head_dim = 80,
	    .inner = 32 },
	{ &rope_test, CASE_LARGE, .rows = 300, .batch = 3, .heads = 7, .head_dim = 80, .inner = 32,
	    .flags = INTERLEAVED },
	{ &rope_test, CASE_BOTH, .rows = 7, .batch = 1, .heads = 3, .head_dim = 14, .inner = 4,
	    .columns = 5, .flags = INTERLEAVED },
	{ &rope_test, CASE_BOTH, .rows = 9, .batch = 1, .heads = 3, .head_dim = 12, .inner = 6,
	    .columns = 6 },
	{ &rope_test, CASE_LARGE, .rows = 300, .batch = 1, .heads = 4, .head_dim = 192, .inner = 64,
	    .columns = 128, .flags = INTERLEAVED },
	{ &rope_test, CASE_LARGE, .rows = 33, .batch = 1, .heads = 3, .head_dim = 72, .inner = 72 },
	{ &rope_test, CASE_TIME, .rows = 8192, .batch = 2, .heads = 40, .head_dim = 128,
	    .inner = 128 },
	{ 0 },
};
