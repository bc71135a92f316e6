/*
 * ops.c - the operations of the GPU against those of the CPU in double, and what has no gradient
 *
 * Without a GPU, or in a build without the backend, it says so and succeeds.
 */
#include "tests/check.h"
#include "tests/grad/table.h"

#include <string.h>

static const struct { enum dtype dtype; double limit; } types[] = {
	{ DTYPE_F32, 1e-9 }, { DTYPE_BF16, 1e-5 }, { DTYPE_F16, 1e-6 },
};

/* --- cases of the sizes that models have, beside the small ones of the table ------------------ */
static const struct op_case large_gemm[] = {
	{ .rows = 512, .columns = 768, .inner = 1024, .flags = TRANS_B }, { .rows = 768, .columns = 256, .inner = 512 },
	{ .rows = 256, .columns = 384, .inner = 2048, .flags = TRANS_A | REAL_C | BETA }, { 0 },
};
static const struct op_case large_norm[] = {
	{ .rows = 257, .columns = 4096 }, { .rows = 1000, .columns = 769, .flags = LAYER_NORM }, { 0 },
};
static const struct op_case large_attention[] = {
	{ .rows = 200, .batch = 1, .heads = 2, .groups = 1, .head_dim = 64 },
	{ .rows = 129, .batch = 2, .heads = 4, .groups = 2, .head_dim = 128, .drop = 0.2 },
	{ .rows = 300, .batch = 1, .heads = 2, .groups = 1, .head_dim = 80, .window = 100 },
	{ .rows = 65, .batch = 1, .heads = 1, .groups = 1, .head_dim = 256 },
	{ .rows = 70, .batch = 1, .heads = 3, .groups = 3, .head_dim = 33, .window = 1 }, { 0 },
};
static const struct op_case large_residual[] = {
	{ .rows = 2050, .columns = 1027, .batch = 5, .drop = 0.1 }, { 0 }
};
static const struct op_case large_embedding[] = { { .rows = 5000, .columns = 300, .inner = 1000 },
	{ 0 } };
static const struct op_case large_xent[] = {
	{ .rows = 33, .columns = 50304, .inner = 50257, .window = 2 }, { 0 }
};

static const struct { const char *name; const struct op_case *cases; } large[] = {
	{ "gemm", large_gemm }, { "norm", large_norm }, { "attention", large_attention }, { "residual", large_residual },
	{ "embedding", large_embedding }, { "xent", large_xent },
};

static void
complain(const struct op_test *op, int number, const char *what, double value)
{
	check_failures++;
	fprintf(stderr, "%s case %d: %s %g\n", op->name, number, what, value);
}

/* Runs a case; a fault of the device is a failure of its own, with its reason. */
static struct problem *
solve(const struct backend *b, const struct op_test *op, int number, struct problem_config config)
{
	struct problem *p = problem_solve(b, op, &op->cases[number], config);
	struct err e;

	check_count++;
	if (b->sync(p->st, &e) < 0) {
		check_failures++;
		fprintf(stderr, "%s case %d: %s\n", op->name, number, e.msg);
	}
	return p;
}

/* Outputs and gradients of inputs of two runs differ by at most limit (NMSE). */
static void
compare(const struct op_test *op, int number, struct problem *a, struct problem *b, double limit)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i], *t = &b->slot[i];
		bool out = s->kind != SLOT_INPUT;
		double d;

		if (s->kind != SLOT_OUTPUT && s->kind != SLOT_INPUT && s->kind != SLOT_REBUILT)
			continue;
		d = nmse(out ? s->value : s->grad, out ? t->value : t->grad, slot_count(s));
		check_count++;
		if (!(d <= limit)) {
			fprintf(stderr, "%s, slot %d, limit %g: ", dtype_name(a->act), i, limit);
			complain(op, number, out ? "output differs by" : "gradient differs by", d);
		}
	}
}

/* One case in every type: against double on the same rounded inputs, and against itself, bit by
 * bit. */
static void
test_case(const struct backend *b, const struct op_test *op, int number, double slack)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i].dtype, types[i].dtype, 2 },
				      oracle = { DTYPE_F64, types[i].dtype, 2 };
		struct problem *first = solve(b, op, number, config),
			       *again = solve(b, op, number, config);
		struct problem *cpu = solve(&backend_cpu, op, number, oracle);

		compare(op, number, first, cpu, slack * types[i].limit);
		compare(op, number, first, again, 0);
		problem_free(first);
		problem_free(again);
		problem_free(cpu);
	}
}

/* Rows are added into a table in their order, as on the CPU: the same bits. */
static void
test_order(const struct backend *b, const struct op_test *op)
{
	struct problem_config config = { DTYPE_F32, DTYPE_F32, 2 };
	struct problem *gpu = solve(b, op, 0, config), *cpu = solve(&backend_cpu, op, 0, config);

	compare(op, 0, gpu, cpu, 0);
	problem_free(gpu);
	problem_free(cpu);
}

