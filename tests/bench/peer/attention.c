/*
 * attention.c - attention of our own for compute capability 9.0, for a program of another kind that
 * has tensors and a stream of its own
 *
 * The kernels are the product's objects; here is what a device does for them otherwise. It is built
 * as a shared object, by which tests/bench/attention_peer.py measures them in PyTorch's process.
 */
#include "lib/base/mem.h"
#include "lib/model/hopper.h"
#include "train/cuda/attention/hopper.h"
#include "train/cuda/impl.h"

#include <stdio.h>
#include <stdlib.h>

#define PEER __attribute__((visibility("default")))

/* One call: BF16, queries at all positions. The layout of its rows is that of train/op/attention.h:
 * rows of q, k and v and of their gradients are `row` elements apart, those of out and dout, and of
 * lse and delta, are dense. attention_peer.py has the same struct. */
struct peer_call {
	void *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv, *delta, *work;
	int32_t *first; /* NULL: no documents */
	int64_t row, positions, micro_batch, num_heads, num_groups, head_dim;
	double scale;
	void *stream;
	int32_t backward;
};

struct peer {
	struct device device;
	struct hopper_attention *hopper;
};

/* The first failure is kept for the end of the call. */
void
cu_fail(struct device *d, const char *what, const char *reason)
{
	struct failure *f = &d->failure;

	if (f->what)
		return;
	f->what = what;
	snprintf(f->reason, sizeof f->reason, "%s: %s", what, reason);
}

bool
cu_ok(struct device *d, cudaError_t rc, const char *what)
{
	if (rc != cudaSuccess)
		cu_fail(d, what, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}

void
cu_launched(struct stream *st, const char *name)
{
	cu_ok(st->device, cudaGetLastError(), name);
}

PEER struct peer *attention_peer_open(char *why, size_t size);
PEER uint64_t attention_peer_workspace(const struct peer_call *c);
PEER const char *attention_peer_run(struct peer *p, const struct peer_call *c);

/* For the current GPU; NULL with the reason. It lives as long as the program. */
struct peer *
attention_peer_open(char *why, size_t size)
{
	struct peer *p = mem_zalloc(1, sizeof *p);
	struct device *d = &p->device;
	int major = 0, minor = 0;
	struct err e = { "" };

	if (cu_ok(d, cudaGetDevice(&d->index), "cudaGetDevice") &&
	    cu_ok(d, cudaDeviceGetAttribute(&d->num_sms, cudaDevAttrMultiProcessorCount, d->index),
		"multiprocessors") &&
	    cu_ok(d, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->index),
		"compute capability") &&
	    cu_ok(d, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->index),
		"compute capability"))
		p->hopper = hopper_attention_new(10 * major + minor, &e);
	if (p->hopper)
		return p;
	snprintf(why, size, "%s", d->failure.what ? d->failure.reason : e.msg);
	free(p);
	return NULL;
}

static struct tensor
matrix(void *data, int64_t rows, int64_t columns, int64_t row)
{
	struct tensor t = tensor_2d(data, DTYPE_BF16, rows, columns);

	t.stride[0] = row;
	return t;
}

static struct attention_shape
shape_of(const struct peer_call *c)
{
	return (struct attention_shape){ c->micro_batch, c->positions, c->positions, c->num_heads,
		c->num_groups, c->head_dim, true, false };
}

/* Bytes that a backward pass works in. */
uint64_t
attention_peer_workspace(const struct peer_call *c)
{
	struct attention_shape s = shape_of(c);

	return hopper_workspace(&s);
}

static struct attention_grad
arguments_of(const struct peer_call *c)
{
	int64_t rows = c->micro_batch * c->positions, q = c->num_heads * c->head_dim,
		k = c->num_groups * c->head_dim, heads = c->micro_batch * c->num_heads;

	return (struct attention_grad){
		.fwd = { .out = matrix(c->out, rows, q, q),
		    .lse = tensor_2d(c->lse, DTYPE_F32, heads, c->positions),
		    .q = matrix(c->q, rows, q, c->row),
		    .k = matrix(c->k, rows, k, c->row),
		    .v = matrix(c->v, rows, k, c->row),
		    .first = tensor_1d(c->first, DTYPE_I32, rows),
		    .micro_batch = (int)c->micro_batch,
		    .num_heads = (int)c->num_heads,
		    .num_groups = (int)c->num_groups,
		    .head_dim = (int)c->head_dim,
		    .scale = c->scale },
		.dout = matrix(c->dout, rows, q, q),
		.dq = matrix(c->dq, rows, q, c->row),
		.dk = matrix(c->dk, rows, k, c->row),
		.dv = matrix(c->dv, rows, k, c->row),
		.delta = tensor_2d(c->delta, DTYPE_F32, heads, c->positions),
		.work = tensor_1d(c->work, DTYPE_F32, (int64_t)attention_peer_workspace(c) / 4),
	};
}

/* Queues a pass on the call's stream. NULL, or what failed. */
const char *
attention_peer_run(struct peer *p, const struct peer_call *c)
{
	struct attention_grad a = arguments_of(c);
	struct cu_stream *st = &p->device.stream[STREAM_COMPUTE];
	struct hopper_run how = { .in_order = true };

	*st = (struct cu_stream){ { NULL, &p->device }, c->stream };
	p->device.failure.what = NULL;
	if (!(c->backward ? hopper_attention_takes_bwd(&a) : hopper_attention_takes(&a.fwd)))
		return "the kernels do not take this shape";
	if (c->backward)
		hopper_attention_bwd(&st->base, p->hopper, &a, how);
	else
		hopper_attention_fwd(&st->base, p->hopper, &a.fwd);
	return p->device.failure.what ? p->device.failure.reason : NULL;
}
