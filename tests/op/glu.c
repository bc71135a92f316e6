/* glu.c - elements times a function of others, with SiLU where kind is 1: 0 x, 1 z, 2 y */
#include "tests/op/op.h"

static void
glu_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
}

static void
glu_forward(struct problem *p)
{
	p->ops->glu(p->st, &(struct glu){ *T(2), *T(0), *T(1), p->c->kind });
}

static void
glu_backward(struct problem *p)
{
	p->ops->glu_grad(
	    p->st, &(struct glu_grad){ *G(0), *G(1), *G(2), *T(0), *T(1), p->c->kind });
}

static double
expect_glu(const struct problem *p, int64_t row, int64_t column)
{
	double z = value_at(p, 1, row, column);

	return value_at(p, 0, row, column) * (p->c->kind ? z : 1) / (1 + exp(-z));
}

static const struct op_test glu_test = { "glu", glu_declare, glu_forward, glu_backward,
	expect_glu };

const struct op_case cases[] = {
	{ &glu_test, CASE_BOTH, .rows = 1, .columns = 1 },
	{ &glu_test, CASE_BOTH, .rows = 37, .columns = 33, .kind = 1 },
	{ &glu_test, CASE_BOTH, .rows = 15, .columns = 64 },
	{ &glu_test, CASE_BOTH, .rows = 5, .columns = 2100, .kind = 1 },
	{ &glu_test, CASE_LARGE, .rows = 4099, .columns = 2048, .kind = 1 },
	{ 0 },
};
