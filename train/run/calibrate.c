/*
 * calibrate.c - measures the run's own operations
 *
 * All ranks compute at once, on random numbers, since those of a host share power and memory, and
 * first for a sixth of the time without being measured, since a device that is cold is faster than
 * one in a long run. What is measured is what mplan prices (lib/model/operations.h), through the
 * tables of operations and calls, so that it is the same on every backend. Memory is taken beside
 * the run's arenas; what finds none is left out.
 */
#include "train/run/calibrate.h"
#include "lib/base/clock.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "lib/model/hardware.h"
#include "lib/model/operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES_MAX = 64, ALIGNED = 256 };

/* Shares of the time. */
static const double warm = 1 / 6.0, of_gemms = 0.4, of_each = 0.08;

/* Products of the stage that are alike, and how often a step has them. */
struct shape {
	int64_t m, n, k, times;
	bool accumulate;
};

struct calibration {
	struct engine *e;
	const struct train_config *c;
	struct hardware hw; /* of the device that was named, or of a CPU */
	double seconds;     /* in all */
	struct shape shape[SHAPES_MAX];
	int num_shapes;
	void *memory; /* of one measurement */
	struct str out;
};

/* What is measured: one call. */
typedef void call_fn(struct calibration *c, void *what);

/* --- measuring -------------------------------------------------------------------------------- */

/* Parts of device memory, one after the other; all NULL where there is not enough. */
static bool
take(struct calibration *c, const size_t *bytes, int count, char **out)
{
	size_t sum = 0;
	struct err ignored;

	for (int i = 0; i < count; i++)
		sum += (bytes[i] + ALIGNED - 1) / ALIGNED * ALIGNED;
	c->memory = c->e->backend->alloc(c->e->device, sum, &ignored);
	if (!c->memory)
		return false;
	sum = 0;
	for (int i = 0; i < count; i++) {
		out[i] = (char *)c->memory + sum;
		sum += (bytes[i] + ALIGNED - 1) / ALIGNED * ALIGNED;
	}
	return true;
}

static void
release(struct calibration *c)
{
	if (c->memory)
		c->e->backend->release(c->e->device, c->memory);
	c->memory = NULL;
}

static void
randomize(struct calibration *c, struct tensor x)
{
	struct normal n = { .x = tensor_flat(&x), .key = c->e->seed, .std = 1 };

	c->e->ops->normal(c->e->stream, &n);
}

/* Seconds of a call, over as many as `seconds` have room for; the first is not counted. All ranks
 * make equally many where others wait for them: the calls are then `fixed`. */
static double
time_of(struct calibration *c, call_fn *call, void *what, double seconds, int64_t fixed)
{
	double since, spent = 0;
	int64_t calls = 0, at_once = fixed ? fixed : 1;

	call(c, what);
	engine_sync(c->e);
	do {
		since = clock_seconds();
		for (int64_t i = 0; i < at_once; i++)
			call(c, what);
		engine_sync(c->e);
		since = clock_seconds() - since;
		spent += since;
		calls += at_once;
		if (!fixed && since < 0.01 * seconds)
			at_once *= 2;
	} while (!fixed && spent < seconds);
	return spent / (double)calls;
}

/* --- products --------------------------------------------------------------------------------- */

static void
add_shape(struct calibration *c, const struct operation *o, int64_t times)
{
	struct shape s = { o->m, o->n, o->k, times * o->count, o->accumulate };

	for (int i = 0; i < c->num_shapes; i++) {
		struct shape *x = &c->shape[i];

		if (x->m == s.m && x->n == s.n && x->k == s.k && x->accumulate == s.accumulate) {
			x->times += s.times;
			return;
		}
	}
	if (c->num_shapes < SHAPES_MAX)
		c->shape[c->num_shapes++] = s;
}

/* Of all blocks, those of experts apart, whose rows routers choose. */
static void
find_shapes(struct calibration *c)
{
	const struct run_plan *p = &c->e->plan;

	for (int i = 0; i < c->e->mem.num_blocks; i++) {
		struct operation_list x;

		operations_of_block(
		    &x, c->e->mem.block[i].kind, false, &p->model, &p->layout, &p->shape);
		for (int k = 0; k < x.count; k++)
			if (x.item[k].class == OPERATION_PRODUCT && !x.item[k].grouped)
				add_shape(c, &x.item[k], 1);
	}
}

