/*
 * problem.h - an operation with its backward pass, to be run on any backend in any type
 *
 * A problem is a list of slots: inputs with random values, outputs with random gradients.
 * problem_solve runs the operation forward and backward and leaves outputs and gradients on the
 * host in double. op_tests in table.h lists the operations.
 */
#ifndef TESTS_GRAD_PROBLEM_H
#define TESTS_GRAD_PROBLEM_H

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "train/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 11, SLOT_DIMS = 2 };
/* A rebuilt slot is a second copy of the first output, recomputed by the backward pass. */
enum slot_kind {
	SLOT_NONE,
	SLOT_INPUT,
	SLOT_FIXED,
	SLOT_OUTPUT,
	SLOT_IDS,
	SLOT_MASK,
	SLOT_SCRATCH,
	SLOT_REBUILT
};
/* Stored real; gradient real; gradient added to; a vector of `rows` elements; scratch that is act.
 * Otherwise act and a matrix; scratch is real. */
enum { SLOT_REAL = 1, SLOT_REAL_GRAD = 2, SLOT_ADDED = 4, SLOT_VECTOR = 8, SLOT_ACT = 16 };

/* A case of an operation, which reads the fields it needs. */
struct op_case {
	int64_t rows, columns, inner;
	int batch, heads, groups, head_dim;
	int64_t window;
	double drop, cap; /* cap: of attention and the loss; of embeddings their scale */
	int64_t turn;     /* of dropout; 0: positions are contiguous */
	int kind;
	unsigned flags;
};

struct slot {
	enum slot_kind kind;
	unsigned flags;
	int64_t rows, columns;
	struct tensor t, g;   /* on the device */
	double *value, *grad; /* on the host, [rows, columns] */
};

struct problem {
	const struct backend *backend;
	struct device *device;
	struct stream *st;
	enum dtype act, real;
	const struct op_case *c;
	struct slot slot[SLOTS];
};

struct op_test {
	const char *name;
	void (*declare)(struct problem *);
	void (*forward)(struct problem *);
	void (*backward)(struct problem *);
	/* element of the first output, from the inputs */
	double (*expect)(const struct problem *, int64_t row, int64_t column);
	const struct op_case *cases; /* ended by rows 0 */
};

/* How to run: act is the run's type, round the type to which inputs are rounded first. */
struct problem_config {
	enum dtype act, round;
	int num_threads;
	bool deterministic;
};

static const double slot_before = 0.25; /* the initial value of accumulated gradients */

static inline int64_t
slot_count(const struct slot *s)
{
	return s->rows * s->columns;
}

static struct tensor
slot_tensor(struct problem *p, enum dtype dtype, const struct slot *s)
{
	struct err e;
	void *data = p->backend->alloc(p->device, (size_t)slot_count(s) * dtype_size(dtype), &e);

	return s->flags & SLOT_VECTOR ? tensor_1d(data, dtype, s->rows)
				      : tensor_2d(data, dtype, s->rows, s->columns);
}

/* Declares slot i with its random values and, for an output, its random gradient. Outputs hold NaN
 * before. */
static void
slot_add(
    struct problem *p, int i, enum slot_kind kind, unsigned flags, const int64_t shape[SLOT_DIMS])
{
	struct slot *s = &p->slot[i];
	bool real = flags & SLOT_REAL || (kind == SLOT_SCRATCH && !(flags & SLOT_ACT));
	enum dtype act = real ? p->real : p->act;

	*s = (struct slot){ .kind = kind, .flags = flags, .rows = shape[0], .columns = shape[1] };
	s->value = mem_zalloc((size_t)slot_count(s), sizeof(double));
	s->grad = mem_zalloc((size_t)slot_count(s), sizeof(double));
	s->t = slot_tensor(p,
	    kind == SLOT_IDS        ? DTYPE_I32
		: kind == SLOT_MASK ? DTYPE_F32
				    : act,
	    s);
	if (kind == SLOT_INPUT || kind == SLOT_OUTPUT)
		s->g = slot_tensor(p, flags & SLOT_REAL_GRAD ? p->real : p->act, s);
	for (int64_t k = 0; k < slot_count(s); k++) {
		s->value[k] = 2 * (double)rng_uniform(7, (uint64_t)k, (uint32_t)i, 0) - 1;
		s->grad[k] = kind == SLOT_OUTPUT
		    ? 2 * (double)rng_uniform(7, (uint64_t)k, (uint32_t)i, 1) - 1
		    : flags & SLOT_ADDED ? slot_before
					 : NAN;
	}
	if (kind == SLOT_SCRATCH || kind == SLOT_OUTPUT || kind == SLOT_REBUILT)
		p->st->ops->fill(p->st, &(struct fill){ s->t, NAN });
}

/* Host doubles to a tensor of any type. */
static void
upload(struct problem *p, const struct tensor *t, const double *from)
{
	int64_t n = tensor_elements(t);
	char *host = mem_alloc((size_t)n, dtype_size(t->dtype));
	struct err e;

	if (t->dtype == DTYPE_I32)
		for (int64_t i = 0; i < n; i++)
			((int32_t *)(void *)host)[i] = (int32_t)from[i];
	else
		dtype_convert(host, t->dtype, from, DTYPE_F64, n);
	p->backend->copy_in(p->st, t->data, host, tensor_bytes(t));
	p->backend->sync(p->st, &e);
	free(host);
}

