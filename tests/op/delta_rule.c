/*
 * delta_rule.c - linear attention by the gated delta rule: 0 q, 1 k, 2 v, 3 beta, 4 decay, 5
 * decay_log, 6 decay_bias, 7 out, 8 scratch, 9 first with DOCUMENTS, 10 states and 11 where passes
 * begin where they are kept; rows is S, groups the heads of keys, columns the width of a head of
 * values, inner the positions of a chunk
 */
#include "lib/base/int64.h"
#include "lib/model/recurrence.h"
#include "tests/check.h"
#include "tests/op/op.h"

enum { DOCUMENTS = 1 };

/* Each sample has documents of its own: one begins at a position with probability 1 / 6. */
static int64_t
document_start(int64_t sample, int64_t position)
{
	while (position > 0 && rng_uniform(29, (uint64_t)position, (uint32_t)sample, 0) >= 1.0f / 6)
		position--;
	return position;
}

/* The scratch of the CPU, or that of a GPU for one sample: of several, a GPU goes through them one
 * by one. */
static int64_t
scratch_rows(const struct op_case *c)
{
	struct recurrence_shape s = { c->rows, c->heads, c->head_dim, c->columns };
	int64_t width = c->heads / c->groups * c->columns,
		states = int64_div_up(c->rows, c->inner) + c->inner + 1;

	return int64_max(
	    c->groups * c->head_dim * states, int64_div_up(recurrence_work(&s, true), width));
}

static void
declare(struct problem *p, enum slot_kind given)
{
	const struct op_case *c = p->c;
	int64_t rows = c->rows * c->batch, keys = (int64_t)c->groups * c->head_dim,
		values = c->heads * c->columns;

	slot_add(p, 0, given, 0, SHAPE(rows, keys));
	slot_add(p, 1, given, 0, SHAPE(rows, keys));
	slot_add(p, 2, given, 0, SHAPE(rows, values));
	slot_add(p, 3, given, 0, SHAPE(rows, c->heads));
	slot_add(p, 4, given, 0, SHAPE(rows, c->heads));
	slot_add(p, 5, given, VECTOR_PARAM, SHAPE(c->heads, 1));
	slot_add(p, 6, given, VECTOR_PARAM, SHAPE(c->heads, 1));
	slot_add(p, 7, SLOT_OUTPUT, 0, SHAPE(rows, values));
	slot_add(p, 8, SLOT_SCRATCH, 0, SHAPE(scratch_rows(c), values / c->groups));
	if (!(c->flags & DOCUMENTS))
		return;
	slot_add(p, 9, SLOT_IDS, SLOT_VECTOR, SHAPE(rows, 1));
	for (int64_t r = 0; r < rows; r++)
		p->slot[9].value[r] = (double)document_start(r % c->batch, r / c->batch);
}

static void
rule_declare(struct problem *p)
{
	declare(p, SLOT_INPUT);
}

static struct delta_rule
rule_of(struct problem *p)
{
	return (struct delta_rule){ .out = *T(7),
		.q = *T(0),
		.k = *T(1),
		.v = *T(2),
		.beta = *T(3),
		.decay = *T(4),
		.decay_log = *T(5),
		.decay_bias = *T(6),
		.first = *T(9),
		.work = *T(8),
		.micro_batch = p->c->batch,
		.num_key_heads = p->c->groups,
		.num_value_heads = p->c->heads };
}

static void
rule_forward(struct problem *p)
{
	struct delta_rule r = rule_of(p);

	p->ops->delta_rule(p->st, &r);
}

static void
rule_backward(struct problem *p)
{
	p->ops->delta_rule_grad(p->st,
	    &(struct delta_rule_grad){ .fwd = rule_of(p),
		.dq = *G(0),
		.dk = *G(1),
		.dv = *G(2),
		.dbeta = *G(3),
		.ddecay = *G(4),
		.ddecay_log = *G(5),
		.ddecay_bias = *G(6),
		.dout = *G(7),
		.chunk = p->c->inner,
		.accumulate = true });
}

/* The length of a head's key or query. */
static double
length_of(const struct problem *p, int slot, int64_t row, int64_t first)
{
	double sum = 1e-6;

	for (int64_t i = 0; i < p->c->head_dim; i++)
		sum += pow(value_at(p, slot, row, first + i), 2);
	return sqrt(sum);
}