/* The table's cases, then the large ones. Attention rounds weights and their gradients to 16 bits
 * between its products, and wide heads with few keys left make its gradients differences of numbers
 * that 16 bits have rounded already: twice the limit, and thrice. */
static void
test_operation(const struct backend *b, const struct op_test *op)
{
	struct op_test more = *op;
	int attention = !strcmp(op->name, "attention");

	for (int i = 0; op->cases[i].rows; i++)
		test_case(b, op, i, 1 + attention);
	for (size_t k = 0; k < sizeof large / sizeof *large; k++) {
		if (strcmp(large[k].name, op->name) != 0)
			continue;
		more.cases = large[k].cases;
		for (int i = 0; more.cases[i].rows; i++)
			test_case(b, &more, i, 2 + attention);
		if (!strcmp(op->name, "embedding"))
			test_order(b, &more);
	}
	printf("%s: %ld failures so far\n", op->name, check_failures);
}

/* --- what has no gradient --------------------------------------------------------------------- */
struct rig {
	const struct backend *b;
	struct device *d;
	struct stream *st;
};

static struct rig
rig_open(const struct backend *b, enum dtype dtype)
{
	struct device_config config = { .num_threads = 2, .dtype = dtype };
	struct rig r = { .b = b };
	struct err e;

	r.d = b->open(&config, &e);
	if (!r.d) {
		fprintf(stderr, "cannot open %s: %s\n", b->name, e.msg);
		exit(1);
	}
	r.st = b->stream(r.d, STREAM_COMPUTE);
	return r;
}

/* Waits; a fault is a failure. */
static void
rig_sync(const struct rig *r)
{
	struct err e;

	check_count++;
	if (r->b->sync(r->st, &e) == 0)
		return;
	check_failures++;
	fprintf(stderr, "%s\n", e.msg);
}

/* A vector on the device with these host values, or zeros. */
static struct tensor
rig_vector(const struct rig *r, enum dtype dtype, int64_t n, const void *host)
{
	struct err e;
	struct tensor t = tensor_1d(r->b->alloc(r->d, (size_t)n * dtype_size(dtype), &e), dtype, n);

	if (host)
		r->b->copy_in(r->st, t.data, host, tensor_bytes(&t));
	return t;
}

static void
rig_read(const struct rig *r, const struct tensor *t, void *host)
{
	r->b->copy_out(r->st, host, t->data, tensor_bytes(t));
	rig_sync(r);
}

enum { COUNT = 5001, STEPS = 50 };
enum rule { RULE_ADAMW, RULE_ADAM_L2, RULE_SGD, RULES };

/* STEPS steps from one start on one backend: the masters, and the rounded weights, as doubles. */
static void
optimize(const struct backend *b, enum rule rule, enum dtype dtype, double *master, double *weight)
{
	struct rig r = rig_open(b, dtype);
	static float start[COUNT], grad[COUNT], out[COUNT];
	static uint32_t small[COUNT];
	struct tensor w, m, v, g, rounded;

	for (int i = 0; i < COUNT; i++)
		start[i] = (float)cos(i);
	w = rig_vector(&r, DTYPE_F32, COUNT, start);
	m = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	v = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	g = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	rounded = rig_vector(&r, dtype, COUNT, NULL);
	for (int k = 1; k <= STEPS; k++) {
		struct adamw a = {
			.master = w,
			.exp_avg = m,
			.exp_avg_sq = v,
			.grad = g,
			.weight = rounded,
			.lr = 1e-2,
			.beta1 = 0.9,
			.beta2 = 0.95,
			.eps = 1e-8,
			.weight_decay = 0.1,
			.grad_scale = 0.5,
			.correction1 = 1 - pow(0.9, k),
			.correction2 = 1 - pow(0.95, k),
			.decoupled = rule == RULE_ADAMW,
		};
		struct sgd s = { .master = w,
			.momentum = m,
			.grad = g,
			.weight = rounded,
			.lr = 1e-2,
			.momentum_factor = 0.9,
			.weight_decay = 0.1,
			.grad_scale = 0.5 };

		for (int i = 0; i < COUNT; i++)
			grad[i] = (float)(sin(i * 37.0 + k) + 0.1 * (i % 5));
		b->copy_in(r.st, g.data, grad, sizeof grad);
		if (rule == RULE_SGD)
			r.st->ops->sgd(r.st, &s);
		else
			r.st->ops->adamw(r.st, &a);
		rig_sync(&r);
	}
	rig_read(&r, &w, out);
	dtype_convert(master, DTYPE_F64, out, DTYPE_F32, COUNT);
	rig_read(&r, &rounded, small);
	dtype_convert(weight, DTYPE_F64, small, dtype, COUNT);
	b->release(r.d, w.data);
	b->release(r.d, m.data);
	b->release(r.d, v.data);
	b->release(r.d, g.data);
	b->release(r.d, rounded.data);
	b->close(r.d);
}

