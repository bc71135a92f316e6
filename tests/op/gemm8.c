/* gemm8.c - products of matrices of 8 bits, within what their accumulation loses */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/gpu/rig.h"
#include "tests/op/op.h"
#include "train/watch/observe.h"

static float
number_of(enum dtype t, uint8_t code)
{
	float x;

	dtype_convert(&x, DTYPE_F32, &code, t, 1);
	return x;
}

/* The shape of the scales of blocks of [rows, k]. */
static struct tensor
blocks_of(enum scale_kind kind, int64_t rows, int64_t k)
{
	int64_t lines = (k + SCALE_BLOCK - 1) / SCALE_BLOCK;

	return kind == SCALE_LINES
	    ? tensor_2d(NULL, DTYPE_F32, lines, rows)
	    : tensor_2d(
		  NULL, DTYPE_F32, (rows + SCALE_BLOCK - 1) / SCALE_BLOCK, (lines + 3) / 4 * 4);
}

/* --- GEMMs ------------------------------------------------------------------------------------ */

/* The parts that a GEMM plays in a layer, and what else is allowed. */
struct role {
	const char *name;
	enum dtype a, b, c;
	enum scale_kind scale_a, scale_b;
	double alpha, beta;
	bool bias, exact;
	int64_t layer[3]; /* its size in fc2 of 8B, which has the longest sums; 0: not tried */
};