/* A column of a state knows of no other. */
static double
expect_rule(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	int64_t d = c->head_dim, head = column / c->columns,
		key = head / (c->heads / c->groups) * d, sample = row % c->batch,
		at = c->flags & DOCUMENTS ? (int64_t)p->slot[9].value[row] : 0;
	double *m = mem_zalloc((size_t)d, sizeof *m), out = 0;

	for (; at <= row / c->batch; at++) {
		int64_t r = at * c->batch + sample;
		double rest = value_at(p, 2, r, column), length = length_of(p, 1, r, key),
		       rate = exp(value_at(p, 5, head, 0)) *
		    log(1 + exp(value_at(p, 4, r, head) + value_at(p, 6, head, 0)));

		for (int64_t i = 0; i < d; i++) {
			m[i] *= exp(-rate);
			rest -= m[i] * value_at(p, 1, r, key + i) / length;
		}
		for (int64_t i = 0; i < d; i++)
			m[i] += value_at(p, 1, r, key + i) / length * rest /
			    (1 + exp(-value_at(p, 3, r, head)));
	}
	for (int64_t i = 0; i < d; i++)
		out += m[i] * value_at(p, 0, row, key + i);
	free(m);
	return out / length_of(p, 0, row, key) / sqrt((double)d);
}

static const struct op_test rule_test = { .name = "delta rule",
	.declare = rule_declare,
	.forward = rule_forward,
	.backward = rule_backward,
	.expect = expect_rule };

/* Where passes begin, the last of which ends with the rows. */
static const int64_t starts[] = { 0, 5, 6, 40, 41 };
enum { PASSES = sizeof starts / sizeof *starts };

static void
kept_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	declare(p, SLOT_FIXED);
	slot_add(p, 10, SLOT_SCRATCH, 0,
	    SHAPE((int64_t)c->batch * c->groups * c->head_dim, c->heads / c->groups * c->columns));
	slot_add(p, 11, SLOT_IDS, SLOT_VECTOR, SHAPE(PASSES, 1));
	for (int i = 0; i < PASSES; i++)
		p->slot[11].value[i] = (double)starts[i];
}

/* Passes that begin where the one before ended, of few positions and of many. */
static void
kept_forward(struct problem *p)
{
	int64_t b = p->c->batch;

	for (int i = 0; i < PASSES; i++) {
		int64_t end = i + 1 < PASSES ? starts[i + 1] : p->c->rows, first = starts[i] * b,
			rows = (end - starts[i]) * b;
		struct delta_rule r = rule_of(p);

		r.out = tensor_rows(&r.out, first, rows);
		r.q = tensor_rows(&r.q, first, rows);
		r.k = tensor_rows(&r.k, first, rows);
		r.v = tensor_rows(&r.v, first, rows);
		r.beta = tensor_rows(&r.beta, first, rows);
		r.decay = tensor_rows(&r.decay, first, rows);
		r.first = r.first.data ? tensor_rows(&r.first, first, rows) : r.first;
		r.state = *T(10);
		r.position = tensor_rows(T(11), i, 1);
		p->ops->delta_rule(p->st, &r);
	}
}

static const struct op_test kept_test = {
	.name = "delta rule, kept", .declare = kept_declare, .forward = kept_forward
};

/* Two passes with the states that are kept between them are as one; states of before are not seen
 * where a document begins. */
