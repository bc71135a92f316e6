/*
 * attention.c - every implementation of attention on the GPU against the CPU in double
 *
 * q, k and v are columns of one array, as in the engine, and so are their gradients; outputs are
 * poisoned first, and the elements between them must stay unchanged. Shapes are odd on purpose.
 * Each implementation is selected by name, so that none can replace another; then the device
 * chooses, with and without a workspace. Without a GPU it prints a note and succeeds.
 *
 *	attention [COUNT]
 *	attention bits [PASSES]
 *
 * draws so many problems for the kernels for Hopper, 400 if it is not said; with COUNT there are no
 * others, which keeps it short under a sanitizer. The second form has only the passes whose bits
 * are compared, 1000 of each shape if it is not said.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/model/block/workspace.h"
#include "tests/check.h"
#include "tests/gpu.h"
#include "tests/gpu_attention.h"
#include "train/ops.h"

#include <string.h>

/* A shape; documents: packed into the samples. The first `before` positions have only keys. */
struct shape {
	int s, b, n, g, d, window;
	double drop;
	bool documents;
	int before;
	double cap;
	double sharp; /* scores are multiplied by as much; 0: by 1 */
	bool sinks;
};

static const struct shape fixed[] = {
	{ 1, 1, 2, 1, 64, 0, 0, false, 0, 0 },
	{ 2, 3, 4, 2, 64, 0, 0, false, 0, 0 },
	{ 64, 2, 4, 4, 64, 0, 0, false, 0, 0 },
	{ 137, 3, 4, 1, 128, 0, 0, false, 0, 0 },
	{ 200, 2, 8, 2, 64, 50, 0, false, 0, 0 },
	{ 333, 1, 8, 1, 80, 0, 0, false, 0, 0 },
	{ 250, 2, 4, 4, 96, 128, 0, false, 0, 0 },
	{ 513, 1, 4, 1, 128, 200, 0, false, 0, 0 },
	{ 65, 2, 3, 3, 40, 1, 0, false, 0, 0 },
	{ 300, 2, 4, 2, 256, 100, 0, false, 0, 0 },
	{ 77, 2, 3, 3, 33, 20, 0.2, true, 0, 0 },
	{ 300, 2, 4, 1, 128, 0, 0, true, 0, 0 },
	{ 520, 1, 2, 2, 64, 100, 0, true, 0, 0 },
	{ 259, 2, 8, 2, 96, 0, 0.2, false, 0, 0 },
	{ 190, 3, 4, 4, 72, 64, 0.1, true, 0, 0 },
	{ 450, 1, 2, 1, 64, 0, 0.5, false, 0, 0 },
	{ 263, 2, 8, 2, 128, 0, 0.2, false, 0, 0 },
	{ 515, 1, 4, 4, 64, 150, 0.1, true, 133, 0 },
	{ 131, 2, 4, 1, 80, 0, 0.3, false, 0, 1 },
	{ 191, 1, 3, 3, 192, 0, 0.1, false, 0, 0 },
	{ 320, 2, 4, 1, 128, 0, 0, false, 192, 0 },
	{ 401, 1, 8, 2, 64, 0, 0, false, 302, 0 },
	{ 256, 3, 2, 2, 96, 70, 0, false, 64, 0 },
	{ 137, 2, 4, 2, 80, 50, 0.2, true, 100, 0 },
	{ 390, 2, 4, 4, 72, 0, 0.1, true, 131, 0 },
	{ 65, 1, 3, 1, 33, 0, 0, false, 63, 0 },
	{ 200, 2, 8, 2, 64, 50, 0, false, 0, 0.9 },
	{ 300, 1, 4, 1, 128, 0, 0, true, 0, 0.5 },
	{ 259, 2, 4, 2, 96, 0, 0.2, false, 0, 2 },
	{ 130, 1, 2, 1, 256, 40, 0, false, 66, 1 },
	{ 333, 2, 4, 2, 256, 0, 0, false, 0, 1 },
	{ 200, 2, 4, 1, 256, 70, 0.2, true, 0, 0.9 },
	{ 450, 1, 2, 2, 192, 0, 0.1, false, 0, 0 },
	{ 65, 1, 3, 3, 136, 0, 0, true, 30, 0 },
	{ 1, 2, 4, 2, 64, 0, 0, false, 0, 0, 0, true },
	{ 300, 2, 8, 1, 64, 128, 0, false, 0, 0, 0, true },
	{ 259, 1, 4, 4, 96, 0, 0.2, true, 0, 0, 0, true },
	{ 333, 2, 4, 2, 128, 0, 0, true, 100, 0.9, 0, true },
	{ 200, 1, 3, 1, 33, 50, 0, false, 0, 1, 0, true },
	{ 190, 2, 4, 2, 256, 70, 0, true, 0, 0, 0, true },
	{ 1300, 3, 8, 4, 256, 0, 0, false, 0, 1 },
	{ 1100, 2, 16, 8, 200, 300, 0, true, 0, 0 },
};
enum { FIXED = sizeof fixed / sizeof *fixed, RANDOM = 10, HOPPER = 400, PASSES = 1000 };