static void
multiply(struct calibration *c, void *what)
{
	c->e->ops->gemm(c->e->stream, what);
}

/* Seconds of one product of the shape; 0: no memory. The gradient of a weight is summed from both
 * operands' rows and added to. */
static double
time_product(struct calibration *c, const struct shape *s, double seconds)
{
	enum dtype act = c->e->plan.shape.dtype, real = s->accumulate ? memory_compute(act) : act;
	const size_t bytes[] = { (size_t)(s->m * s->k) * dtype_size(act),
		(size_t)(s->k * s->n) * dtype_size(act), (size_t)(s->m * s->n) * dtype_size(real) };
	char *at[3];
	struct gemm g = { .alpha = 1,
		.beta = s->accumulate,
		.trans_a = s->accumulate,
		.trans_b = !s->accumulate };
	double each = 0;

	if (take(c, bytes, 3, at)) {
		g.a = s->accumulate ? tensor_2d(at[0], act, s->k, s->m)
				    : tensor_2d(at[0], act, s->m, s->k);
		g.b = s->accumulate ? tensor_2d(at[1], act, s->k, s->n)
				    : tensor_2d(at[1], act, s->n, s->k);
		g.c = tensor_2d(at[2], real, s->m, s->n);
		randomize(c, g.a);
		randomize(c, g.b);
		each = time_of(c, multiply, &g, seconds, 0);
	}
	release(c);
	return each;
}

/* FLOP/s that large products would reach: what each does over what its shape leaves of the rate,
 * as often as a step has it. */
static double
products(struct calibration *c, double seconds)
{
	double flops = 0, taken = 0;

	for (int i = 0; i < c->num_shapes; i++) {
		const struct shape *s = &c->shape[i];
		double m = (double)s->m, n = (double)s->n, k = (double)s->k,
		       each = time_product(c, s, seconds / c->num_shapes);

		if (each <= 0)
			continue;
		flops += (double)s->times * 2 * m * n * k / hardware_gemm_share(&c->hw, m, n, k, 1);
		taken += (double)s->times * each;
	}
	return taken > 0 ? flops / taken : 0;
}

/* --- attention -------------------------------------------------------------------------------- */

static void
attend(struct calibration *c, void *what)
{
	c->e->ops->attention_fwd(c->e->stream, what);
}

/* FLOP/s of the forward pass of one sample that attention would reach with long sequences and heads
 * of 128; 0: there is none, or no memory. */
static double
attention(struct calibration *c, double seconds)
{
	const struct run_plan *p = &c->e->plan;
	int64_t s = p->shape.seq_length, n = p->model.num_attention_heads, d = p->model.kv_channels,
		g = layout_local_groups(&p->layout, &p->model);
	enum dtype act = p->shape.dtype, real = memory_compute(act);
	double each = 0, flops;
	char *at[5];
	struct attention a = { .micro_batch = 1, .head_dim = (int)d, .scale = 1 / sqrt((double)d) };

	n /= p->layout.tensor_model_parallel_size;
	const size_t heads = (size_t)(s * n * d) * dtype_size(act),
		     groups = (size_t)(s * g * d) * dtype_size(act);
	const size_t bytes[] = { heads, groups, groups, heads, (size_t)(n * s) * dtype_size(real) };

	a.num_heads = (int)n;
	a.num_groups = (int)g;
	flops = attention_flops(&(struct attention){ .q = tensor_2d(NULL, act, s, n * d),
	    .k = tensor_2d(NULL, act, s, g * d),
	    .micro_batch = 1,
	    .num_heads = (int)n,
	    .head_dim = (int)d });
	if (take(c, bytes, 5, at)) {
		a.q = tensor_2d(at[0], act, s, n * d);
		a.k = tensor_2d(at[1], act, s, g * d);
		a.v = tensor_2d(at[2], act, s, g * d);
		a.out = tensor_2d(at[3], act, s, n * d);
		a.lse = tensor_2d(at[4], real, n, s);
		randomize(c, a.q);
		randomize(c, a.k);
		randomize(c, a.v);
		each = time_of(c, attend, &a, seconds, 0);
	}
	release(c);
	/* A quarter of both passes' time, which have 3.5 times the FLOPs, is the forward pass's. */
	return each > 0
	    ? 0.25 * 3.5 * flops / each / hardware_attention_share((double)s / 2, (double)d)
	    : 0;
}