/* Every rule in every type as on the CPU; the weight is the master's rounding. */
static void
test_optimizers(const struct backend *b)
{
	static double gpu[COUNT], cpu[COUNT], weight[COUNT], unused[COUNT];

	for (int rule = 0; rule < RULES; rule++)
		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			optimize(b, (enum rule)rule, types[i].dtype, gpu, weight);
			optimize(&backend_cpu, (enum rule)rule, types[i].dtype, cpu, unused);
			for (int k = 0; k < COUNT; k++)
				CHECK_NEAR(gpu[k], cpu[k], 2e-5);
			round_values(gpu, COUNT, types[i].dtype);
			CHECK(!memcmp(gpu, weight, sizeof gpu));
		}
}

/* Sums of products and counts of what is not finite, over many parts and added to what was there.
 */
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
	r.st->ops->dot(r.st, &out, &tx, &ty);
	r.st->ops->dot(r.st, &second, &tx, &ty);
	rig_read(&r, &out, &result);
	rig_read(&r, &second, &again);
	CHECK_NEAR(result, sum, 1e-12);
	CHECK(memcmp(&result, &again, sizeof result) == 0);
	x[0] = NAN;
	x[N / 2] = INFINITY;
	x[N - 1] = -INFINITY;
	b->copy_in(r.st, tx.data, x, N * sizeof *x);
	r.st->ops->fill(r.st, &out, 1);
	r.st->ops->count_nonfinite(r.st, &out, &tx);
	rig_read(&r, &out, &result);
	CHECK(result == 4);
	b->release(r.d, tx.data);
	b->release(r.d, ty.data);
	b->release(r.d, out.data);
	b->release(r.d, second.data);
	b->close(r.d);
	free(x);
	free(y);
}

/* Conversion of the columns of a wider array, copies of columns, and integers to themselves. */
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
	r.st->ops->cast(r.st, &small, &columns);
	r.st->ops->cast(r.st, &same, &columns);
	r.st->ops->cast(r.st, &c, &a);
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

/* A second stream that waits for the first sees what it wrote. */
static void
test_streams(const struct backend *b)
{
	enum { N = 1 << 24 };
	struct rig r = rig_open(b, DTYPE_F32), other = r;
	struct tensor x = rig_vector(&r, DTYPE_F32, N, NULL),
		      y = rig_vector(&r, DTYPE_F32, N, NULL);
	struct event *done = b->event(r.d);
	float *host = mem_alloc(N, sizeof *host);
	int64_t wrong = 0;

	other.st = b->stream(r.d, 3);
	for (int i = 0; i < 50; i++)
		r.st->ops->fill(r.st, &x, i);
	b->record(r.st, done);
	b->wait(other.st, done);
	other.st->ops->cast(other.st, &y, &x);
	rig_read(&other, &y, host);
	for (int i = 0; i < N; i++)
		wrong += host[i] != 49;
	CHECK(wrong == 0);
	free(host);
	b->release(r.d, x.data);
	b->release(r.d, y.data);
	b->close(r.d);
}

/* Memory comes zeroed; too much of it, and double precision, are refused with a reason, and the
 * device lives on. */
static void
test_refusals(const struct backend *b)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_F64 };
	struct rig r = rig_open(b, DTYPE_F32);
	struct err e = { "" };
	struct tensor x;
	double zero = 1;

	CHECK(b->alloc(r.d, (size_t)1 << 50, &e) == NULL && strstr(e.msg, "cannot allocate"));
	CHECK(b->open(&config, &e) == NULL && strstr(e.msg, "double precision"));
	CHECK(b->free_memory(r.d) > 0 && b->workspace(&config) > 0);
	x = rig_vector(&r, DTYPE_F64, 1, NULL);
	rig_read(&r, &x, &zero);
	CHECK(zero == 0);
	b->release(r.d, x.data);
	b->close(r.d);
}

/* The backend by name, so that a build without it links too; NULL with a word when it cannot be
 * used. */
static const struct backend *
find_gpu(void)
{
	struct err why;

	for (int i = 0; backends[i]; i++) {
		if (strcmp(backends[i]->name, "cuda") != 0)
			continue;
		if (backends[i]->available(&why))
			return backends[i];
		printf("skipped: %s\n", why.msg);
		return NULL;
	}
	printf("skipped: the CUDA backend is not built in\n");
	return NULL;
}

int
main(void)
{
	const struct backend *b = find_gpu();

	if (!b)
		return 0;
	for (const struct op_test *op = op_tests; op->name; op++)
		test_operation(b, op);
	test_optimizers(b);
	test_reductions(b);
	test_cast(b);
	test_streams(b);
	test_refusals(b);
	return check_done();
}
