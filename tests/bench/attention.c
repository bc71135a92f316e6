/*
 * attention.c - rates of attention on the GPU, forward and backward, in TFLOP/s
 *
 * One row for each shape and implementation, tab-separated, in the layout of the engine: rows of q,
 * k and v side by side, the sample fastest. Products are counted for half the square of scores: 2 b
 * n s^2 d forward and 2.5 times that backward. A time is the mean of a queue of calls, the best of
 * three queues. Without a GPU it says so and succeeds.
 */
#include "lib/base/clock.h"
#include "lib/model/attention.h"
#include "train/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct shape {
	int b, n, g, s, d;
} shapes[] = {
	{ 64, 12, 12, 1024, 64 }, { 16, 16, 16, 2048, 128 }, { 16, 25, 25, 1024, 64 },
	{ 8, 32, 8, 4096, 64 }, { 4, 32, 8, 4096, 128 },
};

static const struct {
	const char *name;
	enum attention_choice choice;
	bool deterministic;
} solvers[] = {
	{ "cuDNN", ATTENTION_LIBRARY, false }, { "cuDNN, deterministic", ATTENTION_LIBRARY, true },
	{ "tiled", ATTENTION_TILED, true },
};

enum { CALLS = 20, QUEUES = 3 };

/* A problem on a device. */
struct rig {
	const struct backend *backend;
	struct device *device;
	struct stream *st;
	struct attention_grad a;
	struct tensor qkv, dqkv;
};

/* Device memory with values between -1 and 1, not all alike. */
static struct tensor
random_matrix(struct rig *r, int64_t rows, int64_t columns)
{
	static uint16_t host[1 << 16];
	size_t bytes = (size_t)(rows * columns) * 2;
	struct err e;
	char *p = r->backend->alloc(r->device, bytes, &e);
	uint32_t x = 1;

	if (!p) {
		fprintf(stderr, "attention: %s\n", e.msg);
		return (struct tensor){ .data = NULL };
	}
	for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
		x = x * 1664525 + 1013904223;
		host[i] = (uint16_t)(0x3e80 + (x >> 24) + (x >> 8 & 0x8000));
	}
	for (size_t at = 0; at < bytes; at += sizeof host)
		r->backend->copy_in(r->st, p + at, host, bytes - at < sizeof host ? bytes - at : sizeof host);
	return tensor_2d(p, DTYPE_BF16, rows, columns);
}

/* Statistics, which the passes write. */
static struct tensor
statistics(struct rig *r, const struct shape *c)
{
	int64_t n = (int64_t)c->b * c->n;
	struct err e;

	return tensor_2d(
	    r->backend->alloc(r->device, (size_t)(n * c->s) * 4, &e), DTYPE_F32, n, c->s);
}

/* The arguments of both passes; false when there is no memory for them. */
static bool
set_up(struct rig *r, const struct shape *c, uint64_t work)
{
	int64_t rows = (int64_t)c->b * c->s, q = (int64_t)c->n * c->d, k = (int64_t)c->g * c->d;

	r->qkv = random_matrix(r, rows, q + 2 * k);
	r->dqkv = random_matrix(r, rows, q + 2 * k);
	r->a.fwd = (struct attention){ .out = random_matrix(r, rows, q), .lse = statistics(r, c),
		.micro_batch = c->b, .num_heads = c->n, .num_groups = c->g, .head_dim = c->d,
		.scale = 1 / sqrt(c->d) };
	r->a.dout = random_matrix(r, rows, q);
	r->a.delta = statistics(r, c);
	r->a.work = random_matrix(r, 1, (int64_t)work / 2);
	if (!r->qkv.data || !r->dqkv.data || !r->a.fwd.out.data || !r->a.dout.data ||
	    !r->a.fwd.lse.data || !r->a.delta.data || (work && !r->a.work.data))
		return false;
	r->a.fwd.q = tensor_columns(&r->qkv, 0, q);
	r->a.fwd.k = tensor_columns(&r->qkv, q, k);
	r->a.fwd.v = tensor_columns(&r->qkv, q + k, k);
	r->a.dq = tensor_columns(&r->dqkv, 0, q);
	r->a.dk = tensor_columns(&r->dqkv, q, k);
	r->a.dv = tensor_columns(&r->dqkv, q + k, k);
	return true;
}

/* What was taken, also when only part of it was. */
static void
release(struct rig *r)
{
	const struct tensor *all[] = { &r->qkv, &r->dqkv, &r->a.fwd.out, &r->a.dout, &r->a.fwd.lse,
		&r->a.delta, &r->a.work };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		r->backend->release(r->device, all[i]->data);
	r->backend->close(r->device);
}

/* Seconds of one call; the first, which plans, is not counted. Negative when the device failed. */
static double
time_pass(struct rig *r, bool backward)
{
	double best = 1e30;
	struct err e;

	for (int k = 0; k <= QUEUES; k++) {
		double start = clock_seconds(), t;

		for (int i = 0; i < (k ? CALLS : 2); i++)
			if (backward)
				r->st->ops->attention_bwd(r->st, &r->a);
			else
				r->st->ops->attention_fwd(r->st, &r->a.fwd);
		if (r->backend->sync(r->st, &e) < 0) {
			fprintf(stderr, "attention: %s\n", e.msg);
			return -1;
		}
		t = (clock_seconds() - start) / CALLS;
		if (k && t < best)
			best = t;
	}
	return best;
}

/* One row; an implementation that is not there is passed over with its reason. */
static void
measure(const struct backend *b, const struct shape *c, size_t solver)
{
	struct attention_shape a = { c->b, c->s, c->n, c->g, c->d, true, solvers[solver].deterministic };
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16,
		.deterministic = a.deterministic, .attention = solvers[solver].choice };
	double flops = 2.0 * c->b * c->n * c->s * c->s * c->d, forward = -1, backward = -1;
	uint64_t work = attention_workspace(&a);
	struct rig r = { .backend = b };
	struct err e;

	r.device = b->open(&config, &e);
	if (!r.device) {
		fprintf(stderr, "attention: %s\n", e.msg);
		return;
	}
	r.st = b->stream(r.device, STREAM_COMPUTE);
	if (set_up(&r, c, work)) {
		forward = time_pass(&r, false);
		backward = time_pass(&r, true);
	}
	release(&r);
	if (forward > 0 && backward > 0)
		printf("B%d H%d/%d S%d D%d\t%s\t%.0f\t%.0f\t%.3f\t%.3f\t%.0f\n", c->b, c->n, c->g, c->s,
		    c->d, solvers[solver].name, flops / forward / 1e12, 2.5 * flops / backward / 1e12,
		    forward * 1e3, backward * 1e3, (double)work / 1048576);
	fflush(stdout);
}

int
main(void)
{
	const struct backend *b = NULL;
	struct err why = { "the CUDA backend is not built in" };

	for (int i = 0; backends[i] && !b; i++)
		if (!strcmp(backends[i]->name, "cuda") && backends[i]->available(&why))
			b = backends[i];
	if (!b) {
		printf("skipped: %s\n", why.msg);
		return 0;
	}
	printf("shape\timplementation\tforward TFLOP/s\tbackward TFLOP/s\tforward ms\tbackward ms\tworkspace MiB\n");
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++)
			measure(b, &shapes[i], k);
	return 0;
}
