/* ops.c - the operations of the CPU: gradients, types, threads, and the optimizers against a scalar
 * loop */
#include "lib/base/int64.h"
#include "tests/check.h"
#include "tests/grad/table.h"

#include <string.h>

static void
complain(const struct op_test *op, int c, int slot, const char *what, double value)
{
	check_failures++;
	fprintf(stderr, "%s case %d slot %d: %s %g\n", op->name, c, slot, what, value);
}

/* The sum over the outputs of gradient times value, whose derivatives the backward pass computes.
 */
static double
objective(struct problem *p, const struct op_test *op)
{
	double sum = 0;

	problem_forward(p, op);
	for (int i = 0; i < SLOTS; i++)
		for (int64_t k = 0; p->slot[i].kind == SLOT_OUTPUT && k < slot_count(&p->slot[i]);
		     k++)
			sum += p->slot[i].grad[k] * p->slot[i].value[k];
	return sum;
}

static double
root_mean_square(const double *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum / (double)n);
}

/* Relative difference between the gradient of one element and its central difference. */
static double
difference(struct problem *p, const struct op_test *op, struct slot *s, int64_t k)
{
	const double h = 1e-5, before = s->flags & SLOT_ADDED ? slot_before : 0, x = s->value[k],
		     grad = s->grad[k] - before;
	double up, down, central;

	s->value[k] = x + h;
	up = objective(p, op);
	s->value[k] = x - h;
	down = objective(p, op);
	s->value[k] = x;
	central = (up - down) / (2 * h);
	return fabs(central - grad) /
	    fmax(fmax(fabs(grad), root_mean_square(s->grad, slot_count(s))), 1e-8);
}

/* Sixteen elements of the first output against the formula, in double; a recomputed output has the
 * same bits. */
static void
check_values(const struct op_test *op, int number)
{
	struct problem_config config = { DTYPE_F64, DTYPE_F64, 1 };
	struct problem *p = problem_solve(&backend_cpu, op, &op->cases[number], config);
	int i = 0;

	while (p->slot[i].kind != SLOT_OUTPUT)
		i++;
	for (int j = 0; j < 16; j++) {
		struct slot *s = &p->slot[i];
		int64_t k = (int64_t)((double)rng_uniform(13, (uint64_t)j, (uint32_t)i, 2) *
		    (double)slot_count(s));
		double expected = op->expect(p, k / s->columns, k % s->columns),
		       d = fabs(s->value[k] - expected) / fmax(1, fabs(expected));

		check_count++;
		if (!(d < 1e-12))
			complain(op, number, i, "value is off by", d);
	}
	for (int k = 0; k < SLOTS; k++)
		if (p->slot[k].kind == SLOT_REBUILT)
			CHECK(!memcmp(p->slot[k].value, p->slot[i].value,
			    (size_t)slot_count(&p->slot[i]) * sizeof(double)));
	problem_free(p);
}

/* Eight elements of every input, in double. */
static void
check_gradients(const struct op_test *op, int number)
{
	struct problem_config config = { DTYPE_F64, DTYPE_F64, 1 };
	struct problem *p = problem_solve(&backend_cpu, op, &op->cases[number], config);

	for (int i = 0; i < SLOTS; i++)
		for (int j = 0; p->slot[i].kind == SLOT_INPUT && j < 8; j++) {
			int64_t k = (int64_t)((double)rng_uniform(11, (uint64_t)j, (uint32_t)i, 2) *
			    (double)slot_count(&p->slot[i]));
			double d = difference(p, op, &p->slot[i], k);

			check_count++;
			if (!(d < 1e-6))
				complain(op, number, i, "gradient is off by", d);
		}
	problem_free(p);
}

/* Outputs and gradients of inputs of one case in two configurations differ by at most limit (NMSE).
 */
static void
compare(const struct op_test *op, int number, const struct problem_config config[2], double limit)
{
	struct problem *a = problem_solve(&backend_cpu, op, &op->cases[number], config[0]);
	struct problem *b = problem_solve(&backend_cpu, op, &op->cases[number], config[1]);

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i], *t = &b->slot[i];
		bool out = s->kind != SLOT_INPUT;
		double d;

		if (s->kind != SLOT_OUTPUT && s->kind != SLOT_INPUT && s->kind != SLOT_REBUILT)
			continue;
		d = nmse(out ? s->value : s->grad, out ? t->value : t->grad, slot_count(s));
		check_count++;
		if (!(d <= limit))
			complain(
			    op, number, i, out ? "output differs by" : "gradient differs by", d);
	}
	problem_free(a);
	problem_free(b);
}