/* The inputs of a problem, and the results of one solution, on the host in double. */
struct values {
	double *qkv, *dout; /* [R, row], [R, n d] */
	double *sinks;      /* [n] */
	int32_t *first;     /* [R] */
};
struct result {
	double *out, *lse, *dqkv, *dsinks;
};

/* How to solve it. */
struct solver {
	const struct backend *backend;
	enum dtype dtype;
	enum attention_choice choice;
	bool deterministic;
	size_t workspace;
	bool forward;  /* it has no other pass */
	bool together; /* heads of a group, in the backward pass for Hopper */
	/* Or NULL: the outputs and statistics that the backward pass reads in place of its own. */
	const struct result *given;
};

static const char *const choice_names[] = { "best", "library", "tiled", "plain", "Hopper" };

/* Elements after the written part of each row, which must keep their poison. */
enum { GAP = 8 };

static int64_t
rows_of(const struct shape *c)
{
	return (int64_t)c->s * c->b;
}

/* Elements of a row of q, k and v. */
static int64_t
width_of(const struct shape *c)
{
	return (int64_t)(c->n + 2 * c->g) * c->d;
}

/* Values that the type represents exactly, so that every backend reads the same. */
static void
fill(double *x, int64_t n, enum dtype dtype, uint32_t stream)
{
	void *small = mem_alloc((size_t)n, dtype_size(dtype));

	for (int64_t i = 0; i < n; i++)
		x[i] = 3 * (double)rng_uniform(23, (uint64_t)i, stream, 0) - 1.5;
	dtype_convert(small, dtype, x, DTYPE_F64, n);
	dtype_convert(x, DTYPE_F64, small, dtype, n);
	free(small);
}

/* Documents of about 40 tokens, some longer than a tile, different in every sample. */
static void
fill_documents(int32_t *first, const struct shape *c)
{
	for (int j = 0; j < c->b; j++)
		for (int p = 0, start = 0; p < c->s; p++) {
			float odds = p < c->s / 2 ? 1.0f / 160 : 1.0f / 24;

			if (rng_uniform(29, (uint64_t)p, (uint32_t)j, 0) < odds)
				start = p;
			first[p * c->b + j] = start;
		}
}

/* Sinks of all sizes: of every fourth head almost all of a row's weight is its own. */
static void
fill_sinks(double *x, int n)
{
	fill(x, n, DTYPE_F32, 2);
	for (int i = 0; i < n; i++)
		x[i] = i % 4 == 3 ? 20 : 2 * x[i] + 1;
}

/* The values of a problem in a type, freed by values_free. */
static struct values
values_new(const struct shape *c, enum dtype dtype)
{
	int64_t rows = (int64_t)c->s * c->b, width = (int64_t)(c->n + 2 * c->g) * c->d;
	struct values v = { mem_alloc((size_t)(rows * width), sizeof(double)),
		mem_alloc((size_t)(rows * c->n * c->d), sizeof(double)),
		mem_alloc((size_t)c->n, sizeof(double)), mem_alloc((size_t)rows, 4) };

	fill(v.qkv, rows * width, dtype, 0);
	fill(v.dout, rows * c->n * c->d, dtype, 1);
	fill_sinks(v.sinks, c->n);
	fill_documents(v.first, c);
	return v;
}

static void
values_free(struct values *v)
{
	free(v->qkv);
	free(v->dout);
	free(v->sinks);
	free(v->first);
}

/* A problem on a device. */
struct rig {
	const struct solver *how;
	struct device *device;
	struct stream *st;
	struct attention_grad a;
	struct tensor qkv, dqkv, out, dout; /* with gaps */
	struct tensor first, sinks, dsinks;
};

/* Device memory full of 0xff: NaN in every type. */
static void *
poisoned(struct rig *r, size_t bytes)
{
	struct err e;
	void *host = mem_alloc(bytes, 1), *p = r->how->backend->alloc(r->device, bytes, &e);

	memset(host, 0xff, bytes);
	r->how->backend->copy_in(r->st, p, host, bytes);
	if (r->how->backend->sync(r->st, &e) < 0)
		fprintf(stderr, "%s\n", e.msg);
	free(host);
	return p;
}

/* A matrix with a gap after each row. */
static struct tensor
matrix(struct rig *r, int64_t rows, int64_t columns)
{
	size_t bytes = (size_t)(rows * (columns + GAP)) * dtype_size(r->how->dtype);
	struct tensor all = tensor_2d(poisoned(r, bytes), r->how->dtype, rows, columns + GAP);

	return tensor_columns(&all, 0, columns);
}

/* A dense matrix of statistics. */
static struct tensor
statistics(struct rig *r, const struct shape *c)
{
	enum dtype real = r->how->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	int64_t n = (int64_t)c->b * c->n;

	int64_t queries = c->s - c->before;

	return tensor_2d(poisoned(r, (size_t)(n * queries) * dtype_size(real)), real, n, queries);
}

