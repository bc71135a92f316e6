/* grouped.c - GEMMs of experts */
#include "lib/base/int64.h"
#include "tests/gpu/rig.h"
#include "tests/op/op.h"

/* A window of `rows` rows; experts have 2 `mean` rows at most. Rows of a, b and c lie `extra`
 * elements further apart than they are long. */
struct grouped_case {
	int64_t rows, first, experts, sources, mean, m, n, extra;
};

static const struct grouped_case shapes[] = {
	{ 7, 0, 2, 1, 3, 5, 3, 0 },
	{ 100, 0, 3, 4, 30, 33, 45, 3 },
	{ 64, 50, 3, 4, 60, 64, 72, 0 },
	{ 64, 900, 3, 1, 60, 64, 72, 0 },
	{ 300, 128, 8, 2, 50, 136, 200, 8 },
	{ 1000, 0, 5, 3, 190, 384, 512, 0 },
	{ 1000, 0, 2, 1, 700, 320, 264, 0 },
	{ 777, 333, 37, 16, 40, 256, 320, 64 },
	{ 520, 0, 130, 2, 4, 128, 256, 0 },
	{ 4096, 0, 4, 2, 900, 1032, 648, 0 },
	{ 3000, 100, 3, 1, 1500, 256, 2056, 0 },
};

static const struct {
	const char *name;
	enum dtype dtype;
	double limit; /* of the mean square error over the mean square */
} types[] = {
	{ "f32", DTYPE_F32, 1e-9 },
	{ "bf16", DTYPE_BF16, 1e-5 },
	{ "f16", DTYPE_F16, 1e-6 },
};

/* One GEMM: operands in `in`, a result in `out`, of numbers that `rounded` and `out_rounded`
 * can hold. */
struct gemm_test {
	const struct grouped_case *of;
	enum grouped_kind kind;
	double beta;
	enum dtype in, out, rounded, out_rounded;
};

/* A matrix of random numbers in [-1, 1) as `rounded` has them, `from` rows of it NaN and on. */
static struct tensor
matrix(const struct rig *r, const int64_t size[4], const enum dtype type[2], uint64_t seed)
{
	int64_t rows = size[0], step = size[1] + size[2], count = rows * step, known = size[3];
	double *x = mem_alloc((size_t)count + 1, sizeof *x);
	void *host = mem_alloc((size_t)count + 1, sizeof *x);
	struct tensor t;

	for (int64_t i = 0; i < count; i++)
		x[i] = i / step < known ? rig_random(&seed) * 0x1p-30 - 1 : NAN;
	dtype_convert(host, type[1], x, DTYPE_F64, count);
	dtype_convert(x, DTYPE_F64, host, type[1], count);
	dtype_convert(host, type[0], x, DTYPE_F64, count);
	t = rig_vector(r, type[0], count, host);
	rig_sync(r);
	free(host);
	free(x);
	t = tensor_2d(t.data, type[0], rows, step);
	return tensor_columns(&t, 0, size[1]);
}

/* Numbers of rows, every third expert's none, and how many rows of the window they make. */
static struct tensor
counts(const struct rig *r, const struct grouped_case *k, int64_t *known)
{
	int64_t step = k->experts + 3, total = 0;
	int32_t *host = mem_alloc((size_t)(k->sources * step), sizeof *host);
	uint64_t seed = 5;
	struct tensor t;

	for (int64_t i = 0; i < k->sources * step; i++) {
		int64_t expert = i % step;
		int32_t most = (int32_t)(2 * k->mean / k->sources + 1);

		host[i] = expert % 3 == 1 ? 0 : (int32_t)rig_random(&seed) % most;
		total += expert < k->experts ? host[i] : 0;
	}
	*known = int64_max(0, int64_min(k->rows, total - k->first));
	t = rig_vector(r, DTYPE_I32, k->sources * step, host);
	rig_sync(r);
	free(host);
	t = tensor_2d(t.data, DTYPE_I32, k->sources, step);
	return tensor_columns(&t, 0, k->experts);
}