static void
test_kept(const struct backend *b)
{
	enum { S = 7, B = 2, N = 1, M = 2, D = 3, E = 2 };
	static const int ends[] = { 3, 4, S };
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_F64 };
	double q[S * B][N * D], k[S * B][N * D], v[S * B][M * E], factor[S * B][M], log_rate[M],
	    whole[S * B][M * E], parts[S * B][M * E], work[N * D][M * E / N],
	    state[B * N * D][M * E / N];
	int32_t first[S * B];
	struct err e;
	struct device *d = b->open(&config, &e);
	struct stream *st = b->stream(d, STREAM_COMPUTE);
	struct delta_rule one = { .out = tensor_2d(whole, DTYPE_F64, S * B, M * E),
		.q = tensor_2d(q, DTYPE_F64, S * B, N * D),
		.k = tensor_2d(k, DTYPE_F64, S * B, N * D),
		.v = tensor_2d(v, DTYPE_F64, S * B, M * E),
		.beta = tensor_2d(factor, DTYPE_F64, S * B, M),
		.decay = tensor_2d(factor, DTYPE_F64, S * B, M),
		.decay_log = tensor_1d(log_rate, DTYPE_F64, M),
		.decay_bias = tensor_1d(log_rate, DTYPE_F64, M),
		.first = tensor_1d(first, DTYPE_I32, S * B),
		.work = tensor_2d(work, DTYPE_F64, N * D, M * E / N),
		.micro_batch = B,
		.num_key_heads = N,
		.num_value_heads = M };

	for (int i = 0; i < S * B * N * D; i++) {
		(&q[0][0])[i] = sin(i + 1.0);
		(&k[0][0])[i] = cos(2 * i + 1.0);
	}
	for (int i = 0; i < S * B * M * E; i++)
		(&v[0][0])[i] = sin(3 * i + 2.0);
	for (int i = 0; i < S * B * M; i++)
		(&factor[0][0])[i] = cos(i + 3.0);
	for (int i = 0; i < S * B; i++)
		first[i] = i / B >= 2 && i % B == 1 ? 2 : 0;
	for (int i = 0; i < B * D * M * E; i++)
		(&state[0][0])[i] = NAN;
	log_rate[0] = 0.3;
	log_rate[1] = -0.7;
	st->ops->delta_rule(st, &one);
	for (int i = 0, at = 0; i < 3; at = ends[i++]) {
		int64_t rows = (int64_t)(ends[i] - at) * B;
		int32_t position = at;
		struct delta_rule part = one;

		part.out = tensor_2d(parts[at * B], DTYPE_F64, rows, M * E);
		part.q = tensor_2d(q[at * B], DTYPE_F64, rows, N * D);
		part.k = tensor_2d(k[at * B], DTYPE_F64, rows, N * D);
		part.v = tensor_2d(v[at * B], DTYPE_F64, rows, M * E);
		part.beta = part.decay = tensor_2d(factor[at * B], DTYPE_F64, rows, M);
		part.first = tensor_1d(first + (ptrdiff_t)at * B, DTYPE_I32, rows);
		part.state = tensor_2d(state, DTYPE_F64, B * N * D, M * E / N);
		part.position = tensor_1d(&position, DTYPE_I32, 1);
		st->ops->delta_rule(st, &part);
	}
	CHECK(!memcmp(whole, parts, sizeof whole));
	b->close(d);
}

const struct op_case cases[] = {
	{ &rule_test, CASE_BOTH, .rows = 1, .batch = 1, .heads = 1, .groups = 1, .head_dim = 2,
	    .columns = 1, .inner = 1 },
	{ &rule_test, CASE_BOTH, .rows = 7, .batch = 2, .heads = 4, .groups = 2, .head_dim = 3,
	    .columns = 5, .inner = 3 },
	{ &rule_test, CASE_BOTH, .rows = 21, .batch = 2, .heads = 3, .groups = 1, .head_dim = 6,
	    .columns = 2, .inner = 5, .flags = DOCUMENTS },
	{ &rule_test, CASE_BOTH, .rows = 4, .batch = 1, .heads = 2, .groups = 2, .head_dim = 9,
	    .columns = 3, .inner = 8 },
	/* chunks of 64, 32 and 16 positions of a GPU, with a part of one at the end */
	{ &rule_test, CASE_CUDA, .rows = 150, .batch = 2, .heads = 4, .groups = 2, .head_dim = 16,
	    .columns = 40, .inner = 13, .flags = DOCUMENTS },
	{ &rule_test, CASE_CUDA, .rows = 129, .batch = 3, .heads = 2, .groups = 1, .head_dim = 72,
	    .columns = 33, .inner = 13 },
	{ &rule_test, CASE_CUDA, .rows = 70, .batch = 1, .heads = 4, .groups = 2, .head_dim = 200,
	    .columns = 18, .inner = 9, .flags = DOCUMENTS },
	{ &rule_test, CASE_CUDA, .rows = 41, .batch = 2, .heads = 1, .groups = 1, .head_dim = 512,
	    .columns = 20, .inner = 9 },
	CHECKED(CASE_CPU, test_kept),
	{ &kept_test, CASE_CUDA, .rows = 110, .batch = 2, .heads = 4, .groups = 2, .head_dim = 24,
	    .columns = 40, .inner = 9 },
	{ &kept_test, CASE_CUDA, .rows = 60, .batch = 3, .heads = 2, .groups = 1, .head_dim = 130,
	    .columns = 17, .inner = 9, .flags = DOCUMENTS },
	{ &rule_test, CASE_LARGE, .rows = 256, .batch = 1, .heads = 32, .groups = 16,
	    .head_dim = 128, .columns = 128, .inner = 16 },
	{ 0 },
};
