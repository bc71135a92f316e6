/*
 * attention.c - rates of attention on the GPU, forward and backward, in TFLOP/s
 *
 * One row for each shape and implementation, tab-separated, in the layout of the engine: rows of q,
 * k and v side by side, the sample fastest. GEMMs are counted for half the square of scores: 2 b n
 * s^2 d forward and 2.5 times that backward; of documents and windows, for what is seen. A time is
 * the mean of a queue of calls after another one; the implementations alternate, and the median of
 * several counts. Without a GPU it prints a note and succeeds.
 *
 *	attention [forward|backward|both [TEXT]...]
 *
 * measures one of the passes alone, and the shapes alone whose names have one of the texts. Ours
 * "in any order" does not wait for the turns of parts of dq, which tells what the order costs; its
 * dq is wrong.
 */
#include "lib/base/str.h"
#include "tests/bench/rig.h"
#include "tests/gpu_attention.h"

static const struct {
	const char *name;
	enum attention_choice choice;
	bool deterministic;
	bool any_order;
} solvers[] = {
	{ "ours for Hopper", ATTENTION_HOPPER, false, false },
	{ "ours, in any order", ATTENTION_HOPPER, false, true },
	{ "cuDNN", ATTENTION_LIBRARY, false, false },
	{ "cuDNN, deterministic", ATTENTION_LIBRARY, true, false },
	{ "tiled", ATTENTION_TILED, true, false },
};

/* Documents in a sample of 16384 tokens, to a length of 0. */
static const int equal[] = { 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024,
	1024, 1024, 1024, 1024, 0 };
static const int mixed[] = { 1500, 77, 4096, 200, 3000, 600, 2500, 311, 900, 2000, 1200, 0 };

/* What is measured: a model's attention, in documents or with a window of so many keys. */
struct problem {
	struct bench_model m;
	const int *documents; /* NULL: none */
	int64_t window;       /* 0: none */
	bool sinks;
	double drop;
};

/* Besides those of the models. */
static const struct problem shapes[] = {
	{ { .b = 16, .s = 2048, .n = 32, .g = 8, .d = 64 }, NULL, 0 },
	{ { .b = 2, .s = 8192, .n = 16, .g = 16, .d = 128 }, NULL, 0 },
	{ { .b = 1, .s = 8192, .n = 8, .g = 2, .d = 128 }, NULL, 0 },
	{ { .b = 4, .s = 4096, .n = 32, .g = 8, .d = 128 }, NULL, 128 },
	{ { .b = 8, .s = 4096, .n = 32, .g = 8, .d = 64 }, NULL, 128 },
	{ { .b = 4, .s = 4096, .n = 32, .g = 8, .d = 128, .softcap = 50 }, NULL, 0 },
	{ { .b = 4, .s = 4096, .n = 32, .g = 32, .d = 96 }, NULL, 0 },
	{ { .b = 2, .s = 8192, .n = 8, .g = 4, .d = 256, .softcap = 50 }, NULL, 4096 },
	{ { .b = 2, .s = 8192, .n = 8, .g = 4, .d = 256 }, NULL, 0 },
	{ { .b = 2, .s = 8192, .n = 8, .g = 4, .d = 256 }, NULL, 1024 },
	{ { .b = 4, .s = 4096, .n = 64, .g = 8, .d = 64 }, NULL, 0 },
	{ { .b = 4, .s = 4096, .n = 64, .g = 8, .d = 64 }, NULL, 0, true },
	{ { .b = 4, .s = 4096, .n = 64, .g = 8, .d = 64 }, NULL, 128 },
	{ { .b = 4, .s = 4096, .n = 64, .g = 8, .d = 64 }, NULL, 128, true },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 128 }, equal, 0 },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 128 }, mixed, 0 },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 64 }, equal, 0 },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 64 }, mixed, 0 },
	{ { .b = 8, .s = 2048, .n = 16, .g = 16, .d = 128 }, .drop = 0.1 },
	{ { .b = 16, .s = 1024, .n = 16, .g = 16, .d = 64 }, .drop = 0.1 },
	{ { .b = 8, .s = 2048, .n = 16, .g = 16, .d = 80 }, .drop = 0.1 },
};

enum {
	CALLS = 20,
	QUEUES = 7,
	SOLVERS = sizeof solvers / sizeof *solvers,
	SHAPES = sizeof shapes / sizeof *shapes,
};

/* An implementation at work on a shape; d NULL: the GPU or the build does not have it. */
struct solver {
	struct rig r;
	struct attention_grad a;
	double seconds[2][QUEUES]; /* of a call, forward and backward */
};