/* Runs it; the result with what lies between its rows, which is as large for every backend. */
static double *
run(const struct rig *r, const struct gemm_test *p, int64_t *count)
{
	const struct grouped_case *k = p->of;
	bool weight = p->kind == GROUPED_WEIGHT, forward = p->kind == GROUPED_FORWARD;
	int64_t stack = k->experts * k->m, known;
	struct grouped g = { .kind = p->kind, .first = k->first, .beta = p->beta };
	const enum dtype in[] = { p->in, p->rounded }, out[] = { p->out, p->out_rounded };
	void *host;
	double *c;

	g.counts = counts(r, k, &known);
	g.a = matrix(r, (int64_t[]){ k->rows, forward ? k->n : k->m, k->extra, known }, in, 1);
	g.b = weight ? matrix(r, (int64_t[]){ k->rows, k->n, k->extra, known }, in, 2)
		     : matrix(r, (int64_t[]){ stack, k->n, k->extra, stack }, in, 2);
	g.c = weight
	    ? matrix(r, (int64_t[]){ stack, k->n, k->extra, stack }, out, 3)
	    : matrix(r, (int64_t[]){ k->rows, forward ? k->m : k->n, k->extra, k->rows }, out, 3);
	r->st->ops->grouped(r->st, &g);
	*count = g.c.shape[0] * g.c.stride[0];
	host = mem_alloc((size_t)*count, sizeof(double));
	c = mem_alloc((size_t)*count, sizeof *c);
	rig_read(r, &(struct tensor){ g.c.data, g.c.dtype, 1, { *count }, { 1 } }, host);
	dtype_convert(c, DTYPE_F64, host, p->out, *count);
	free(host);
	r->b->release(r->d, g.a.data);
	r->b->release(r->d, g.b.data);
	r->b->release(r->d, g.c.data);
	r->b->release(r->d, g.counts.data);
	return c;
}

/* Against double on the same numbers, and against itself, bit by bit. */
static void
test_gemm(const struct rig *gpu, const struct rig *cpu, struct gemm_test p, double limit)
{
	int64_t count, cpu_count;
	double *c = run(gpu, &p, &count), *again = run(gpu, &p, &count), *expected;
	double error = 0, square = 0;

	p.in = p.out = DTYPE_F64;
	expected = run(cpu, &p, &cpu_count);
	CHECK(count == cpu_count && !memcmp(c, again, (size_t)count * sizeof *c));
	for (int64_t i = 0; i < count; i++) {
		error += (c[i] - expected[i]) * (c[i] - expected[i]);
		square += expected[i] * expected[i];
	}
	check_count++;
	if (!(error <= limit * square)) {
		check_failures++;
		fprintf(stderr, "case %d, kind %d, %s to %s, beta %g: error %g\n",
		    (int)(p.of - shapes), p.kind, dtype_name(p.rounded), dtype_name(p.out_rounded),
		    p.beta, error / square);
	}
	free(c);
	free(again);
	free(expected);
}

/* All kinds of one case and type; gradients of weights in F32 and in the operands' type, written
 * and added to. */
static void
test_case(const struct rig *gpu, const struct rig *cpu, const struct grouped_case *k, size_t type)
{
	enum dtype t = types[type].dtype;
	const struct gemm_test tests[] = {
		{ k, GROUPED_FORWARD, 0, t, t, t, t },
		{ k, GROUPED_INPUT, 0, t, t, t, t },
		{ k, GROUPED_WEIGHT, 0, t, DTYPE_F32, t, DTYPE_F32 },
		{ k, GROUPED_WEIGHT, 1, t, DTYPE_F32, t, DTYPE_F32 },
		{ k, GROUPED_WEIGHT, 0, t, t, t, t },
		{ k, GROUPED_WEIGHT, 1, t, t, t, t },
	};

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		test_gemm(gpu, cpu, tests[i], tests[i].out == DTYPE_F32 ? 1e-9 : types[type].limit);
}

/* --- 8 bits ----------------------------------------------------------------------------------- */

