/* vector.c - elements, sums and copies of vectors */
#include "tests/gpu/rig.h"
#include "tests/op/op.h"

enum { IN_PLACE = 1, WRITE_GRAD = 2 };

/* --- add: 0 x, 1 z, 2 y; y = x + z ------------------------------------------------------------ */
static void
add_declare(struct problem *p)
{
	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(p->c->rows, p->c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(p->c->rows, p->c->columns));
}

static void
add_forward(struct problem *p)
{
	p->ops->cast(p->st, &(struct pair){ *T(2), *T(0) });
	p->ops->add(p->st, &(struct pair){ *T(2), *T(1) });
}

static void
add_backward(struct problem *p)
{
	p->ops->cast(p->st, &(struct pair){ *G(0), *G(2) });
	p->ops->cast(p->st, &(struct pair){ *G(1), *G(2) });
}

static double
expect_add(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 0, row, column) + value_at(p, 1, row, column);
}

static const struct op_test add_test = { "add", add_declare, add_forward, add_backward,
	expect_add };

/* --- sum: 0 x, 1 others, 2 y; `batch` others, x the term number `heads`, with IN_PLACE where y is
 * to be --- */
static void
sum_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(1, c->rows * c->columns));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(c->batch, c->rows * c->columns));
	slot_add(p, 2, SLOT_OUTPUT, 0, SHAPE(1, c->rows * c->columns));
}

static void
sum_forward(struct problem *p)
{
	bool in_place = p->c->flags & IN_PLACE;
	struct sum a = { .y = tensor_flat(T(2)), .others = *T(1), .own = p->c->heads };

	if (in_place)
		p->ops->cast(p->st, &(struct pair){ *T(2), *T(0) });
	a.x = tensor_flat(T(in_place ? 2 : 0));
	p->ops->sum(p->st, &a);
}

/* Each term's gradient is that of the sum. */
static void
sum_backward(struct problem *p)
{
	struct sum a = { .y = tensor_flat(G(0)), .x = tensor_flat(G(2)) };

	p->ops->sum(p->st, &a);
	for (int i = 0; i < p->c->batch; i++) {
		struct tensor row = tensor_rows(G(1), i, 1);

		p->ops->cast(p->st, &(struct pair){ row, *G(2) });
	}
}

static double
expect_sum(const struct problem *p, int64_t row, int64_t column)
{
	double sum = value_at(p, 0, row, column);

	for (int i = 0; i < p->c->batch; i++)
		sum += value_at(p, 1, i, column);
	return sum;
}

static const struct op_test sum_test = { "sum", sum_declare, sum_forward, sum_backward,
	expect_sum };

/* --- axpby: 0 x, 1 z, 2 y; y = -1.5 x + 0.25 z, or -1.5 x with WRITE_GRAD --------------------- */
static void
axpby_run(struct problem *p, struct tensor *y, const struct tensor *x, double a, double b)
{
	p->ops->axpby(p->st, &(struct axpby){ .y = *y, .x = *x, .a = a, .b = b });
}

static void
axpby_forward(struct problem *p)
{
	p->ops->cast(p->st, &(struct pair){ *T(2), *T(1) });
	axpby_run(p, T(2), T(0), -1.5, p->c->flags & WRITE_GRAD ? 0 : 0.25);
}

static void
axpby_backward(struct problem *p)
{
	axpby_run(p, G(0), G(2), -1.5, 0);
	axpby_run(p, G(1), G(2), p->c->flags & WRITE_GRAD ? 0 : 0.25, 0);
}

static double
expect_axpby(const struct problem *p, int64_t row, int64_t column)
{
	double z = p->c->flags & WRITE_GRAD ? 0 : value_at(p, 1, row, column);

	return -1.5 * value_at(p, 0, row, column) + 0.25 * z;
}

static const struct op_test axpby_test = { "axpby", add_declare, axpby_forward, axpby_backward,
	expect_axpby };

static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

