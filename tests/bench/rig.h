/*
 * rig.h - shared by the GPU benchmarks: the models, a device, a pool of device memory
 *
 * A device error ends the program.
 */
#ifndef TESTS_BENCH_RIG_H
#define TESTS_BENCH_RIG_H

#include "lib/base/clock.h"
#include "lib/model/block/workspace.h"
#include "tests/gpu.h"
#include "train/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A workload of gpu.sh, in the letters of train/ops.h. */
struct bench_model {
	const char *name;
	int64_t b, s, h, f, v;
	int layers, n, g, d;
	bool gated, layer_norm, tied;
	/* Of every second layer, 0: none; of every score, 0: none; norms of the branches */
	int64_t window;
	double softcap;
	bool post_norm;
};

static const struct bench_model bench_models[] = {
	{ "gpt2-124m", 64, 1024, 768, 3072, 50264, 12, 12, 12, 64, false, true, true, 0, 0, false },
	{ "gpt3-1.3b", 16, 2048, 2048, 8192, 50264, 24, 16, 16, 128, false, true, true, 0, 0,
	    false },
	{ "gpt2-1.5b", 16, 1024, 1600, 6400, 50264, 48, 25, 25, 64, false, true, true, 0, 0,
	    false },
	{ "llama-1b", 8, 4096, 2048, 8192, 128256, 16, 32, 8, 64, true, false, true, 0, 0, false },
	{ "llama-8b-8L", 4, 4096, 4096, 14336, 32000, 8, 32, 8, 128, true, false, false, 0, 0,
	    false },
	{ "llama-8b", 2, 8192, 4096, 14336, 128256, 32, 32, 8, 128, true, false, false, 0, 0,
	    false },
	{ "qwen3-1.7b", 8, 4096, 2048, 6144, 151936, 28, 16, 8, 128, true, false, true, 0, 0,
	    false },
	{ "gemma2-2b", 2, 8192, 2304, 9216, 256000, 26, 8, 4, 256, true, false, true, 4096, 50,
	    true },
};

enum { BENCH_MODELS = sizeof bench_models / sizeof *bench_models };

/* An open device. */
struct rig {
	const struct backend *b;
	struct device *d;
	struct stream *st;
	char *pool;
	size_t size, used; /* bytes of the pool, and of what is handed out */
};

/* Ends the program with the reason. */
static inline void
rig_fail(const char *why)
{
	fprintf(stderr, "bench: %s\n", why);
	exit(1);
}

/* A device with a pool of so many bytes. */
static inline struct rig
rig_open(const struct backend *b, const struct device_config *config, size_t size)
{
	struct rig r = { .b = b, .size = size };
	struct err e;

	r.d = b->open(config, &e);
	r.pool = r.d ? b->alloc(r.d, size, &e) : NULL;
	if (!r.pool)
		rig_fail(e.msg);
	r.st = b->stream(r.d, STREAM_COMPUTE);
	return r;
}

static inline void
rig_close(struct rig *r)
{
	r->b->release(r->d, r->pool);
	r->b->close(r->d);
}

/* Waits for what is queued. */
static inline void
rig_finish(const struct rig *r)
{
	struct err e;

	if (r->b->sync(r->st, &e) < 0)
		rig_fail(e.msg);
}

/* Seconds of one call: after a warm-up, the better of two rounds of 40 ms each. */
static inline double
rig_seconds(const struct rig *r, void (*op)(struct stream *, const void *), const void *args)
{
	double best = 1e30;
	int runs = 2;

	for (int round = 0; round < 4; round++) {
		double start = clock_seconds(), t;

		for (int i = 0; i < runs; i++)
			op(r->st, args);
		rig_finish(r);
		t = (clock_seconds() - start) / runs;
		if (round > 1)
			best = t < best ? t : best;
		runs = t > 0.02 ? 2 : (int)(0.04 / t);
	}
	return best;
}

/* Memory from the pool, filled with normals of deviation 1. */
static inline struct tensor
rig_matrix(struct rig *r, enum dtype dtype, int64_t rows, int64_t columns)
{
	struct tensor t = tensor_2d(r->pool + r->used, dtype, rows, columns);
	size_t bytes = (tensor_bytes(&t) + 255) / 256 * 256;

	if (r->used + bytes > r->size)
		rig_fail("the pool is too small");
	if (dtype_is_float(dtype))
		r->st->ops->normal(r->st,
		    &(struct normal){ .x = t, .key = 5, .first = (int64_t)r->used, .std = 1 });
	r->used += bytes;
	return t;
}

/* The same in one row. */
static inline struct tensor
rig_vector(struct rig *r, enum dtype dtype, int64_t n)
{
	struct tensor t = rig_matrix(r, dtype, 1, n);

	return tensor_flat(&t);
}

/* The arguments of both passes of a model's attention, with the scratch that the fast ones take. */
static inline struct attention_grad
rig_attention(struct rig *r, const struct bench_model *m, bool deterministic)
{
	const struct attention_shape a = { m->b, m->s, m->s, m->n, m->g, m->d, true,
		deterministic };
	int64_t rows = m->b * m->s, q = (int64_t)m->n * m->d, k = (int64_t)m->g * m->d;
	int64_t work = (int64_t)attention_workspace(&a);
	struct tensor qkv = rig_matrix(r, DTYPE_BF16, rows, q + 2 * k),
		      dqkv = rig_matrix(r, DTYPE_BF16, rows, q + 2 * k);
	struct attention_grad p = {
		.fwd = { .out = rig_matrix(r, DTYPE_BF16, rows, q),
		    .lse = rig_matrix(r, DTYPE_F32, m->b * m->n, m->s),
		    .q = tensor_columns(&qkv, 0, q),
		    .k = tensor_columns(&qkv, q, k),
		    .v = tensor_columns(&qkv, q + k, k),
		    .micro_batch = (int)m->b,
		    .num_heads = m->n,
		    .num_groups = m->g,
		    .head_dim = m->d,
		    .scale = 1 / sqrt(m->d),
		    .softcap = m->softcap },
		.dout = rig_matrix(r, DTYPE_BF16, rows, q),
		.delta = rig_matrix(r, DTYPE_F32, m->b * m->n, m->s),
		.dq = tensor_columns(&dqkv, 0, q),
		.dk = tensor_columns(&dqkv, q, k),
		.dv = tensor_columns(&dqkv, q + k, k),
	};

	if (work)
		p.work = rig_matrix(r, DTYPE_BF16, 1, work / 2);
	return p;
}

/* The scores of a query, on average, that a layer with a window (0: none) or without makes. */
static inline double
rig_scores(const struct bench_model *m, int64_t window)
{
	double s = (double)m->s, w = window > 0 && window < m->s ? (double)window : s;

	return w - w * w / (2 * s);
}

/* Operations of a forward pass of attention; 2.5 times that backward. */
static inline double
rig_attention_flops(const struct bench_model *m, int64_t window)
{
	return 4.0 * (double)m->b * m->n * (double)m->s * rig_scores(m, window) * m->d;
}

#endif
