/*
 * driver.c [cuda | time] [NAME...] - the cases of tests/op/NAME.c, with which it is linked
 *
 * Without a word, on the CPU: values against formulas, gradients against central differences in
 * fp64, types against double, and the same bits by one thread and three. cuda: the GPU against the
 * CPU in double on the same rounded inputs, and against itself, bit by bit. time: a line for each
 * operation of a case, with its milliseconds, the rates of what it must move and multiply
 * (train/op), and the share of what a copy or a GEMM of its own reached just before, on the GPU, or
 * after a note on the CPU.
 *
 * NAME is that of a test, or "checks" for the others; by default all. DEVICE=cpu takes the CPU in
 * place of the GPU. Without a GPU `cuda` prints a note and succeeds.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "tests/check.h"
#include "tests/gpu.h"
#include "tests/op/run.h"
#include "train/watch/observe.h"

#include <string.h>

static const struct {
	enum dtype dtype;
	double limit;
} types[] = {
	{ DTYPE_F32, 1e-9 },
	{ DTYPE_BF16, 1e-5 },
	{ DTYPE_F16, 1e-6 },
};

enum { TYPES = sizeof types / sizeof *types };

static void
complain(const struct op_case *c, int slot, const char *what, double value)
{
	check_failures++;
	fprintf(stderr, "%s case %d slot %d: %s %g\n", c->test->name, (int)(c - cases), slot, what,
	    value);
}

/* Runs a case; a device error is a failure, with the device's reason. */
static struct problem *
solve(const struct backend *b, const struct op_case *c, struct problem_config config)
{
	struct problem *p = problem_solve(b, c, config);
	struct err e;

	check_count++;
	if (b->sync(p->st, &e) < 0) {
		check_failures++;
		fprintf(stderr, "%s case %d: %s\n", c->test->name, (int)(c - cases), e.msg);
	}
	return p;
}

/* Outputs and gradients of inputs of two runs differ by at most limit (NMSE). */
static void
compare(const struct problem *a, const struct problem *b, double limit)
{
	for (int i = 0; i < SLOTS; i++) {
		const struct slot *s = &a->slot[i], *t = &b->slot[i];
		bool out = s->kind != SLOT_INPUT;
		double d;

		if (s->kind != SLOT_OUTPUT && s->kind != SLOT_INPUT && s->kind != SLOT_REBUILT)
			continue;
		d = nmse(out ? s->value : s->grad, out ? t->value : t->grad, slot_count(s));
		check_count++;
		if (d <= limit)
			continue;
		fprintf(stderr, "%s, limit %g: ", dtype_name(a->act), limit);
		complain(a->c, i, out ? "output differs by" : "gradient differs by", d);
	}
}

/* --- on the CPU ------------------------------------------------------------------------------- */

/* The sum over the outputs of gradient times value, whose derivatives the backward pass computes.
 */