static const struct role roles[] = {
	{ "forward", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, false,
	    { 8192, 4096, 14336 } },
	{ "forward, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, true, false },
	{ "forward, exact", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, true },
	{ "input gradient", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, true,
	    { 8192, 14336, 4096 } },
	{ "weight gradient", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 0, false, true },
	{ "weight gradient, added", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 1, false,
	    true, { 4096, 14336, 8192 } },
	{ "weight gradient of E4M3, added", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 1,
	    false, true },
	{ "types exchanged, added", DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_F32, 0, 0, 0.5, 1, false,
	    true },
	{ "bias into F32", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 0, true, false },
	{ "into F16, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F16, 0, 0, 0.25, 0, true, true },
};

static const struct role block_roles[] = {
	{ "forward of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES, SCALE_SQUARES,
	    1, 0, false, false, { 8192, 4096, 14336 } },
	{ "forward of blocks, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, true, false },
	{ "input gradient of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, false, true, { 8192, 14336, 4096 } },
	{ "input gradient of blocks, E5M2", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, false, true },
	{ "weight gradient of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_LINES,
	    SCALE_LINES, 1, 0, false, true },
	{ "weight gradient of blocks, added", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_LINES,
	    SCALE_LINES, 1, 1, false, true, { 4096, 14336, 8192 } },
	{ "squares times lines", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_SQUARES,
	    SCALE_LINES, 1, 1, false, true },
};

enum { TRIED = 16, PLACES = 3 }; /* rows of the result that are computed here, at each place */

/* One GEMM: operands and scales on the host. */
struct gemm_test {
	const struct role *role;
	int64_t m, n, k;
	uint8_t *a, *b;
	float *scale_a, *scale_b, *bias;
	double *want; /* [PLACES * TRIED, n] */
	bool deterministic;
};

/* Codes of magnitudes from 1/4 to nearly 8, of either sign. */
static uint8_t *
random_codes(enum dtype t, int64_t count, uint64_t seed)
{
	uint8_t *out = mem_alloc((size_t)count, 1);
	int first = t == DTYPE_F8_E4M3 ? 0x28 : 0x34, range = t == DTYPE_F8_E4M3 ? 40 : 20;
	uint64_t state = seed;

	for (int64_t i = 0; i < count; i++) {
		uint32_t u = rig_random(&state);

		out[i] = (uint8_t)(first + (int)(u >> 8) % range + (u & 1 ? 0x80 : 0));
	}
	return out;
}

/* The shape of an operand's scales, of a tensor a factor and its inverse. */
static struct tensor
scale_shape(enum scale_kind kind, int64_t rows, int64_t k)
{
	return kind == SCALE_TENSOR ? tensor_1d(NULL, DTYPE_F32, SCALE_ROW)
				    : blocks_of(kind, rows, k);
}

/* Powers of two from 1/4 to 2; of a tensor, 3 and its inverse. */
static float *
random_scales(enum scale_kind kind, int64_t rows, int64_t k, uint64_t seed)
{
	struct tensor t = scale_shape(kind, rows, k);
	float *out = mem_alloc((size_t)tensor_elements(&t), sizeof *out);

	for (int64_t i = 0; i < tensor_elements(&t); i++)
		out[i] = kind == SCALE_TENSOR ? (i == SCALE_FACTOR ? 3 : 1.0f / 3)
					      : ldexpf(1, (int)(rig_random(&seed) >> 8) % 4 - 2);
	return out;
}

/* Rows [first, first + count) of an operand [rows, k] as the numbers that they stand for. */
static float *
numbers(const uint8_t *code, const float *scale, const int64_t of[4], const int what[2])
{
	int64_t rows = of[0], k = of[1], first = of[2], count = of[3], lines = (k + 127) / 128;
	float *out = mem_alloc((size_t)(count * k), sizeof *out), table[256];

	for (int i = 0; i < 256; i++)
		table[i] = number_of((enum dtype)what[0], (uint8_t)i);
	for (int64_t r = first; r < first + count; r++)
		for (int64_t i = 0; i < k; i++) {
			int64_t at = what[1] == SCALE_LINES ? i / 128 * rows + r
			    : what[1] == SCALE_SQUARES ? r / 128 * ((lines + 3) / 4 * 4) + i / 128
						       : SCALE_INVERSE;

			out[(r - first) * k + i] = table[code[r * k + i]] * scale[at];
		}
	return out;
}

/* The first row of a place. */
static int64_t
place_row(const struct gemm_test *p, int place)
{
	return (p->m - TRIED) * place / (PLACES - 1);
}

/* What was in the result before. */
static double
before(int64_t row, int64_t column)
{
	return (double)((row * 31 + column * 17) % 97) - 48;
}

/* The rows that are checked, by the CPU in F32, from the numbers that the codes stand for. */
static void
expect(struct gemm_test *p)
{
	const struct role *o = p->role;
	struct rig cpu = rig_open(&backend_cpu, DTYPE_F32);
	float *b = numbers(p->b, p->scale_b, (const int64_t[]){ p->n, p->k, 0, p->n },
		  (const int[]){ (int)o->b, (int)o->scale_b }),
	      *c = mem_alloc((size_t)(TRIED * p->n), sizeof *c);

	p->want = mem_alloc((size_t)(PLACES * TRIED * p->n), sizeof *p->want);
	for (int place = 0; place < PLACES; place++) {
		int64_t row = place_row(p, place);
		float *a = numbers(p->a, p->scale_a, (const int64_t[]){ p->m, p->k, row, TRIED },
		    (const int[]){ (int)o->a, (int)o->scale_a });
		double *want = p->want + place * TRIED * p->n;

		cpu.st->ops->gemm(cpu.st,
		    &(struct gemm){ .c = tensor_2d(c, DTYPE_F32, TRIED, p->n),
			.a = tensor_2d(a, DTYPE_F32, TRIED, p->k),
			.b = tensor_2d(b, DTYPE_F32, p->n, p->k),
			.trans_b = true,
			.alpha = 1 });
		for (int64_t i = 0; i < TRIED * p->n; i++)
			want[i] = o->alpha * (double)c[i] +
			    o->beta * before(row + i / p->n, i % p->n) +
			    (o->bias ? (double)p->bias[i % p->n] : 0);
		free(a);
	}
	free(b);
	free(c);
	backend_cpu.close(cpu.d);
}

/* The GEMM's arguments on a device, with what was in the result before. */
static struct gemm
load_gemm(const struct rig *r, const struct gemm_test *p, void *c)
{
	const struct role *o = p->role;
	char *bias = mem_alloc((size_t)p->n, sizeof(double));
	struct gemm g = { .trans_b = true, .alpha = o->alpha, .beta = o->beta, .exact = o->exact };

	for (int64_t i = 0; i < p->m * p->n; i++) {
		double x = before(i / p->n, i % p->n);

		dtype_convert((char *)c + (size_t)i * dtype_size(o->c), o->c, &x, DTYPE_F64, 1);
	}
	dtype_convert(bias, o->c, p->bias, DTYPE_F32, p->n);
	g.a = rig_tensor(r, true, tensor_2d(NULL, o->a, p->m, p->k), p->a);
	g.b = rig_tensor(r, true, tensor_2d(NULL, o->b, p->n, p->k), p->b);
	g.c = rig_tensor(r, true, tensor_2d(NULL, o->c, p->m, p->n), c);
	g.scale_a = rig_tensor(r, true, scale_shape(o->scale_a, p->m, p->k), p->scale_a);
	g.scale_b = rig_tensor(r, true, scale_shape(o->scale_b, p->n, p->k), p->scale_b);
	if (o->scale_a == SCALE_TENSOR) {
		g.scale_a = tensor_rows(&g.scale_a, SCALE_INVERSE, 1);
		g.scale_b = tensor_rows(&g.scale_b, SCALE_INVERSE, 1);
	}
	g.bias = rig_tensor(r, o->bias, tensor_1d(NULL, o->c, p->n), bias);
	rig_sync(r);
	free(bias);
	return g;
}

static void
give_away(const struct rig *r, const struct gemm *g)
{
	const struct tensor all[] = { g->a, g->b, g->c, g->bias },
			    *scale[] = { &g->scale_a, &g->scale_b };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		rig_take(r, all[i], NULL);
	for (int i = 0; i < 2; i++)
		r->b->release(r->d, scale[i]->data);
}

/* The checked rows by the GPU; false when it fails, and then says why. A device of its own, so that
 * a failure does not take the next GEMM with it. */
static bool
compute(const struct backend *b, const struct gemm_test *p, double *got)
{
	const struct role *o = p->role;
	struct device_config config = {
		.num_threads = 1, .dtype = DTYPE_BF16, .deterministic = p->deterministic
	};
	struct err e;
	struct rig r = { .b = b, .d = b->open(&config, &e) };
	size_t size = dtype_size(o->c), bytes = (size_t)(p->m * p->n) * size;
	char *c = mem_alloc(bytes, 1);
	struct gemm g;
	bool good;

	r.st = b->stream(r.d, STREAM_COMPUTE);
	g = load_gemm(&r, p, c);
	r.st->ops->gemm(r.st, &g);
	b->copy_out(r.st, c, g.c.data, bytes);
	good = b->sync(r.st, &e) == 0;
	if (!good)
		fprintf(stderr, "%s: %s\n", o->name, e.msg);
	for (int place = 0; good && place < PLACES; place++)
		dtype_convert(got + place * TRIED * p->n, DTYPE_F64,
		    c + (size_t)(place_row(p, place) * p->n) * size, o->c, TRIED * p->n);
	give_away(&r, &g);
	b->close(r.d);
	free(c);
	return good;
}

/*
 * What a GEMM may lose. The tensor cores of Hopper keep about 14 bits of a sum while they add
 * 32 products at a time: every such step may lose 2^-14 of the sum. Promotion after 128 products,
 * exact and of blocks, leaves four steps; fast accumulation takes all of k. Doubled for chance; and
 * once the rounding of the result.
 */
static double
limit_of(const struct gemm_test *p)
{
	const struct role *o = p->role;
	bool promoted = o->exact || o->scale_a != SCALE_TENSOR;
	double steps = promoted || p->k < 128 ? 4 : (double)p->k / 32;
	double rounding = o->c == DTYPE_BF16 ? 0x1p-9 : o->c == DTYPE_F16 ? 0x1p-12 : 0x1p-22;

	return 2 * steps * 0x1p-14 * (2 * steps * 0x1p-14) + rounding * rounding;
}

/* The line of a GEMM. */
static void
report(const struct gemm_test *p, const double *got)
{
	double error = 0, size = 0, worst = 0, limit = limit_of(p);

	for (int64_t i = 0; i < PLACES * TRIED * p->n; i++) {
		double d = got[i] - p->want[i];

		error += d * d;
		size += p->want[i] * p->want[i];
		worst = fabs(d) > worst || isnan(d) ? fabs(d) : worst;
	}
	size /= (double)(PLACES * TRIED * p->n);
	error /= (double)(PLACES * TRIED * p->n) * size;
	check_count++;
	if (!(error <= limit))
		check_failures++;
	printf("%-33s %5lld x %5lld x %5lld %s: NMSE %.2g of %.2g, largest error %.2g of %.3g%s\n",
	    p->role->name, (long long)p->m, (long long)p->n, (long long)p->k,
	    p->deterministic ? "first answer" : "measured", error, limit, worst, sqrt(size),
	    error <= limit ? "" : ": TOO MUCH");
	fflush(stdout);
}

static void
test_gemm(const struct backend *b, const struct role *o, const int64_t size[3], bool deterministic)
{
	struct gemm_test p = { o, size[0], size[1], size[2], .deterministic = deterministic };
	double *got = mem_alloc((size_t)(PLACES * TRIED * p.n), sizeof *got);

	p.a = random_codes(o->a, p.m * p.k, 1);
	p.b = random_codes(o->b, p.n * p.k, 2);
	p.scale_a = random_scales(o->scale_a, p.m, p.k, 3);
	p.scale_b = random_scales(o->scale_b, p.n, p.k, 4);
	p.bias = mem_alloc((size_t)p.n, sizeof *p.bias);
	for (int64_t i = 0; i < p.n; i++)
		p.bias[i] = (float)(i % 13) - 6;
	expect(&p);
	check_count++;
	if (compute(b, &p, got))
		report(&p, got);
	else
		check_failures++;
	free(p.a);
	free(p.b);
	free(p.scale_a);
	free(p.scale_b);
	free(p.bias);
	free(p.want);
	free(got);
}

/* Every role at small sizes, by the library's first answer or by a measured one, then those of a
 * layer. */
static void
test_gemms(const struct backend *b, const struct role *role, int count)
{
	static const int64_t small[][3] = { { 16, 16, 16 }, { 48, 80, 112 }, { 1040, 528, 1296 } };

	for (int i = 0; i < 3 * count; i++)
		test_gemm(b, &role[i / 3], small[i % 3], i % 2);
	for (int i = 0; i < count; i++)
		if (role[i].layer[0] > 0)
			test_gemm(b, &role[i], role[i].layer, false);
}

static void
test_roles(const struct backend *b)
{
	test_gemms(b, roles, (int)(sizeof roles / sizeof *roles));
	test_gemms(b, block_roles, (int)(sizeof block_roles / sizeof *block_roles));
}

/* --- by hand, on the CPU ---------------------------------------------------------------------- */

static struct stream *st; /* of the CPU, for what is computed by hand */

/* Numbers in [-0.5, 0.5) and one larger one. */
static void
fill_bf16(uint16_t *x, int64_t count, uint32_t stream)
{
	for (int64_t i = 0; i < count; i++)
		x[i] = dtype_bf16_from_f32((float)rng_uniform(7, (uint64_t)i, stream, 1) - 0.5f);
	x[count / 3] = dtype_bf16_from_f32(-3.25f);
}

/* A GEMM of 8-bit operands is that of the numbers they stand for; into BF16 with a bias, and added
 * to F32. */
static void
gemm_by_hand(enum dtype a_type, enum dtype b_type, bool weights)
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
		wide_a[i] = number_of(a_type, a[i]) * scale_a;
	for (int i = 0; i < N * K; i++)
		wide_b[i] = number_of(b_type, b[i]) * scale_b;
	for (int i = 0; i < M * N; i++)
		want[i] = got[i] = (float)i;
	fill_bf16(bias, N, 5);
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
before_call(struct observer *o, struct stream *s)
{
	(void)o;
	(void)s;
}

static void
after_call(struct observer *o, struct stream *s, const struct op_call *c)
{
	(void)o;
	(void)s;
	observed = c->name;
}

/* A profile distinguishes the three GEMMs of a linear layer, though all operands have the same
 * layout. */
static void
names_by_hand(void)
{
	static uint8_t a[16 * 16];
	static float c[16 * 16];
	const struct ops *ops;
	struct observer o = { before_call, after_call, 0, 0, false };
	struct gemm g = { .c = tensor_2d(c, DTYPE_BF16, 16, 16),
		.a = tensor_2d(a, DTYPE_F8_E4M3, 16, 16),
		.b = tensor_2d(a, DTYPE_F8_E4M3, 16, 16),
		.trans_b = true,
		.alpha = 1 };

	ops = observe_begin(st, &o);
	ops->gemm(st, &g);
	CHECK_STR(observed, "gemm forward");
	g.exact = true;
	ops->gemm(st, &g);
	CHECK_STR(observed, "gemm input gradient");
	g.c.dtype = DTYPE_F32;
	ops->gemm(st, &g);
	CHECK_STR(observed, "gemm weight gradient");
	st->ops = observe_end(st);
}

static void
by_hand(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_BF16);

	st = r.st;
	names_by_hand();
	gemm_by_hand(DTYPE_F8_E4M3, DTYPE_F8_E4M3, false);
	gemm_by_hand(DTYPE_F8_E5M2, DTYPE_F8_E4M3, false);
	gemm_by_hand(DTYPE_F8_E5M2, DTYPE_F8_E4M3, true);
	b->close(r.d);
}

const struct op_case cases[] = {
	CHECKED(CASE_CUDA, test_roles),
	CHECKED(CASE_CPU, by_hand),
	{ 0 },
};