/* A real number for each head, as a matrix of one row. */
static struct tensor
vector(struct rig *r, int64_t n)
{
	enum dtype real = r->how->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;

	return tensor_2d(poisoned(r, (size_t)n * dtype_size(real)), real, 1, n);
}

/* Copies a matrix in or out, with its gaps. `host` has no gaps; poison says whether the gaps are
 * unchanged after copying out. */
static bool
copy(struct rig *r, const struct tensor *t, double *host, bool in)
{
	int64_t rows = t->shape[0], columns = t->shape[1], step = t->stride[0];
	size_t size = dtype_size(t->dtype), bytes = (size_t)(rows * step) * size;
	unsigned char *x = mem_alloc(bytes, 1);
	bool clean = true;
	struct err e;

	memset(x, 0xff, bytes);
	for (int64_t i = 0; in && i < rows; i++)
		dtype_convert(x + (size_t)(i * step) * size, t->dtype, host + i * columns,
		    DTYPE_F64, columns);
	if (in)
		r->how->backend->copy_in(r->st, t->data, x, bytes);
	else
		r->how->backend->copy_out(r->st, x, t->data, bytes);
	if (r->how->backend->sync(r->st, &e) < 0)
		fprintf(stderr, "%s\n", e.msg);
	for (int64_t i = 0; !in && i < rows; i++) {
		const unsigned char *row = x + (size_t)(i * step) * size;

		dtype_convert(host + i * columns, DTYPE_F64, row, t->dtype, columns);
		for (size_t k = (size_t)columns * size; k < (size_t)step * size; k++)
			clean = clean && row[k] == 0xff;
	}
	free(x);
	return clean;
}

/* Reduces rows of all positions to the rows of the queries. */
static void
cut_queries(struct attention_grad *a, const struct shape *c)
{
	struct tensor *cut[] = { &a->fwd.out, &a->fwd.q, &a->dout, &a->dq, &a->fwd.first };
	int64_t skip = (int64_t)c->before * c->b;

	for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
		if (cut[i]->data)
			*cut[i] = tensor_rows(cut[i], skip, rows_of(c) - skip);
}

/* Zeros at positions without a query, which no pass writes. */
static void
clear_skipped(const struct shape *c, struct result *x)
{
	size_t q = (size_t)(c->n * c->d);

	for (size_t i = 0; i < (size_t)(c->before * c->b); i++) {
		memset(x->out + i * q, 0, q * sizeof(double));
		memset(x->dqkv + i * (size_t)width_of(c), 0, q * sizeof(double));
	}
}

/* The arguments of both passes; copies the inputs to the device. */
static void
set_up(struct rig *r, const struct shape *c, const struct values *v)
{
	int64_t rows = rows_of(c), q = (int64_t)c->n * c->d, k = (int64_t)c->g * c->d;
	struct attention *t = &r->a.fwd;

	r->qkv = matrix(r, rows, q + 2 * k);
	r->dqkv = matrix(r, rows, q + 2 * k);
	r->out = matrix(r, rows, q);
	r->dout = matrix(r, rows, q);
	copy(r, &r->qkv, v->qkv, true);
	copy(r, &r->dout, v->dout, true);
	*t = (struct attention){
		.out = r->out,
		.lse = statistics(r, c),
		.q = tensor_columns(&r->qkv, 0, q),
		.k = tensor_columns(&r->qkv, q, k),
		.v = tensor_columns(&r->qkv, q + k, k),
		.micro_batch = c->b,
		.num_heads = c->n,
		.num_groups = c->g,
		.head_dim = c->d,
		.scale = (c->sharp > 0 ? c->sharp : 1) / sqrt(c->d),
		.softcap = c->cap,
		.window = c->window,
		.drop = { .p = c->drop,
		    .key = 77,
		    .stream = 3,
		    .step = 9,
		    .first_sample = 5,
		    .seq_length = c->s + 1,
		    .width = c->n + 3,
		    .first_column = 2,
		    .micro_batch = c->b },
	};
	if (c->documents) {
		t->first = r->first = tensor_1d(poisoned(r, (size_t)rows * 4), DTYPE_I32, rows);
		r->how->backend->copy_in(r->st, t->first.data, v->first, (size_t)rows * 4);
	}
	if (c->sinks) {
		r->sinks = vector(r, c->n);
		r->dsinks = vector(r, c->n);
		copy(r, &r->sinks, v->sinks, true);
		t->sink = tensor_flat(&r->sinks);
		r->a.dsink = tensor_flat(&r->dsinks);
	}
	r->a.dout = r->dout;
	r->a.delta = statistics(r, c);
	if (r->how->workspace)
		r->a.work = tensor_1d(
		    poisoned(r, r->how->workspace), DTYPE_F32, (int64_t)r->how->workspace / 4);
	r->a.dq = tensor_columns(&r->dqkv, 0, q);
	r->a.dk = tensor_columns(&r->dqkv, q, k);
	r->a.dv = tensor_columns(&r->dqkv, q + k, k);
	cut_queries(&r->a, c);
}