/* m in multiples of SCALE_BLOCK, n of 16. */
static const struct grouped_case narrow_cases[] = {
	{ 7, 0, 2, 1, 3, 128, 16, 0 },
	{ 100, 0, 3, 4, 30, 128, 144, 0 },
	{ 64, 50, 3, 4, 60, 256, 272, 0 },
	{ 64, 900, 3, 1, 60, 128, 128, 0 },
	{ 1000, 0, 2, 1, 700, 384, 1040, 0 },
	{ 777, 333, 37, 16, 40, 256, 320, 0 },
	{ 520, 0, 130, 2, 4, 128, 256, 0 },
	{ 3000, 100, 3, 1, 1500, 1152, 528, 0 },
	{ 4096, 0, 4, 2, 900, 1024, 656, 0 },
};

/* A GEMM of copies, which `from` makes: of rows that are a window, and of all matrices. */
struct narrow {
	const struct grouped_case *of;
	enum grouped_kind kind;
	enum quantise_kind how;
	enum dtype rows; /* their 8-bit type */
};

/* The copies and scales of a GEMM, on the host. */
struct narrow_host {
	int64_t known, width, size_a, size_b;
	uint8_t *a, *b;
	float *lines, *squares, amax;
};

static struct quantise
copies_of_rows(const struct rig *r, const struct narrow *p, int64_t *known)
{
	const struct grouped_case *k = p->of;
	int64_t width = p->kind == GROUPED_FORWARD ? k->n : k->m;
	int64_t lines = int64_div_up(width, SCALE_BLOCK);
	const enum dtype in[] = { DTYPE_BF16, DTYPE_BF16 };
	struct quantise q = { .kind = p->how, .first = k->first };
	float start[SCALE_ROW] = { 1 / 32.0f, 32 };
	int64_t numbers = p->how == QUANTISE_BLOCK ? lines * k->rows : SCALE_ROW;

	q.counts = counts(r, k, known);
	q.x = matrix(r, (int64_t[]){ k->rows, width, 0, *known }, in, 1);
	q.q = rig_vector(r, p->rows, k->rows * width, NULL);
	q.q = tensor_2d(q.q.data, p->rows, k->rows, width);
	q.scale = rig_vector(r, DTYPE_F32, numbers, NULL);
	if (p->how == QUANTISE_BLOCK)
		q.scale = tensor_2d(q.scale.data, DTYPE_F32, lines, k->rows);
	else
		r->b->copy_in(r->st, q.scale.data, start, sizeof start);
	if (p->how != QUANTISE_BLOCK)
		q.amax = rig_vector(r, DTYPE_F32, 1, NULL);
	rig_sync(r);
	return q;
}

/* The stack as its kind of GEMM reads it. */
static struct quantise
copies_of_stack(const struct rig *r, const struct narrow *p)
{
	const struct grouped_case *k = p->of;
	int64_t m = k->experts * k->m, n = k->n;
	const enum dtype in[] = { DTYPE_BF16, DTYPE_BF16 };
	struct quantise q = { .x = matrix(r, (int64_t[]){ m, n, 0, m }, in, 2) };
	bool forward = p->kind == GROUPED_FORWARD, blocks = p->how == QUANTISE_BLOCK;
	int64_t high = forward ? m : n, wide = forward ? n : m,
		down = int64_div_up(high, SCALE_BLOCK),
		across = int64_div_up(int64_div_up(wide, SCALE_BLOCK), 4) * 4;
	struct tensor t = rig_vector(r, DTYPE_F8_E4M3, m * n, NULL),
		      s = rig_vector(r, DTYPE_F32, blocks ? down * across : SCALE_ROW, NULL);

	t = tensor_2d(t.data, DTYPE_F8_E4M3, high, wide);
	if (blocks)
		s = tensor_2d(s.data, DTYPE_F32, down, across);
	q.kind = blocks ? QUANTISE_BLOCK : QUANTISE_CURRENT;
	*(forward ? &q.q : &q.qt) = t;
	*(forward || !blocks ? &q.scale : &q.scale_t) = s;
	return q;
}