/* Sums of products and counts of numbers that are not finite, over many parts and accumulated. */
static void
test_reductions(const struct backend *b)
{
	enum { N = 3000001 };
	struct rig r = rig_open(b, DTYPE_F32);
	float *x = mem_alloc(N, sizeof *x), *y = mem_alloc(N, sizeof *y);
	double sum = 7, result = 7, again = 7;
	struct tensor tx, ty, out, second;

	for (int i = 0; i < N; i++) {
		x[i] = (float)sin(i);
		y[i] = (float)cos(3.0 * i) + 0.5f;
		sum += (double)x[i] * (double)y[i];
	}
	tx = rig_vector(&r, DTYPE_F32, N, x);
	ty = rig_vector(&r, DTYPE_F32, N, y);
	out = rig_vector(&r, DTYPE_F64, 1, &result);
	second = rig_vector(&r, DTYPE_F64, 1, &result);
	r.st->ops->dot(r.st, &(struct dot){ out, tx, ty });
	r.st->ops->dot(r.st, &(struct dot){ second, tx, ty });
	rig_read(&r, &out, &result);
	rig_read(&r, &second, &again);
	CHECK_NEAR(result, sum, 1e-12);
	CHECK(memcmp(&result, &again, sizeof result) == 0);
	x[0] = NAN;
	x[N / 2] = INFINITY;
	x[N - 1] = -INFINITY;
	b->copy_in(r.st, tx.data, x, N * sizeof *x);
	r.st->ops->fill(r.st, &(struct fill){ out, 1 });
	r.st->ops->count_nonfinite(r.st, &(struct pair){ out, tx });
	rig_read(&r, &out, &result);
	CHECK(result == 4);
	x[0] = 0;
	x[N - 1] = -0.0f;
	b->copy_in(r.st, tx.data, x, N * sizeof *x);
	r.st->ops->fill(r.st, &(struct fill){ out, 1 });
	r.st->ops->count_zero(r.st, &(struct pair){ out, tx });
	rig_read(&r, &out, &result);
	CHECK(result == 3);
	b->release(r.d, tx.data);
	b->release(r.d, ty.data);
	b->release(r.d, out.data);
	b->release(r.d, second.data);
	b->close(r.d);
	free(x);
	free(y);
}

/* The sums of squares of vectors, and sums of products at an odd offset, as in double. */
static void
test_dot(const struct backend *b)
{
	enum { N = 300007 };
	struct rig r = rig_open(b, DTYPE_F32);
	float *x = mem_alloc(N, sizeof *x);
	double sum = 0, shifted = 0, found[3] = { 0, 0, 0 };
	struct tensor t, out, one, two, three, head, tail, narrow;

	for (int i = 0; i < N; i++)
		x[i] = dtype_f32_from_bf16(dtype_bf16_from_f32((float)cos(i * 0.7)));
	for (int i = 0; i < N; i++) {
		sum += (double)x[i] * (double)x[i];
		shifted += i + 1 < N ? (double)x[i] * (double)x[i + 1] : 0;
	}
	t = rig_vector(&r, DTYPE_F32, N, x);
	narrow = rig_vector(&r, DTYPE_BF16, N, NULL);
	out = rig_vector(&r, DTYPE_F64, 3, found);
	one = tensor_rows(&out, 0, 1);
	two = tensor_rows(&out, 1, 1);
	three = tensor_rows(&out, 2, 1);
	head = tensor_rows(&t, 0, N - 1);
	tail = tensor_rows(&t, 1, N - 1);
	r.st->ops->dot(r.st, &(struct dot){ one, t, t });
	r.st->ops->dot(r.st, &(struct dot){ two, head, tail });
	r.st->ops->cast(r.st, &(struct pair){ narrow, t });
	r.st->ops->dot(r.st, &(struct dot){ three, narrow, narrow });
	rig_read(&r, &out, found);
	CHECK_NEAR(found[0], sum, 1e-12);
	CHECK_NEAR(found[1], shifted, 1e-9);
	CHECK_NEAR(found[2], sum, 1e-12);
	b->release(r.d, t.data);
	b->release(r.d, narrow.data);
	b->release(r.d, out.data);
	b->close(r.d);
	free(x);
}