/* Memory for the results of a solution. */
static struct result
result_new(const struct shape *c)
{
	size_t rows = (size_t)rows_of(c);

	return (struct result){ mem_zalloc(rows * (size_t)(c->n * c->d), sizeof(double)),
		mem_zalloc(rows * (size_t)c->n, sizeof(double)),
		mem_zalloc(rows * (size_t)width_of(c), sizeof(double)),
		mem_zalloc((size_t)c->n, sizeof(double)) };
}

static void
result_free(struct result *x)
{
	free(x->out);
	free(x->lse);
	free(x->dqkv);
	free(x->dsinks);
}

static void
rig_close(struct rig *r)
{
	const struct backend *b = r->how->backend;

	b->release(r->device, r->qkv.data);
	b->release(r->device, r->dqkv.data);
	b->release(r->device, r->out.data);
	b->release(r->device, r->dout.data);
	b->release(r->device, r->a.fwd.lse.data);
	b->release(r->device, r->a.delta.data);
	b->release(r->device, r->a.work.data);
	b->release(r->device, r->first.data);
	b->release(r->device, r->sinks.data);
	b->release(r->device, r->dsinks.data);
	b->close(r->device);
}

/* The backward pass, with gradients of sinks that begin at 0. */
static void
run_backward(struct rig *r)
{
	if (r->dsinks.data)
		r->st->ops->fill(r->st, &(struct fill){ r->dsinks, 0 });
	r->st->ops->attention_bwd(r->st, &r->a);
}

/* Both passes, each queued `times` times, which must not change the result. A device error and a
 * written gap are failures. */
static struct result
solve(const struct shape *c, const struct values *v, const struct solver *how, int times)
{
	struct device_config config = { .num_threads = 4,
		.dtype = how->dtype,
		.attention = how->choice,
		.deterministic = how->deterministic };
	struct rig r = { .how = how };
	struct result x = result_new(c);
	struct err e;

	r.device = how->backend->open(&config, &e);
	if (!r.device) {
		check_failures++;
		fprintf(stderr, "%s: %s\n", choice_names[how->choice], e.msg);
		return x;
	}
	r.st = how->backend->stream(r.device, STREAM_COMPUTE);
	if (how->choice == ATTENTION_HOPPER)
		gpu_attention_run(r.device, (struct hopper_run){ 0, true, how->together });
	set_up(&r, c, v);
	for (int i = 0; i < times; i++)
		r.st->ops->attention_fwd(r.st, &r.a.fwd);
	if (how->given) {
		copy(&r, &r.out, how->given->out, true);
		copy(&r, &r.a.fwd.lse, how->given->lse, true);
	}
	for (int i = 0; i < times && !how->forward; i++)
		run_backward(&r);
	check_count++;
	if (how->backend->sync(r.st, &e) < 0) {
		check_failures++;
		fprintf(stderr, "%s: %s\n", choice_names[how->choice], e.msg);
	}
	CHECK(copy(&r, &r.out, x.out, false));
	if (!how->forward)
		CHECK(copy(&r, &r.dqkv, x.dqkv, false));
	if (!how->forward && c->sinks)
		copy(&r, &r.dsinks, x.dsinks, false);
	clear_skipped(c, &x);
	copy(&r, &r.a.fwd.lse, x.lse, false);
	rig_close(&r);
	return x;
}

/* Columns [from, from + count) of a matrix `width` wide. */
struct part {
	const char *name;
	const double *got, *want;
	int64_t rows, width, from, count;
};

/* Squared error over squared size. A gradient that is zero except for rounding counts as 0.01 per
 * element, so that noise is not divided by noise. */
static double
error_of(const struct part *p)
{
	double error = 0, size = 0;

	for (int64_t i = 0; i < p->rows; i++)
		for (int64_t k = p->from; k < p->from + p->count; k++) {
			double want = p->want[i * p->width + k],
			       d = p->got[i * p->width + k] - want;

			error += d * d;
			size += want * want;
		}
	return error / fmax(size, 1e-4 * (double)(p->rows * p->count));
}

/* The element that is off the most; NaN counts as the most of all. */
static void
print_worst(const struct part *p)
{
	double most = -1;
	int64_t row = 0, column = 0;

	for (int64_t i = 0; i < p->rows; i++)
		for (int64_t k = p->from; k < p->from + p->count; k++) {
			double d = fabs(p->got[i * p->width + k] - p->want[i * p->width + k]);

			if (most == INFINITY || d <= most)
				continue;
			most = isnan(d) ? INFINITY : d;
			row = i;
			column = k;
		}
	fprintf(stderr, "row %d column %d: %g in place of %g; ", (int)row, (int)(column - p->from),
	    p->got[row * p->width + column], p->want[row * p->width + column]);
}

/* The parts of a solution beside those of another. */
enum { LSE, OUT, DQ, DK, DV, DSINK, PARTS };

