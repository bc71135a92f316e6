/* experts.c - what experts compute with windows of the rows that arrive */
#include "tests/op/sides.h"
#include "tests/op/op.h"

enum { IN_PLACE = 1 };

/* --- activation of a window of experts' rows: 0 x, 1 y, 2 weights, 3 y recomputed, 4 counts --- */
static void
expert_act_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	bool gated = is_gated((int)c->kind);

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns * (gated ? 2 : 1)));
	slot_add(p, 1, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 2, SLOT_INPUT, SLOT_REAL | SLOT_REAL_GRAD, SHAPE(c->rows, 1));
	slot_add(p, 3, SLOT_REBUILT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 4, SLOT_IDS, 0, SHAPE(2, 3));
	for (int i = 0; i < 6; i++)
		p->slot[4].value[i] = i % 2 ? (double)(c->rows + c->inner) / 3 : 0;
	for (int64_t i = 0; i < slot_count(&p->slot[0]); i++)
		p->slot[0].value[i] *= 4;
}

/* The window starts after `inner` rows of the order and ends with it. */
static void
expert_act_forward(struct problem *p)
{
	struct expert_act a = { (enum act_kind)p->c->kind, *T(1), *T(0), *T(2), *T(4), p->c->inner,
		case_gate(p->c) };

	p->ops->expert_act(p->st, &a);
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
		.first = p->c->inner,
		.gate = case_gate(p->c) };

	if (p->c->flags & IN_PLACE) {
		p->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
		a.x = *G(0);
	}
	p->ops->expert_act_grad(p->st, &a);
}

static double
expect_expert_act(const struct problem *p, int64_t row, int64_t column)
{
	bool gated = p->slot[0].columns != p->c->columns;

	return value_at(p, 2, row, 0) *
	    activation(p->c, value_at(p, 0, row, column),
		gated ? value_at(p, 0, row, column + p->c->columns) : 0);
}

static const struct op_test expert_act_test = { "expert act", expert_act_declare,
	expert_act_forward, expert_act_backward, expect_expert_act };

/* --- biases of a window of experts' rows: 0 x, 1 y, 2 weights, 3 biases, 4 counts; of UNWEIGHTED
 * rows the gradient of biases is written ------------------------------------------------------- */
enum { UNWEIGHTED = 2 };

static void
expert_bias_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	bool weighted = !(c->flags & UNWEIGHTED);

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->columns));
	slot_add(p, 1, SLOT_OUTPUT, 0, SHAPE(c->rows, c->columns));
	if (weighted)
		slot_add(
		    p, 2, SLOT_INPUT, SLOT_REAL | SLOT_REAL_GRAD | SLOT_ADDED, SHAPE(c->rows, 1));
	slot_add(
	    p, 3, SLOT_INPUT, weighted ? VECTOR_PARAM : VECTOR_WRITTEN, SHAPE(3 * c->columns, 1));
	slot_add(p, 4, SLOT_IDS, 0, SHAPE(2, 3));
	for (int i = 0; i < 6; i++)
		p->slot[4].value[i] = i % 2 ? (double)(c->rows + c->inner) / 3 : 0;
}

static void
expert_bias_forward(struct problem *p)
{
	struct expert_bias b = { *T(1), *T(3), *T(2), *T(4), p->c->inner };

	p->ops->cast(p->st, &(struct pair){ *T(1), *T(0) });
	p->ops->expert_bias(p->st, &b);
}

static void
expert_bias_backward(struct problem *p)
{
	bool weighted = !(p->c->flags & UNWEIGHTED);
	struct expert_bias_grad g = { .dbias = *G(3),
		.dweight = *G(2),
		.dy = *G(1),
		.bias = weighted ? *T(3) : (struct tensor){ .data = NULL },
		.weight = *T(2),
		.counts = *T(4),
		.first = p->c->inner,
		.beta = weighted };

	p->ops->expert_bias_grad(p->st, &g);
	p->ops->cast(p->st, &(struct pair){ *G(0), *G(1) });
}

static double
expect_expert_bias(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	int64_t expert = (row + c->inner) / ((c->rows + c->inner) / 3);
	double weight = c->flags & UNWEIGHTED ? 1 : value_at(p, 2, row, 0);

	return value_at(p, 0, row, column) +
	    weight * value_at(p, 3, expert * c->columns + column, 0);
}

static const struct op_test expert_bias_test = { "expert bias", expert_bias_declare,
	expert_bias_forward, expert_bias_backward, expect_expert_bias };

/* --- activations ------------------------------------------------------------------------------ */

/* A window of `rows` from row `first` of the order on, of which `live` are some expert's. */
struct act_case {
	enum act_kind kind;
	int64_t rows, first, live, columns;
	bool in_place;
};

static const struct act_case acts[] = {
	{ ACT_SWIGLU, 37, 0, 37, 24, false },
	{ ACT_SWIGLU, 37, 11, 20, 24, true },
	{ ACT_GELU_TANH, 37, 11, 0, 100, false },
	{ ACT_RELU2, 5, 1000, 5, 333, true },
	{ ACT_GEGLU_TANH, 600, 0, 1, 333, true },
	{ ACT_SWIGLU, 1100, 500, 1061, 768, true },
	{ ACT_SWIGLU, 101, 101, 100, 14336, false },
	{ ACT_QUICK_GEGLU, 300, 70, 210, 2880, true },
};

enum { ACT_Y, ACT_DX, ACT_REMADE, ACT_DWEIGHT, ACT_MADE };

/* What a case makes: of all rows, whose last ones are as they were. */
struct acted {
	double *made[ACT_MADE];
	int64_t count[ACT_MADE];
};

/* Of two ranks and five experts, some of which have nothing. Before the window there may be more
 * rows than there are. */