/* A vector divided by its norm into a wider and a narrower matrix, whose rows lie apart. */
static void
test_divisor(const struct backend *b)
{
	enum { ROWS = 35, COLUMNS = 24, WIDTH = 40 };
	static const enum dtype to[] = { DTYPE_F32, DTYPE_BF16 };
	struct rig r = rig_open(b, DTYPE_F32);
	float x[ROWS * COLUMNS];
	double norm = 0, zero = 0;
	struct tensor t, squares;

	for (int i = 0; i < ROWS * COLUMNS; i++) {
		x[i] = cosf((float)i);
		norm += (double)x[i] * (double)x[i];
	}
	t = rig_vector(&r, DTYPE_F32, ROWS * COLUMNS, x);
	squares = rig_vector(&r, DTYPE_F64, 1, &zero);
	r.st->ops->dot(r.st, &(struct dot){ squares, t, t });
	t = tensor_2d(t.data, DTYPE_F32, ROWS, COLUMNS);
	for (size_t k = 0; k < sizeof to / sizeof *to; k++) {
		struct tensor y = rig_vector(&r, to[k], ROWS * WIDTH, NULL),
			      wide = tensor_2d(y.data, to[k], ROWS, WIDTH);
		struct axpby c = { .y = tensor_columns(&wide, 8, COLUMNS),
			.x = t,
			.a = 2,
			.squares = squares,
			.eps = 1e-7 };
		char host[ROWS * WIDTH * sizeof(double)];
		double out[ROWS * WIDTH];

		r.st->ops->fill(r.st, &(struct fill){ y, 1 });
		r.st->ops->axpby(r.st, &c);
		rig_read(&r, &y, host);
		dtype_convert(out, DTYPE_F64, host, to[k], ROWS * WIDTH);
		for (int i = 0; i < ROWS * WIDTH; i++) {
			int column = i % WIDTH - 8;
			bool inside = column >= 0 && column < COLUMNS;
			double want =
			    inside ? 2 * (double)x[i / WIDTH * COLUMNS + column] / sqrt(norm) : 1;

			CHECK(fabs(out[i] - want) <=
			    (to[k] == DTYPE_BF16 ? 0x1p-8 : 1e-6) * fabs(want));
		}
		b->release(r.d, y.data);
	}
	b->release(r.d, t.data);
	b->release(r.d, squares.data);
	b->close(r.d);
}

/* Numbers that are not finite are found in every type, at both ends and in the middle of odd
 * lengths. */
static void
test_nonfinite(const struct backend *b)
{
	enum { N = 100003 };
	struct rig r = rig_open(b, DTYPE_F32);

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct tensor x = rig_vector(&r, types[i], N, NULL),
			      out = rig_vector(&r, DTYPE_F64, 1, NULL);
		struct tensor first = tensor_rows(&x, 0, 1), middle = tensor_rows(&x, N / 2, 3),
			      last = tensor_rows(&x, N - 1, 1);
		struct tensor odd = tensor_rows(&x, 1, N - 1);
		double found = 0;

		r.st->ops->fill(r.st, &(struct fill){ first, INFINITY });
		r.st->ops->fill(r.st, &(struct fill){ middle, NAN });
		r.st->ops->fill(r.st, &(struct fill){ last, -INFINITY });
		r.st->ops->count_nonfinite(r.st, &(struct pair){ out, x });
		r.st->ops->count_nonfinite(r.st, &(struct pair){ out, odd });
		rig_read(&r, &out, &found);
		CHECK(found == 5 + 4);
		b->release(r.d, x.data);
		b->release(r.d, out.data);
	}
	b->close(r.d);
}

/* The CPU's hashes, in every type. */
static void
test_hash(const struct backend *b)
{
	enum { N = 300007 };
	struct rig r = rig_open(b, DTYPE_F32), cpu = rig_open(&backend_cpu, DTYPE_F32);

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct normal n = { .key = 1, .std = 1 };
		struct tensor x = rig_vector(&r, types[i], N, NULL),
			      out = rig_vector(&r, DTYPE_I64, 1, NULL),
			      y = rig_vector(&cpu, types[i], N, NULL),
			      want = rig_vector(&cpu, DTYPE_I64, 1, NULL);
		int64_t got = 0;

		n.x = y;
		cpu.st->ops->normal(cpu.st, &n);
		b->copy_in(r.st, x.data, y.data, tensor_bytes(&y));
		cpu.st->ops->hash(cpu.st, &(struct pair){ want, y });
		r.st->ops->hash(r.st, &(struct pair){ out, x });
		r.st->ops->hash(r.st, &(struct pair){ out, x });
		rig_read(&r, &out, &got);
		CHECK(got == *(int64_t *)want.data);
		b->release(r.d, x.data);
		b->release(r.d, out.data);
		backend_cpu.release(cpu.d, y.data);
		backend_cpu.release(cpu.d, want.data);
	}
	b->close(r.d);
	backend_cpu.close(cpu.d);
}

/* Sums, fills and conversions at lengths and offsets that are not whole packs, between all pairs of
 * types, against the same in double; the elements around stay unchanged. */