/* --- memory, copies, sums --------------------------------------------------------------------- */

static void
add_arrays(struct calibration *c, void *what)
{
	c->e->ops->add(c->e->stream, what);
}

/* Seconds of a sum of two arrays of this size; 0: no memory. */
static double
time_add(struct calibration *c, size_t bytes, double seconds)
{
	enum dtype act = c->e->plan.shape.dtype;
	const size_t both[] = { bytes, bytes };
	char *at[2];
	double each = 0;

	if (take(c, both, 2, at)) {
		int64_t n = (int64_t)(bytes / dtype_size(act));
		struct pair p = { tensor_1d(at[0], act, n), tensor_1d(at[1], act, n) };

		each = time_of(c, add_arrays, &p, seconds, 0);
	}
	release(c);
	return each;
}

struct copy {
	void *device, *host;
	size_t bytes;
};

static void
copy_in(struct calibration *c, void *what)
{
	const struct copy *x = what;

	c->e->backend->copy_in(c->e->stream, x->device, x->host, x->bytes);
}

/* Bytes/s from the host's memory. */
static double
copies(struct calibration *c, size_t bytes, double seconds)
{
	struct copy x = { .bytes = bytes, .host = mem_zalloc(bytes, 1) };
	const struct backend *b = c->e->backend;
	char *at;
	double each = 0;

	if (take(c, &bytes, 1, &at)) {
		x.device = at;
		if (b->pin)
			b->pin(c->e->device, x.host, bytes);
		each = time_of(c, copy_in, &x, seconds, 0);
		if (b->unpin)
			b->unpin(c->e->device, x.host);
	}
	release(c);
	free(x.host);
	return each > 0 ? (double)bytes / each : 0;
}

/* The rate of the slowest rank, which the others wait for. */
static double
slowest(struct calibration *c, double rate)
{
	struct comm *w = c->e->groups.world;
	double inverse = rate > 0 ? 1 / rate : 0;
	struct tensor t = tensor_1d(&inverse, DTYPE_F64, 1);

	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	return inverse > 0 ? 1 / inverse : 0;
}

struct exchange {
	struct comm *of;
	struct tensor x;
};

static void
all_reduce(struct calibration *c, void *what)
{
	struct exchange *s = what;

	s->of->ops->all_reduce(
	    COMM_HERE(s->of), c->e->stream, &(struct comm_reduce){ s->x, REDUCE_SUM });
}

/* The largest group of ranks that exchange arrays; NULL: there is none. */
static struct comm *
largest_group(const struct engine *e)
{
	struct comm *const of[] = { e->groups.tp, e->groups.cp, e->groups.dp }, *best = NULL;

	for (int i = 0; i < 3; i++)
		if (of[i] && of[i]->size > (best ? best->size : 1))
			best = of[i];
	return best;
}

/* Bytes/s that a rank sends in a direction of a ring, for sums of this size. Collective over all
 * ranks, which make equally many calls. */
static double
sums(struct calibration *c, struct comm *of, size_t bytes, double seconds)
{
	enum dtype real = memory_compute(c->e->plan.shape.dtype);
	struct exchange s = { .of = of };
	struct err why = { "no memory" };
	char *at = NULL;
	double each = 0, n = of->size;

	if (comm_agree(COMM_HERE(c->e->groups.world), take(c, &bytes, 1, &at) ? 0 : -1, &why) ==
	    0) {
		s.x = tensor_1d(at, real, (int64_t)(bytes / dtype_size(real)));
		each = 1 / slowest(c, 1 / time_of(c, all_reduce, &s, 0, 1));
		each = time_of(c, all_reduce, &s, 0, (int64_t)fmin(fmax(seconds / each, 1), 1e4));
	}
	release(c);
	return each > 0 ? 2 * (n - 1) / n * (double)bytes / each : 0;
}