/* The documents of the only sample of a problem. */
static void
set_documents(struct solver *s, const int *lengths)
{
	struct tensor *first = &s->a.fwd.first;
	int32_t *starts = malloc((size_t)s->a.fwd.q.shape[0] * sizeof *starts);
	int at = 0;

	for (int start = 0; starts && *lengths; start += *lengths++)
		for (int i = 0; i < *lengths; i++)
			starts[at++] = start;
	if (at != s->a.fwd.q.shape[0])
		rig_fail("documents do not fill the sample");
	*first = rig_vector(&s->r, DTYPE_I32, at);
	s->r.b->copy_in(s->r.st, first->data, starts, (size_t)at * sizeof *starts);
	rig_finish(&s->r);
	free(starts);
}

/* A sink for each head, with its gradient. */
static void
set_sinks(struct solver *s)
{
	struct tensor *all[] = { &s->a.fwd.sink, &s->a.dsink };

	for (int i = 0; i < 2; i++) {
		*all[i] = rig_vector(&s->r, DTYPE_F32, s->a.fwd.num_heads);
		s->r.st->ops->fill(s->r.st, &(struct fill){ *all[i], 1 });
	}
}

/* False where the device does not open, or cuDNN would need too much memory. */
static bool
solver_open(struct solver *s, const struct backend *b, const struct problem *p, size_t i)
{
	const struct bench_model *m = &p->m;
	struct device_config config = { .num_threads = 1,
		.dtype = DTYPE_BF16,
		.deterministic = solvers[i].deterministic,
		.attention = solvers[i].choice };
	struct device *d;
	struct err e;

	*s = (struct solver){ .r = { .b = b } };
	d = b->open(&config, &e);
	if (!d)
		return false;
	b->close(d);
	s->r = rig_open(b, &config, (size_t)14 << 30);
	s->a = rig_attention(&s->r, m, config.deterministic);
	if (solvers[i].choice == ATTENTION_LIBRARY && !s->a.work.data) { /* it is over the limit */
		rig_close(&s->r);
		return false;
	}
	s->a.fwd.window = p->window;
	s->a.fwd.drop = (struct dropout){
		.p = p->drop, .key = 1, .seq_length = m->s, .width = m->n, .micro_batch = (int)m->b
	};
	if (p->documents)
		set_documents(s, p->documents);
	if (p->sinks)
		set_sinks(s);
	if (solvers[i].choice == ATTENTION_HOPPER) {
		const struct attention_shape a = { m->b, m->s, m->s, m->n, m->g, m->d, true,
			config.deterministic };

		s->a.work = rig_vector(&s->r, DTYPE_F32, (int64_t)hopper_workspace(&a) / 4);
		gpu_attention_run(s->r.d, (struct hopper_run){ .in_order = !solvers[i].any_order });
	}
	return true;
}

/* Seconds of one call of a queue of so many. */
static double
time_queue(const struct solver *s, bool backward, int calls)
{
	double start = clock_seconds();

	for (int i = 0; i < calls; i++)
		if (backward)
			s->r.st->ops->attention_bwd(s->r.st, &s->a);
		else
			s->r.st->ops->attention_fwd(s->r.st, &s->a.fwd);
	rig_finish(&s->r);
	return (clock_seconds() - start) / calls;
}

