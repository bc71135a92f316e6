/*
 * ops.c [NAME...] - the operations of the GPU against those of the CPU in double, and operations
 * without a gradient
 *
 * Names are those of operations in the table, and "others" for the rest. Without a GPU, or in a
 * build without the backend, it prints a note and succeeds.
 */
#include "lib/base/io.h"
#include "tests/check.h"
#include "tests/gpu/rig.h"
#include "tests/grad/table.h"

#include <dirent.h>
#include <string.h>

static const struct {
	enum dtype dtype;
	double limit;
} types[] = {
	{ DTYPE_F32, 1e-9 },
	{ DTYPE_BF16, 1e-5 },
	{ DTYPE_F16, 1e-6 },
};

/* --- cases of the sizes of models, besides the small ones of the table ------------------ */
static const struct op_case large_gemm[] = {
	{ .rows = 512, .columns = 768, .inner = 1024, .flags = TRANS_B },
	{ .rows = 768, .columns = 256, .inner = 512 },
	{ .rows = 256, .columns = 384, .inner = 2048, .flags = TRANS_A | REAL_C | BETA },
	{ .rows = 512, .columns = 1024, .inner = 256, .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ .rows = 512, .columns = 1020, .inner = 264, .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ .rows = 1024, .columns = 256, .inner = 512, .flags = TRANS_B | BIAS | DBIAS | BETA },
	{ .rows = 333, .columns = 256, .inner = 512, .flags = TRANS_B | GELU },
	{ 0 },
};
static const struct op_case large_norm[] = {
	{ .rows = 257, .columns = 4096 },
	{ .rows = 1000, .columns = 769, .flags = LAYER_NORM },
	{ .rows = 3001, .columns = 768, .flags = LAYER_NORM },
	{ .rows = 1003, .columns = 2048 },
	{ .rows = 515, .columns = 2560, .flags = LAYER_NORM | WRITE_GRAD },
	{ .rows = 1030, .columns = 8192, .flags = WRITE_GRAD },
	{ .rows = 65, .columns = 16384, .flags = LAYER_NORM },
	{ .rows = 4099, .columns = 128 },
	{ .rows = 1003, .columns = 2048, .flags = LESS_ONE },
	{ .rows = 1000, .columns = 769, .flags = LAYER_NORM | LESS_ONE },
	{ .rows = 1003, .columns = 2048, .flags = WIDE },
	{ .rows = 1000, .columns = 769, .flags = LAYER_NORM | WRITE_GRAD | WIDE },
	{ .rows = 65, .columns = 16384, .flags = LAYER_NORM | WIDE },
	{ .rows = 4099, .columns = 2048, .heads = 16, .flags = WRITE_DX },
	{ .rows = 20011, .columns = 1024, .heads = 16, .flags = WRITE_DX },
	{ .rows = 4099, .columns = 1024, .heads = 8, .flags = WRITE_GRAD | WRITE_DX },
	{ .rows = 1003, .columns = 1024, .heads = 4, .flags = LESS_ONE | WRITE_DX },
	{ .rows = 2001, .columns = 560, .heads = 7, .flags = LAYER_NORM | WRITE_DX },
	{ .rows = 515, .columns = 768, .heads = 12, .flags = LAYER_NORM | WRITE_GRAD | WRITE_DX },
	{ .rows = 1000, .columns = 480, .heads = 5, .flags = WRITE_GRAD },
	{ .rows = 1003, .columns = 2048, .flags = WRITE_DX },
	{ .rows = 333, .columns = 231, .heads = 3, .flags = LAYER_NORM },
	{ .rows = 257, .columns = 1024, .heads = 2, .flags = LAYER_NORM | WRITE_GRAD | WRITE_DX },
	{ .rows = 500, .columns = 640, .heads = 5, .flags = LAYER_NORM | APART },
	{ 0 },
};
static const struct op_case large_block[] = {
	{ .rows = 3000, .columns = 768, .batch = 3, .flags = LAYER_NORM },
	{ .rows = 700, .columns = 4096, .batch = 2, .drop = 0.1 },
	{ .rows = 700, .columns = 2048, .batch = 4, .drop = 0.3, .flags = LAYER_NORM },
	{ .rows = 90, .columns = 16384, .batch = 3, .drop = 0.1, .flags = LAYER_NORM | NO_BIAS },
	{ .rows = 514, .columns = 771, .batch = 2, .drop = 0.1, .flags = LAYER_NORM },
	{ .rows = 3001, .columns = 768, .batch = 1, .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ .rows = 1003, .columns = 1024, .batch = 1, .flags = LAYER_NORM | SUMMED },
	{ .rows = 515, .columns = 2560, .batch = 5, .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ .rows = 258, .columns = 4096, .batch = 3, .flags = SUMMED },
	{ .rows = 1030, .columns = 8192, .batch = 1, .flags = LAYER_NORM | SUMMED | WRITE_GRAD },
	{ .rows = 65, .columns = 16384, .batch = 5, .flags = LAYER_NORM | SUMMED },
	{ .rows = 1000, .columns = 769, .batch = 2, .flags = SUMMED | WRITE_GRAD },
	{ .rows = 6, .columns = 1600, .batch = 2, .flags = LAYER_NORM | SUMMED },
	{ .rows = 700, .columns = 4096, .batch = 2, .drop = 0.1, .flags = WIDE },
	{ .rows = 514, .columns = 771, .batch = 2, .drop = 0.1, .flags = LAYER_NORM | WIDE },
	{ .rows = 3001, .columns = 768, .batch = 1, .flags = LAYER_NORM | SUMMED | WIDE },
	{ 0 },
};
static const struct op_case large_rope[] = {
	{ .rows = 1000, .batch = 2, .heads = 12, .head_dim = 64, .inner = 64 },
	{ .rows = 1000, .batch = 1, .heads = 10, .head_dim = 128, .inner = 128 },
	{ .rows = 500,
	    .batch = 1,
	    .heads = 5,
	    .head_dim = 128,
	    .inner = 128,
	    .flags = INTERLEAVED },
	{ .rows = 300, .batch = 3, .heads = 7, .head_dim = 80, .inner = 32 },
	{ .rows = 300, .batch = 3, .heads = 7, .head_dim = 80, .inner = 32, .flags = INTERLEAVED },
	{ .rows = 33, .batch = 1, .heads = 3, .head_dim = 72, .inner = 72 },
	{ 0 },
};
static const struct op_case large_act[] = {
	{ .rows = 1001, .columns = 3072, .kind = ACT_GELU_TANH, .flags = REBUILD },
	{ .rows = 1001, .columns = 8192, .kind = ACT_SWIGLU, .flags = REBUILD | IN_PLACE },
	{ .rows = 801, .columns = 5000, .kind = ACT_GEGLU_TANH },
	{ .rows = 257, .columns = 4096, .kind = ACT_GELU_ERF },
	{ .rows = 333, .columns = 333, .kind = ACT_SWIGLU, .flags = REBUILD | IN_PLACE },
	{ .rows = 333, .columns = 333, .kind = ACT_RELU2, .flags = IN_PLACE },
	{ 0 },
};
static const struct op_case large_add[] = {
	{ .rows = 5000, .columns = 768 },
	{ .rows = 3000, .columns = 3072 },
	{ .rows = 2001, .columns = 333 },
	{ .rows = 20, .columns = 50304 },
	{ 0 },
};
static const struct op_case large_sum[] = {
	{ .rows = 5000, .columns = 768, .batch = 2 },
	{ .rows = 2001, .columns = 333, .batch = 7, .heads = 3, .flags = IN_PLACE },
	{ .rows = 1024, .columns = 1024, .batch = 3, .heads = 3, .flags = IN_PLACE },
	{ .rows = 33, .columns = 333, .batch = 39, .heads = 20 },
	{ 0 },
};
static const struct op_case large_attention[] = {
	{ .rows = 200, .batch = 1, .heads = 2, .groups = 1, .head_dim = 64 },
	{ .rows = 129, .batch = 2, .heads = 4, .groups = 2, .head_dim = 128, .drop = 0.2 },
	{ .rows = 300, .batch = 1, .heads = 2, .groups = 1, .head_dim = 80, .window = 100 },
	{ .rows = 65, .batch = 1, .heads = 1, .groups = 1, .head_dim = 256 },
	{ .rows = 70, .batch = 1, .heads = 3, .groups = 3, .head_dim = 33, .window = 1 },
	{ 0 },
};
static const struct op_case large_residual[] = {
	{ .rows = 2050, .columns = 1027, .batch = 5, .drop = 0.1 },
	{ .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1 },
	{ .rows = 999, .columns = 768, .batch = 3 },
	{ .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1, .flags = WIDE },
	{ .rows = 999, .columns = 771, .batch = 3, .flags = WIDE },
	{ 0 },
};
static const struct op_case large_dropout[] = {
	{ .rows = 2050, .columns = 1024, .batch = 5, .drop = 0.1, .flags = WIDE },
	{ .rows = 999, .columns = 771, .batch = 3, .flags = WIDE },
	{ .rows = 999, .columns = 768, .batch = 3, .drop = 0.2 },
	{ 0 },
};
static const struct op_case large_embedding[] = { { .rows = 5000, .columns = 300, .inner = 1000 },
	{ .rows = 20000, .columns = 768, .inner = 3000 },
	{ .rows = 9000, .columns = 257, .inner = 3 },
	{ .rows = 70, .columns = 128, .inner = 50000 }, { 0 } };