static void
test_odd_vectors(const struct backend *b)
{
	enum { N = 4099, EDGE = 3 };
	static const enum dtype all[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64 };
	static double x[N], y[N], expected[N];
	static char host[N * sizeof(double)];
	struct rig r = rig_open(b, DTYPE_F32);

	for (int k = 0; k < N; k++)
		x[k] = sin(k) * 3;
	for (int pair = 0; pair < 16; pair++) {
		enum dtype from = all[pair / 4], to = all[pair % 4];
		double eps = to == DTYPE_BF16 ? 0x1p-8 : to == DTYPE_F16 ? 0x1p-11 : 0x1p-24;
		int64_t first = pair % 2 ? EDGE : 0, count = N - 2 * EDGE;
		struct tensor a = rig_vector(&r, from, N, NULL), c = rig_vector(&r, to, N, NULL);
		struct tensor ap = tensor_rows(&a, first, count),
			      cp = tensor_rows(&c, first, count);

		dtype_convert(host, from, x, DTYPE_F64, N);
		b->copy_in(r.st, a.data, host, tensor_bytes(&a));
		rig_sync(&r);
		dtype_convert(expected, DTYPE_F64, host, from, N);
		r.st->ops->fill(r.st, &(struct fill){ c, 0.5 });
		r.st->ops->cast(r.st, &(struct pair){ cp, ap });
		r.st->ops->add(r.st, &(struct pair){ cp, ap });
		rig_read(&r, &c, host);
		dtype_convert(y, DTYPE_F64, host, to, N);
		for (int k = 0; k < N; k++) {
			bool inside = k >= first && k < first + count;

			CHECK(fabs(y[k] - (inside ? 2 * expected[k] : 0.5)) <=
			    (inside ? 4 * eps * fabs(expected[k]) + 1e-7 : 0));
		}
		b->release(r.d, a.data);
		b->release(r.d, c.data);
	}
	b->close(r.d);
}

/* Normals against the CPU's, in every type, from any start; a million of them have the right
 * deviation. A double that differs in its last bit may round to the neighbouring value. */
static void
test_normal(const struct backend *b)
{
	enum { N = 1 << 20, FIRST = 5, CUT = 1003 };
	struct normal n = { .key = 11, .stream = 77, .first = FIRST, .std = 0.02 };
	struct normal rest = { .key = 11, .stream = 77, .first = FIRST + CUT, .std = 0.02 };
	double *expected = mem_alloc(N, sizeof *expected), *out = mem_alloc(N, sizeof *out);
	char *stored = mem_alloc(N, sizeof(double));

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct rig r = rig_open(b, types[i]);
		struct tensor t = rig_vector(&r, types[i], N, NULL),
			      tail = tensor_rows(&t, CUT, N - CUT);
		double unit = types[i] == DTYPE_F32 ? 0x1p-23
		    : types[i] == DTYPE_F16         ? 0x1p-10
						    : 0x1p-7;
		double square = 0;
		int64_t far = 0;

		rng_normal(11, FIRST, N, 77, 0, expected);
		n.x = t;
		rest.x = tail;
		r.st->ops->fill(r.st, &(struct fill){ t, NAN });
		r.st->ops->normal(r.st, &n);
		r.st->ops->fill(r.st, &(struct fill){ tail, NAN });
		r.st->ops->normal(r.st, &rest);
		rig_read(&r, &t, stored);
		dtype_convert(out, DTYPE_F64, stored, types[i], N);
		for (int k = 0; k < N; k++) {
			far += !(fabs(out[k] - 0.02 * expected[k]) <=
			    fabs(0.02 * expected[k]) * unit + 1e-7);
			square += out[k] * out[k];
		}
		CHECK(far == 0);
		CHECK_NEAR(sqrt(square / N), 0.02, 0.01);
		b->release(r.d, t.data);
		b->close(r.d);
	}
	free(expected);
	free(out);
	free(stored);
}

