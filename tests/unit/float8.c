/* float8.c - numbers of 8 bits: all codes and every tie, copies, factors and GEMMs */
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/backend.h"
#include "train/ops.h"
#include "train/engine/engine.h"
#include "train/watch/observe.h"

enum { ROWS = 70, COLUMNS = 130 };

static struct device *device;
static struct stream *st;

/* A number by the definition of the formats: sign, exponent, fraction. */
static double
defined(enum dtype t, int code)
{
	int fraction = t == DTYPE_F8_E4M3 ? 3 : 2, bias = t == DTYPE_F8_E4M3 ? 7 : 15,
	    exponent = (code & 0x7f) >> fraction, rest = code & ((1 << fraction) - 1);
	double sign = code & 0x80 ? -1 : 1, one = 1 << fraction;

	if (t == DTYPE_F8_E4M3 && (code & 0x7f) == 0x7f)
		return NAN;
	if (t == DTYPE_F8_E5M2 && exponent == 31)
		return rest ? NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp(rest / one, 1 - bias);
	return sign * ldexp(1 + rest / one, exponent - bias);
}

static int
code_of(enum dtype t, double x)
{
	float f = (float)x;
	uint8_t wide, narrow;

	dtype_convert(&wide, t, &x, DTYPE_F64, 1);
	dtype_convert(&narrow, t, &f, DTYPE_F32, 1);
	CHECK((double)f != x || wide == narrow);
	return wide;
}

static float
value_of(enum dtype t, int code)
{
	uint8_t c = (uint8_t)code;
	float f;

	dtype_convert(&f, DTYPE_F32, &c, t, 1);
	return f;
}

/* Every code is what the format defines and comes back; between two codes the nearer one is taken,
 * halfway the even one. last: the largest finite one. */
static void
test_codes(enum dtype t, int last)
{
	for (int code = 0; code < 256; code++) {
		double x = defined(t, code), f = (double)value_of(t, code);

		CHECK(isnan(x) ? isnan(f) : f == x && !signbit(f) == !signbit(x));
		if (isfinite(x))
			CHECK(code_of(t, x) == code);
	}
	for (int code = 0; code < last; code++) {
		double middle = (defined(t, code) + defined(t, code + 1)) / 2;

		CHECK(code_of(t, middle) == (code & 1 ? code + 1 : code));
		CHECK(code_of(t, -middle) == (0x80 | (code & 1 ? code + 1 : code)));
		CHECK(code_of(t, nextafter(middle, 0)) == code);
		CHECK(code_of(t, nextafter(middle, 1e9)) == code + 1);
		CHECK(code_of(t, (double)nextafterf((float)middle, 0)) == code);
		CHECK(code_of(t, (double)nextafterf((float)middle, 1e9f)) == code + 1);
	}
	CHECK(dtype_largest_float8(t) == value_of(t, last));
	CHECK(code_of(t, 1e6) == last && code_of(t, -1e6) == (0x80 | last));
	CHECK(code_of(t, (double)INFINITY) == last && code_of(t, (double)NAN) == 0x7f);
	CHECK(code_of(t, (double)-NAN) == 0x7f && code_of(t, 1e300) == last);
}

/* By hand, from the tables of the formats' definition. */
static void
test_known(void)
{
	CHECK(value_of(DTYPE_F8_E4M3, 0x7e) == 448 && value_of(DTYPE_F8_E4M3, 0x01) == 0x1p-9f);
	CHECK(value_of(DTYPE_F8_E4M3, 0x08) == 0x1p-6f && value_of(DTYPE_F8_E4M3, 0x38) == 1);
	CHECK(value_of(DTYPE_F8_E5M2, 0x7b) == 57344 && value_of(DTYPE_F8_E5M2, 0x01) == 0x1p-16f);
	CHECK(value_of(DTYPE_F8_E5M2, 0x04) == 0x1p-14f && value_of(DTYPE_F8_E5M2, 0x3c) == 1);
	CHECK(code_of(DTYPE_F8_E4M3, 0.3) == 0x2a && code_of(DTYPE_F8_E5M2, 0.3) == 0x35);
	CHECK(dtype_count_nonfinite("\177\176\377", DTYPE_F8_E4M3, 3) == 2);
	CHECK(dtype_count_nonfinite("\174\173\376", DTYPE_F8_E5M2, 3) == 2);
	CHECK(dtype_is_float8(DTYPE_F8_E5M2) && !dtype_is_float8(DTYPE_F16));
}