static struct part
part_of(const struct shape *c, int which, const struct result *got, const struct result *want)
{
	int64_t rows = rows_of(c), width = width_of(c), q = (int64_t)c->n * c->d,
		k = (int64_t)c->g * c->d;
	const struct part parts[PARTS] = {
		{ "lse", got->lse, want->lse, rows, c->n, 0, c->n },
		{ "out", got->out, want->out, rows, q, 0, q },
		{ "dq", got->dqkv, want->dqkv, rows, width, 0, q },
		{ "dk", got->dqkv, want->dqkv, rows, width, q, k },
		{ "dv", got->dqkv, want->dqkv, rows, width, q + k, k },
		{ "dsink", got->dsinks, want->dsinks, 1, c->n, 0, c->n },
	};

	return parts[which];
}

/* Of one query a gradient is two roundings, of its few scores' gradients and its own, to half of
 * 2^-7 each, which no sum averages out. */
static double
limit_of(const struct shape *c, const struct solver *how, int which)
{
	return which == LSE                                        ? 1e-9
	    : how->dtype == DTYPE_BF16 && c->s == 1 && which > OUT ? 0x1p-14
	    : how->dtype == DTYPE_BF16                             ? 2e-5
	    : how->dtype == DTYPE_F16                              ? 1e-6
								   : 1e-9;
}

/* Whether all gradients are near those of another solution. */
static bool
gradients_are_near(const struct shape *c, const struct solver *how, const struct result *got,
    const struct result *want)
{
	bool near = true;

	for (int i = DQ; i < PARTS; i++) {
		struct part p = part_of(c, i, got, want);

		near = near && error_of(&p) <= limit_of(c, how, i);
	}
	return near;
}

/* One part of a solution is near the reference. */
static void
compare(const struct shape *c, const struct solver *how, const struct part *p, double limit)
{
	double e = error_of(p);

	check_count++;
	if (e <= limit)
		return;
	check_failures++;
	print_worst(p);
	fprintf(stderr,
	    "%s %s%s, s %d before %d b %d n %d g %d d %d window %d drop %g cap %g sharp %g%s%s: "
	    "%s is off by %g\n",
	    choice_names[how->choice], dtype_name(how->dtype),
	    how->deterministic ? " deterministic" : "", c->s, c->before, c->b, c->n, c->g, c->d,
	    c->window, c->drop, c->cap, c->sharp, c->documents ? " documents" : "",
	    c->sinks ? " sinks" : "", p->name, e);
}

/* All of a solution is near the reference. delta is a sum of rounded outputs, and where scores'
 * gradients are small differences of it, as with few keys or sharp scores, its rounding counts more
 * than all other: gradients that are not near are compared with those of the reference from the
 * same outputs. */
static void
compare_all(const struct shape *c, const struct solver *how, const struct values *v,
    const struct result *got, const struct result *want)
{
	struct result own = { NULL, NULL, NULL, NULL };
	const struct solver oracle = { &backend_cpu, DTYPE_F64, ATTENTION_BEST, .given = got };

	if (!how->forward && !gradients_are_near(c, how, got, want))
		own = solve(c, v, &oracle, 1);
	for (int i = 0; i < (how->forward ? DQ : PARTS); i++) {
		struct part p = part_of(c, i, got, i >= DQ && own.dqkv ? &own : want);

		compare(c, how, &p, limit_of(c, how, i));
	}
	result_free(&own);
}

/* Another run, with each pass queued several times, gives the same bits. */
static void
compare_bits(
    const struct shape *c, const struct solver *how, const struct values *v, const struct result *x)
{
	struct result again = solve(c, v, how, 3);
	size_t rows = (size_t)rows_of(c);

	CHECK(!memcmp(again.out, x->out, rows * (size_t)(c->n * c->d) * sizeof(double)));
	CHECK(!memcmp(again.lse, x->lse, rows * (size_t)c->n * sizeof(double)));
	CHECK(!memcmp(again.dqkv, x->dqkv, rows * (size_t)width_of(c) * sizeof(double)));
	CHECK(!memcmp(again.dsinks, x->dsinks, (size_t)c->n * sizeof(double)));
	result_free(&again);
}

/* One implementation. */
static void
test_solver(const struct shape *c, const struct values *v, const struct solver *how,
    const struct result *want)
{
	struct result x = solve(c, v, how, 1);

	compare_all(c, how, v, &x, want);
	if (how->choice != ATTENTION_LIBRARY || how->deterministic)
		compare_bits(c, how, v, &x);
	result_free(&x);
}

/* True where the kernels for compute capability 9.0 serve. */
static bool
has_hopper(const struct backend *b)
{
	struct device_config config = { .dtype = DTYPE_BF16, .attention = ATTENTION_HOPPER };
	struct err e;
	struct device *d = b->open(&config, &e);

	if (d)
		b->close(d);
	return d != NULL;
}

/* The workspace that lib/model plans for this shape. */
static size_t
workspace(const struct shape *c, bool deterministic)
{
	struct attention_shape a = { c->b, c->s - c->before, c->s, c->n, c->g, c->d, true,
		deterministic };

	return (size_t)attention_workspace(&a);
}

/* What the backward pass for Hopper works in. */
static size_t
workspace_for_hopper(const struct shape *c)
{
	struct attention_shape a = { c->b, c->s - c->before, c->s, c->n, c->g, c->d, true, false };

	return (size_t)hopper_workspace(&a);
}