static void *
host_of(const struct rig *r, const struct tensor *t)
{
	void *host = mem_alloc((size_t)tensor_elements(t) + 1, dtype_size(t->dtype));

	rig_read(r, t, host);
	return host;
}

/* The copies as the device makes them, read back; and its own GEMM of them in c, of the GPU in
 * BF16 and of the CPU in F32. */
static double *
narrow_run(const struct rig *r, const struct narrow *p, struct narrow_host *h, int64_t *count)
{
	const struct grouped_case *k = p->of;
	bool forward = p->kind == GROUPED_FORWARD, blocks = p->how == QUANTISE_BLOCK,
	     gpu = r->b != &backend_cpu;
	int64_t width = forward ? k->m : k->n;
	const enum dtype out[] = { gpu ? DTYPE_BF16 : DTYPE_F32, DTYPE_BF16 };
	struct quantise rows = copies_of_rows(r, p, &h->known), stack = copies_of_stack(r, p);
	struct tensor b = forward ? stack.q : stack.qt,
		      sb = stack.scale.data ? stack.scale : stack.scale_t;
	struct grouped g = { .kind = p->kind,
		.a = rows.q,
		.b = b,
		.counts = rows.counts,
		.first = k->first,
		.scale_a = blocks ? rows.scale : tensor_rows(&rows.scale, SCALE_INVERSE, 1),
		.scale_b = blocks ? sb : tensor_rows(&sb, SCALE_INVERSE, 1) };
	double *c;
	void *host;

	r->st->ops->quantise(r->st, &rows);
	r->st->ops->quantise(r->st, &stack);
	g.c = matrix(r, (int64_t[]){ k->rows, width, 0, k->rows }, out, 3);
	r->st->ops->grouped(r->st, &g);
	*count = tensor_elements(&g.c);
	host = host_of(r, &g.c);
	c = mem_alloc((size_t)*count + 1, sizeof *c);
	dtype_convert(c, DTYPE_F64, host, g.c.dtype, *count);
	free(host);
	h->width = g.a.shape[1];
	h->size_a = h->known * h->width;
	h->size_b = tensor_elements(&b);
	h->a = host_of(r, &g.a);
	h->b = host_of(r, &b);
	h->lines = host_of(r, &rows.scale);
	h->squares = host_of(r, &sb);
	h->amax = 0;
	if (rows.amax.data)
		rig_read(r, &rows.amax, &h->amax);
	const struct tensor *all[] = { &rows.x, &rows.q, &rows.scale, &rows.amax, &rows.counts,
		&stack.x, &b, &sb, &g.c };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->data)
			r->b->release(r->d, all[i]->data);
	return c;
}

static void
narrow_release(struct narrow_host *h)
{
	free(h->a);
	free(h->b);
	free(h->lines);
	free(h->squares);
}

/* Copies of both are the same bits, and so are the scales of known rows. */
static void
check_in_8(const struct narrow *p, const struct narrow_host *g, const struct narrow_host *c)
{
	int64_t lines = int64_div_up(g->width, SCALE_BLOCK);

	CHECK(g->size_a == c->size_a && !memcmp(g->a, c->a, (size_t)g->size_a));
	CHECK(g->size_b == c->size_b && !memcmp(g->b, c->b, (size_t)g->size_b));
	for (int64_t i = g->size_a; i < p->of->rows * g->width; i++)
		CHECK(g->a[i] == 0);
	CHECK(g->amax == c->amax && g->squares[0] == c->squares[0]);
	for (int64_t i = 0; p->how == QUANTISE_BLOCK && i < lines; i++)
		CHECK(!memcmp(g->lines + i * p->of->rows, c->lines + i * p->of->rows,
		    (size_t)g->known * sizeof *g->lines));
	CHECK(p->how == QUANTISE_BLOCK || g->lines[0] == c->lines[0]);
}