/* BF16 normals, of which a few are far off. */
static void
fill(uint16_t *x, int64_t count, uint32_t stream)
{
	for (int64_t i = 0; i < count; i++)
		x[i] = dtype_bf16_from_f32((float)rng_uniform(7, (uint64_t)i, stream, 1) - 0.5f);
	x[count / 3] = dtype_bf16_from_f32(-3.25f);
}

/* A copy and its transpose hold the same codes, those of the scaled numbers; rows may be strided.
 */
static void
test_copy(enum quantise_kind kind)
{
	static uint16_t x[ROWS * (COLUMNS + 3)];
	static uint8_t q[ROWS * COLUMNS], qt[COLUMNS * ROWS];
	float scale[SCALE_ROW] = { 1.0f / 24, 24 }, amax = 0.5f;
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS + 3),
		.q = tensor_2d(q, DTYPE_F8_E4M3, ROWS, COLUMNS),
		.qt = tensor_2d(qt, DTYPE_F8_E4M3, COLUMNS, ROWS),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.kind = kind };

	fill(x, ROWS * (COLUMNS + 3), 1);
	call.x = tensor_columns(&call.x, 2, COLUMNS);
	st->ops->quantise(st, &call);
	CHECK(amax == 3.25f);
	CHECK(scale[SCALE_FACTOR] == (kind == QUANTISE_CURRENT ? 448 / 3.25f : 24));
	CHECK(scale[SCALE_INVERSE] == 1 / scale[SCALE_FACTOR]);
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++) {
			float v =
			    dtype_f32_from_bf16(x[i * (COLUMNS + 3) + 2 + j]) * scale[SCALE_FACTOR];

			CHECK(q[i * COLUMNS + j] == code_of(DTYPE_F8_E4M3, (double)v));
			CHECK(qt[j * ROWS + i] == q[i * COLUMNS + j]);
		}
}

/* Another part of the tensor has a larger number. */
static void
raise(const void *sharer, struct stream *to, const struct tensor *largest)
{
	to->ops->fill(to, &(struct fill){ *largest, *(const double *)sharer });
}

/* The factor, and the maximum that is recorded, are those of all parts. */
static void
test_share(void)
{
	static uint16_t x[ROWS * COLUMNS];
	static uint8_t q[ROWS * COLUMNS];
	float scale[SCALE_ROW] = { 1, 1 }, amax = 0.5f;
	double all = 6.5;
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS),
		.q = tensor_2d(q, DTYPE_F8_E4M3, ROWS, COLUMNS),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.kind = QUANTISE_CURRENT,
		.share = raise,
		.sharer = &all };

	fill(x, ROWS * COLUMNS, 1);
	st->ops->quantise(st, &call);
	CHECK(amax == 6.5f && scale[SCALE_FACTOR] == 448 / 6.5f);
	CHECK(q[ROWS * COLUMNS / 3] == code_of(DTYPE_F8_E4M3, -224));
}

/* A maximum without a copy; NaN counts as infinity, and a larger maximum stays. Sums are those of
 * the numbers as they are. */
static void
test_largest(void)
{
	static uint16_t x[ROWS * COLUMNS];
	float amax = 9, sums[COLUMNS], twice[COLUMNS];
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.sums = tensor_1d(sums, DTYPE_F32, COLUMNS) };

	fill(x, ROWS * COLUMNS, 2);
	st->ops->quantise(st, &call);
	CHECK(amax == 9);
	memcpy(twice, sums, sizeof twice);
	call.accumulate = true;
	call.sums.data = twice;
	st->ops->quantise(st, &call);
	for (int j = 0; j < COLUMNS; j++) {
		double sum = 0;

		for (int i = 0; i < ROWS; i++)
			sum += (double)dtype_f32_from_bf16(x[i * COLUMNS + j]);
		CHECK_NEAR(sums[j], sum, 1e-5);
		CHECK_NEAR(twice[j], 2 * sum, 1e-5);
	}
	x[COLUMNS + 1] = 0x7fc0;
	st->ops->quantise(st, &call);
	CHECK(isinf(amax) && amax > 0);
}