/* Each type against double on the same rounded inputs. */
static void
check_types(const struct op_test *op, int number)
{
	static const struct {
		enum dtype dtype;
		double limit;
	} types[] = { { DTYPE_F32, 1e-9 }, { DTYPE_BF16, 1e-5 }, { DTYPE_F16, 1e-6 } };

	for (int i = 0; i < 3; i++) {
		struct problem_config config[2] = { { types[i].dtype, types[i].dtype, 1 },
			{ DTYPE_F64, types[i].dtype, 1 } };

		compare(op, number, config, types[i].limit);
	}
}

/* One thread and three give the same bits. */
static void
check_threads(const struct op_test *op, int number)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16 };

	for (int i = 0; i < 3; i++) {
		struct problem_config config[2] = { { types[i], types[i], 1 },
			{ types[i], types[i], 3 } };

		compare(op, number, config, 0);
	}
}

/* The column sums of dx by norm_bwd have the same bits as a GEMM's bias gradient: a layer at the
 * end of a stage in one layout and inside a stage in another gets the same gradient. */
static void
test_sums(void)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const struct op_case cases[] = {
		{ .rows = 131, .columns = 257, .batch = 1, .flags = LAYER_NORM },
		{ .rows = 131, .columns = 257, .batch = 1, .flags = LAYER_NORM | SUMMED },
	};
	const struct op_test *op = op_tests;

	while (strcmp(op->name, "block") != 0)
		op++;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i], types[i], 2 };
		struct problem *a = problem_solve(&backend_cpu, op, &cases[0], config),
			       *b = problem_solve(&backend_cpu, op, &cases[1], config);

		CHECK(!memcmp(a->slot[1].grad, b->slot[1].grad, 257 * sizeof(double)));
		CHECK(!memcmp(a->slot[4].grad, b->slot[4].grad, 257 * sizeof(double)));
		problem_free(a);
		problem_free(b);
	}
}

/* Heads in one call have the bits of a call for each, head after head. */
static void
test_heads(void)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const struct op_case cases[] = {
		{ .rows = 131, .columns = 240, .heads = 3, .flags = LAYER_NORM },
		{ .rows = 131, .columns = 240, .heads = 3, .flags = LAYER_NORM | APART },
	};
	const struct op_test *op = op_tests;

	while (strcmp(op->name, "norm") != 0)
		op++;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct problem_config config = { types[i], types[i], 2 };
		struct problem *a = problem_solve(&backend_cpu, op, &cases[0], config),
			       *b = problem_solve(&backend_cpu, op, &cases[1], config);

		CHECK(!memcmp(a->slot[3].value, b->slot[3].value, 131 * 240 * sizeof(double)));
		CHECK(!memcmp(a->slot[0].grad, b->slot[0].grad, 131 * 240 * sizeof(double)));
		CHECK(!memcmp(a->slot[1].grad, b->slot[1].grad, 80 * sizeof(double)));
		CHECK(!memcmp(a->slot[2].grad, b->slot[2].grad, 80 * sizeof(double)));
		problem_free(a);
		problem_free(b);
	}
}

/* --- operations without a gradient
 * --------------------------------------------------------------------- */
enum { COUNT = 5001, STEPS = 1000 };

static struct device *
open_device(enum dtype dtype)
{
	struct device_config config = { .num_threads = 2, .dtype = dtype };
	struct err e;

	return backend_cpu.open(&config, &e);
}

/* The gradient of element i at step k. */
static double
gradient(int64_t i, int k)
{
	return (double)(float)(sin((double)(i * 37 + k)) + 0.1 * (double)(i % 5));
}

/* The state of one element in extended precision. */
struct scalar {
	long double w, m, v;
};