/* Fast sums have about 14 bits. */
static void
test_narrow(const struct rig *gpu, const struct rig *cpu, struct narrow p)
{
	struct narrow_host g, again_host, h;
	int64_t count, cpu_count;
	double *c = narrow_run(gpu, &p, &g, &count),
	       *again = narrow_run(gpu, &p, &again_host, &count),
	       *expected = narrow_run(cpu, &p, &h, &cpu_count), error = 0, square = 0;

	CHECK(count == cpu_count && !memcmp(c, again, (size_t)count * sizeof *c));
	check_in_8(&p, &g, &h);
	for (int64_t i = 0; i < count; i++) {
		error += (c[i] - expected[i]) * (c[i] - expected[i]);
		square += expected[i] * expected[i];
	}
	check_count++;
	if (!(error <= 1e-5 * square)) {
		check_failures++;
		fprintf(stderr, "case %d, kind %d, recipe %d, %s: error %g\n",
		    (int)(p.of - narrow_cases), p.kind, p.how, dtype_name(p.rows), error / square);
	}
	narrow_release(&g);
	narrow_release(&again_host);
	narrow_release(&h);
	free(c);
	free(again);
	free(expected);
}

static void
test_all_narrow(const struct backend *b)
{
	struct device_config config = {
		.num_threads = 2, .dtype = DTYPE_BF16, .float8_experts = 1
	};
	struct err e;
	struct rig gpu = { .b = b, .d = b->open(&config, &e) }, cpu;

	if (!gpu.d) {
		printf("fp8: not on this GPU: %s\n", e.msg);
		return;
	}
	gpu.st = b->stream(gpu.d, STREAM_COMPUTE);
	cpu = rig_open(&backend_cpu, DTYPE_BF16);
	for (size_t i = 0; i < sizeof narrow_cases / sizeof *narrow_cases; i++)
		for (int how = QUANTISE_DELAYED; how <= QUANTISE_BLOCK; how++) {
			enum quantise_kind recipe = (enum quantise_kind)how;
			struct narrow p = { &narrow_cases[i], GROUPED_FORWARD, recipe,
				DTYPE_F8_E4M3 };

			test_narrow(&gpu, &cpu, p);
			p.kind = GROUPED_INPUT;
			test_narrow(&gpu, &cpu, p);
			p.rows = DTYPE_F8_E5M2;
			test_narrow(&gpu, &cpu, p);
		}
	gpu.b->close(gpu.d);
	cpu.b->close(cpu.d);
}

static void
test_types(const struct backend *b)
{
	struct rig cpu = rig_open(&backend_cpu, DTYPE_F64);

	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		struct rig gpu = rig_open(b, types[t].dtype);

		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			test_case(&gpu, &cpu, &shapes[i], t);
		gpu.b->close(gpu.d);
	}
	cpu.b->close(cpu.d);
}

/* --- by hand, on the CPU ---------------------------------------------------------------------- */

static struct stream *
open_stream(void)
{
	static struct device *d;
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_F64 };
	struct err e;

	if (!d)
		d = backend_cpu.open(&config, &e);
	return backend_cpu.stream(d, STREAM_COMPUTE);
}

/* Experts of two rows from two ranks, none, and one; a row that is nobody's is neither read nor
 * written. */
