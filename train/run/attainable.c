/*
 * attainable.c - how fast this machine multiplies matrices under load
 *
 * No GEMM reaches a data sheet's peak, and a machine may be slower than others of its kind: a
 * throttled GPU, a host whose cores are shared. So the run's own GEMM is measured, on random
 * numbers, since zeros draw less power. Ranks of a host share power and memory, hence all of them
 * run at once. A GEMM that would take too long, as on a CPU, is cut to fewer rows, which are the
 * tokens of a micro batch.
 */
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "lib/model/work.h"
#include "train/run/attainable.h"

#include <math.h>

enum { ALIGNMENT = 256 };
/* In seconds: the length of the measurement, and the time between two readings of the clock. More
 * rows are tried while a call takes less than LOOK. */
static const double SECONDS = 1, LOOK = 0.03;
/* FLOPs of the first call, which is short on any device; the factor by which the rows grow. */
static const double FIRST = 1e9;
enum { GROWTH = 8 };

/* One GEMM, with its memory. */
struct trial {
	struct engine *e;
	struct gemm_shape shape;
	void *memory; /* NULL: none was free */
	struct gemm gemm;
};

/* The largest GEMM of this stage's layers. */
static struct gemm_shape
largest(const struct engine *e)
{
	struct gemm_shape best = { 0 };

	for (int i = 0; i < e->mem.num_blocks; i++) {
		const struct block *b = &e->mem.block[i];
		struct work w;

		if (!layer_transforms(&e->plan.model, b->layer))
			continue;
		work_of(&w, b->kind, &e->plan.model, &e->plan.layout, &e->plan.shape);
		for (int k = 0; k < w.num_gemms; k++)
			if ((double)w.gemm[k].out * (double)w.gemm[k].in >
			    (double)best.out * (double)best.in)
				best = w.gemm[k];
	}
	return best;
}

static double
flops(const struct gemm_shape *p)
{
	return 2 * (double)p->rows * (double)p->out * (double)p->in;
}

static size_t
aligned(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void
randomize(struct trial *t, const struct tensor *x)
{
	struct normal n = { .x = *x, .key = t->e->seed, .std = 1 };

	t->e->ops->normal(t->e->stream, &n);
}

static void
trial_end(struct trial *t)
{
	if (t->memory)
		t->e->backend->release(t->e->device, t->memory);
	t->memory = NULL;
}

/* Seconds of this many calls. */
static double
run(const struct trial *t, int64_t calls)
{
	double since = clock_seconds();

	for (int64_t i = 0; i < calls; i++)
		t->e->ops->gemm(t->e->stream, &t->gemm);
	engine_sync(t->e);
	return clock_seconds() - since;
}

/* Seconds of a call with this many rows: y [rows, out] = x [rows, in] W^T, as in the forward pass.
 * The first call plans and is not counted. */
static double
try_rows(struct trial *t, int64_t rows)
{
	const struct gemm_shape *p = &t->shape;
	enum dtype type = t->e->plan.shape.dtype;
	size_t size = dtype_size(type), x = aligned((size_t)(rows * p->in) * size),
	       w = aligned((size_t)(p->out * p->in) * size), y = (size_t)(rows * p->out) * size;
	struct err ignored;
	char *at;

	trial_end(t);
	t->shape.rows = rows;
	t->memory = at = t->e->backend->alloc(t->e->device, x + w + y, &ignored);
	if (!at)
		return INFINITY;
	t->gemm = (struct gemm){ .a = tensor_2d(at, type, rows, p->in),
		.b = tensor_2d(at + x, type, p->out, p->in),
		.c = tensor_2d(at + x + w, type, rows, p->out),
		.trans_b = true,
		.alpha = 1 };
	randomize(t, &t->gemm.a);
	randomize(t, &t->gemm.b);
	run(t, 1);
	return run(t, 1);
}

/* Chooses as many rows as the run has, or fewer where memory is short or a call would take too
 * long. Returns the seconds of a call. */
static double
choose_rows(struct trial *t)
{
	int64_t all = t->shape.rows, rows = (int64_t)(FIRST / flops(&t->shape) * (double)all) + 1;
	double seconds = try_rows(t, rows < all ? rows : all), more;

	while (t->shape.rows < all && seconds < LOOK) {
		rows = t->shape.rows;
		more = try_rows(t, rows * GROWTH < all ? rows * GROWTH : all);
		if (!t->memory)
			return try_rows(t, rows);
		seconds = more;
	}
	return seconds;
}

/* FLOP/s of this rank over SECONDS, counted from when all ranks are ready. */
static double
sustained(const struct trial *t, double seconds)
{
	struct comm *w = t->e->groups.world;
	int64_t at_once = seconds < LOOK ? (int64_t)(LOOK / fmax(seconds, 1e-6)) : 1, calls = 0;
	double taken = 0;

	w->ops->barrier(COMM_HERE(w));
	if (!t->memory)
		return NAN;
	for (; taken < SECONDS; calls += at_once)
		taken += run(t, at_once);
	return (double)calls * flops(&t->shape) / taken;
}

double
attainable_measure(struct engine *e)
{
	struct comm *w = e->groups.world;
	struct trial t = { .e = e, .shape = largest(e) };
	double seconds = choose_rows(&t), rate = sustained(&t, seconds);
	struct tensor sum = tensor_1d(&rate, DTYPE_F64, 1);

	trial_end(&t);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ sum, REDUCE_SUM });
	if (e->rank == 0 && isnan(rate))
		note(
		    "--log-ceiling: a device has no memory left to measure its rate: no ceiling is "
		    "logged");
	else if (e->rank == 0)
		note("the ceiling is %.4g TFLOP/s per rank: GEMMs of [%lld, %lld] by [%lld, %lld] "
		     "on all ranks at once",
		    rate / 1e12 / w->size, (long long)t.shape.rows, (long long)t.shape.in,
		    (long long)t.shape.in, (long long)t.shape.out);
	return rate;
}
