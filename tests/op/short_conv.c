/* short_conv.c - sums over the last positions of channels: 0 x, 1 weight, 2 y, 3 first with
 * DOCUMENTS, 4 what is kept and 5 where passes begin; rows is S, columns the channels, inner the
 * taps */
#include "tests/check.h"
#include "tests/op/op.h"

enum { DOCUMENTS = 1 };

/* Each sample has documents of its own: one begins at a position with probability 1 / 4. */
static int64_t
document_start(int64_t sample, int64_t position)
{
	while (position > 0 && rng_uniform(23, (uint64_t)position, (uint32_t)sample, 0) >= 1.0f / 4)
		position--;
	return position;
}

static void
declare(struct problem *p, enum slot_kind given)
{
	const struct op_case *c = p->c;
	int64_t rows = c->rows * c->batch;

	slot_add(p, 0, given, 0, SHAPE(rows, c->columns));
	slot_add(p, 1, given, SLOT_REAL_GRAD | SLOT_ADDED, SHAPE(c->columns, c->inner));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(rows, c->columns));
	if (!(c->flags & DOCUMENTS))
		return;
	slot_add(p, 3, SLOT_IDS, SLOT_VECTOR, SHAPE(rows, 1));
	for (int64_t r = 0; r < rows; r++)
		p->slot[3].value[r] = (double)document_start(r % c->batch, r / c->batch);
}

static void
conv_declare(struct problem *p)
{
	declare(p, SLOT_INPUT);
}

static struct short_conv
conv_of(struct problem *p)
{
	return (struct short_conv){
		.y = *T(2), .x = *T(0), .weight = *T(1), .first = *T(3), .micro_batch = p->c->batch
	};
}

static void
conv_forward(struct problem *p)
{
	struct short_conv s = conv_of(p);

	p->ops->short_conv(p->st, &s);
}

static void
conv_backward(struct problem *p)
{
	p->ops->short_conv_grad(p->st,
	    &(struct short_conv_grad){ .fwd = conv_of(p),
		.dx = *G(0),
		.dweight = *G(1),
		.dy = *G(2),
		.accumulate = true });
}

static double
expect_conv(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	int64_t at = row / c->batch, sample = row % c->batch,
		first = c->flags & DOCUMENTS ? (int64_t)p->slot[3].value[row] : 0;
	double sum = 0;

	for (int64_t j = 0; j < c->inner && at - j >= first; j++)
		sum += value_at(p, 1, column, c->inner - 1 - j) *
		    value_at(p, 0, (at - j) * c->batch + sample, column);
	return sum / (1 + exp(-sum));
}

static const struct op_test conv_test = { "short conv", conv_declare, conv_forward, conv_backward,
	expect_conv };

/* Where passes begin, the last of which ends with the rows. */
static const int64_t starts[] = { 0, 5, 6, 8, 50 };
enum { PASSES = sizeof starts / sizeof *starts };

static void
kept_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	declare(p, SLOT_FIXED);
	slot_add(p, 4, SLOT_SCRATCH, SLOT_ACT, SHAPE((c->inner - 1) * c->batch, c->columns));
	slot_add(p, 5, SLOT_IDS, SLOT_VECTOR, SHAPE(PASSES, 1));
	for (int i = 0; i < PASSES; i++)
		p->slot[5].value[i] = (double)starts[i];
}

/* Passes that begin where the one before ended, some shorter than the taps. */
static void
kept_forward(struct problem *p)
{
	int64_t b = p->c->batch;

	for (int i = 0; i < PASSES; i++) {
		int64_t end = i + 1 < PASSES ? starts[i + 1] : p->c->rows, first = starts[i] * b,
			rows = (end - starts[i]) * b;
		struct short_conv s = conv_of(p);

		s.y = tensor_rows(&s.y, first, rows);
		s.x = tensor_rows(&s.x, first, rows);
		s.first = s.first.data ? tensor_rows(&s.first, first, rows) : s.first;
		s.before = *T(4);
		s.position = tensor_rows(T(5), i, 1);
		p->ops->short_conv(p->st, &s);
	}
}

static const struct op_test kept_test = {
	.name = "short conv, kept", .declare = kept_declare, .forward = kept_forward
};

/* Two passes with what is kept between them are as one, also where one is shorter than the taps. */
static void
test_kept(const struct backend *b)
{
	enum { S = 9, B = 2, C = 3, K = 4 };
	static const int ends[] = { 5, 6, 7, S };
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_F64 };
	double x[S * B][C], w[C][K], whole[S * B][C], parts[S * B][C], before[(K - 1) * B][C];
	int32_t first[S * B];
	struct err e;
	struct device *d = b->open(&config, &e);
	struct stream *st = b->stream(d, STREAM_COMPUTE);
	struct short_conv one = { .y = tensor_2d(whole, DTYPE_F64, S * B, C),
		.x = tensor_2d(x, DTYPE_F64, S * B, C),
		.weight = tensor_2d(w, DTYPE_F64, C, K),
		.first = tensor_1d(first, DTYPE_I32, S * B),
		.micro_batch = B };

	for (int i = 0; i < S * B * C; i++)
		(&x[0][0])[i] = sin(i + 1.0);
	for (int i = 0; i < C * K; i++)
		(&w[0][0])[i] = cos(i + 1.0);
	for (int i = 0; i < S * B; i++)
		first[i] = i / B >= 4 && i % B == 1 ? 4 : 0;
	for (int i = 0; i < (K - 1) * B * C; i++)
		(&before[0][0])[i] = NAN;
	st->ops->short_conv(st, &one);
	for (int i = 0, at = 0; i < 4; at = ends[i++]) {
		int64_t rows = (int64_t)(ends[i] - at) * B;
		int32_t position = at;
		struct short_conv part = one;

		part.y = tensor_2d(parts[at * B], DTYPE_F64, rows, C);
		part.x = tensor_2d(x[at * B], DTYPE_F64, rows, C);
		part.first = tensor_1d(first + (ptrdiff_t)at * B, DTYPE_I32, rows);
		part.before = tensor_2d(before, DTYPE_F64, (K - 1) * B, C);
		part.position = tensor_1d(&position, DTYPE_I32, 1);
		st->ops->short_conv(st, &part);
	}
	CHECK(!memcmp(whole, parts, sizeof whole));
	b->close(d);
}

const struct op_case cases[] = {
	{ &conv_test, CASE_BOTH, .rows = 1, .batch = 1, .columns = 1, .inner = 2 },
	{ &conv_test, CASE_BOTH, .rows = 7, .batch = 3, .columns = 70, .inner = 4 },
	{ &conv_test, CASE_BOTH, .rows = 23, .batch = 2, .columns = 5, .inner = 4,
	    .flags = DOCUMENTS },
	{ &conv_test, CASE_BOTH, .rows = 3, .batch = 1, .columns = 2, .inner = 16 },
	{ &conv_test, CASE_CUDA, .rows = 150, .batch = 3, .columns = 72, .inner = 4,
	    .flags = DOCUMENTS },
	{ &conv_test, CASE_CUDA, .rows = 70, .batch = 2, .columns = 30, .inner = 5 },
	CHECKED(CASE_CPU, test_kept),
	{ &kept_test, CASE_CUDA, .rows = 90, .batch = 2, .columns = 40, .inner = 4,
	    .flags = DOCUMENTS },
	{ &kept_test, CASE_CUDA, .rows = 60, .batch = 1, .columns = 9, .inner = 7 },
	{ &conv_test, CASE_LARGE, .rows = 1024, .batch = 1, .columns = 8192, .inner = 4 },
	{ 0 },
};
