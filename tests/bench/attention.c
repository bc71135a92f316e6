/*
 * attention.c - rates of attention on the GPU, forward and backward, in TFLOP/s
 *
 * One row for each shape and implementation, tab-separated, in the layout of the engine: rows of q,
 * k and v side by side, the sample fastest. GEMMs are counted for half the square of scores: 2 b n
 * s^2 d forward and 2.5 times that backward. A time is the mean of a queue of calls after another
 * one; the implementations alternate, and the median of several counts. With the argument "forward"
 * it measures forward passes alone. Without a GPU it prints a note and succeeds.
 */
#include "tests/bench/rig.h"

static const struct {
	const char *name;
	enum attention_choice choice;
	bool deterministic;
	bool backward; /* it has a backward pass of its own */
} solvers[] = {
	{ "ours for Hopper", ATTENTION_HOPPER, false, false },
	{ "cuDNN", ATTENTION_LIBRARY, false, true },
	{ "cuDNN, deterministic", ATTENTION_LIBRARY, true, true },
	{ "tiled", ATTENTION_TILED, true, true },
};

/* Documents in a sample of 16384 tokens, to a length of 0. */
static const int equal[] = { 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024,
	1024, 1024, 1024, 1024, 0 };
static const int mixed[] = { 1500, 77, 4096, 200, 3000, 600, 2500, 311, 900, 2000, 1200, 0 };

/* Besides those of the models. */
static const struct {
	struct bench_model m;
	const int *documents; /* NULL: none */
} shapes[] = {
	{ { .b = 16, .s = 2048, .n = 32, .g = 8, .d = 64 }, NULL },
	{ { .b = 2, .s = 8192, .n = 16, .g = 16, .d = 128 }, NULL },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 128 }, equal },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 128 }, mixed },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 64 }, equal },
	{ { .b = 1, .s = 16384, .n = 32, .g = 8, .d = 64 }, mixed },
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

/* False where the device does not open. */
static bool
solver_open(struct solver *s, const struct backend *b, const struct bench_model *m,
    const int *documents, size_t i)
{
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
	if (documents)
		set_documents(s, documents);
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
flops_of(const struct bench_model *m, const int *documents)
{
	double squares = 0;

	if (!documents)
		return rig_attention_flops(m, 0);
	for (; *documents; documents++)
		squares += (double)*documents * *documents;
	return 2 * squares * m->n * m->d;
}

/* One row; a pass that was not measured has none. */
static void
report(struct solver *s, const struct bench_model *m, const int *documents, size_t i, bool backward)
{
	double flops = flops_of(m, documents), forward = median(s->seconds[0]),
	       back = median(s->seconds[1]);

	printf("B%d H%d/%d S%d D%d%s\t%s\t%.0f\t", (int)m->b, m->n, m->g, (int)m->s, m->d,
	    documents == equal       ? " in documents of 1024"
		: documents == mixed ? " in documents of 77-4096"
				     : "",
	    solvers[i].name, flops / forward / 1e12);
	if (backward && solvers[i].backward)
		printf("%.0f\t%.3f\t%.3f\t%.0f\n", 2.5 * flops / back / 1e12, forward * 1e3,
		    back * 1e3, (double)tensor_bytes(&s->a.work) / 1048576);
	else
		printf("-\t%.3f\t-\t-\n", forward * 1e3);
	fflush(stdout);
}

/* Queue k of each pass of a solver; before it another, so that clocks and power are those of the
 * same work. Of queue -1, which builds plans, no time is kept. */
static void
time_solver(struct solver *s, int k, bool backward)
{
	for (int pass = 0; pass < (backward ? 2 : 1); pass++) {
		double t;

		(void)time_queue(s, pass, k < 0 ? 2 : CALLS);
		t = time_queue(s, pass, k < 0 ? 2 : CALLS);
		if (k >= 0)
			s->seconds[pass][k] = t;
	}
}

/* Whether an implementation takes the shape of a model. */
static bool
takes(enum attention_choice choice, const struct bench_model *m, const int *documents)
{
	return choice == ATTENTION_TILED ||
	    (m->d <= 128 && (choice == ATTENTION_HOPPER || (m->softcap == 0 && documents == NULL)));
}

/* Rows of a shape. Each time another implementation is the first of a round. */
static void
measure(const struct backend *b, const struct bench_model *m, const int *documents, bool backward)
{
	static struct solver s[SOLVERS];
	bool open[SOLVERS];

	for (size_t i = 0; i < SOLVERS; i++)
		open[i] = takes(solvers[i].choice, m, documents) &&
		    solver_open(&s[i], b, m, documents, i);
	for (int k = -1; k < QUEUES; k++)
		for (size_t j = 0; j < SOLVERS; j++) {
			size_t i = (j + (size_t)(k + 1)) % SOLVERS;

			if (open[i])
				time_solver(&s[i], k, backward && solvers[i].backward);
		}
	for (size_t i = 0; i < SOLVERS; i++)
		if (open[i]) {
			report(&s[i], m, documents, i, backward);
			rig_close(&s[i].r);
		}
}

int
main(int argc, char **argv)
{
	const struct backend *b = gpu_backend();
	bool backward = argc < 2 || strcmp(argv[1], "forward") != 0;

	if (!b)
		return 0;
	printf("shape\timplementation\tforward TFLOP/s\tbackward TFLOP/s\tforward ms\tbackward "
	       "ms\tworkspace MiB\n");
	for (size_t i = 0; i < BENCH_MODELS; i++)
		measure(b, &bench_models[i], NULL, backward);
	for (size_t i = 0; i < SHAPES; i++)
		measure(b, &shapes[i].m, shapes[i].documents, backward);
	return 0;
}