/* Every implementation that supports the shape, by name, and the device's own choice: with a
 * workspace the deterministic pass, without one the fast pass. */
static void
test_shape(
    const struct backend *b, const struct shape *c, enum dtype dtype, bool library, bool hopper)
{
	struct values v = values_new(c, dtype);
	struct solver oracle = { &backend_cpu, DTYPE_F64, ATTENTION_BEST, false, 0, false };
	struct solver how = { b, dtype, ATTENTION_PLAIN, false, 0, false };
	bool half = dtype != DTYPE_F32 && c->d % 8 == 0;
	struct attention_kind kind;
	struct result want;

	want = solve(c, &v, &oracle, 1);
	test_solver(c, &v, &how, &want);
	how.choice = ATTENTION_TILED;
	if (half)
		test_solver(c, &v, &how, &want);
	how.choice = ATTENTION_HOPPER;
	how.workspace = hopper ? workspace_for_hopper(c) : 0;
	kind = (struct attention_kind){ c->d, c->documents, c->cap > 0, c->drop > 0 };
	if (half && hopper && hopper_takes(&kind, c->s + 1))
		test_solver(c, &v, &how, &want);
	how.choice = ATTENTION_LIBRARY;
	for (int i = 0; library && half && c->d <= 128 && c->s - c->before > 1 && !c->documents &&
	     c->drop == 0 && c->cap == 0 && !c->sinks && i < 2;
	     i++) {
		how.deterministic = i;
		how.workspace = workspace(c, i);
		test_solver(c, &v, &how, &want);
	}
	how = (struct solver){ b, dtype, ATTENTION_BEST, true, workspace(c, true), false };
	test_solver(c, &v, &how, &want);
	how = (struct solver){ b, dtype, ATTENTION_BEST, false, 0, false };
	test_solver(c, &v, &how, &want);
	result_free(&want);
	values_free(&v);
}

/* All head sizes, ratios 1, 4 and 8, and lengths that are multiples of no tile. */
static struct shape
random_shape(unsigned long seed, int i)
{
	static const int heads[] = { 40, 64, 72, 80, 96, 104, 128, 100, 192 },
			 ratios[] = { 1, 4, 8 };
	uint32_t x[8];

	for (int k = 0; k < 8; k++)
		x[k] = (uint32_t)(1048576 * rng_uniform(seed, (uint64_t)i, (uint32_t)k, 0));
	return (struct shape){ .s = 2 + (int)(x[0] % 400),
		.b = 1 + (int)(x[1] % 3),
		.g = 1 + (int)(x[2] % 2),
		.n = (1 + (int)(x[2] % 2)) * ratios[x[3] % 3],
		.d = heads[x[4] % 9],
		.window = x[5] % 2 ? 1 + (int)(x[5] / 2 % 300) : 0,
		.drop = x[6] % 4 == 0 ? 0.15 : 0,
		.documents = x[7] % 3 == 0,
		.before = x[7] / 3 % 2 ? (int)(x[7] / 6) % (2 + (int)(x[0] % 400)) : 0,
		.cap = x[6] / 4 % 4 == 0 ? 1.5 : 0,
		.sinks = x[3] / 3 % 2 };
}

/* For the kernels for Hopper: lengths around the ends of their tiles, with all other options. The
 * CPU would take long for the longest with wide heads. */
static struct shape
hopper_shape(unsigned long seed, int i)
{
	static const int heads[] = { 8, 40, 64, 72, 80, 96, 104, 120, 128, 136, 192, 256 },
			 ratios[] = { 1, 4, 8 },
			 lengths[] = { 1, 2, 63, 64, 65, 79, 81, 127, 128, 129, 161, 191, 192, 193,
				 400, 1000 },
			 windows[] = { 0, 1, 64, 128, 300 };
	int x[9], d, s;
	bool drop;

	for (int k = 0; k < 9; k++)
		x[k] = (int)(1048576 * rng_uniform(seed, (uint64_t)i, (uint32_t)k, 1));
	d = heads[x[4] % 12];
	s = lengths[x[0] % (d > 128 ? 15 : 16)] + (x[5] % 2 ? 1 + x[5] % 513 / 2 * 2 : 0);
	drop =
	    x[8] % 4 == 2 && d <= 128; /* of sequences of a multiple of 4, of which one is left */
	return (struct shape){ .s = drop ? s | 3 : s,
		.b = 1 + x[1] % 2,
		.g = 1 + x[2] % 2,
		.n = (1 + x[2] % 2) * ratios[x[3] % 3],
		.d = d,
		.window = windows[x[6] % 5],
		.documents = x[7] % 2,
		.before = x[5] % 2 ? 1 + x[5] % 513 / 2 * 2 : 0,
		.cap = x[8] % 4 == 0 && d > 64 ? 1.5 : 0,
		.drop = drop ? 0.15 : 0,
		.sharp = x[8] % 4 == 1 ? 12 : 0,
		.sinks = x[7] / 2 % 2 };
}