static void
grouped_by_hand(void)
{
	struct stream *st = open_stream();
	int32_t counts[2][3] = { { 1, 0, 1 }, { 1, 0, 0 } };
	double a[4][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { NAN, NAN } };
	double b[3][2] = { { 1, 1 }, { NAN, NAN }, { 2, 3 } }, c[4][1] = { [3] = { NAN } },
	       dw[3][2];
	struct grouped g = { .kind = GROUPED_FORWARD,
		.c = tensor_2d(c, DTYPE_F64, 4, 1),
		.a = tensor_2d(a, DTYPE_F64, 4, 2),
		.b = tensor_2d(b, DTYPE_F64, 3, 2),
		.counts = tensor_2d(counts, DTYPE_I32, 2, 3) };

	st->ops->grouped(st, &g);
	CHECK(c[0][0] == 3 && c[1][0] == 7 && c[2][0] == 28 && isnan(c[3][0]));
	g = (struct grouped){ GROUPED_WEIGHT, tensor_2d(dw, DTYPE_F64, 3, 2),
		tensor_2d(c, DTYPE_F64, 4, 1), g.a, g.counts, 0, 0 };
	for (int i = 0; i < 6; i++)
		dw[i / 2][i % 2] = NAN;
	st->ops->grouped(st, &g);
	CHECK(dw[0][0] == 3 + 21 && dw[0][1] == 6 + 28 && dw[1][0] == 0 && dw[2][1] == 28 * 6);
	g.beta = 1;
	st->ops->grouped(st, &g);
	CHECK(dw[0][0] == 48 && dw[1][1] == 0);
}

enum { ORDER = 7, HEIGHT = 3, WINDOWS = 4, WIDTH = 2 };
static const int32_t arriving[2][4] = { { 1, 0, 0, 2 }, { 1, 0, 3, 0 } };

/* The rows of a window of an array of more rows than the order, of which the rest is NaN. */
static struct tensor
window_of(double x[][WIDTH], int window)
{
	return tensor_2d(x[window * HEIGHT], DTYPE_F64, HEIGHT, WIDTH);
}

/* Random rows of the order, and NaN after them. */
static void
fill_order(double x[][WIDTH], int seed)
{
	for (int i = 0; i < WINDOWS * HEIGHT * WIDTH; i++)
		x[i / WIDTH][i % WIDTH] = i < ORDER * WIDTH ? sin(3.0 * i + seed) : NAN;
}

/* The GEMMs of an order in windows of three rows, which cut experts in two; the fourth window has
 * no rows, the second expert none at all. */
static void
windows_by_hand(enum grouped_kind kind)
{
	struct stream *st = open_stream();
	double a[WINDOWS * HEIGHT][WIDTH], b[WINDOWS * HEIGHT][WIDTH], w[4 * WIDTH][WIDTH],
	    out[2][WINDOWS * HEIGHT][WIDTH];
	bool weight = kind == GROUPED_WEIGHT;
	struct grouped g = { .kind = kind, .counts = tensor_2d((void *)arriving, DTYPE_I32, 2, 4) };

	fill_order(a, 1);
	fill_order(b, 2);
	for (int i = 0; i < 4 * WIDTH * WIDTH; i++)
		w[i / WIDTH][i % WIDTH] = cos(i);
	for (int cut = 0; cut < 2; cut++) {
		fill_order(out[cut], 3);
		for (int i = 0; i < (cut ? WINDOWS : 1); i++) {
			g.first = i * HEIGHT;
			g.beta = weight && i;
			g.a = window_of(a, i);
			g.b = weight ? window_of(b, i)
				     : tensor_2d(w, DTYPE_F64, (int64_t)4 * WIDTH, WIDTH);
			g.c = weight ? tensor_2d(out[cut], DTYPE_F64, (int64_t)4 * WIDTH, WIDTH)
				     : window_of(out[cut], i);
			if (!cut) {
				g.a.shape[0] = WINDOWS * HEIGHT;
				(weight ? &g.b : &g.c)->shape[0] = WINDOWS * HEIGHT;
			}
			st->ops->grouped(st, &g);
		}
	}
	for (int i = 0; i < (weight ? 4 * WIDTH : ORDER) * WIDTH; i++)
		CHECK_NEAR(out[0][i / WIDTH][i % WIDTH], out[1][i / WIDTH][i % WIDTH], 1e-14);
	for (int i = ORDER * WIDTH; i < WINDOWS * HEIGHT * WIDTH && !weight; i++)
		CHECK(isnan(out[0][i / WIDTH][i % WIDTH]) && isnan(out[1][i / WIDTH][i % WIDTH]));
}

