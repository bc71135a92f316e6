/* loss.c - cross entropy */
#include "tests/op/op.h"

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
		p->ops->xent_stats(p->st, &x[i]);
		x[i].stats = *T(5);
	}
	for (int i = 0; i < parts; i++)
		p->ops->xent_loss(p->st, &x[i]);
}

static void
xent_forward(struct problem *p)
{
	xent_run(p, T(0), 0);
}

static void
xent_backward(struct problem *p)
{
	p->ops->cast(p->st, &(struct pair){ *G(0), *T(0) });
	xent_run(p, G(0), xent_scale);
}

static double
expect_xent(const struct problem *p, int64_t row, int64_t column)
{
	double sum = 0;

	(void)column;
	for (int64_t i = 0; i < p->c->inner; i++)
		sum += exp(capped(p, value_at(p, 0, row, i)));
	return log(sum) - capped(p, value_at(p, 0, row, (int64_t)p->slot[3].value[row]));
}

static const struct op_test xent_test = { "xent", xent_declare, xent_forward, xent_backward,
	expect_xent };

const struct op_case cases[] = {
	{ &xent_test, CASE_BOTH, .rows = 1, .columns = 2, .inner = 2 },
	{ &xent_test, CASE_BOTH, .rows = 7, .columns = 32, .inner = 29 },
	{ &xent_test, CASE_BOTH, .rows = 7, .columns = 32, .inner = 29, .window = 1 },
	{ &xent_test, CASE_BOTH, .rows = 7, .columns = 32, .inner = 29, .window = 2 },
	{ &xent_test, CASE_BOTH, .rows = 5, .columns = 32, .inner = 13, .window = 2 },
	{ &xent_test, CASE_BOTH, .rows = 9, .columns = 61, .inner = 40, .window = 4 },
	{ &xent_test, CASE_BOTH, .rows = 3, .columns = 5000, .inner = 4999, .window = 3 },
	{ &xent_test, CASE_BOTH, .rows = 11, .columns = 5003, .inner = 5000 },
	{ &xent_test, CASE_BOTH, .rows = 6, .columns = 5008, .inner = 5000 },
	{ &xent_test, CASE_BOTH, .rows = 7, .columns = 32, .inner = 29, .cap = 3 },
	{ &xent_test, CASE_BOTH, .rows = 6, .columns = 5008, .inner = 5000, .window = 2, .cap = 2 },
	{ &xent_test, CASE_LARGE, .rows = 33, .columns = 50304, .inner = 50257, .window = 2 },
	{ &xent_test, CASE_LARGE, .rows = 300, .columns = 50304, .inner = 50257 },
	{ &xent_test, CASE_LARGE, .rows = 140, .columns = 128256, .inner = 128256 },
	{ &xent_test, CASE_LARGE, .rows = 9, .columns = 32000, .inner = 31999, .window = 1 },
	{ &xent_test, CASE_LARGE, .rows = 17, .columns = 50257, .inner = 50257 },
	{ &xent_test, CASE_LARGE, .rows = 7, .columns = 152064, .inner = 151936, .window = 4 },
	{ &xent_test, CASE_LARGE, .rows = 30, .columns = 256000, .inner = 255999, .cap = 3 },
	{ &xent_test, CASE_LARGE, .rows = 17, .columns = 50257, .inner = 50257, .window = 1,
	    .cap = 4 },
	{ &xent_test, CASE_TIME, .rows = 1024, .columns = 128256, .inner = 128216 },
	{ &xent_test, CASE_TIME, .rows = 1024, .columns = 50264, .inner = 50224 },
	{ 0 },
};