/* Nothing but zeros, or an infinite number, gives no factor of its own. */
static void
test_no_factor(void)
{
	uint16_t x[2] = { 0, 0 };
	uint8_t q[2];
	float scale[SCALE_ROW] = { 0.2f, 5 };
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, 1, 2),
		.q = tensor_2d(q, DTYPE_F8_E5M2, 1, 2),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.kind = QUANTISE_CURRENT };

	st->ops->quantise(st, &call);
	CHECK(scale[SCALE_FACTOR] == 1 && scale[SCALE_INVERSE] == 1 && q[0] == 0);
	x[0] = 0x7f80, scale[SCALE_FACTOR] = 5;
	st->ops->quantise(st, &call);
	CHECK(scale[SCALE_FACTOR] == 1 && q[0] == 0x7b);
}

/* The shape of the scales of a copy [r,k]. */
static struct tensor
scales_of(float *data, enum scale_kind kind, int64_t r, int64_t k)
{
	int64_t lines = (k + 127) / 128;

	return kind == SCALE_LINES
	    ? tensor_2d(data, DTYPE_F32, lines, r)
	    : tensor_2d(data, DTYPE_F32, (r + 127) / 128, (lines + 3) / 4 * 4);
}

/* Where the scale of an element of a copy is. */
static float *
scale_at(const struct tensor *scale, enum scale_kind kind, int row, int k)
{
	float *s = scale->data;

	return kind == SCALE_LINES ? s + k / 128 * scale->shape[1] + row
				   : s + row / 128 * scale->shape[1] + k / 128;
}

/* A copy [rows,columns] of x, element by element: its number, and that the factor of its block is
 * the largest power of two that keeps the block's largest within 448. */
static void
check_blocks(const struct quantise *c, enum scale_kind kind, bool transposed)
{
	const struct tensor *q = transposed ? &c->qt : &c->q;
	const struct tensor *scale = transposed ? &c->scale_t : &c->scale;
	static float largest[512 * 512];
	const uint16_t *x = c->x.data;
	int rows = (int)q->shape[0], columns = (int)q->shape[1];

	memset(largest, 0, sizeof largest);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			float v = dtype_f32_from_bf16(
				  x[transposed ? j * rows + i : i * columns + j]),
			      inverse = *scale_at(scale, kind, i, j);
			float *most =
			    largest + (scale_at(scale, kind, i, j) - (float *)scale->data);

			CHECK(((uint8_t *)q->data)[i * columns + j] ==
			    code_of(DTYPE_F8_E4M3, (double)(v / inverse)));
			*most = fmaxf(*most, fabsf(v) / inverse);
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j += 128) {
			float *at = scale_at(scale, kind, i, j);
			float most = largest[at - (float *)scale->data];
			int exponent;

			CHECK(frexpf(*at, &exponent) == 0.5f);
			CHECK(most > 224 && most <= 448);
		}
}

/* Blocks of both kinds, whole ones and parts; and a GEMM of them is that of the numbers they stand
 * for. */
