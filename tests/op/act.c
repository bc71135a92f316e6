/* act.c - activations of the MLP */
#include "tests/op/op.h"

/* --- act: 0 x, 1 y, 2 y rebuilt; columns is f ------------------------------------------------- */
enum { REBUILD = 1, IN_PLACE = 2 };

static void
act_declare(struct problem *p)
{
	slot_add(
	    p, 0, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns * (is_gated(p->c->kind) ? 2 : 1)));
	slot_add(p, 1, SLOT_OUTPUT, 0, SHAPE(p->c->rows, p->c->columns));
	if (p->c->flags & REBUILD)
		slot_add(p, 2, SLOT_REBUILT, 0, SHAPE(p->c->rows, p->c->columns));
	for (int64_t i = 0; i < slot_count(&p->slot[0]); i++)
		p->slot[0].value[i] *= 4;
}

static void
act_forward(struct problem *p)
{
	p->ops->act_fwd(p->st,
	    &(struct act){ .kind = (enum act_kind)p->c->kind,
		.y = *T(1),
		.x = *T(0),
		.gate = case_gate(p->c) });
}

/* Gradients in separate tensors, or dx in place of x and the value in place of dy. */
static void
act_backward(struct problem *p)
{
	struct act_grad a = { .kind = (enum act_kind)p->c->kind,
		.dx = *G(0),
		.dy = *G(1),
		.x = *T(0),
		.y = *T(2),
		.gate = case_gate(p->c) };

	if (p->c->flags & IN_PLACE) {
		p->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
		a.x = *G(0);
	}
	if (p->c->flags & IN_PLACE && a.y.data) {
		p->ops->cast(p->st, &(struct pair){ *T(2), *G(1) });
		a.dy = *T(2);
	}
	p->ops->act_bwd(p->st, &a);
}

static double
expect_act(const struct problem *p, int64_t row, int64_t column)
{
	bool gated = p->slot[0].columns != p->c->columns;

	return activation(p->c, value_at(p, 0, row, column),
	    gated ? value_at(p, 0, row, column + p->c->columns) : 0);
}

static const struct op_test act_test = { "act", act_declare, act_forward, act_backward,
	expect_act };

const struct op_case cases[] = {
	{ &act_test, CASE_BOTH, .rows = 3, .columns = 37, .kind = ACT_GELU_TANH },
	{ &act_test, CASE_BOTH, .rows = 5, .columns = 2100, .kind = ACT_GELU_TANH },
	{ &act_test, CASE_BOTH, .rows = 3, .columns = 37, .kind = ACT_GELU_ERF },
	{ &act_test, CASE_BOTH, .rows = 3, .columns = 37, .kind = ACT_RELU2 },
	{ &act_test, CASE_BOTH, .rows = 1, .columns = 1, .kind = ACT_SWIGLU },
	{ &act_test, CASE_BOTH, .rows = 9, .columns = 2051, .kind = ACT_SWIGLU },
	{ &act_test, CASE_BOTH, .rows = 4, .columns = 19, .kind = ACT_GEGLU_TANH },
	{ &act_test, CASE_BOTH, .rows = 7, .columns = 37, .kind = ACT_QUICK_GEGLU },
	{ &act_test, CASE_BOTH, .rows = 9, .columns = 2056, .kind = ACT_QUICK_GEGLU, .cap = 2.7,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_BOTH, .rows = 5, .columns = 50, .kind = ACT_SWIGLU, .cap = 1.3 },
	{ &act_test, CASE_BOTH, .rows = 4, .columns = 72, .kind = ACT_GEGLU_TANH,
	    .flags = REBUILD },
	{ &act_test, CASE_BOTH, .rows = 9, .columns = 2056, .kind = ACT_SWIGLU,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_BOTH, .rows = 3, .columns = 37, .kind = ACT_SWIGLU,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_BOTH, .rows = 5, .columns = 40, .kind = ACT_GELU_TANH,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_BOTH, .rows = 5, .columns = 41, .kind = ACT_GELU_ERF, .flags = IN_PLACE },
	{ &act_test, CASE_BOTH, .rows = 5, .columns = 48, .kind = ACT_RELU2, .flags = REBUILD },
	{ &act_test, CASE_LARGE, .rows = 1001, .columns = 3072, .kind = ACT_GELU_TANH,
	    .flags = REBUILD },
	{ &act_test, CASE_LARGE, .rows = 1001, .columns = 8192, .kind = ACT_SWIGLU,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_LARGE, .rows = 801, .columns = 5000, .kind = ACT_GEGLU_TANH },
	{ &act_test, CASE_LARGE, .rows = 257, .columns = 4096, .kind = ACT_GELU_ERF },
	{ &act_test, CASE_LARGE, .rows = 333, .columns = 333, .kind = ACT_SWIGLU,
	    .flags = REBUILD | IN_PLACE },
	{ &act_test, CASE_LARGE, .rows = 333, .columns = 333, .kind = ACT_RELU2,
	    .flags = IN_PLACE },
	{ &act_test, CASE_TIME, .rows = 8192, .columns = 14336, .kind = ACT_SWIGLU,
	    .flags = REBUILD },
	{ &act_test, CASE_TIME, .rows = 8192, .columns = 3072, .kind = ACT_GELU_TANH },
	{ 0 },
};