static double
objective(struct problem *p)
{
	double sum = 0;

	problem_forward(p);
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
difference(struct problem *p, struct slot *s, int64_t k)
{
	const double h = 1e-5, before = s->flags & SLOT_ADDED ? SLOT_BEFORE : 0, x = s->value[k],
		     grad = s->grad[k] - before;
	double up, down, central;

	s->value[k] = x + h;
	up = objective(p);
	s->value[k] = x - h;
	down = objective(p);
	s->value[k] = x;
	central = (up - down) / (2 * h);
	return fabs(central - grad) /
	    fmax(fmax(fabs(grad), root_mean_square(s->grad, slot_count(s))), 1e-8);
}

/* Element j of those of a slot that are tried. */
static int64_t
drawn_element(const struct slot *s, uint64_t key, int i, int j)
{
	return (
	    int64_t)((double)rng_uniform(key, (uint64_t)j, (uint32_t)i, 2) * (double)slot_count(s));
}

/* Sixteen elements of the first output against the formula, in double; a recomputed output has the
 * same bits. */
static void
check_values(struct problem *p)
{
	int i = 0;

	while (p->slot[i].kind != SLOT_OUTPUT)
		i++;
	for (int j = 0; j < 16; j++) {
		struct slot *s = &p->slot[i];
		int64_t k = drawn_element(s, 13, i, j);
		double expected = p->c->test->expect(p, k / s->columns, k % s->columns),
		       d = fabs(s->value[k] - expected) / fmax(1, fabs(expected));

		check_count++;
		if (!(d < 1e-12))
			complain(p->c, i, "value is off by", d);
	}
	for (int k = 0; k < SLOTS; k++)
		if (p->slot[k].kind == SLOT_REBUILT)
			CHECK(!memcmp(p->slot[k].value, p->slot[i].value,
			    (size_t)slot_count(&p->slot[i]) * sizeof(double)));
}

/* Eight elements of every input, in double. */
static void
check_gradients(struct problem *p)
{
	for (int i = 0; i < SLOTS; i++)
		for (int j = 0; p->slot[i].kind == SLOT_INPUT && j < 8; j++) {
			int64_t k = drawn_element(&p->slot[i], 11, i, j);
			double d = difference(p, &p->slot[i], k);

			check_count++;
			if (!(d < 1e-6))
				complain(p->c, i, "gradient is off by", d);
		}
}

/* One case in two ways. */
static void
compare_ways(const struct op_case *c, const struct problem_config way[2], double limit)
{
	struct problem *a = solve(&backend_cpu, c, way[0]), *b = solve(&backend_cpu, c, way[1]);

	compare(a, b, limit);
	problem_free(a);
	problem_free(b);
}

/* Each type against double on the same rounded inputs; one thread and three give the same bits. */
static void
check_ways(const struct op_case *c)
{
	static const enum dtype bits[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16 };

	for (int i = 0; i < TYPES; i++) {
		enum dtype t = types[i].dtype;

		compare_ways(c,
		    (struct problem_config[]){ { t, t, 1, false }, { DTYPE_F64, t, 1, false } },
		    types[i].limit);
	}
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
		compare_ways(c,
		    (struct problem_config[]){
			{ bits[i], bits[i], 1, false }, { bits[i], bits[i], 3, false } },
		    0);
}

static void
on_cpu(const struct op_case *c)
{
	struct problem *p =
	    solve(&backend_cpu, c, (struct problem_config){ DTYPE_F64, DTYPE_F64, 1, false });

	if (p->c->test->expect)
		check_values(p);
	check_gradients(p);
	problem_free(p);
	check_ways(c);
}

/* --- against the CPU -------------------------------------------------------------------------- */

/* By which the limits of a case are larger. With few visible keys and wide heads gradients are
 * differences of numbers that have been rounded to 16 bits. */
static double
slack_of(const struct op_case *c)
{
	const struct op_test *t = c->test;

	if (c->takes & CASE_CPU)
		return t->slack > 0 ? t->slack : 1;
	return t->large_slack > 0 ? t->large_slack : 2;
}

static void
against_cpu(const struct backend *b, const struct op_case *c)
{
	for (int i = 0; i < TYPES; i++) {
		enum dtype t = types[i].dtype;
		struct problem_config config = { t, t, 2, true };
		struct problem *first = solve(b, c, config), *again = solve(b, c, config);
		struct problem *cpu =
		    solve(&backend_cpu, c, (struct problem_config){ DTYPE_F64, t, 2, false });

		compare(first, cpu, slack_of(c) * types[i].limit);
		compare(first, again, 0);
		problem_free(again);
		if (c->test->measured) {
			config.deterministic = false;
			again = solve(b, c, config);
			compare(again, cpu, slack_of(c) * types[i].limit);
			problem_free(again);
		}
		problem_free(first);
		problem_free(cpu);
	}
}

/* The CPU's bits. */
static void
same_bits(const struct backend *b, const struct op_case *c)
{
	struct problem_config config = { DTYPE_F32, DTYPE_F32, 2, true };
	struct problem *have = solve(b, c, config), *want = solve(&backend_cpu, c, config);

	compare(have, want, 0);
	problem_free(have);
	problem_free(want);
}

/* --- time ------------------------------------------------------------------------------------- */

enum { CALLS_MAX = 32, ROUNDS = 5 };

/* The calls of both passes, each with the best of its times. */
struct timing {
	struct observer observer;
	const struct backend *b;
	struct device *device;
	int calls;
	struct op_call call[CALLS_MAX];
	struct event *from[CALLS_MAX], *to[CALLS_MAX];
	double seconds[CALLS_MAX];
};

static void
before(struct observer *o, struct stream *st)
{
	struct timing *t = (struct timing *)o;

	if (t->calls < CALLS_MAX)
		t->b->record(st, t->from[t->calls]);
}

static void
after(struct observer *o, struct stream *st, const struct op_call *c)
{
	struct timing *t = (struct timing *)o;

	if (t->calls == CALLS_MAX)
		return;
	t->b->record(st, t->to[t->calls]);
	t->call[t->calls++] = *c;
}

/* Both passes once more, on what is on the device. */
static void
timed_pass(struct timing *t, struct problem *p, bool first)
{
	struct err e;

	t->calls = 0;
	p->ops = observe_begin(p->st, &t->observer);
	p->c->test->forward(p);
	if (p->c->test->backward)
		p->c->test->backward(p);
	p->ops = observe_end(p->st);
	if (t->b->sync(p->st, &e) < 0) {
		fprintf(stderr, "%s: %s\n", p->c->test->name, e.msg);
		exit(1);
	}
	for (int i = 0; i < t->calls; i++) {
		double s = t->b->elapsed(t->from[i], t->to[i]);

		t->seconds[i] = first || s < t->seconds[i] ? s : t->seconds[i];
	}
}

/* The best rates of the device: of a copy of device memory, and of a GEMM with equal sides. */
struct rates {
	double bytes, flops;
};

/* Waits for the device, and gives the seconds of the best of some calls. */
static double
best_of(struct stream *st, const struct backend *b, const struct gemm *g, const struct pair *copy)
{
	double best = INFINITY;
	struct err e;

	for (int i = 0; i < ROUNDS; i++) {
		double start = clock_seconds();

		for (int k = 0; k < ROUNDS; k++)
			if (g)
				st->ops->gemm(st, g);
			else
				st->ops->cast(st, copy);
		if (b->sync(st, &e) < 0) {
			fprintf(stderr, "%s\n", e.msg);
			exit(1);
		}
		best = fmin(best, (clock_seconds() - start) / ROUNDS);
	}
	return best;
}

static struct rates
best_rates(const struct backend *b)
{
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_BF16 };
	struct err e;
	struct device *d = b->open(&config, &e);
	struct stream *st = d ? b->stream(d, STREAM_COMPUTE) : NULL;
	int64_t n = b == &backend_cpu ? 512 : 8192;
	void *memory = d ? b->alloc(d, (size_t)(3 * n * n) * 2, &e) : NULL;
	struct tensor all = tensor_2d(memory, DTYPE_BF16, 3 * n, n), x = tensor_rows(&all, 0, n),
		      y = tensor_rows(&all, n, n), z = tensor_rows(&all, 2 * n, n);
	struct gemm g = { .c = z, .a = x, .b = y, .trans_b = true, .alpha = 1 };
	struct rates r;

	if (!memory) {
		fprintf(stderr, "%s: %s\n", b->name, e.msg);
		exit(1);
	}
	st->ops->normal(st, &(struct normal){ .x = all, .key = 1, .std = 1 });
	r.bytes = 2 * (double)tensor_bytes(&x) / best_of(st, b, NULL, &(struct pair){ y, x });
	r.flops = 2 * pow((double)n, 3) / best_of(st, b, &g, NULL);
	b->release(d, memory);
	b->close(d);
	return r;
}