static void
test_blocks(enum scale_kind kind)
{
	enum { M = 144, N = 272 };
	static uint16_t x[M * N];
	static uint8_t q[M * N], qt[N * M], one[16 * N];
	static float scale[8 * 512], scale_t[8 * 512], wide[M * N], ones[16 * N], got[16 * M],
	    want[16 * M];
	struct quantise c = { .x = tensor_2d(x, DTYPE_BF16, M, N),
		.q = tensor_2d(q, DTYPE_F8_E4M3, M, N),
		.qt = tensor_2d(qt, DTYPE_F8_E4M3, N, M),
		.scale = scales_of(scale, kind, M, N),
		.scale_t = scales_of(scale_t, kind, N, M),
		.kind = QUANTISE_BLOCK };
	static float lines[3 * 16];
	struct gemm g = { .c = tensor_2d(got, DTYPE_F32, 16, M),
		.a = tensor_2d(one, DTYPE_F8_E4M3, 16, N),
		.b = c.q,
		.trans_b = true,
		.alpha = 1,
		.scale_a = scales_of(lines, SCALE_LINES, 16, N),
		.scale_b = c.scale };

	fill(x, M * N, 9);
	x[5] = dtype_bf16_from_f32(448 * 0x1p-20f);
	st->ops->quantise(st, &c);
	check_blocks(&c, kind, false);
	check_blocks(&c, kind, true);
	for (int i = 0; i < M * N; i++)
		wide[i] = value_of(DTYPE_F8_E4M3, q[i]) * *scale_at(&c.scale, kind, i / N, i % N);
	for (int i = 0; i < 3 * 16; i++)
		lines[i] = ldexpf(1, i % 5);
	for (int i = 0; i < 16 * N; i++) {
		one[i] = (uint8_t)(0x30 + i % 7);
		ones[i] = value_of(DTYPE_F8_E4M3, one[i]) * lines[i % N / 128 * 16 + i / N];
	}
	st->ops->gemm(st, &g);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < M; j++) {
			double sum = 0;

			for (int k = 0; k < N; k++)
				sum += (double)ones[i * N + k] * (double)wide[j * N + k];
			want[i * M + j] = (float)sum;
			CHECK_NEAR(got[i * M + j], want[i * M + j], 1e-5);
		}
}

/* The history moves on whatever came; factors follow its maximum, or its newest place. */
static void
test_scales(bool most_recent)
{
	float history[4][3] = { { 2, 8, 7 }, { 1, 1, 1 }, { 0, 0, 9 }, { 1, 0, 0 } },
	      amax[4] = { 4, INFINITY, 0, 1e-44f }, scale[4][SCALE_ROW],
	      largest[4] = { 448, 57344, 448, 448 };
	struct scales call = { .history = tensor_2d(history, DTYPE_F32, 4, 3),
		.amax = tensor_1d(amax, DTYPE_F32, 4),
		.scale = tensor_2d(scale, DTYPE_F32, 4, SCALE_ROW),
		.largest = tensor_1d(largest, DTYPE_F32, 4),
		.margin = 1,
		.most_recent = most_recent };

	for (int i = 0; i < 4; i++)
		scale[i][SCALE_FACTOR] = 3, scale[i][SCALE_INVERSE] = 1.0f / 3;
	st->ops->scales(st, &call);
	CHECK(history[0][0] == 4 && history[0][1] == 2 && history[0][2] == 8);
	CHECK(history[1][0] == 0 && history[1][1] == 1);
	CHECK(scale[0][SCALE_FACTOR] == 448 / (most_recent ? 4.0f : 8.0f) / 2);
	CHECK(scale[0][SCALE_INVERSE] == 1 / scale[0][SCALE_FACTOR]);
	CHECK(scale[1][SCALE_FACTOR] == (most_recent ? 3 : 57344 / 2));
	CHECK(scale[2][SCALE_FACTOR] == 3 && scale[2][SCALE_INVERSE] == 1.0f / 3);
	CHECK(scale[3][SCALE_FACTOR] == (most_recent ? SCALE_MAX : 224));
	for (int i = 0; i < 4; i++)
		CHECK(amax[i] == 0);
}

/* A GEMM of 8-bit operands is that of the numbers they stand for; into BF16 with a bias, and added
 * to F32. */
