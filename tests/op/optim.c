/* optim.c - updates of masters */
#include "lib/base/int64.h"
#include "tests/gpu/rig.h"
#include "tests/op/sides.h"
#include "tests/op/op.h"

enum { COUNT = 5001, STEPS = 1000, GPU_STEPS = 50 };

static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

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

enum rule { RULE_ADAMW, RULE_ADAM_L2, RULE_SGD, RULE_ADAMW_NARROW, RULES };

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
test_rule(const struct backend *b, enum rule rule, enum dtype dtype, double tolerance)
{
	enum dtype real = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	struct rig r = rig_open(b, dtype);
	struct stream *st = r.st;
	struct scalar *check = mem_zalloc(COUNT, sizeof *check);
	struct tensor state[5];
	double host[COUNT], rounded[COUNT];
	struct err e;

	for (int i = 0; i < 5; i++)
		state[i] = tensor_1d(r.b->alloc(r.d, COUNT * 8, &e), i == 4 ? dtype : real, COUNT);
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
		r.b->release(r.d, state[i].data);
	b->close(r.d);
	free(check);
}

static void
test_rules(const struct backend *b)
{
	test_rule(b, RULE_ADAMW, DTYPE_F64, 1e-13);
	test_rule(b, RULE_ADAM_L2, DTYPE_F64, 1e-13);
	test_rule(b, RULE_SGD, DTYPE_F64, 1e-13);
	test_rule(b, RULE_ADAMW, DTYPE_F32, 2e-5);
	test_rule(b, RULE_ADAMW, DTYPE_BF16, 2e-5);
	test_rule(b, RULE_SGD, DTYPE_F16, 2e-5);
}