static void
scalar_adamw(struct scalar *x, const struct adamw *a, double grad)
{
	long double g = (long double)grad * a->grad_scale +
	    (a->decoupled ? 0 : (long double)a->weight_decay * x->w);

	x->m = a->beta1 * x->m + (1 - (long double)a->beta1) * g;
	x->v = a->beta2 * x->v + (1 - (long double)a->beta2) * g * g;
	x->w -= a->lr *
	    (x->m / a->correction1 / (sqrtl(x->v / a->correction2) + a->eps) +
		(a->decoupled ? a->weight_decay * x->w : 0));
}

static void
scalar_sgd(struct scalar *x, const struct sgd *a, double grad)
{
	x->m = a->momentum_factor * x->m +
	    ((long double)grad * a->grad_scale + a->weight_decay * x->w);
	x->w -= a->lr * x->m;
}

enum rule { RULE_ADAMW, RULE_ADAM_L2, RULE_SGD };

/* One step of the rule on the device, and on a few elements in extended precision. */
static void
optimizer_step(
    struct stream *st, enum rule rule, int k, struct tensor state[5], struct scalar *check)
{
	struct adamw a = { .master = state[0],
		.exp_avg = state[1],
		.exp_avg_sq = state[2],
		.grad = state[3],
		.weight = state[4],
		.lr = 1e-2,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.grad_scale = 0.5,
		.correction1 = 1 - pow(0.9, k),
		.correction2 = 1 - pow(0.95, k),
		.decoupled = rule == RULE_ADAMW };
	struct sgd s = { .master = state[0],
		.momentum = state[1],
		.grad = state[3],
		.weight = state[4],
		.lr = 1e-2,
		.momentum_factor = 0.9,
		.weight_decay = 0.1,
		.grad_scale = 0.5 };

	if (rule == RULE_SGD)
		st->ops->sgd(st, &s);
	else
		st->ops->adamw(st, &a);
	for (int64_t i = 0; i < COUNT; i += 100) {
		if (rule == RULE_SGD)
			scalar_sgd(&check[i], &s, gradient(i, k));
		else
			scalar_adamw(&check[i], &a, gradient(i, k));
	}
}

/* STEPS steps from the same start; the rounded weight must be the master's rounding. */
static void
test_optimizer(enum rule rule, enum dtype dtype, double tolerance)
{
	enum dtype real = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	struct device *d = open_device(dtype);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	struct scalar *check = mem_zalloc(COUNT, sizeof *check);
	struct tensor state[5];
	double host[COUNT], rounded[COUNT];
	struct err e;

	for (int i = 0; i < 5; i++)
		state[i] =
		    tensor_1d(backend_cpu.alloc(d, COUNT * 8, &e), i == 4 ? dtype : real, COUNT);
	for (int64_t i = 0; i < COUNT; i++)
		check[i].w = host[i] = (double)(float)cos((double)i);
	dtype_convert(state[0].data, real, host, DTYPE_F64, COUNT);
	for (int k = 1; k <= STEPS; k++) {
		for (int64_t i = 0; i < COUNT; i++)
			host[i] = gradient(i, k);
		dtype_convert(state[3].data, real, host, DTYPE_F64, COUNT);
		optimizer_step(st, rule, k, state, check);
	}
	dtype_convert(host, DTYPE_F64, state[0].data, real, COUNT);
	dtype_convert(rounded, dtype, state[0].data, real, COUNT);
	CHECK(!memcmp(rounded, state[4].data, COUNT * dtype_size(dtype)));
	for (int64_t i = 0; i < COUNT; i += 100)
		CHECK_NEAR(host[i], (double)check[i].w, tolerance);
	for (int i = 0; i < 5; i++)
		backend_cpu.release(d, state[i].data);
	backend_cpu.close(d);
	free(check);
}

/* One step from zero moments in the given type, in parts of `part` elements. */
static void
first_step(struct device *d, enum dtype moments, int64_t part, void *m, void *v)
{
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	float w[COUNT] = { 0 }, g[COUNT];

	for (int64_t i = 0; i < COUNT; i++)
		g[i] = (float)gradient(i, 1);
	memset(m, 0, COUNT * dtype_size(moments));
	memset(v, 0, COUNT * dtype_size(moments));
	for (int64_t i = 0; i < COUNT; i += part) {
		int64_t n = int64_min(part, COUNT - i);
		size_t at = (size_t)i * dtype_size(moments);

		st->ops->adamw(st,
		    &(struct adamw){ .master = tensor_1d(w + i, DTYPE_F32, n),
			.grad = tensor_1d(g + i, DTYPE_F32, n),
			.exp_avg = tensor_1d((char *)m + at, moments, n),
			.exp_avg_sq = tensor_1d((char *)v + at, moments, n),
			.draws = { 7, 8, 9, 1000, i, 30, 50 },
			.lr = 1e-2,
			.beta1 = 0.9,
			.beta2 = 0.95,
			.eps = 1e-8,
			.grad_scale = 1,
			.correction1 = 0.1,
			.correction2 = 0.05 });
	}
}