/* The passes for Hopper against the CPU. */
static void
test_hopper(const struct backend *b, const struct shape *c, enum dtype dtype, bool together)
{
	struct values v = values_new(c, dtype);
	struct solver oracle = { &backend_cpu, DTYPE_F64, ATTENTION_BEST, false, 0, false },
		      how = { b, dtype, ATTENTION_HOPPER, false, workspace_for_hopper(c), false,
			      together };
	struct result want;

	want = solve(c, &v, &oracle, 1);
	test_solver(c, &v, &how, &want);
	result_free(&want);
	values_free(&v);
}

/* --- equal bits ------------------------------------------------------------------------------- */

static const struct shape repeated[] = {
	{ 1000, 1, 4, 1, 128, 0, 0, false, 0, 0 },
	{ 2048, 2, 8, 2, 128, 0, 0, false, 0, 0 },
	{ 700, 3, 3, 3, 96, 0, 0, false, 0, 0 },
	{ 1500, 1, 8, 1, 80, 0, 0, true, 0, 0 },
	{ 1024, 2, 4, 4, 128, 200, 0, false, 0, 0 },
	{ 1300, 1, 6, 2, 104, 64, 0, true, 0, 0 },
	{ 1100, 1, 4, 2, 128, 0, 0, false, 301, 0 },
	{ 513, 4, 8, 8, 128, 0, 0, false, 0, 1.5 },
	{ 4096, 1, 2, 1, 128, 0, 0, false, 0, 0 },
	{ 1024, 4, 12, 12, 64, 0, 0, false, 0, 0 },
	{ 2000, 2, 8, 2, 64, 0, 0, false, 0, 0, 0, true },
	{ 1100, 1, 4, 1, 40, 100, 0, true, 77, 0, 0, true },
	{ 1024, 2, 8, 4, 256, 0, 0, false, 0, 50 },
	{ 1300, 1, 4, 2, 200, 128, 0, true, 0, 0, 0, true },
};
enum { REPEATED = sizeof repeated / sizeof *repeated };

/* Another stream of the GPU, busy with products of matrices. */
struct beside {
	const struct backend *b;
	struct device *d;
	struct gemm gemm;
};

enum { BESIDE = 1500 }; /* rows and columns */

static struct beside
beside_open(const struct backend *b)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct beside r = { .b = b };
	struct tensor *all[] = { &r.gemm.c, &r.gemm.a, &r.gemm.b };
	struct err e;

	r.d = b->open(&config, &e);
	for (size_t i = 0; i < 3; i++)
		*all[i] = tensor_2d(
		    b->alloc(r.d, (size_t)BESIDE * BESIDE * 2, &e), DTYPE_BF16, BESIDE, BESIDE);
	r.gemm.alpha = 1;
	return r;
}

/* Queues products for about as long as a few passes. */
static void
beside_work(const struct beside *r)
{
	struct stream *st = r->b->stream(r->d, STREAM_COMPUTE);

	for (int i = 0; i < 3; i++)
		st->ops->gemm(st, &r->gemm);
}

static void
beside_close(struct beside *r)
{
	struct err e;

	CHECK(r->b->sync(r->b->stream(r->d, STREAM_COMPUTE), &e) == 0);
	r->b->release(r->d, r->gemm.c.data);
	r->b->release(r->d, r->gemm.a.data);
	r->b->release(r->d, r->gemm.b.data);
	r->b->close(r->d);
}

/* How many of so many backward passes leave other bits than those of the first in `want`, or, if
 * there is no `other`, alone. */
static int
count_other_bits(struct rig *r, const struct beside *other, unsigned char *want, int passes)
{
	const struct tensor *t = &r->dqkv, *sinks = &r->dsinks;
	size_t size = (size_t)(t->shape[0] * t->stride[0]) * dtype_size(t->dtype),
	       bytes = size + (sinks->data ? tensor_bytes(sinks) : 0);
	unsigned char *x = mem_alloc(bytes, 1);
	int differ = 0;
	struct err e;

	for (int i = 0; i < passes; i++) {
		if (other)
			beside_work(other);
		run_backward(r);
		r->how->backend->copy_out(r->st, x, t->data, size);
		if (sinks->data)
			r->how->backend->copy_out(r->st, x + size, sinks->data, bytes - size);
		if (r->how->backend->sync(r->st, &e) < 0) {
			fprintf(stderr, "%s\n", e.msg);
			exit(1);
		}
		if (want[0] == 0 && i == 0) {
			memcpy(want + 1, x, bytes);
			want[0] = 1;
		}
		differ += memcmp(want + 1, x, bytes) != 0;
	}
	free(x);
	return differ;
}

/* Backward passes of a shape: alone, beside products, and on 1, 17 and 131 multiprocessors. How
 * many have other bits when parts of dq do not wait for their turns. */
