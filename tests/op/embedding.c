/* embedding.c - rows of a table */
#include "tests/op/op.h"

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

	p->ops->embedding_fwd(p->st, &word);
	p->ops->embedding_fwd(p->st, &position);
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

		p->ops->embedding_bwd(p->st, &g);
	}
}

static double
expect_embedding(const struct problem *p, int64_t row, int64_t column)
{
	int64_t word = (int64_t)p->slot[3].value[row], position = (int64_t)p->slot[4].value[row];

	return (p->c->cap > 0 ? p->c->cap : 1) *
	    ((word < p->c->inner ? value_at(p, 0, word, column) : 0) +
		value_at(p, 1, position, column));
}

static const struct op_test embedding_test = { "embedding", embedding_declare, embedding_forward,
	embedding_backward, expect_embedding };

const struct op_case cases[] = {
	{ &embedding_test, CASE_BOTH, .rows = 5, .columns = 3, .inner = 4 },
	{ &embedding_test, CASE_BOTH, .rows = 200, .columns = 130, .inner = 7 },
	{ &embedding_test, CASE_BOTH, .rows = 70, .columns = 64, .inner = 9, .cap = 5.5 },
	{ &embedding_test, CASE_LARGE | CASE_BITS, .rows = 5000, .columns = 300, .inner = 1000 },
	{ &embedding_test, CASE_LARGE, .rows = 20000, .columns = 768, .inner = 3000 },
	{ &embedding_test, CASE_LARGE, .rows = 9000, .columns = 257, .inner = 3 },
	{ &embedding_test, CASE_LARGE, .rows = 70, .columns = 128, .inner = 50000 },
	{ &embedding_test, CASE_TIME, .rows = 8192, .columns = 4096, .inner = 8192 },
	{ 0 },
};