static void
download(struct problem *p, const struct tensor *t, double *to)
{
	char *host = mem_alloc((size_t)tensor_elements(t), dtype_size(t->dtype));
	struct err e;

	p->backend->copy_out(p->st, host, t->data, tensor_bytes(t));
	if (p->backend->sync(p->st, &e) == 0)
		dtype_convert(to, DTYPE_F64, host, t->dtype, tensor_elements(t));
	free(host);
}

static void
round_values(double *x, int64_t n, enum dtype to)
{
	char *small = mem_alloc((size_t)n, dtype_size(to));

	dtype_convert(small, to, x, DTYPE_F64, n);
	dtype_convert(x, DTYPE_F64, small, to, n);
	free(small);
}

/* True when the slot has values before the operation. */
static bool
slot_is_given(const struct slot *s)
{
	return s->kind == SLOT_INPUT || s->kind == SLOT_FIXED || s->kind == SLOT_IDS ||
	    s->kind == SLOT_MASK;
}

/* Inputs to the device, forward pass, outputs to the host. */
static void
problem_forward(struct problem *p, const struct op_test *op)
{
	for (int i = 0; i < SLOTS; i++)
		if (slot_is_given(&p->slot[i]))
			upload(p, &p->slot[i].t, p->slot[i].value);
	op->forward(p);
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].kind == SLOT_OUTPUT)
			download(p, &p->slot[i].t, p->slot[i].value);
}

static void
problem_backward(struct problem *p, const struct op_test *op)
{
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].g.data)
			upload(p, &p->slot[i].g, p->slot[i].grad);
	op->backward(p);
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].kind == SLOT_INPUT)
			download(p, &p->slot[i].g, p->slot[i].grad);
		else if (p->slot[i].kind == SLOT_REBUILT)
			download(p, &p->slot[i].t, p->slot[i].value);
}

/* An uninitialised matrix in act; the caller releases it. */
static struct tensor
act_matrix(struct problem *p, int64_t rows, int64_t columns)
{
	struct err e;
	size_t bytes = (size_t)(rows * columns) * dtype_size(p->act);

	return tensor_2d(p->backend->alloc(p->device, bytes, &e), p->act, rows, columns);
}

/* The unit matrix [n, n] in act; the caller releases it. */
static struct tensor
unit_matrix(struct problem *p, int64_t n)
{
	double *host = mem_zalloc((size_t)(n * n), sizeof *host);
	struct tensor t = act_matrix(p, n, n);

	for (int64_t i = 0; i < n; i++)
		host[i * n + i] = 1;
	upload(p, &t, host);
	free(host);
	return t;
}

/* out (real) += the sums of the columns of x (act): the bias gradient that a GEMM computes. */
static void
add_column_sums(struct problem *p, const struct tensor *out, const struct tensor *x)
{
	struct tensor c = act_matrix(p, x->shape[1], 1), b = act_matrix(p, x->shape[0], 1);
	struct gemm g = {
		.c = c, .a = *x, .b = b, .trans_a = true, .alpha = 1, .beta = 1, .dbias = *out
	};

	p->st->ops->fill(p->st, &(struct fill){ b, 0 });
	p->st->ops->fill(p->st, &(struct fill){ c, 0 });
	p->st->ops->gemm(p->st, &g);
	p->backend->release(p->device, b.data);
	p->backend->release(p->device, c.data);
}

/* Sum of squared differences over sum of squares. */
static inline double
nmse(const double *a, const double *b, int64_t n)
{
	double error = 0, size = 0;

	for (int64_t i = 0; i < n; i++) {
		error += (a[i] - b[i]) * (a[i] - b[i]);
		size += b[i] * b[i];
	}
	return size > 0 ? error / size : error;
}

/* Opens the device, runs both passes, leaves the results in the slots; problem_free it. */
static struct problem *
problem_solve(const struct backend *backend, const struct op_test *op, const struct op_case *c,
    struct problem_config config)
{
	struct problem *p = mem_zalloc(1, sizeof *p);
	struct device_config dc = { .num_threads = config.num_threads,
		.dtype = config.act,
		.deterministic = config.deterministic };
	struct err e;

	p->backend = backend;
	p->c = c;
	p->act = config.act;
	p->real = config.act == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	p->device = backend->open(&dc, &e);
	if (!p->device) {
		fprintf(stderr, "cannot open %s: %s\n", backend->name, e.msg);
		exit(1);
	}
	p->st = backend->stream(p->device, STREAM_COMPUTE);
	op->declare(p);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &p->slot[i];

		if ((s->kind == SLOT_INPUT || s->kind == SLOT_FIXED) && !(s->flags & SLOT_REAL))
			round_values(s->value, slot_count(s), config.round);
		if (s->kind == SLOT_OUTPUT && !(s->flags & SLOT_REAL))
			round_values(s->grad, slot_count(s), config.round);
	}
	problem_forward(p, op);
	problem_backward(p, op);
	return p;
}

static void
problem_free(struct problem *p)
{
	for (int i = 0; i < SLOTS; i++) {
		p->backend->release(p->device, p->slot[i].t.data);
		p->backend->release(p->device, p->slot[i].g.data);
		free(p->slot[i].value);
		free(p->slot[i].grad);
	}
	p->backend->close(p->device);
	free(p);
}

#endif