/* One step from zero moments in the given type, in parts of `part` elements. */
static void
first_step(struct stream *st, enum dtype moments, int64_t part, void *m, void *v)
{
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
test_narrow_moments(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_F32);
	static float m[COUNT], v[COUNT];
	static uint16_t m16[COUNT], v16[COUNT];
	double error = 0;
	int up = 0;

	first_step(r.st, DTYPE_F32, COUNT, m, v);
	for (int64_t part = COUNT; part > 100; part /= 3) {
		first_step(r.st, DTYPE_BF16, part, m16, v16);
		for (int64_t i = 0; i < COUNT; i++) {
			uint64_t number = (uint64_t)(1000 + i / 30 * 50 + i % 30),
				 block = number / 4;
			uint32_t word[4], c[] = { (uint32_t)block, (uint32_t)(block >> 32), 8, 9 };

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
	b->close(r.d);
}

/* Steps of weights with remainders are those of F32 masters, ties apart, and the weights are the
 * masters' rounding. */
static void
test_whole_masters(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_BF16);
	struct stream *st = r.st;
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
	b->close(r.d);
}

/* --- against the CPU -------------------------------------------------------------------------- */

/* Takes GPU_STEPS steps from the same start on one backend; gives masters and rounded weights, as
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
	for (int k = 1; k <= GPU_STEPS; k++) {
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
			optimize(b, (enum rule)rule, types[i], gpu, weight);
			optimize(&backend_cpu, (enum rule)rule, types[i], cpu, unused);
			for (int k = 0; k < COUNT; k++)
				CHECK_NEAR(gpu[k], cpu[k], rule == RULE_ADAMW_NARROW ? 2e-3 : 2e-5);
			round_values(gpu, COUNT, types[i]);
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
	for (int k = 1; k <= GPU_STEPS; k++) {
		struct adamw a = {
			.master = tensor_rows(&w, at, COUNT - at),
			.low_bits = tensor_rows(&rest, at, COUNT - at),
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

/* --- biases of experts ------------------------------------------------------------------------ */

/* Loads below, at and above the mean. */
static double *
balanced_by(const struct backend *b, enum dtype act, enum dtype load)
{
	static const double loads[] = { 7, 2, 3, 3.5, 0 }, zeros[5] = { 0 };
	struct side s = side_open(b, act);
	struct balance call = { .master = put(&s, tensor_1d(NULL, s.real, 5), loads),
		.load = put(&s, tensor_1d(NULL, load, 5), loads),
		.weight = put(&s, tensor_1d(NULL, act, 5), zeros),
		.mean = 3,
		.rate = 0.125 };
	double *out;

	s.r.st->ops->balance(s.r.st, &call);
	out = take(&s, call.weight);
	rig_take(&s.r, call.master, NULL);
	rig_take(&s.r, call.load, NULL);
	b->close(s.r.d);
	return out;
}

static void
test_balance(const struct backend *b)
{
	for (int i = 0; i < 2; i++) {
		double *have = balanced_by(b, i ? DTYPE_BF16 : DTYPE_F32, DTYPE_BF16),
		       *want = balanced_by(&backend_cpu, DTYPE_F64, DTYPE_F64);

		side_compare("biases", i, (const double *[]){ have, want }, 5, 0);
		free(have);
		free(want);
	}
}

/* Experts with more rows than the mean are chosen less from then on; one at the mean stays. */
static void
balance_by_hand(const struct backend *backend)
{
	struct rig r = rig_open(backend, DTYPE_F64);
	struct stream *st = r.st;
	double master[3] = { 0.5, 0, 0 }, load[3] = { 7, 2, 3 }, weight[3];
	struct balance b = { .master = tensor_1d(master, DTYPE_F64, 3),
		.load = tensor_1d(load, DTYPE_F64, 3),
		.weight = tensor_1d(weight, DTYPE_F64, 3),
		.mean = 3,
		.rate = 0.25 };

	st->ops->balance(st, &b);
	CHECK(master[0] == 0.25 && master[1] == 0.25 && master[2] == 0);
	CHECK(!memcmp(master, weight, sizeof master));
	backend->close(r.d);
}

/* A master in two parts moves by less than its weight shows. */
static void
parts_by_hand(const struct backend *backend)
{
	struct rig r = rig_open(backend, DTYPE_F64);
	struct stream *st = r.st;
	uint16_t high[2] = { 0x3f80, 0x3f80 }, low[2] = { 0, 0 };
	double load[2] = { 7, 2 };
	struct balance b = { .master = tensor_1d(high, DTYPE_BF16, 2),
		.low_bits = tensor_1d(low, DTYPE_U16, 2),
		.load = tensor_1d(load, DTYPE_F64, 2),
		.mean = 3,
		.rate = 0x1p-12 };

	st->ops->balance(st, &b);
	CHECK(high[0] == 0x3f80 && high[1] == 0x3f80);
	CHECK_NEAR(dtype_f32_from_parts(high[0], low[0]), 1 - 0x1p-12, 1e-9);
	CHECK_NEAR(dtype_f32_from_parts(high[1], low[1]), 1 + 0x1p-12, 1e-9);
	backend->close(r.d);
}

/* Weights of bf16 are the rounded masters. */
static double *
shrunk_by(const struct backend *b, enum dtype act)
{
	double *x = numbers(1, 300), *out;
	struct side s = side_open(b, act);
	struct shrink call = { .master = put(&s, tensor_1d(NULL, s.real, 300), x),
		.weight = put(&s, tensor_1d(NULL, act, 300), x),
		.factor = 0.375 };

	s.r.st->ops->shrink(s.r.st, &call);
	out = take(&s, call.weight);
	rig_take(&s.r, call.master, NULL);
	b->close(s.r.d);
	free(x);
	return out;
}

static void
test_shrink(const struct backend *b)
{
	for (int i = 0; i < 2; i++) {
		enum dtype act = i ? DTYPE_BF16 : DTYPE_F32;
		double *have = shrunk_by(b, act), *want = shrunk_by(&backend_cpu, DTYPE_F64);

		side_compare("shrunk", i, (const double *[]){ have, want }, 300, i ? 1e-2 : 1e-7);
		free(have);
		free(want);
	}
}

/* A factor near 1 is lost in bf16, and kept by the low bits. */
static void
shrink_by_hand(const struct backend *backend)
{
	struct rig r = rig_open(backend, DTYPE_F64);
	struct stream *st = r.st;
	double master[2] = { 3, -0.5 }, weight[2];
	uint16_t high[1] = { 0x3f80 }, low[1] = { 0 };
	struct shrink whole = { .master = tensor_1d(master, DTYPE_F64, 2),
		.weight = tensor_1d(weight, DTYPE_F64, 2),
		.factor = 0.5 };
	struct shrink parts = { .master = tensor_1d(high, DTYPE_BF16, 1),
		.low_bits = tensor_1d(low, DTYPE_U16, 1),
		.factor = 1 - 0x1p-12 };

	st->ops->shrink(st, &whole);
	CHECK(master[0] == 1.5 && master[1] == -0.25);
	CHECK(!memcmp(master, weight, sizeof master));
	st->ops->shrink(st, &parts);
	CHECK(high[0] == 0x3f80);
	CHECK_NEAR(dtype_f32_from_parts(high[0], low[0]), 1 - 0x1p-12, 1e-9);
	backend->close(r.d);
}

/* --- time: 0 master, 1 and 2 moments, 3 gradient, 4 weight ------------------------------------ */

static void
adamw_declare(struct problem *p)
{
	for (int i = 0; i < 5; i++)
		slot_add(p, i, SLOT_SCRATCH, i == 4 ? SLOT_ACT | SLOT_VECTOR : SLOT_VECTOR,
		    SHAPE(p->c->rows, 1));
}

static void
adamw_forward(struct problem *p)
{
	struct adamw a = { .master = *T(0),
		.exp_avg = *T(1),
		.exp_avg_sq = *T(2),
		.grad = *T(3),
		.weight = *T(4),
		.lr = 1e-4,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.grad_scale = 1,
		.correction1 = 0.1,
		.correction2 = 0.05,
		.decoupled = true };

	for (int i = 0; i < 4; i++)
		p->ops->fill(p->st, &(struct fill){ *T(i), 0.5 });
	p->ops->adamw(p->st, &a);
}

static const struct op_test adamw_test = { "adamw", adamw_declare, adamw_forward, NULL, NULL };

const struct op_case cases[] = {
	CHECKED(CASE_CPU, test_rules),
	CHECKED(CASE_CPU, test_narrow_moments),
	CHECKED(CASE_CPU, test_whole_masters),
	CHECKED(CASE_CUDA, test_optimizers),
	CHECKED(CASE_CUDA, test_low_bits),
	CHECKED(CASE_BOTH, test_balance),
	CHECKED(CASE_CPU, balance_by_hand),
	CHECKED(CASE_CPU, parts_by_hand),
	CHECKED(CASE_BOTH, test_shrink),
	CHECKED(CASE_CPU, shrink_by_hand),
	{ &adamw_test, CASE_TIME, .rows = 1 << 24 },
	{ 0 },
};
