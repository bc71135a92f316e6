/* latent.c - keys and values of heads: 0 kv, 1 rope, 2 k, 3 v; columns d, inner r, head_dim e */
#include "tests/check.h"
#include "tests/op/op.h"

static void
latent_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(c->rows, c->heads * (c->columns + c->head_dim)));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(c->rows, c->inner));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(c->rows, c->heads * (c->columns + c->inner)));
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(c->rows, c->heads * (int64_t)c->head_dim));
}

static void
latent_forward(struct problem *p)
{
	p->ops->latent_heads(
	    p->st, &(struct latent_heads){ *T(2), *T(3), *T(0), *T(1), p->c->heads });
}

static void
latent_backward(struct problem *p)
{
	p->ops->latent_heads_grad(
	    p->st, &(struct latent_heads_grad){ *G(0), *G(1), *G(2), *G(3), p->c->heads });
}

/* Of k. */
static double
expect_keys(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	int64_t width = c->columns + c->inner, head = column / width, i = column % width;

	return i < c->columns ? value_at(p, 0, row, head * (c->columns + c->head_dim) + i)
			      : value_at(p, 1, row, i - c->columns);
}

static const struct op_test latent_test = { "latent", latent_declare, latent_forward,
	latent_backward, expect_keys };

/* The values, and the sum over heads that is the gradient of what they share. */
static void
test_values(const struct backend *b)
{
	enum { ROWS = 3, HEADS = 4, D = 3, R = 2, E = 5 };
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_F64 };
	double kv[ROWS][HEADS][D + E], rope[ROWS][R], k[ROWS][HEADS][D + R], v[ROWS][HEADS][E],
	    back[ROWS][HEADS][D + E], sum[ROWS][R];
	struct tensor t[] = { tensor_2d(k, DTYPE_F64, ROWS, HEADS * (D + R)),
		tensor_2d(v, DTYPE_F64, ROWS, HEADS * E),
		tensor_2d(kv, DTYPE_F64, ROWS, HEADS * (D + E)),
		tensor_2d(rope, DTYPE_F64, ROWS, R) };
	struct err e;
	struct device *d = b->open(&config, &e);
	struct stream *st = b->stream(d, STREAM_COMPUTE);
	bool same = true;

	for (int i = 0; i < ROWS * HEADS * (D + E); i++)
		(&kv[0][0][0])[i] = sin(i + 1.0);
	for (int i = 0; i < ROWS * R; i++)
		(&rope[0][0])[i] = cos(i + 1.0);
	st->ops->latent_heads(st, &(struct latent_heads){ t[0], t[1], t[2], t[3], HEADS });
	st->ops->latent_heads_grad(st,
	    &(struct latent_heads_grad){ tensor_2d(back, DTYPE_F64, ROWS, HEADS * (D + E)),
		tensor_2d(sum, DTYPE_F64, ROWS, R), t[0], t[1], HEADS });
	for (int i = 0; i < ROWS * HEADS * E; i++)
		same = same &&
		    v[i / HEADS / E][i / E % HEADS][i % E] ==
			kv[i / HEADS / E][i / E % HEADS][D + i % E];
	CHECK(same && !memcmp(back, kv, sizeof kv));
	for (int i = 0; i < ROWS * R; i++)
		CHECK_NEAR(sum[i / R][i % R], HEADS * rope[i / R][i % R], 1e-14);
	b->close(d);
}

const struct op_case cases[] = {
	{ &latent_test, CASE_BOTH, .rows = 1, .heads = 1, .columns = 1, .inner = 2, .head_dim = 1 },
	{ &latent_test, CASE_BOTH, .rows = 37, .heads = 3, .columns = 5, .inner = 4,
	    .head_dim = 7 },
	{ &latent_test, CASE_BOTH, .rows = 20, .heads = 4, .columns = 16, .inner = 8,
	    .head_dim = 24 },
	{ &latent_test, CASE_LARGE, .rows = 700, .heads = 8, .columns = 128, .inner = 64,
	    .head_dim = 128 },
	CHECKED(CASE_CPU, test_values),
	{ &latent_test, CASE_TIME, .rows = 8192, .heads = 32, .columns = 128, .inner = 64,
	    .head_dim = 128 },
	{ 0 },
};