/* What an 8-bit number at a row and place k along the sum stands for. */
static double
meant(const struct tensor *t, const struct tensor *scale, int64_t row, int64_t k)
{
	enum scale_kind kind = scale_kind(scale, t);
	int64_t at = kind == SCALE_TENSOR ? 0
	    : kind == SCALE_LINES         ? k / SCALE_BLOCK * scale->stride[0] + row
					  : row / SCALE_BLOCK * scale->stride[0] + k / SCALE_BLOCK;
	double x;

	dtype_convert(
	    &x, DTYPE_F64, (const uint8_t *)t->data + row * t->stride[0] + k, t->dtype, 1);
	return x * (double)((const float *)scale->data)[at];
}

enum { TALL = SCALE_BLOCK, ACROSS = 144, PLACES = 8, LOCAL = 4 };

/* Copies of a window of rows and of a stack of matrices, by their own largest or by blocks. */
struct copied {
	double x[PLACES * ACROSS], w[LOCAL * TALL * ACROSS];
	uint8_t rows[PLACES * ACROSS], stack[LOCAL * TALL * ACROSS],
	    transposed[ACROSS * LOCAL * TALL];
	float scale[PLACES * 2], scale_w[LOCAL * 4], scale_transposed[2 * 4], amax;
	struct quantise of_rows, of_stack;
};

/* Rows after those of experts are NaN, and bytes of their copies 0x55. */
static void
make_copies(struct copied *c, bool blocks, int64_t first, int64_t width)
{
	struct stream *st = open_stream();
	int64_t known = int64_max(0, int64_min(PLACES, ORDER - first));
	enum quantise_kind kind = blocks ? QUANTISE_BLOCK : QUANTISE_CURRENT;

	for (int i = 0; i < PLACES * ACROSS; i++)
		c->x[i] = i / width < known ? sin(7.0 * i + (double)first) : NAN;
	for (int i = 0; i < LOCAL * TALL * ACROSS; i++)
		c->w[i] = cos(i) * (1 + i / ACROSS / TALL);
	memset(c->rows, 0x55, sizeof c->rows);
	c->amax = 0;
	c->of_rows = (struct quantise){ .x = tensor_2d(c->x, DTYPE_F64, PLACES, width),
		.q = tensor_2d(c->rows, DTYPE_F8_E5M2, PLACES, width),
		.scale = tensor_1d(c->scale, DTYPE_F32, SCALE_ROW),
		.kind = kind,
		.counts = tensor_2d((void *)arriving, DTYPE_I32, 2, 4),
		.first = first };
	c->of_stack = (struct quantise){ .x = tensor_2d(c->w, DTYPE_F64, LOCAL * TALL, ACROSS),
		.q = tensor_2d(c->stack, DTYPE_F8_E4M3, LOCAL * TALL, ACROSS),
		.qt = tensor_2d(c->transposed, DTYPE_F8_E4M3, ACROSS, LOCAL * TALL),
		.scale = tensor_1d(c->scale_w, DTYPE_F32, SCALE_ROW),
		.scale_t = tensor_2d(c->scale_transposed, DTYPE_F32, 2, 4),
		.kind = kind };
	if (blocks) {
		c->of_rows.scale = tensor_2d(c->scale, DTYPE_F32, (width + 127) / 128, PLACES);
		c->of_stack.scale = tensor_2d(c->scale_w, DTYPE_F32, LOCAL, 4);
	} else {
		c->of_rows.amax = tensor_1d(&c->amax, DTYPE_F32, 1);
	}
	st->ops->quantise(st, &c->of_rows);
	st->ops->quantise(st, &c->of_stack);
	for (int64_t i = known * width; i < PLACES * width; i++)
		CHECK(c->rows[i] == 0x55);
	CHECK(c->amax <= 1);
}

/* GEMMs of 8-bit rows with the matrices of their experts: those of what the copies stand for, and
 * nothing after them. */