/* Conversion of the columns of a wider array, copies of columns, and copies of integers. */
static void
test_cast(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_BF16);
	float wide[3][4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, part[3][2];
	uint16_t narrow[3][2];
	int32_t from[3] = { 1, -2, 3 }, to[3] = { 0 };
	struct tensor flat = rig_vector(&r, DTYPE_F32, 12, wide),
		      t = tensor_2d(flat.data, DTYPE_F32, 3, 4);
	struct tensor columns = tensor_columns(&t, 1, 2),
		      small = rig_vector(&r, DTYPE_BF16, 6, NULL);
	struct tensor same = rig_vector(&r, DTYPE_F32, 6, NULL);
	struct tensor a = rig_vector(&r, DTYPE_I32, 3, from),
		      c = rig_vector(&r, DTYPE_I32, 3, NULL);

	small = tensor_2d(small.data, DTYPE_BF16, 3, 2);
	same = tensor_2d(same.data, DTYPE_F32, 3, 2);
	r.st->ops->cast(r.st, &(struct pair){ small, columns });
	r.st->ops->cast(r.st, &(struct pair){ same, columns });
	r.st->ops->cast(r.st, &(struct pair){ c, a });
	rig_read(&r, &small, narrow);
	rig_read(&r, &same, part);
	rig_read(&r, &c, to);
	CHECK(dtype_f32_from_bf16(narrow[0][0]) == 2 && dtype_f32_from_bf16(narrow[2][1]) == 11);
	CHECK(part[0][0] == 2 && part[1][1] == 7 && part[2][1] == 11);
	CHECK(!memcmp(from, to, sizeof to));
	b->release(r.d, flat.data);
	b->release(r.d, small.data);
	b->release(r.d, same.data);
	b->release(r.d, a.data);
	b->release(r.d, c.data);
	b->close(r.d);
}

/* Columns of all numbers of 16 bits are copied bit by bit, from a place of whole packs or another.
 */
static void
test_copied_bits(const struct backend *b)
{
	enum { ROWS = 64, COLUMNS = 1024, WIDTH = COLUMNS + 16 };
	struct rig r = rig_open(b, DTYPE_BF16);
	struct tensor wide = rig_vector(&r, DTYPE_BF16, (size_t)ROWS * WIDTH, NULL),
		      dense = rig_vector(&r, DTYPE_BF16, (size_t)ROWS * COLUMNS, NULL);
	static uint16_t in[ROWS][WIDTH], out[ROWS][COLUMNS];
	struct tensor all = tensor_2d(wide.data, DTYPE_BF16, ROWS, WIDTH),
		      to = tensor_2d(dense.data, DTYPE_BF16, ROWS, COLUMNS);

	for (int first = 4; first <= 8; first += 4) {
		struct tensor from = tensor_columns(&all, first, COLUMNS);
		struct err e;
		int wrong = 0;

		for (int i = 0; i < ROWS * COLUMNS; i++)
			in[i / COLUMNS][first + i % COLUMNS] = (uint16_t)i;
		b->copy_in(r.st, wide.data, in, sizeof in);
		CHECK(b->sync(r.st, &e) == 0);
		r.st->ops->cast(r.st, &(struct pair){ to, from });
		rig_read(&r, &dense, out);
		for (int i = 0; i < ROWS * COLUMNS; i++)
			wrong += out[i / COLUMNS][i % COLUMNS] != (uint16_t)i;
		CHECK(wrong == 0);
	}
	b->release(r.d, wide.data);
	b->release(r.d, dense.data);
	b->close(r.d);
}

/* --- what the CPU alone promises -------------------------------------------------------------- */

/* Sums of products and counts of numbers that are not finite, over several parts. */
static void
test_zeros(const struct backend *b)
{
	enum { N = 70001 };
	struct rig r = rig_open(b, DTYPE_F32);
	struct stream *st = r.st;
	float *x = mem_alloc(N, sizeof *x), *y = mem_alloc(N, sizeof *y);
	struct tensor tx = tensor_1d(x, DTYPE_F32, N), ty = tensor_1d(y, DTYPE_F32, N), out;
	double sum = 7, result = 7;

	for (int64_t i = 0; i < N; i++) {
		x[i] = (float)sin((double)i);
		y[i] = (float)cos((double)(3 * i)) + 0.5f;
		sum += (double)x[i] * (double)y[i];
	}
	out = tensor_1d(&result, DTYPE_F64, 1);
	st->ops->dot(st, &(struct dot){ out, tx, ty });
	CHECK_NEAR(result, sum, 1e-12);
	x[0] = NAN;
	x[N / 2] = INFINITY;
	x[N - 1] = -INFINITY;
	result = 1;
	st->ops->count_nonfinite(st, &(struct pair){ out, tx });
	CHECK(result == 4);
	for (int64_t i = 0; i < N; i += 7)
		x[i] = i % 2 ? 0.0f : -0.0f;
	result = 1;
	st->ops->count_zero(st, &(struct pair){ out, tx });
	CHECK(result == 1 + (N + 6) / 7);
	free(x);
	free(y);
	b->close(r.d);
}