static struct tensor
counts_for(const struct side *s, const struct act_case *c)
{
	double n[10] = { 0 };

	n[1] = floor((double)(c->first + c->live) / 3);
	n[8] = (double)(c->live ? c->first + c->live : c->first / 2) - n[1];
	if (!c->live)
		n[1] = 0;
	return put(s, tensor_2d(NULL, DTYPE_I32, 2, 5), n);
}

/* Numbers for the live rows, and none after them. */
static struct tensor
put_live(const struct side *s, const struct act_case *c, struct tensor shape, uint64_t seed)
{
	double *x = numbers(seed, tensor_elements(&shape));
	struct tensor t;

	for (int64_t i = c->live * shape.shape[1]; i < tensor_elements(&shape); i++)
		x[i] = NAN;
	t = put(s, shape, x);
	free(x);
	return t;
}

static struct acted
acted_by(const struct backend *b, enum dtype act, const struct act_case *c)
{
	bool gated = is_gated((int)c->kind);
	struct side s = side_open(b, act);
	struct tensor narrow_shape = tensor_2d(NULL, act, c->rows, c->columns),
		      wide_shape = tensor_2d(NULL, act, c->rows, c->columns * (gated ? 2 : 1)),
		      column = tensor_2d(NULL, s.real, c->rows, 1);
	struct expert_act a = { .kind = c->kind,
		.y = put_live(&s, c, narrow_shape, 1),
		.x = put_live(&s, c, wide_shape, 2),
		.weight = put_live(&s, c, column, 3),
		.counts = counts_for(&s, c),
		.first = c->first };
	struct expert_act_grad g = { .kind = c->kind,
		.dx = c->in_place ? a.x : put_live(&s, c, wide_shape, 4),
		.dy = put_live(&s, c, narrow_shape, 5),
		.y = put_live(&s, c, narrow_shape, 6),
		.dweight = put_live(&s, c, column, 7),
		.x = a.x,
		.weight = a.weight,
		.counts = a.counts,
		.first = c->first };
	struct tensor made[ACT_MADE] = { a.y, g.dx, g.y, g.dweight };
	struct acted out;

	s.r.st->ops->expert_act(s.r.st, &a);
	s.r.st->ops->expert_act_grad(s.r.st, &g);
	for (int i = 0; i < ACT_MADE; i++) {
		out.count[i] = tensor_elements(&made[i]);
		out.made[i] = take(&s, made[i]);
	}
	if (!c->in_place)
		rig_take(&s.r, a.x, NULL);
	rig_take(&s.r, a.weight, NULL);
	rig_take(&s.r, a.counts, NULL);
	rig_take(&s.r, g.dy, NULL);
	b->close(s.r.d);
	return out;
}

/* Rows after the last are NaN before and after. */
static void
test_act(const struct backend *b, int number, enum dtype act, double limit)
{
	static const char *const name[ACT_MADE] = { "activations", "gradients", "remade",
		"gradients of weights" };
	const struct act_case *c = &acts[number];
	struct acted have = acted_by(b, act, c), again = acted_by(b, act, c),
		     want = acted_by(&backend_cpu, DTYPE_F64, c);

	for (int i = 0; i < ACT_MADE; i++) {
		side_compare(name[i], number, (const double *[]){ have.made[i], want.made[i] },
		    have.count[i], i == ACT_DWEIGHT ? 1e-5 : limit);
		side_compare("repeated", number, (const double *[]){ again.made[i], have.made[i] },
		    have.count[i], 0);
		free(have.made[i]);
		free(again.made[i]);
		free(want.made[i]);
	}
}

/* The limits are those of the largest number's rounding, by the root mean square. */
static void
test_acts(const struct backend *b)
{
	for (int i = 0; i < (int)(sizeof acts / sizeof *acts); i++) {
		test_act(b, i, DTYPE_F32, 1e-5);
		test_act(b, i, DTYPE_BF16, 4e-2);
		test_act(b, i, DTYPE_F16, 5e-3);
	}
}

const struct op_case cases[] = {
	{ &expert_act_test, CASE_BOTH, .rows = 3, .columns = 37, .kind = ACT_GELU_TANH },
	{ &expert_act_test, CASE_BOTH, .rows = 9, .columns = 2051, .kind = ACT_SWIGLU, .inner = 6 },
	{ &expert_act_test, CASE_BOTH, .rows = 5, .columns = 48, .kind = ACT_SWIGLU, .inner = 4,
	    .flags = IN_PLACE },
	{ &expert_act_test, CASE_BOTH, .rows = 4, .columns = 19, .kind = ACT_GEGLU_TANH, .inner = 2,
	    .flags = IN_PLACE },
	{ &expert_act_test, CASE_BOTH, .rows = 5, .columns = 2100, .kind = ACT_RELU2, .inner = 1,
	    .flags = IN_PLACE },
	{ &expert_act_test, CASE_BOTH, .rows = 9, .columns = 48, .kind = ACT_QUICK_GEGLU,
	    .inner = 6, .cap = 2.7 },
	{ &expert_bias_test, CASE_BOTH, .rows = 3, .columns = 37 },
	{ &expert_bias_test, CASE_BOTH, .rows = 50, .columns = 2064, .inner = 13 },
	{ &expert_bias_test, CASE_BOTH, .rows = 21, .columns = 40, .flags = UNWEIGHTED },
	{ &expert_bias_test, CASE_BOTH, .rows = 5, .columns = 19, .inner = 16,
	    .flags = UNWEIGHTED },
	CHECKED(CASE_CUDA, test_acts),
	{ &expert_act_test, CASE_TIME, .rows = 16384, .columns = 768, .kind = ACT_SWIGLU },
	{ 0 },
};