/* Moments in BF16 are those in F32, rounded by the bits of each element's number: wherever the
 * range is cut, either way, and without bias. */
static void
test_narrow_moments(void)
{
	struct device *d = open_device(DTYPE_F32);
	static float m[COUNT], v[COUNT];
	static uint16_t m16[COUNT], v16[COUNT];
	double error = 0;
	int up = 0;

	first_step(d, DTYPE_F32, COUNT, m, v);
	for (int64_t part = COUNT; part > 100; part /= 3) {
		first_step(d, DTYPE_BF16, part, m16, v16);
		for (int64_t i = 0; i < COUNT; i++) {
			uint64_t number = (uint64_t)(1000 + i / 30 * 50 + i % 30), b = number / 4;
			uint32_t word[4], c[] = { (uint32_t)b, (uint32_t)(b >> 32), 8, 9 };

			rng_philox(7, c, word);
			CHECK(m16[i] == dtype_bf16_stochastic(m[i], (uint16_t)word[number % 4]));
			CHECK(v16[i] ==
			    dtype_bf16_stochastic(v[i], (uint16_t)(word[number % 4] >> 16)));
		}
	}
	for (int64_t i = 0; i < COUNT; i++) {
		double rounded = dtype_f32_from_bf16(v16[i]);

		error += (rounded - (double)v[i]) / (double)v[i];
		up += rounded > (double)v[i];
	}
	CHECK(fabs(error / COUNT) < 5 * 0x1p-8 / sqrt(COUNT));
	CHECK(up > COUNT / 3 && up < COUNT * 2 / 3);
	backend_cpu.close(d);
}

/* Steps of weights with remainders are those of F32 masters, ties apart, and the weights are the
 * masters' rounding. */
static void
test_low_bits(void)
{
	struct device *d = open_device(DTYPE_BF16);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	static float w[COUNT], g[COUNT], m[2][COUNT], v[2][COUNT];
	static uint16_t rounded[COUNT], weight[COUNT], low[COUNT];
	struct tensor masters = tensor_1d(w, DTYPE_F32, COUNT),
		      high = tensor_1d(weight, DTYPE_BF16, COUNT),
		      rest = tensor_1d(low, DTYPE_U16, COUNT);
	int apart = 0;

	for (int64_t i = 0; i < COUNT; i++)
		w[i] = (float)cos((double)i);
	st->ops->split(st, &(struct halves){ high, rest, masters });
	for (int64_t i = 0; i < COUNT; i++) {
		CHECK(weight[i] == dtype_bf16_from_f32(w[i]));
		CHECK(low[i] == dtype_low_bits_from_f32(w[i]));
	}
	for (int k = 1; k <= 20; k++) {
		struct adamw a = { .grad = tensor_1d(g, DTYPE_F32, COUNT),
			.lr = 1e-2,
			.beta1 = 0.9,
			.beta2 = 0.95,
			.eps = 1e-8,
			.weight_decay = 0.1,
			.grad_scale = 1,
			.correction1 = 1 - pow(0.9, k),
			.correction2 = 1 - pow(0.95, k),
			.decoupled = true };

		for (int64_t i = 0; i < COUNT; i++)
			g[i] = (float)gradient(i, k);
		for (int i = 0; i < 2; i++) {
			a.exp_avg = tensor_1d(m[i], DTYPE_F32, COUNT);
			a.exp_avg_sq = tensor_1d(v[i], DTYPE_F32, COUNT);
			a.master = i ? high : masters;
			a.low_bits = tensor_1d(i ? low : NULL, DTYPE_U16, COUNT);
			a.weight = tensor_1d(i ? NULL : rounded, DTYPE_BF16, COUNT);
			st->ops->adamw(st, &a);
		}
	}
	for (int64_t i = 0; i < COUNT; i++) {
		float joined = dtype_f32_from_parts(weight[i], low[i]);

		CHECK_NEAR(joined, w[i], 1e-6);
		CHECK(weight[i] == dtype_bf16_from_f32(joined));
		apart += joined != w[i];
	}
	CHECK(apart < COUNT / 100);
	backend_cpu.close(d);
}