/* The divisor of axpby: a norm in double, or eps where that is larger. Rows may lie apart. */
static void
test_least_divisor(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_F32);
	struct stream *st = r.st;
	float x[6] = { 1, -2, 3, 4, -5, 6 }, y[8] = { 7, 7, 7, 7, 7, 7, 7, 7 };
	double squares = 16;
	struct tensor wide = tensor_2d(y, DTYPE_F32, 2, 4);
	struct axpby c = { .y = tensor_columns(&wide, 1, 3),
		.x = tensor_2d(x, DTYPE_F32, 2, 3),
		.a = 2,
		.squares = tensor_1d(&squares, DTYPE_F64, 1),
		.eps = 1e-7 };

	st->ops->axpby(st, &c);
	for (int i = 0; i < 8; i++)
		CHECK(y[i] == (i % 4 ? x[i / 4 * 3 + i % 4 - 1] / 2 : 7));
	squares = 0;
	c.eps = 0.5;
	c.b = 2;
	st->ops->axpby(st, &c);
	for (int i = 0; i < 8; i++)
		CHECK(y[i] == (i % 4 ? 5 * x[i / 4 * 3 + i % 4 - 1] : 7));
	b->close(r.d);
}

/* The hash depends on each bit of each element and on its place, in every type and for any division
 * into parts; other backends are compared with the CPU, so one value is written out. */
static void
test_hashed_bits(const struct backend *b)
{
	enum { N = 40000 };
	static const enum dtype every[] = { DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64 };
	struct rig r = rig_open(b, DTYPE_F32);
	struct stream *st = r.st;
	uint8_t *bytes = mem_zalloc(N, 8);
	int64_t sum, again;
	struct tensor out = tensor_1d(&sum, DTYPE_I64, 1), second = tensor_1d(&again, DTYPE_I64, 1);

	for (size_t t = 0; t < sizeof every / sizeof *every; t++) {
		struct tensor x = tensor_1d(bytes, every[t], N), one = tensor_rows(&x, 0, 1);

		st->ops->hash(st, &(struct pair){ out, one });
		CHECK((uint64_t)sum == UINT64_C(0xe220a8397b1dcdaf));
		st->ops->hash(st, &(struct pair){ out, x });
		for (int64_t i = 0; i < N; i += 7919)
			for (size_t bit = 0; bit < 8 * dtype_size(every[t]); bit += 5) {
				bytes[(size_t)i * dtype_size(every[t]) + bit / 8] ^= 1 << bit % 8;
				st->ops->hash(st, &(struct pair){ second, x });
				CHECK(sum != again);
				bytes[(size_t)i * dtype_size(every[t]) + bit / 8] ^= 1 << bit % 8;
			}
		st->ops->hash(st, &(struct pair){ second, x });
		CHECK(sum == again);
	}
	free(bytes);
	b->close(r.d);
}

/* The numbers of rng_normal times std, from any start, and rounded to each type. */
static void
test_rounded_normal(const struct backend *b)
{
	enum { N = 5000, FIRST = 7, CUT = 1002 };
	static const enum dtype every[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	struct rig r = rig_open(b, DTYPE_F32);
	struct stream *st = r.st;
	static double expected[N], stored[N], out[N];
	struct normal n = { .key = 3, .stream = 9, .first = FIRST, .std = 0.02 };
	struct normal rest = { .key = 3, .stream = 9, .first = FIRST + CUT, .std = 0.02 };

	for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
		struct tensor t = tensor_1d(stored, every[i], N),
			      tail = tensor_rows(&t, CUT, N - CUT);

		n.x = t;
		rest.x = tail;
		rng_normal(3, FIRST, N, 9, 0, expected);
		for (int k = 0; k < N; k++)
			expected[k] *= 0.02;
		round_values(expected, N, every[i]);
		st->ops->normal(st, &n);
		st->ops->fill(st, &(struct fill){ tail, 0 });
		st->ops->normal(st, &rest);
		dtype_convert(out, DTYPE_F64, stored, every[i], N);
		CHECK(!memcmp(out, expected, sizeof out));
	}
	b->close(r.d);
}

