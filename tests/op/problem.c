/* problem.c - problems: slots on a device, and both passes of a test over them */
#include "tests/op/op.h"
#include "tests/op/run.h"

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
void
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
		    : flags & SLOT_ADDED ? SLOT_BEFORE
					 : NAN;
	}
	if (kind == SLOT_SCRATCH || kind == SLOT_OUTPUT || kind == SLOT_REBUILT)
		p->ops->fill(p->st, &(struct fill){ s->t, NAN });
}

/* Host doubles to a tensor of any type. */
void
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

void
download(struct problem *p, const struct tensor *t, double *to)
{
	char *host = mem_alloc((size_t)tensor_elements(t), dtype_size(t->dtype));
	struct err e;

	p->backend->copy_out(p->st, host, t->data, tensor_bytes(t));
	if (p->backend->sync(p->st, &e) == 0)
		dtype_convert(to, DTYPE_F64, host, t->dtype, tensor_elements(t));
	free(host);
}

void
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
void
problem_forward(struct problem *p)
{
	for (int i = 0; i < SLOTS; i++)
		if (slot_is_given(&p->slot[i]))
			upload(p, &p->slot[i].t, p->slot[i].value);
	p->c->test->forward(p);
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].kind == SLOT_OUTPUT)
			download(p, &p->slot[i].t, p->slot[i].value);
}

void
problem_backward(struct problem *p)
{
	if (!p->c->test->backward)
		return;
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].g.data)
			upload(p, &p->slot[i].g, p->slot[i].grad);
	p->c->test->backward(p);
	for (int i = 0; i < SLOTS; i++)
		if (p->slot[i].kind == SLOT_INPUT)
			download(p, &p->slot[i].g, p->slot[i].grad);
		else if (p->slot[i].kind == SLOT_REBUILT)
			download(p, &p->slot[i].t, p->slot[i].value);
}

/* An uninitialised matrix in act; the caller releases it. */
struct tensor
act_matrix(struct problem *p, int64_t rows, int64_t columns)
{
	struct err e;
	size_t bytes = (size_t)(rows * columns) * dtype_size(p->act);

	return tensor_2d(p->backend->alloc(p->device, bytes, &e), p->act, rows, columns);
}

/* The unit matrix [n, n] in act; the caller releases it. */
struct tensor
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
void
add_column_sums(struct problem *p, const struct tensor *out, const struct tensor *x)
{
	struct tensor c = act_matrix(p, x->shape[1], 1), b = act_matrix(p, x->shape[0], 1);
	struct gemm g = {
		.c = c, .a = *x, .b = b, .trans_a = true, .alpha = 1, .beta = 1, .dbias = *out
	};

	p->ops->fill(p->st, &(struct fill){ b, 0 });
	p->ops->fill(p->st, &(struct fill){ c, 0 });
	p->ops->gemm(p->st, &g);
	p->backend->release(p->device, b.data);
	p->backend->release(p->device, c.data);
}

/* Sum of squared differences over sum of squares. */
double
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
struct problem *
problem_solve(const struct backend *backend, const struct op_case *c, struct problem_config config)
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
	p->ops = p->st->ops;
	c->test->declare(p);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &p->slot[i];

		if ((s->kind == SLOT_INPUT || s->kind == SLOT_FIXED) && !(s->flags & SLOT_REAL))
			round_values(s->value, slot_count(s), config.round);
		if (s->kind == SLOT_OUTPUT && !(s->flags & SLOT_REAL))
			round_values(s->grad, slot_count(s), config.round);
	}
	problem_forward(p);
	problem_backward(p);
	return p;
}

void
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

/* The dropout counters of every case. */
struct dropout
case_dropout(const struct op_case *c, int64_t width)
{
	return (struct dropout){ .p = c->drop,
		.key = 42,
		.stream = 3,
		.step = 5,
		.first_sample = 6,
		.seq_length = 1000,
		.first_position = 2,
		.second_position = 500,
		.turn = c->turn ? c->turn : c->rows,
		.width = width,
		.first_column = 1,
		.first_row = 5,
		.micro_batch = c->batch };
}

/* 0 or 1 / (1 - p), drawn for one element. */
double
drawn(const struct dropout *d, int64_t index)
{
	return (double)rng_uniform(d->key, (uint64_t)index, d->stream, d->step) >= d->p
	    ? 1 / (1 - d->p)
	    : 0;
}

/* The tanh form as published. */
double
gelu(double x)
{
	return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

double
activation(const struct op_case *c, double x, double up)
{
	struct act_gate g = case_gate(c);

	if (is_gated(c->kind) && g.clamp > 0) {
		x = fmin(x, g.clamp);
		up = fmax(-g.clamp, fmin(up, g.clamp)) + g.offset;
	}
	switch (c->kind) {
	case ACT_GELU_TANH: return gelu(x);
	case ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
	case ACT_RELU2: return x > 0 ? x * x : 0;
	case ACT_SWIGLU: return x / (1 + exp(-x)) * up;
	case ACT_QUICK_GEGLU: return x / (1 + exp(-1.702 * x)) * up;
	default: return gelu(x) * up;
	}
}
