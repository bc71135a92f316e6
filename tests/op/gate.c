/* gate.c - rows times the sigmoid of a number of each: 0 x, 1 z, 2 y */
#include "tests/op/op.h"

static void
gate_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 1, SLOT_INPUT, SLOT_REAL | SLOT_REAL_GRAD, SHAPE(c->rows, 1));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
}

static void
gate_forward(struct problem *p)
{
	p->ops->gate(p->st, &(struct gate){ *T(2), *T(0), *T(1) });
}

static void
gate_backward(struct problem *p)
{
	p->ops->gate_grad(p->st, &(struct gate_grad){ *G(0), *G(1), *G(2), *T(0), *T(1) });
}

static double
expect_gate(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 0, row, column) / (1 + exp(-value_at(p, 1, row, 0)));
}

static const struct op_test gate_test = { "gate", gate_declare, gate_forward, gate_backward,
	expect_gate };

const struct op_case cases[] = {
	{ &gate_test, CASE_BOTH, .rows = 1, .columns = 1 },
	{ &gate_test, CASE_BOTH, .rows = 37, .columns = 33 },
	{ &gate_test, CASE_BOTH, .rows = 150, .columns = 64 },
	{ &gate_test, CASE_BOTH, .rows = 5, .columns = 1100 },
	{ &gate_test, CASE_LARGE, .rows = 4099, .columns = 2048 },
	{ 0 },
};