/* --- time: 0 x, 1 y real, 2 a sum in F64 ------------------------------------------------------ */

static void
flat_declare(struct problem *p)
{
	slot_add(p, 0, SLOT_SCRATCH, SLOT_ACT | SLOT_VECTOR, SHAPE(p->c->rows, 1));
	slot_add(p, 1, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(p->c->rows, 1));
	slot_add(p, 2, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(2, 1));
}

static void
flat_forward(struct problem *p)
{
	struct tensor sum = tensor_1d(T(2)->data, DTYPE_F64, 1);

	p->ops->fill(p->st, &(struct fill){ *T(1), 0.5 });
	p->ops->normal(p->st, &(struct normal){ .x = *T(1), .key = 1, .std = 0.02 });
	p->ops->cast(p->st, &(struct pair){ *T(0), *T(1) });
	p->ops->cast(p->st, &(struct pair){ *T(1), *T(0) });
	p->ops->add(p->st, &(struct pair){ *T(1), *T(0) });
	p->ops->dot(p->st, &(struct dot){ sum, *T(1), *T(1) });
	p->ops->count_nonfinite(p->st, &(struct pair){ sum, *T(1) });
}

static const struct op_test flat_test = { "flat", flat_declare, flat_forward, NULL, NULL };

const struct op_case cases[] = {
	{ &add_test, CASE_BOTH, .rows = 1, .columns = 5 },
	{ &add_test, CASE_BOTH, .rows = 150, .columns = 67 },
	{ &add_test, CASE_BOTH, .rows = 4, .columns = 5000 },
	{ &add_test, CASE_LARGE, .rows = 5000, .columns = 768 },
	{ &add_test, CASE_LARGE, .rows = 3000, .columns = 3072 },
	{ &add_test, CASE_LARGE, .rows = 2001, .columns = 333 },
	{ &add_test, CASE_LARGE, .rows = 20, .columns = 50304 },
	{ &sum_test, CASE_BOTH, .rows = 1, .columns = 5, .batch = 1, .heads = 1 },
	{ &sum_test, CASE_BOTH, .rows = 15, .columns = 67, .batch = 4, .heads = 2,
	    .flags = IN_PLACE },
	{ &sum_test, CASE_BOTH, .rows = 4, .columns = 900, .batch = 18, .heads = 17 },
	{ &sum_test, CASE_LARGE, .rows = 5000, .columns = 768, .batch = 2 },
	{ &sum_test, CASE_LARGE, .rows = 2001, .columns = 333, .batch = 7, .heads = 3,
	    .flags = IN_PLACE },
	{ &sum_test, CASE_LARGE, .rows = 1024, .columns = 1024, .batch = 3, .heads = 3,
	    .flags = IN_PLACE },
	{ &sum_test, CASE_LARGE, .rows = 33, .columns = 333, .batch = 39, .heads = 20 },
	{ &axpby_test, CASE_BOTH, .rows = 1, .columns = 5 },
	{ &axpby_test, CASE_BOTH, .rows = 150, .columns = 67, .flags = WRITE_GRAD },
	{ &axpby_test, CASE_BOTH, .rows = 4, .columns = 5000 },
	{ &axpby_test, CASE_LARGE, .rows = 5000, .columns = 768 },
	{ &axpby_test, CASE_LARGE, .rows = 3000, .columns = 3072 },
	{ &axpby_test, CASE_LARGE, .rows = 2001, .columns = 333 },
	{ &axpby_test, CASE_LARGE, .rows = 20, .columns = 50304 },
	CHECKED(CASE_BOTH, test_reductions),
	CHECKED(CASE_BOTH, test_dot),
	CHECKED(CASE_BOTH, test_divisor),
	CHECKED(CASE_BOTH, test_nonfinite),
	CHECKED(CASE_BOTH, test_hash),
	CHECKED(CASE_BOTH, test_odd_vectors),
	CHECKED(CASE_BOTH, test_normal),
	CHECKED(CASE_BOTH, test_cast),
	CHECKED(CASE_BOTH, test_copied_bits),
	CHECKED(CASE_CPU, test_zeros),
	CHECKED(CASE_CPU, test_least_divisor),
	CHECKED(CASE_CPU, test_hashed_bits),
	CHECKED(CASE_CPU, test_rounded_normal),
	{ &flat_test, CASE_TIME, .rows = 1 << 24 },
	{ 0 },
};