static void
test_gemm(enum dtype a_type, enum dtype b_type, bool weights)
{
	enum { M = 33, N = 20, K = 200 }; /* one block of k, so that both add in one order */
	static uint8_t a[M * K], b[N * K];
	static float wide_a[M * K], wide_b[N * K], want[M * N], got[M * N];
	static uint16_t narrow_want[M * N], narrow_got[M * N], bias[N];
	float scale_a = 0.25f, scale_b = 8;
	enum dtype c = weights ? DTYPE_F32 : DTYPE_BF16;
	struct gemm g = { .c = tensor_2d(weights ? (void *)got : narrow_got, c, M, N),
		.a = tensor_2d(a, a_type, M, K),
		.b = tensor_2d(b, b_type, N, K),
		.trans_b = true,
		.alpha = 1,
		.beta = weights,
		.scale_a = tensor_1d(&scale_a, DTYPE_F32, 1),
		.scale_b = tensor_1d(&scale_b, DTYPE_F32, 1),
		.exact = weights };
	struct gemm plain = g;

	for (int i = 0; i < (M + N) * K; i++)
		*(i < M * K ? a + i : b + i - M * K) =
		    (uint8_t)(rng_uniform(3, (uint64_t)i, 1, 1) * 0x70) | (i % 3 ? 0x80 : 0);
	for (int i = 0; i < M * K; i++)
		wide_a[i] = value_of(a_type, a[i]) * scale_a;
	for (int i = 0; i < N * K; i++)
		wide_b[i] = value_of(b_type, b[i]) * scale_b;
	for (int i = 0; i < M * N; i++)
		want[i] = got[i] = (float)i;
	fill(bias, N, 5);
	plain.a = tensor_2d(wide_a, DTYPE_F32, M, K);
	plain.b = tensor_2d(wide_b, DTYPE_F32, N, K);
	plain.c.data = weights ? (void *)want : narrow_want;
	plain.scale_a.data = plain.scale_b.data = NULL;
	if (!weights)
		g.bias = plain.bias = tensor_1d(bias, DTYPE_BF16, N);
	st->ops->gemm(st, &g);
	st->ops->gemm(st, &plain);
	CHECK(!memcmp(g.c.data, plain.c.data, tensor_bytes(&g.c)));
}

static const char *observed;

static void
before(struct observer *o, struct stream *s)
{
	(void)o;
	(void)s;
}

static void
after(struct observer *o, struct stream *s, const struct op_call *c)
{
	(void)o;
	(void)s;
	observed = c->name;
}

/* A profile distinguishes the three GEMMs of a linear layer, though all operands have the same
 * layout. */
static void
test_names(void)
{
	static uint8_t a[16 * 16];
	static float c[16 * 16];
	struct engine e = { .stream = st, .ops = st->ops };
	struct observer o = { before, after, 0, 0, false };
	struct gemm g = { .c = tensor_2d(c, DTYPE_BF16, 16, 16),
		.a = tensor_2d(a, DTYPE_F8_E4M3, 16, 16),
		.b = tensor_2d(a, DTYPE_F8_E4M3, 16, 16),
		.trans_b = true,
		.alpha = 1 };

	e.ops = observe_begin(e.stream, &o);
	e.ops->gemm(st, &g);
	CHECK_STR(observed, "gemm forward");
	g.exact = true;
	e.ops->gemm(st, &g);
	CHECK_STR(observed, "gemm input gradient");
	g.c.dtype = DTYPE_F32;
	e.ops->gemm(st, &g);
	CHECK_STR(observed, "gemm weight gradient");
	e.ops = observe_end(e.stream);
}

int
main(void)
{
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_BF16 };
	struct err e;

	device = backend_cpu.open(&config, &e);
	st = backend_cpu.stream(device, STREAM_COMPUTE);
	test_codes(DTYPE_F8_E4M3, 0x7e);
	test_codes(DTYPE_F8_E5M2, 0x7b);
	test_known();
	test_copy(QUANTISE_DELAYED);
	test_copy(QUANTISE_CURRENT);
	test_share();
	test_largest();
	test_no_factor();
	test_blocks(SCALE_LINES);
	test_blocks(SCALE_SQUARES);
	test_scales(false);
	test_scales(true);
	test_names();
	test_gemm(DTYPE_F8_E4M3, DTYPE_F8_E4M3, false);
	test_gemm(DTYPE_F8_E5M2, DTYPE_F8_E4M3, false);
	test_gemm(DTYPE_F8_E5M2, DTYPE_F8_E4M3, true);
	backend_cpu.close(device);
	return check_done();
}