static int
test_bits(const struct backend *b, const struct shape *c, enum dtype dtype, int passes)
{
	static const int blocks[] = { 0, 0, 1, 17, 131 };
	struct device_config config = {
		.num_threads = 1, .dtype = dtype, .attention = ATTENTION_HOPPER
	};
	struct solver how = { b, dtype, ATTENTION_HOPPER, false, workspace_for_hopper(c), false };
	struct values v = values_new(c, dtype);
	size_t bytes = 1 + (size_t)(rows_of(c) * (width_of(c) + GAP)) * 2 +
	    (c->sinks ? (size_t)c->n * sizeof(float) : 0);
	unsigned char *want = mem_zalloc(bytes, 1);
	struct beside other = beside_open(b);
	uint64_t hash = 14695981039346656037u;
	int n;
	struct rig r = { .how = &how };
	struct err e;

	r.device = b->open(&config, &e);
	r.st = b->stream(r.device, STREAM_COMPUTE);
	set_up(&r, c, &v);
	r.st->ops->attention_fwd(r.st, &r.a.fwd);
	for (int i = 0; i < 5; i++) {
		struct hopper_run run = { blocks[i], true, c->s % 1000 == 0 };

		gpu_attention_run(r.device, run);
		n = count_other_bits(&r, i == 1 ? &other : NULL, want, passes / 5);
		check_count++;
		if (n == 0)
			continue;
		check_failures++;
		fprintf(stderr, "s %d b %d n %d g %d d %d, %s %d blocks: %d of %d differ\n", c->s,
		    c->b, c->n, c->g, c->d, i == 1 ? "beside products," : "alone,", blocks[i], n,
		    passes / 5);
	}
	gpu_attention_run(r.device, (struct hopper_run){ 0, false, c->s % 1000 == 0 });
	for (size_t i = 1; i < bytes; i++)
		hash = (hash ^ want[i]) * 1099511628211u;
	n = count_other_bits(&r, NULL, want, passes / 10);
	printf("s %d n %d d %d: bits %016llx; %d of %d differ without turns\n", c->s, c->n, c->d,
	    (unsigned long long)hash, n, passes / 10);
	fflush(stdout);
	rig_close(&r);
	beside_close(&other);
	values_free(&v);
	free(want);
	return n;
}

/* --- refusals --------------------------------------------------------------------------------- */

/* An implementation refuses a shape that it does not support, and the device reports its reason. */
static void
test_refused(const struct backend *b)
{
	struct device_config config = {
		.num_threads = 1, .dtype = DTYPE_BF16, .attention = ATTENTION_TILED
	};
	struct shape c = { 5, 1, 1, 1, 33, 0, 0, false, 0, 0 };
	struct solver how = { b, DTYPE_BF16, ATTENTION_TILED, false, 0, false };
	struct values v = values_new(&c, DTYPE_BF16);
	struct rig r = { .how = &how };
	struct err e = { "" };

	r.device = b->open(&config, &e);
	r.st = b->stream(r.device, STREAM_COMPUTE);
	set_up(&r, &c, &v);
	r.st->ops->attention_fwd(r.st, &r.a.fwd);
	CHECK(b->sync(r.st, &e) < 0 && strstr(e.msg, "does not take this shape"));
	rig_close(&r);
	values_free(&v);
}

/* True when the library supports the shape. Version 9.14.0 is never called with windows:
 * train/cuda/attention/attention.c. */
static bool
library_takes(const char *libraries, const struct shape *c)
{
	return !strncmp(libraries, "cuDNN ", 6) &&
	    (c->window == 0 || strncmp(libraries, "cuDNN 9.14.0", 12) != 0);
}

int
main(int argc, char **argv)
{
	static const enum dtype types[] = { DTYPE_BF16, DTYPE_F16 };
	const struct backend *b = gpu_backend();
	char libraries[256];
	unsigned long seed;
	int others = 0;
	bool hopper;

	if (!b)
		return 0;
	hopper = has_hopper(b);
	b->describe(libraries, sizeof libraries);
	printf("%s\n", libraries);
	seed = check_seed();
	for (int i = 0; hopper && i < REPEATED && (argc < 2 || !strcmp(argv[1], "bits")); i++)
		others +=
		    test_bits(b, &repeated[i], types[i % 2], argc > 2 ? atoi(argv[2]) : PASSES);
	if (hopper && (argc < 2 || !strcmp(argv[1], "bits")))
		CHECK(others > 0);
	if (argc > 1 && !strcmp(argv[1], "bits"))
		return check_done();
	for (int i = 0; argc < 2 && i < FIXED + RANDOM; i++) {
		struct shape c = i < FIXED ? fixed[i] : random_shape(seed, i);
		bool library = library_takes(libraries, &c);

		test_shape(b, &c, types[i % 2], library, hopper);
		if (i % 4 == 0)
			test_shape(b, &c, DTYPE_F32, library, hopper);
		if (i < 6)
			test_shape(b, &c, types[(i + 1) % 2], library, hopper);
	}
	for (int i = 0; hopper && i < (argc < 2 ? HOPPER : atoi(argv[1])); i++) {
		struct shape c = hopper_shape(seed, i);

		test_hopper(b, &c, types[i % 2], i / 2 % 2);
	}
	if (argc < 2)
		test_refused(b);
	return check_done();
}