static int
compare(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static double
median(double *x)
{
	qsort(x, QUEUES, sizeof *x, compare);
	return x[QUEUES / 2];
}

/* Operations of a forward pass. */
static double
flops_of(const struct problem *p)
{
	double squares = 0;

	if (!p->documents)
		return rig_attention_flops(&p->m, p->window);
	for (const int *length = p->documents; *length; length++)
		squares += (double)*length * *length;
	return 2 * squares * p->m.n * p->m.d;
}

/* The passes that are wanted. */
enum { FORWARD = 1, BACKWARD = 2 };

/* Those of the wanted that are measured of an implementation, 0: it does not take the shape.
 * Forward there is one order. */
static int
passes_of(const struct problem *p, size_t i, int wanted)
{
	bool capped = p->m.softcap > 0, takes = true;
	struct attention_kind kind = { p->m.d, p->documents, capped, p->drop > 0 };

	if (solvers[i].choice == ATTENTION_HOPPER)
		takes = hopper_takes(&kind, p->m.s);
	else if (solvers[i].choice == ATTENTION_LIBRARY)
		takes = p->m.d <= 128 && !capped && !p->documents && !p->sinks && p->drop == 0;
	return !takes ? 0 : solvers[i].any_order ? wanted & BACKWARD : wanted;
}

static void
add_name(struct str *s, const struct problem *p)
{
	const struct bench_model *m = &p->m;

	str_addf(s, "B%d H%d/%d S%d D%d", (int)m->b, m->n, m->g, (int)m->s, m->d);
	if (p->documents)
		str_addf(s, " in documents of %s", p->documents == equal ? "1024" : "77-4096");
	if (p->window)
		str_addf(s, " with a window of %d", (int)p->window);
	if (m->softcap > 0)
		str_addf(s, ", capped");
	if (p->sinks)
		str_addf(s, ", sinks");
	if (p->drop > 0)
		str_addf(s, ", dropout of %g", p->drop);
}

/* One row; a pass that was not measured has none. */
static void
report(struct solver *s, const struct problem *p, size_t i, int passes)
{
	double flops = flops_of(p), forward = median(s->seconds[0]), back = median(s->seconds[1]);
	struct str name = { 0 };

	add_name(&name, p);
	printf("%s\t%s\t", name.buf, solvers[i].name);
	str_release(&name);
	passes &FORWARD ? printf("%.0f\t", flops / forward / 1e12) : printf("-\t");
	passes &BACKWARD ? printf("%.0f\t", 2.5 * flops / back / 1e12) : printf("-\t");
	passes &FORWARD ? printf("%.3f\t", forward * 1e3) : printf("-\t");
	if (passes & BACKWARD)
		printf("%.3f\t%.0f\n", back * 1e3, (double)tensor_bytes(&s->a.work) / 1048576);
	else
		printf("-\t-\n");
	fflush(stdout);
}

/* Queue k of each pass of a solver; before it another, so that clocks and power are those of the
 * same work. Of queue -1, which builds plans, no time is kept. */
static void
time_solver(struct solver *s, int k, int passes)
{
	for (int pass = 0; pass < 2; pass++) {
		double t;

		if (!(passes & (pass ? BACKWARD : FORWARD)))
			continue;
		(void)time_queue(s, pass, k < 0 ? 2 : CALLS);
		t = time_queue(s, pass, k < 0 ? 2 : CALLS);
		if (k >= 0)
			s->seconds[pass][k] = t;
	}
}

/* Rows of a shape. Each time another implementation is the first of a round. */
static void
measure(const struct backend *b, const struct problem *p, int wanted)
{
	static struct solver s[SOLVERS];
	int passes[SOLVERS]; /* 0: it is not open */

	for (size_t i = 0; i < SOLVERS; i++) {
		passes[i] = passes_of(p, i, wanted);
		if (passes[i] && !solver_open(&s[i], b, p, i))
			passes[i] = 0;
	}
	for (int k = -1; k < QUEUES; k++)
		for (size_t j = 0; j < SOLVERS; j++) {
			size_t i = (j + (size_t)(k + 1)) % SOLVERS;

			if (passes[i])
				time_solver(&s[i], k, passes[i]);
		}
	for (size_t i = 0; i < SOLVERS; i++)
		if (passes[i]) {
			report(&s[i], p, i, passes[i]);
			rig_close(&s[i].r);
		}
}

/* Whether the name of a shape has one of the texts, if any are given. */
static bool
is_named(const struct problem *p, int argc, char **argv)
{
	struct str name = { 0 };
	bool found = argc < 3;

	add_name(&name, p);
	for (int i = 2; i < argc; i++)
		found = found || strstr(name.buf, argv[i]);
	str_release(&name);
	return found;
}

int
main(int argc, char **argv)
{
	const struct backend *b = gpu_backend();
	const char *pass = argc > 1 ? argv[1] : "";
	int wanted = !strcmp(pass, "forward") ? FORWARD
	    : !strcmp(pass, "backward")       ? BACKWARD
					      : FORWARD | BACKWARD;

	if (!b)
		return 0;
	printf("shape\timplementation\tforward TFLOP/s\tbackward TFLOP/s\tforward ms\tbackward "
	       "ms\tworkspace MiB\n");
	for (size_t i = 0; i < BENCH_MODELS; i++) {
		struct problem p = { bench_models[i], NULL, 0 };

		if (is_named(&p, argc, argv))
			measure(b, &p, wanted);
	}
	for (size_t i = 0; i < SHAPES; i++)
		if (is_named(&shapes[i], argc, argv))
			measure(b, &shapes[i], wanted);
	return 0;
}
