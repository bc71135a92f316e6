/* scale_columns.c - columns times a number each */
#include "tests/op/op.h"

/* 0 x, 1 g, 2 y */
static void
declare(struct problem *p)
{
	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns));
	slot_add(p, 1, SLOT_INPUT, VECTOR_PARAM, SHAPE(p->c->columns, 1));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(p->c->rows, p->c->columns));
}

static void
forward(struct problem *p)
{
	p->ops->scale_columns(p->st, &(struct scale_columns){ *T(2), *T(0), *T(1) });
}

static void
backward(struct problem *p)
{
	p->ops->scale_columns(p->st, &(struct scale_columns){ *G(0), *G(2), *T(1), *T(0), *G(1) });
}

static double
expect(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 0, row, column) * p->slot[1].value[column];
}

static const struct op_test test = { "scale_columns", declare, forward, backward, expect };

const struct op_case cases[] = {
	{ &test, CASE_BOTH, .rows = 3, .columns = 5 },
	{ &test, CASE_BOTH, .rows = 131, .columns = 257 },
	{ &test, CASE_LARGE, .rows = 1003, .columns = 2048 },
	{ 0 },
};