static const struct op_case large_xent[] = {
	{ .rows = 33, .columns = 50304, .inner = 50257, .window = 2 },
	{ .rows = 300, .columns = 50304, .inner = 50257 },
	{ .rows = 140, .columns = 128256, .inner = 128256 },
	{ .rows = 9, .columns = 32000, .inner = 31999, .window = 1 },
	{ .rows = 17, .columns = 50257, .inner = 50257 },
	{ .rows = 7, .columns = 152064, .inner = 151936, .window = 4 },
	{ .rows = 30, .columns = 256000, .inner = 255999, .cap = 3 },
	{ .rows = 17, .columns = 50257, .inner = 50257, .window = 1, .cap = 4 }, { 0 }
};

static const struct {
	const char *name;
	const struct op_case *cases;
} large[] = {
	{ "gemm", large_gemm },
	{ "norm", large_norm },
	{ "attention", large_attention },
	{ "dropout", large_dropout },
	{ "residual", large_residual },
	{ "embedding", large_embedding },
	{ "xent", large_xent },
	{ "block", large_block },
	{ "rope", large_rope },
	{ "act", large_act },
	{ "add", large_add },
	{ "sum", large_sum },
	{ "axpby", large_add },
};

static void
complain(const struct op_test *op, int number, const char *what, double value)
{
	check_failures++;
	fprintf(stderr, "%s case %d: %s %g\n", op->name, number, what, value);
}