/* Sums of products and counts of numbers that are not finite, over several parts. */
static void
test_reductions(void)
{
	enum { N = 70001 };
	struct device *d = open_device(DTYPE_F32);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
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
	backend_cpu.close(d);
}

/* The divisor of axpby: a norm in double, or eps where that is larger. Rows may lie apart. */
static void
test_divisor(void)
{
	struct device *d = open_device(DTYPE_F32);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
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
	backend_cpu.close(d);
}

/* The largest scores of heads, of queries that begin after the keys do, in windows, against a plain
 * loop; what was there and is larger stays. */
static void
test_largest_scores(enum dtype dtype)
{
	enum { B = 2, QUERIES = 70, KEYS = 131, HEADS = 4, GROUPS = 2, D = 5, WIDTH = HEADS * D };
	struct device *d = open_device(dtype);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	enum dtype real = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	static double q[B * QUERIES * WIDTH], k[B * KEYS * GROUPS * D], stored[B * KEYS * WIDTH],
	    keys[B * KEYS * WIDTH];
	double max[HEADS] = { 0, 0, 1e9, 0 }, got[HEADS];
	struct attention_max m = { .fwd = { .micro_batch = B,
				       .num_heads = HEADS,
				       .num_groups = GROUPS,
				       .head_dim = D,
				       .scale = 0.5,
				       .window = 40 } };
	char out[sizeof max];

	for (int i = 0; i < B * QUERIES * WIDTH; i++)
		q[i] = sin(i * 1.7);
	for (int i = 0; i < B * KEYS * GROUPS * D; i++)
		k[i] = cos(i * 0.9) * (1 + i % 13);
	dtype_convert(stored, dtype, q, DTYPE_F64, B * QUERIES * WIDTH);
	dtype_convert(q, DTYPE_F64, stored, dtype, B * QUERIES * WIDTH);
	dtype_convert(keys, dtype, k, DTYPE_F64, B * KEYS * GROUPS * D);
	dtype_convert(k, DTYPE_F64, keys, dtype, B * KEYS * GROUPS * D);
	dtype_convert(out, real, max, DTYPE_F64, HEADS);
	m.fwd.q = tensor_2d(stored, dtype, B * QUERIES, WIDTH);
	m.fwd.k = tensor_2d(keys, dtype, B * KEYS, GROUPS * D);
	m.max = tensor_1d(out, real, HEADS);
	st->ops->attention_max(st, &m);
	dtype_convert(got, DTYPE_F64, out, real, HEADS);
	for (int row = 0; row < B * QUERIES * HEADS; row++) {
		int head = row % HEADS, at = row / HEADS / B + KEYS - QUERIES;

		for (int key = at < 39 ? 0 : at - 39; key <= at; key++) {
			const double *x = q + row / HEADS * WIDTH + head * D,
				     *y = k + (key * B + row / HEADS % B) * GROUPS * D +
			    head / 2 * D;
			double score = 0;

			for (int c = 0; c < D; c++)
				score += 0.5 * x[c] * y[c];
			max[head] = fmax(max[head], score);
		}
	}
	for (int i = 0; i < HEADS; i++)
		CHECK_NEAR(got[i], max[i], real == DTYPE_F64 ? 1e-13 : 1e-5);
	backend_cpu.close(d);
}

/* The hash depends on each bit of each element and on its place, in every type and for any division
 * into parts; other backends are compared with the CPU, so one value is written out. */