static void
eight_bits_by_hand(enum grouped_kind kind, bool blocks, int64_t first)
{
	static struct copied c;
	static double out[PLACES * ACROSS];
	struct stream *st = open_stream();
	bool forward = kind == GROUPED_FORWARD;
	int64_t depth = forward ? ACROSS : TALL, width = forward ? TALL : ACROSS, row = -first;
	struct grouped g = { .kind = kind, .first = first };

	make_copies(&c, blocks, first, depth);
	for (int i = 0; i < PLACES * ACROSS; i++)
		out[i] = NAN;
	g.c = tensor_2d(out, DTYPE_F64, PLACES, width);
	g.a = c.of_rows.q;
	g.b = forward ? c.of_stack.q : c.of_stack.qt;
	g.counts = c.of_rows.counts;
	g.scale_a = blocks ? c.of_rows.scale : tensor_rows(&c.of_rows.scale, SCALE_INVERSE, 1);
	g.scale_b = !blocks ? tensor_rows(&c.of_stack.scale, SCALE_INVERSE, 1)
	    : forward       ? c.of_stack.scale
			    : c.of_stack.scale_t;
	st->ops->grouped(st, &g);
	for (int64_t i = 0; i < LOCAL; i++)
		for (int j = 0; j < arriving[0][i] + arriving[1][i]; j++, row++)
			for (int64_t n = 0; row >= 0 && row < PLACES && n < width; n++) {
				double sum = 0;

				for (int64_t k = 0; k < depth; k++)
					sum += meant(&g.a, &g.scale_a, row, k) *
					    (forward ? meant(&g.b, &g.scale_b, i * TALL + n, k)
						     : meant(&g.b, &g.scale_b, n, i * TALL + k));
				CHECK_NEAR(out[row * width + n], sum, 1e-10);
			}
	for (row = int64_max(row, 0); row < PLACES; row++)
		CHECK(isnan(out[row * width]));
}
/* The activation of experts is the activation times the weight of the row, in any window. */
static void
act_by_hand(void)
{
	struct stream *st = open_stream();
	double x[WINDOWS * HEIGHT][WIDTH], y[WINDOWS * HEIGHT][WIDTH], want[ORDER][WIDTH],
	    w[WINDOWS * HEIGHT];
	struct tensor whole = tensor_2d(want, DTYPE_F64, ORDER, WIDTH),
		      in = tensor_2d(x, DTYPE_F64, ORDER, WIDTH);

	fill_order(x, 4);
	fill_order(y, 5);
	for (int i = 0; i < WINDOWS * HEIGHT; i++)
		w[i] = i < ORDER ? 0.5 * i : NAN;
	st->ops->act_fwd(st, &(struct act){ .kind = ACT_GELU_ERF, .y = whole, .x = in });
	for (int i = 0; i < WINDOWS; i++) {
		struct expert_act act = { ACT_GELU_ERF, window_of(y, i), window_of(x, i),
			tensor_2d(&w[i * HEIGHT], DTYPE_F64, HEIGHT, 1),
			tensor_2d((void *)arriving, DTYPE_I32, 2, 4), (int64_t)i * HEIGHT };

		st->ops->expert_act(st, &act);
	}
	for (int i = 0; i < WINDOWS * HEIGHT * WIDTH; i++) {
		int row = i / WIDTH, column = i % WIDTH;

		if (row < ORDER)
			CHECK_NEAR(y[row][column], w[row] * want[row][column], 1e-15);
		else
			CHECK(isnan(y[row][column]));
	}
}

static void
by_hand(const struct backend *b)
{
	(void)b;
	grouped_by_hand();
	act_by_hand();
	windows_by_hand(GROUPED_FORWARD);
	windows_by_hand(GROUPED_INPUT);
	windows_by_hand(GROUPED_WEIGHT);
	for (int i = 0; i < 8; i++)
		eight_bits_by_hand(i & 1 ? GROUPED_FORWARD : GROUPED_INPUT, i & 2, i & 4 ? 3 : 0);
}

const struct op_case cases[] = {
	CHECKED(CASE_CUDA, test_types),
	CHECKED(CASE_CUDA, test_all_narrow),
	CHECKED(CASE_CPU, by_hand),
	{ 0 },
};