/* Runs a case; a device error is a failure, with the device's reason. */
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
 * bit. GEMMs also with a measured algorithm. */
static void
test_case(const struct backend *b, const struct op_test *op, int number, double slack)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i].dtype, types[i].dtype, 2, true },
				      oracle = { DTYPE_F64, types[i].dtype, 2, false };
		struct problem *first = solve(b, op, number, config),
			       *again = solve(b, op, number, config);
		struct problem *cpu = solve(&backend_cpu, op, number, oracle);

		compare(op, number, first, cpu, slack * types[i].limit);
		compare(op, number, first, again, 0);
		if (!strcmp(op->name, "gemm")) {
			problem_free(again);
			config.deterministic = false;
			again = solve(b, op, number, config);
			compare(op, number, again, cpu, slack * types[i].limit);
		}
		problem_free(first);
		problem_free(again);
		problem_free(cpu);
	}
}

/* Rows are added to a table in their order, as on the CPU: the same bits. */
static void
test_order(const struct backend *b, const struct op_test *op)
{
	struct problem_config config = { DTYPE_F32, DTYPE_F32, 2, true };
	struct problem *gpu = solve(b, op, 0, config), *cpu = solve(&backend_cpu, op, 0, config);

	compare(op, 0, gpu, cpu, 0);
	problem_free(gpu);
	problem_free(cpu);
}