static void
time_case(const struct backend *b, const struct op_case *c)
{
	struct rates top = best_rates(b);
	struct problem *p =
	    solve(b, c, (struct problem_config){ DTYPE_BF16, DTYPE_BF16, 2, false });
	struct timing t = {
		.observer = { .before = before, .after = after }, .b = b, .device = p->device
	};

	for (int i = 0; i < CALLS_MAX; i++) {
		t.from[i] = b->timer(p->device);
		t.to[i] = b->timer(p->device);
	}
	for (int i = 0; i < ROUNDS; i++)
		timed_pass(&t, p, i == 0);
	for (int i = 0; i < t.calls; i++) {
		double bytes = t.call[i].bytes / t.seconds[i],
		       flops = t.call[i].flops / t.seconds[i];

		printf("%s\t%d\t%s\t%.4f\t%.1f\t%.2f\t%.3f\n", c->test->name, (int)(c - cases),
		    t.call[i].name, t.seconds[i] * 1e3, bytes / 1e9, flops / 1e12,
		    flops > 0 ? flops / top.flops : bytes / top.bytes);
	}
	problem_free(p);
}

/* --- the cases -------------------------------------------------------------------------------- */

static bool
is_wanted(const struct op_case *c, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], c->test ? c->test->name : "checks"))
			return true;
	return argc == 0;
}

static void
run_case(const struct backend *b, const struct op_case *c, unsigned takes)
{
	if (!(c->takes & takes))
		return;
	if (c->check)
		c->check(b);
	else if (takes == CASE_CPU)
		on_cpu(c);
	else if (takes == CASE_TIME)
		time_case(b, c);
	else
		against_cpu(b, c);
	if (takes == CASE_CUDA && c->takes & CASE_BITS)
		same_bits(b, c);
}

/* What a GPU measures and keeps in a file is kept apart from the user's. */
static void
keep_apart(char *dir)
{
	if (mkdtemp(dir) && setenv("XDG_CACHE_HOME", dir, 1) == 0)
		return;
	perror(dir);
	exit(1);
}

int
main(int argc, char **argv)
{
	char dir[] = "/tmp/op-XXXXXX";
	struct err e;
	const char *device = getenv("DEVICE"), *word = argc > 1 ? argv[1] : "";
	unsigned takes = !strcmp(word, "cuda") ? CASE_CUDA
	    : !strcmp(word, "time")            ? CASE_TIME
					       : CASE_CPU;
	bool on_gpu = takes != CASE_CPU && !(device && !strcmp(device, "cpu"));
	const struct backend *b = on_gpu ? gpu_backend() : &backend_cpu;
	int skipped = takes == CASE_CPU ? 1 : 2;

	if (!b && takes == CASE_CUDA)
		return 0;
	b = b ? b : &backend_cpu;
	keep_apart(dir);
	if (takes == CASE_TIME)
		puts("test\tcase\toperation\tms\tGB/s\tTFLOP/s\tshare");
	for (const struct op_case *c = cases; c->takes; c++)
		if (is_wanted(c, argc - skipped, argv + skipped))
			run_case(b, c, takes);
	CHECK(io_remove_tree(dir, &e) == 0);
	return takes == CASE_TIME ? 0 : check_done();
}
