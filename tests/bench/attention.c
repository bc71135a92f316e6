/*
 * attention.c - rates of attention on the GPU, forward and backward, in TFLOP/s
 *
 * One row for each shape and implementation, tab-separated, in the layout of the engine: rows of q,
 * k and v side by side, the sample fastest. GEMMs are counted for half the square of scores: 2 b n
 * s^2 d forward and 2.5 times that backward. A time is the mean of a queue of calls, the best of
 * three queues. Without a GPU it prints a note and succeeds.
 */
#include "tests/bench/rig.h"

static const struct {
	const char *name;
	enum attention_choice choice;
	bool deterministic;
} solvers[] = {
	{ "cuDNN", ATTENTION_LIBRARY, false },
	{ "cuDNN, deterministic", ATTENTION_LIBRARY, true },
	{ "tiled", ATTENTION_TILED, true },
};

enum { CALLS = 20, QUEUES = 3 };

/* Seconds of one call; the first, which builds plans, is not counted. */
static double
time_pass(const struct rig *r, const struct attention_grad *a, bool backward)
{
	double best = 1e30;

	for (int k = 0; k <= QUEUES; k++) {
		double start = clock_seconds(), t;

		for (int i = 0; i < (k ? CALLS : 2); i++)
			if (backward)
				r->st->ops->attention_bwd(r->st, a);
			else
				r->st->ops->attention_fwd(r->st, &a->fwd);
		rig_finish(r);
		t = (clock_seconds() - start) / CALLS;
		if (k && t < best)
			best = t;
	}
	return best;
}

/* One row. */
static void
measure(const struct backend *b, const struct bench_model *m, size_t solver)
{
	struct device_config config = { .num_threads = 1,
		.dtype = DTYPE_BF16,
		.deterministic = solvers[solver].deterministic,
		.attention = solvers[solver].choice };
	struct rig r = rig_open(b, &config, (size_t)16 << 30);
	struct attention_grad a = rig_attention(&r, m, config.deterministic);
	double flops = rig_attention_flops(m, 0), forward = time_pass(&r, &a, false),
	       backward = time_pass(&r, &a, true);

	printf("B%d H%d/%d S%d D%d\t%s\t%.0f\t%.0f\t%.3f\t%.3f\t%.0f\n", (int)m->b, m->n, m->g,
	    (int)m->s, m->d, solvers[solver].name, flops / forward / 1e12,
	    2.5 * flops / backward / 1e12, forward * 1e3, backward * 1e3,
	    (double)tensor_bytes(&a.work) / 1048576);
	fflush(stdout);
	rig_close(&r);
}

int
main(void)
{
	const struct backend *b = gpu_backend();

	if (!b)
		return 0;
	printf("shape\timplementation\tforward TFLOP/s\tbackward TFLOP/s\tforward ms\tbackward "
	       "ms\tworkspace MiB\n");
	for (size_t i = 0; i < BENCH_MODELS; i++)
		for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++)
			measure(b, &bench_models[i], k);
	return 0;
}