/* The table's cases, then the large ones. Attention rounds weights and their gradients to 16 bits
 * between its GEMMs, and with wide heads and few visible keys its gradients are differences of
 * numbers already rounded to 16 bits: the limit is twice and three times as large. It is also twice
 * as large for a GEMM whose activation is a kernel of its own, which reads a rounded value. */
static void
test_operation(const struct backend *b, const struct op_test *op)
{
	struct op_test more = *op;
	int attention = !strcmp(op->name, "attention");

	for (int i = 0; op->cases[i].rows; i++)
		test_case(b, op, i, 1 + (attention || !strcmp(op->name, "gemm")));
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
	fflush(stdout);
}

/* --- operations without a gradient ------------------------------------------------------------ */
enum { COUNT = 5001, STEPS = 50 };
enum rule { RULE_ADAMW, RULE_ADAM_L2, RULE_SGD, RULE_ADAMW_NARROW, RULES };

/* Takes STEPS steps from the same start on one backend; gives masters and rounded weights, as
 * doubles. */
static void
optimize(const struct backend *b, enum rule rule, enum dtype dtype, double *master, double *weight)
{
	struct rig r = rig_open(b, dtype);
	static float start[COUNT], grad[COUNT], out[COUNT];
	static uint32_t small[COUNT];
	enum dtype moments = rule == RULE_ADAMW_NARROW ? DTYPE_BF16 : DTYPE_F32;
	struct tensor w, m, v, g, rounded;

	for (int i = 0; i < COUNT; i++)
		start[i] = (float)cos(i);
	w = rig_vector(&r, DTYPE_F32, COUNT, start);
	m = rig_vector(&r, moments, COUNT, NULL);
	v = rig_vector(&r, moments, COUNT, NULL);
	g = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	rounded = rig_vector(&r, dtype, COUNT, NULL);
	for (int k = 1; k <= STEPS; k++) {
		struct adamw a = {
			.master = w,
			.exp_avg = m,
			.exp_avg_sq = v,
			.draws = { 7, 8, (uint32_t)k, 1001, 0, 30, 50 },
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
			.decoupled = rule != RULE_ADAM_L2,
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

/* Every rule in every type as on the CPU; the weight is the master's rounding. Sums that differ in
 * the last bit may round a narrow moment the other way. */
static void
test_optimizers(const struct backend *b)
{
	static double gpu[COUNT], cpu[COUNT], weight[COUNT], unused[COUNT];

	for (int rule = 0; rule < RULES; rule++)
		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			optimize(b, (enum rule)rule, types[i].dtype, gpu, weight);
			optimize(&backend_cpu, (enum rule)rule, types[i].dtype, cpu, unused);
			for (int k = 0; k < COUNT; k++)
				CHECK_NEAR(gpu[k], cpu[k], rule == RULE_ADAMW_NARROW ? 2e-3 : 2e-5);
			round_values(gpu, COUNT, types[i].dtype);
			CHECK(!memcmp(gpu, weight, sizeof gpu));
		}
}

/* Steps of BF16 weights with remainders, and with gradients in BF16, from element `at` on: the
 * masters as floats. */
static void
step_low_bits(const struct backend *b, int at, float *master)
{
	struct rig r = rig_open(b, DTYPE_BF16);
	static uint16_t weight[COUNT], low[COUNT], grad[COUNT];
	struct tensor whole, w, rest, m, v, g;

	for (int i = 0; i < COUNT; i++) {
		master[i] = (float)cos(i);
		grad[i] = dtype_bf16_from_f32((float)sin(i * 37.0));
	}
	whole = rig_vector(&r, DTYPE_F32, COUNT, master);
	w = rig_vector(&r, DTYPE_BF16, COUNT, NULL);
	rest = rig_vector(&r, DTYPE_U16, COUNT, NULL);
	r.st->ops->split(r.st, &(struct halves){ w, rest, whole });
	rig_read(&r, &w, weight);
	rig_read(&r, &rest, low);
	for (int i = 0; i < COUNT; i++) {
		CHECK(weight[i] == dtype_bf16_from_f32(master[i]));
		CHECK(low[i] == dtype_low_bits_from_f32(master[i]));
	}
	g = rig_vector(&r, DTYPE_BF16, COUNT, grad);
	m = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	v = rig_vector(&r, DTYPE_F32, COUNT, NULL);
	for (int k = 1; k <= STEPS; k++) {
		struct adamw a = {
			.master = tensor_rows(&w, at, COUNT - at),
			.remainder = tensor_rows(&rest, at, COUNT - at),
			.exp_avg = tensor_rows(&m, at, COUNT - at),
			.exp_avg_sq = tensor_rows(&v, at, COUNT - at),
			.grad = tensor_rows(&g, at, COUNT - at),
			.lr = 1e-3,
			.beta1 = 0.9,
			.beta2 = 0.95,
			.eps = 1e-8,
			.grad_scale = 1,
			.correction1 = 1 - pow(0.9, k),
			.correction2 = 1 - pow(0.95, k),
		};

		r.st->ops->adamw(r.st, &a);
	}
	rig_read(&r, &w, weight);
	rig_read(&r, &rest, low);
	for (int i = 0; i < COUNT; i++)
		master[i] = dtype_f32_from_parts(weight[i], low[i]);
	b->release(r.d, whole.data);
	b->release(r.d, w.data);
	b->release(r.d, rest.data);
	b->release(r.d, g.data);
	b->release(r.d, m.data);
	b->release(r.d, v.data);
	b->close(r.d);
}

/* As on the CPU, aligned to packs and not. */
static void
test_low_bits(const struct backend *b)
{
	static float gpu[COUNT], cpu[COUNT];

	for (int at = 0; at < 3; at++) {
		step_low_bits(b, at, gpu);
		step_low_bits(&backend_cpu, at, cpu);
		for (int i = 0; i < COUNT; i++)
			CHECK_NEAR(gpu[i], cpu[i], 1e-5);
	}
}

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
		struct rig r = rig_open(b, types[i].dtype);
		struct tensor t = rig_vector(&r, types[i].dtype, N, NULL),
			      tail = tensor_rows(&t, CUT, N - CUT);
		double unit = types[i].dtype == DTYPE_F32 ? 0x1p-23
		    : types[i].dtype == DTYPE_F16         ? 0x1p-10
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
		dtype_convert(out, DTYPE_F64, stored, types[i].dtype, N);
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

/* Numbers that are not finite are found in every type, at both ends and in the middle of odd
 * lengths. */
static void
test_nonfinite(const struct backend *b)
{
	enum { N = 100003 };
	struct rig r = rig_open(b, DTYPE_F32);

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct tensor x = rig_vector(&r, types[i].dtype, N, NULL),
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
		struct tensor x = rig_vector(&r, types[i].dtype, N, NULL),
			      out = rig_vector(&r, DTYPE_I64, 1, NULL),
			      y = rig_vector(&cpu, types[i].dtype, N, NULL),
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

/* The largest scores of heads in every 16-bit type and F32: the CPU's. */
static void
test_largest_scores(const struct backend *b)
{
	enum { B = 2, QUERIES = 150, KEYS = 200, HEADS = 4, GROUPS = 2, D = 40 };
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		enum dtype t = types[i].dtype;
		struct rig r = rig_open(b, t), cpu = rig_open(&backend_cpu, t);
		float found[2][HEADS] = { { 0, 0, 1e9f, 0 }, { 0, 0, 1e9f, 0 } };
		struct rig *rigs[2] = { &r, &cpu };

		for (int k = 0; k < 2; k++) {
			struct tensor q = rig_vector(rigs[k], t, B * QUERIES * HEADS * D, NULL),
				      keys = rig_vector(rigs[k], t, B * KEYS * GROUPS * D, NULL);
			struct attention_max m = {
				.fwd = { .q = tensor_2d(q.data, t, B * QUERIES, HEADS * D),
				    .k = tensor_2d(keys.data, t, B * KEYS, GROUPS * D),
				    .micro_batch = B,
				    .num_heads = HEADS,
				    .num_groups = GROUPS,
				    .head_dim = D,
				    .scale = 0.25,
				    .window = 90 },
				.max = rig_vector(rigs[k], DTYPE_F32, HEADS, found[k])
			};

			rigs[k]->st->ops->normal(rigs[k]->st, &(struct normal){ q, 1, 2, 0, 1 });
			rigs[k]->st->ops->normal(rigs[k]->st, &(struct normal){ keys, 3, 4, 0, 1 });
			rigs[k]->st->ops->attention_max(rigs[k]->st, &m);
			rig_read(rigs[k], &m.max, found[k]);
			rigs[k]->b->release(rigs[k]->d, q.data);
			rigs[k]->b->release(rigs[k]->d, keys.data);
			rigs[k]->b->release(rigs[k]->d, m.max.data);
		}
		for (int head = 0; head < HEADS; head++)
			CHECK(found[0][head] > 0 &&
			    fabsf(found[0][head] - found[1][head]) <= 1e-4f * found[1][head]);
		b->close(r.d);
		backend_cpu.close(cpu.d);
	}
}

/* A GEMM with the library's first choice of algorithm, twice: the same bits, whatever was measured
 * meanwhile. A measured GEMM adds to c once, however often it was run to be timed. */
static void
test_gemms(const struct backend *b)
{
	enum { M = 256, N = 320, K = 512 };
	static uint32_t out[3][M * N];
	static float sums[3][M];

	for (int mode = 0; mode < 3; mode++) {
		struct device_config config = {
			.num_threads = 1, .dtype = DTYPE_BF16, .deterministic = mode < 2
		};
		struct err e;
		struct rig r = { .b = b, .d = b->open(&config, &e) };
		struct tensor a, w, c, s;

		r.st = b->stream(r.d, STREAM_COMPUTE);
		a = rig_vector(&r, DTYPE_BF16, M * K, NULL);
		w = rig_vector(&r, DTYPE_BF16, K * N, NULL);
		c = rig_vector(&r, DTYPE_F32, M * N, NULL);
		s = rig_vector(&r, DTYPE_F32, M, NULL);
		r.st->ops->normal(r.st, &(struct normal){ .x = a, .key = 1, .std = 1 });
		r.st->ops->normal(r.st, &(struct normal){ .x = w, .key = 2, .std = 1 });
		r.st->ops->fill(r.st, &(struct fill){ c, 1 });
		r.st->ops->fill(r.st, &(struct fill){ s, 1 });
		for (int i = 0; i < 2; i++)
			r.st->ops->gemm(r.st,
			    &(struct gemm){ .c = tensor_2d(c.data, DTYPE_F32, M, N),
				.a = tensor_2d(a.data, DTYPE_BF16, K, M),
				.b = tensor_2d(w.data, DTYPE_BF16, K, N),
				.trans_a = true,
				.alpha = 1,
				.beta = 1,
				.dbias = s });
		rig_read(&r, &c, out[mode]);
		if (mode == 2) {
			double *first = mem_alloc(M * N, sizeof *first),
			       *second = mem_alloc(M * N, sizeof *second);

			dtype_convert(first, DTYPE_F64, out[0], DTYPE_F32, M * N);
			dtype_convert(second, DTYPE_F64, out[2], DTYPE_F32, M * N);
			CHECK(nmse(first, second, M * N) < 1e-9);
			free(first);
			free(second);
		}
		rig_read(&r, &s, sums[mode]);
		for (int i = 0; i < M; i++)
			CHECK(fabsf(sums[mode][i] - sums[0][i]) < 1e-2f && sums[mode][i] != 1);
		b->release(r.d, a.data);
		b->release(r.d, w.data);
		b->release(r.d, c.data);
		b->release(r.d, s.data);
		b->close(r.d);
	}
	CHECK(!memcmp(out[0], out[1], sizeof out[0]));
}

/* The file of choices under dir; if bytes are given, they replace its first ones. Returns its
 * length; -1: there is none. */
static long
choices_file(const char *dir, const char *bytes)
{
	char path[600];
	struct dirent *entry;
	long length = -1;
	DIR *d;

	snprintf(path, sizeof path, "%s/mikoshi", dir);
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		char file[1200];
		FILE *f;

		snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
		f = strncmp(entry->d_name, "gemm-", 5) ? NULL : fopen(file, bytes ? "wb" : "rb");
		if (!f)
			continue;
		if (bytes)
			fputs(bytes, f);
		fseek(f, 0, SEEK_END);
		length = ftell(f);
		fclose(f);
	}
	if (d)
		closedir(d);
	return length;
}

/* Choices are written to a file and read back; a damaged file is ignored. */
static void
test_choices(const struct backend *b, const char *dir)
{
	long before = choices_file(dir, NULL);

	CHECK(before > 64);
	test_gemms(b);
	CHECK(choices_file(dir, NULL) == before);
	CHECK(choices_file(dir, "mikoshi gemm 1") == 14);
	test_gemms(b);
	CHECK(choices_file(dir, NULL) > 64);
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
		r.st->ops->fill(r.st, &(struct fill){ x, i });
	b->record(r.st, done);
	b->wait(other.st, done);
	other.st->ops->cast(other.st, &(struct pair){ y, x });
	rig_read(&other, &y, host);
	for (int i = 0; i < N; i++)
		wrong += host[i] != 49;
	CHECK(wrong == 0);
	free(host);
	b->release(r.d, x.data);
	b->release(r.d, y.data);
	b->close(r.d);
}

/* Memory is zeroed; too much of it, and double precision, are refused with a reason, and the device
 * stays usable. */
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
	CHECK(b->free_memory(r.d) > 0);
	x = rig_vector(&r, DTYPE_F64, 1, NULL);
	rig_read(&r, &x, &zero);
	CHECK(zero == 0);
	b->release(r.d, x.data);
	b->close(r.d);
}

/* Tests of everything outside the table. */
static void
test_others(const struct backend *b, const char *dir)
{
	test_optimizers(b);
	test_low_bits(b);
	test_reductions(b);
	test_dot(b);
	test_divisor(b);
	test_largest_scores(b);
	test_nonfinite(b);
	test_hash(b);
	test_odd_vectors(b);
	test_normal(b);
	test_gemms(b);
	test_choices(b, dir);
	test_cast(b);
	test_copied_bits(b);
	test_streams(b);
	test_refusals(b);
}

int
main(int argc, char **argv)
{
	const struct backend *b = gpu_backend();
	char dir[] = "/tmp/gpu-ops-XXXXXX";
	struct err e;

	if (!b)
		return 0;
	if (!mkdtemp(dir) || setenv("XDG_CACHE_HOME", dir, 1) < 0) {
		perror(dir);
		return 1;
	}
	for (const struct op_test *op = op_tests; op->name; op++)
		if (rig_wanted(argc, argv, op->name))
			test_operation(b, op);
	if (rig_wanted(argc, argv, "others"))
		test_others(b, dir);
	CHECK(io_remove_tree(dir, &e) == 0);
	return check_done();
}