/* --- the file --------------------------------------------------------------------------------- */

/* A rate as the share of a named device's figure, or as the figure itself. */
static void
add_rate(struct calibration *c, const char *figure, const char *share, double rate, double peak,
    const char *what)
{
	if (rate <= 0)
		return;
	if (opt_given(&c->c->parse, "gpu"))
		str_addf(&c->out, "%s %.4g # measured: %s, %.4g of %.4g\n", share,
		    fmin(rate / peak, 1), what, rate, peak);
	else
		str_addf(&c->out, "%s %.4g # measured: %s\n%s 1\n", figure, rate, what, share);
}

/* Whether one host has all ranks. */
static bool
one_host(const struct engine *e)
{
	int local_size;

	mpi_local_rank(e->groups.world, &local_size);
	return local_size == e->groups.world->size;
}

static void
measure(struct calibration *c)
{
	enum { LARGE = 64 << 20, SUMMED = 16 << 20, SMALL = 4096 };
	struct comm *group = largest_group(c->e);
	double peak = hardware_peak(&c->hw, c->e->plan.shape.dtype) / 1e12, rate, heads, moved,
	       start;
	bool near = one_host(c->e);
	char words[96];

	(void)products(c, warm * c->seconds);
	rate = slowest(c, products(c, of_gemms * c->seconds));
	heads = slowest(c, attention(c, of_each * c->seconds));
	start = time_add(c, SMALL, of_each * c->seconds);
	moved = time_add(c, LARGE, of_each * c->seconds);
	snprintf(words, sizeof words, "%d products of the run, TFLOP/s", c->num_shapes);
	add_rate(c, "tflops", "gemm-efficiency", rate / 1e12, peak, words);
	if (!opt_given(&c->c->parse, "gpu") && rate > 0)
		peak = rate / 1e12;
	if (heads > 0)
		str_addf(&c->out, "attention-efficiency %.4g # measured: %lld positions\n",
		    fmin(heads / 1e12 / peak, 1), (long long)c->e->plan.shape.seq_length);
	add_rate(c, "memory-bandwidth", "memory-efficiency",
	    moved > 0 ? slowest(c, 3.0 * LARGE / moved) / 1e9 : 0, c->hw.memory_bandwidth,
	    "sums of arrays of 64 MiB, GB/s");
	str_addf(&c->out, "kernel-us %.3g # measured: sums of arrays of 4 KiB\n", start * 1e6);
	add_rate(c, "host-bandwidth", "host-efficiency",
	    slowest(c, copies(c, LARGE, of_each * c->seconds)) / 1e9, c->hw.host_bandwidth,
	    "copies of 64 MiB, GB/s");
	if (!group)
		return;
	snprintf(words, sizeof words, "sums of %d ranks, 16 MiB, GB/s", group->size);
	add_rate(c, near ? "link-bandwidth" : "network-bandwidth",
	    near ? "link-efficiency" : "network-efficiency",
	    slowest(c, sums(c, group, SUMMED, of_each * c->seconds)) / 1e9,
	    near ? c->hw.link_bandwidth : c->hw.network_bandwidth, words);
}

int
calibrate(struct engine *e, const struct train_config *c, struct err *err)
{
	struct calibration x = { .e = e, .c = c, .seconds = c->o.calibrate_seconds };
	int cpu = 0, rc = 0;

	while (hardware_names[cpu + 1])
		cpu++;
	hardware_row(opt_given(&c->parse, "gpu") ? c->o.gpu : cpu, &x.hw);
	find_shapes(&x);
	str_addf(&x.out, "# mtrain --calibrate: %d ranks on %s, %g s\n", e->groups.world->size,
	    e->backend->name, x.seconds);
	str_addf(&x.out, "gpu %s\n", x.hw.name);
	measure(&x);
	if (e->rank == 0) {
		rc = outfile_write(c->o.calibrate, x.out.buf, x.out.len, err);
		if (rc == 0)
			note(
			    "what this machine reaches is in '%s', which mplan reads with --config",
			    c->o.calibrate);
	}
	str_release(&x.out);
	return rc;
}