static void
test_hash(void)
{
	enum { N = 40000 };
	static const enum dtype types[] = { DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64 };
	struct device *d = open_device(DTYPE_F32);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	uint8_t *bytes = mem_zalloc(N, 8);
	int64_t sum, again;
	struct tensor out = tensor_1d(&sum, DTYPE_I64, 1), second = tensor_1d(&again, DTYPE_I64, 1);

	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		struct tensor x = tensor_1d(bytes, types[t], N), one = tensor_rows(&x, 0, 1);

		st->ops->hash(st, &(struct pair){ out, one });
		CHECK((uint64_t)sum == UINT64_C(0xe220a8397b1dcdaf));
		st->ops->hash(st, &(struct pair){ out, x });
		for (int64_t i = 0; i < N; i += 7919)
			for (size_t bit = 0; bit < 8 * dtype_size(types[t]); bit += 5) {
				bytes[(size_t)i * dtype_size(types[t]) + bit / 8] ^= 1 << bit % 8;
				st->ops->hash(st, &(struct pair){ second, x });
				CHECK(sum != again);
				bytes[(size_t)i * dtype_size(types[t]) + bit / 8] ^= 1 << bit % 8;
			}
		st->ops->hash(st, &(struct pair){ second, x });
		CHECK(sum == again);
	}
	free(bytes);
	backend_cpu.close(d);
}

/* Conversion of the rows of a wider array, and copies of integers. */
static void
test_cast(void)
{
	struct device *d = open_device(DTYPE_BF16);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	float wide[3][4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } };
	uint16_t narrow[3][2];
	int32_t from[3] = { 1, -2, 3 }, to[3] = { 0 };
	struct tensor t = tensor_2d(wide, DTYPE_F32, 3, 4), columns = tensor_columns(&t, 1, 2);
	struct tensor small = tensor_2d(narrow, DTYPE_BF16, 3, 2);
	struct tensor a = tensor_1d(from, DTYPE_I32, 3), b = tensor_1d(to, DTYPE_I32, 3);

	st->ops->cast(st, &(struct pair){ small, columns });
	CHECK(dtype_f32_from_bf16(narrow[0][0]) == 2 && dtype_f32_from_bf16(narrow[2][1]) == 11);
	st->ops->cast(st, &(struct pair){ b, a });
	CHECK(!memcmp(from, to, sizeof to));
	backend_cpu.close(d);
}

/* The numbers of rng_normal times std, from any start, and rounded to each type. */
static void
test_normal(void)
{
	enum { N = 5000, FIRST = 7, CUT = 1002 };
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	struct device *d = open_device(DTYPE_F32);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	static double expected[N], stored[N], out[N];
	struct normal n = { .key = 3, .stream = 9, .first = FIRST, .std = 0.02 };
	struct normal rest = { .key = 3, .stream = 9, .first = FIRST + CUT, .std = 0.02 };

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct tensor t = tensor_1d(stored, types[i], N),
			      tail = tensor_rows(&t, CUT, N - CUT);

		n.x = t;
		rest.x = tail;
		rng_normal(3, FIRST, N, 9, 0, expected);
		for (int k = 0; k < N; k++)
			expected[k] *= 0.02;
		round_values(expected, N, types[i]);
		st->ops->normal(st, &n);
		st->ops->fill(st, &(struct fill){ tail, 0 });
		st->ops->normal(st, &rest);
		dtype_convert(out, DTYPE_F64, stored, types[i], N);
		CHECK(!memcmp(out, expected, sizeof out));
	}
	backend_cpu.close(d);
}

int
main(void)
{
	for (const struct op_test *op = op_tests; op->name; op++)
		for (int i = 0; op->cases[i].rows; i++) {
			check_values(op, i);
			check_gradients(op, i);
			check_types(op, i);
			check_threads(op, i);
		}
	test_sums();
	test_heads();
	test_optimizer(RULE_ADAMW, DTYPE_F64, 1e-13);
	test_optimizer(RULE_ADAM_L2, DTYPE_F64, 1e-13);
	test_optimizer(RULE_SGD, DTYPE_F64, 1e-13);
	test_optimizer(RULE_ADAMW, DTYPE_F32, 2e-5);
	test_optimizer(RULE_ADAMW, DTYPE_BF16, 2e-5);
	test_optimizer(RULE_SGD, DTYPE_F16, 2e-5);
	test_narrow_moments();
	test_low_bits();
	test_reductions();
	test_divisor();
	test_largest_scores(DTYPE_F64);
	test_largest_scores(DTYPE_BF16);
	test_hash();
	test_cast();
	test_normal();
	return check_done();
}
