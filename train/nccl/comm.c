/*
 * comm.c - train/comm.h over NCCL, on device memory
 *
 * A communicator is built on a host communicator of the same ranks, which carries NCCL's id, does
 * barriers and ends the world. Collectives are queued on the caller's stream. Between ranks that
 * share memory neither what goes in parts nor a gather of long ones passes through NCCL (peers.c).
 * NCCL moves bytes and counts; it adds no floating types (sums.c).
 */
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "train/nccl/impl.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the parts that ranks gather by pushing them: NCCL is faster with less. */
enum { PUSH_BYTES = 4 << 20 };

/* What a communicator keeps besides its rank and size. */
struct nccl_group {
	ncclComm_t handle; /* NULL in a communicator of one */
	struct comm *host; /* owned */
	struct device *device;
	struct peers *peers; /* NULL: ranks do not share memory */
	struct sums sums;
};

/* True for success. Otherwise the device has failed: the step continues to queue, and sync reports
 * the failure and ends the program. */
static bool
nccl_ok(struct comm *c, ncclResult_t rc, const char *what)
{
	struct nccl_group *g = c->impl;
	char reason[256];

	if (rc == ncclSuccess)
		return true;
	snprintf(
	    reason, sizeof reason, "%s (%s)", ncclGetErrorString(rc), ncclGetLastError(g->handle));
	cu_fail(g->device, what, reason);
	return false;
}

/* Types that the engine sends between devices: activations, gradients, statistics. Any other is a
 * bug in the engine. */
static ncclDataType_t
data_type(enum dtype t)
{
	switch (t) {
	case DTYPE_F64: return ncclFloat64;
	case DTYPE_F32: return ncclFloat32;
	case DTYPE_BF16: return ncclBfloat16;
	case DTYPE_F16: return ncclFloat16;
	case DTYPE_I64: return ncclInt64;
	case DTYPE_I32: return ncclInt32;
	default: BUG("communication of %s on the device", dtype_name(t));
	}
}

/* A rank's own part, which is all in a collective of one rank. */
static void
copy(struct comm *c, struct stream *st, const struct tensor *to, const struct tensor *from)
{
	struct nccl_group *g = c->impl;

	if (to->data != from->data && tensor_elements(to))
		cu_ok(g->device,
		    cudaMemcpyAsync(to->data, from->data, tensor_bytes(to),
			cudaMemcpyDeviceToDevice, cu_handle(st)),
		    "copy of the own part");
}

/* In place, queued on st; a failure is reported by the device's next sync. Maxima and sums of
 * integers have no order that shows. */
void
nccl_all_reduce(struct comm *c, struct stream *st, const struct comm_reduce *a)
{
	struct nccl_group *g = c->impl;
	const struct tensor *t = &a->x;
	size_t count = (size_t)comm_elements(t);

	if (c->size == 1 || count == 0)
		return;
	if (a->op == REDUCE_SUM && dtype_is_float(t->dtype))
		nccl_sums_all(&g->sums, c, st, a);
	else
		nccl_ok(c,
		    ncclAllReduce(t->data, t->data, count, data_type(t->dtype),
			a->op == REDUCE_MAX ? ncclMax : ncclSum, g->handle, cu_handle(st)),
		    "all-reduce");
}

/* Equal on all ranks, since shared memory is laid out alike. */
static bool
pushes(const struct nccl_group *g, const struct tensor *whole, const struct tensor *part)
{
	return g->peers && tensor_bytes(part) >= PUSH_BYTES && peers_hold(g->peers, whole);
}

static void
push(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct nccl_group *g = c->impl;
	struct tensor own = comm_whole(c, p, c->rank);

	peers_gather(g->peers, st, p);
	copy(c, st, &own, &p->part);
}

/* in may lie inside out, at its own part. */
void
nccl_all_gather(struct comm *c, struct stream *st, const struct comm_gather *a)
{
	struct nccl_group *g = c->impl;
	const struct tensor *out = &a->out, *in = &a->in;
	size_t count = (size_t)comm_part(c, in, out);

	if (c->size == 1)
		copy(c, st, out, in);
	else if (pushes(g, out, in))
		push(c, st, &(struct comm_parts){ .whole = *out, .part = *in });
	else if (count)
		nccl_ok(c,
		    ncclAllGather(
			in->data, out->data, count, data_type(in->dtype), g->handle, cu_handle(st)),
		    "all-gather");
}

/* In place; ranks other than root have theirs overwritten. */
void
nccl_broadcast(struct comm *c, struct stream *st, const struct comm_broadcast *a)
{
	struct nccl_group *g = c->impl;
	const struct tensor *t = &a->x;
	size_t count = (size_t)comm_elements(t);

	if (c->size > 1 && count)
		nccl_ok(c,
		    ncclBroadcast(t->data, t->data, count, data_type(t->dtype), a->root, g->handle,
			cu_handle(st)),
		    "broadcast");
}

/* Queues one message of a batch. A message without elements is skipped on both sides. */
static void
post(struct comm *c, struct stream *st, const struct p2p *m)
{
	struct nccl_group *g = c->impl;
	size_t count = (size_t)comm_elements(&m->buf);
	ncclDataType_t type = data_type(m->buf.dtype);

	if (count == 0)
		return;
	nccl_ok(c,
	    m->send ? ncclSend(m->buf.data, count, type, m->peer, g->handle, cu_handle(st))
		    : ncclRecv(m->buf.data, count, type, m->peer, g->handle, cu_handle(st)),
	    m->send ? "send" : "receive");
}

/* The smallest tag above `tag`, or -1. */
static int
next_tag(const struct p2p *message, int count, int tag)
{
	int next = -1;

	for (int i = 0; i < count; i++)
		if (message[i].tag > tag && (next < 0 || message[i].tag < next))
			next = message[i].tag;
	return next;
}

/* NCCL pairs messages of two ranks in the order they are given, so both sides give them in the
 * order of their tags. One group: sends and receives of it run together, so their order in the
 * call cannot block. */
void
nccl_exchange(struct comm *c, struct stream *st, const struct comm_messages *a)
{
	const struct p2p *message = a->message;
	int count = a->count;

	if (!nccl_ok(c, ncclGroupStart(), "exchange"))
		return;
	for (int tag = next_tag(message, count, -1); tag >= 0; tag = next_tag(message, count, tag))
		for (int i = 0; i < count; i++)
			if (message[i].tag == tag)
				post(c, st, &message[i]);
	nccl_ok(c, ncclGroupEnd(), "exchange");
}

static bool
share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	struct nccl_group *g = c->impl;

	if (c->size > 1)
		g->peers = peers_open(g->host, g->device, piece, count, why);
	return c->size == 1 || g->peers;
}

/* Without shared memory a message each way for each part, which takes multiprocessors from the
 * GEMMs beside it. */
void
nccl_all_gather_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct nccl_group *g = c->impl;

	(void)comm_part(c, &p->part, &p->whole);
	if (g->peers) {
		peers_gather(g->peers, st, p);
		return;
	}
	for (int i = 1; i < c->size; i++) {
		int from = (c->rank + i) % c->size, to = (c->rank + c->size - i) % c->size;
		struct p2p message[] = { { true, to, 0, p->part },
			{ false, from, 0, comm_whole(c, p, from) } };

		nccl_exchange(c, st, &(struct comm_messages){ message, 2 });
		if (p->event)
			backend_cuda.record(st, p->event[from]);
	}
}

/* The only term is the sum. */
static void
keep_part(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct tensor whole = tensor_flat(&p->whole), part = tensor_flat(&p->part),
		      own = tensor_rows(&whole, p->first, part.shape[0]);

	if (own.dtype == part.dtype)
		copy(c, st, &part, &own);
	else
		st->ops->cast(st, &(struct pair){ part, own });
}

/* Without shared memory the terms come by messages, when all parts are made. */
void
nccl_reduce_scatter_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct nccl_group *g = c->impl;

	(void)comm_partial_sums(c, p);
	if (g->peers) {
		peers_scatter(g->peers, st, p);
		return;
	}
	for (int i = 0; p->event && i < c->size; i++)
		backend_cuda.wait(st, p->event[i]);
	if (c->size == 1)
		keep_part(c, st, p);
	else
		nccl_sums_scatter(c, st, p);
}

void
nccl_all_to_all(struct comm *c, struct stream *st, const struct comm_arrays *a)
{
	struct nccl_group *g = c->impl;
	struct p2p *list;
	int n;

	if (g->peers) {
		peers_all_to_all(g->peers, st, a->block, a->count);
		return;
	}
	list = comm_blocks(c, a->block, a->count, &n);
	nccl_exchange(c, st, &(struct comm_messages){ list, n });
	free(list);
}

void
nccl_message(struct comm *c, struct stream *st, const struct comm_message *a)
{
	struct nccl_group *g = c->impl;

	if (g->peers && peers_hold(g->peers, &a->receive_buffer))
		peers_message(g->peers, st, &a->message, &a->receive_buffer);
	else
		nccl_exchange(c, st, &(struct comm_messages){ &a->message, 1 });
}

/* Of one rank both orders are the same: the round, as much of it as there may be. */
static void
copy_round(struct comm *c, struct stream *st, const struct rows_exchange *x)
{
	const struct tensor *routed = x->back ? &x->out : &x->in,
			    *taken = x->back ? &x->in : &x->out;
	int64_t left = routed->shape[0] - x->first, rows = taken->shape[0];
	struct tensor from, to;

	if (left <= 0)
		return;
	rows = left < rows ? left : rows;
	from = tensor_rows(routed, x->first, rows);
	to = tensor_rows(taken, 0, rows);
	copy(c, st, x->back ? &from : &to, x->back ? &to : &from);
}

/* The host waits for the counts, by which it knows what to send. */
static void
send_rows(struct comm *c, struct stream *st, const struct rows_exchange *x)
{
	struct rows_exchange known = *x;
	size_t experts = (size_t)x->counts.shape[1];
	int32_t *counts = mem_alloc((size_t)comm_elements(&x->counts), sizeof *counts);
	struct p2p *message = mem_alloc(2 * experts, sizeof *message);
	struct err why;
	int count;

	known.counts.data = counts;
	backend_cuda.copy_out(st, counts, x->counts.data, tensor_bytes(&x->counts));
	count = backend_cuda.sync(st, &why) == 0 ? comm_rows(c, &known, message) : 0;
	nccl_exchange(c, st, &(struct comm_messages){ message, count });
	free(message);
	free(counts);
}

void
nccl_all_to_all_rows(struct comm *c, struct stream *st, const struct rows_exchange *x)
{
	struct nccl_group *g = c->impl;

	if (c->size == 1)
		copy_round(c, st, x);
	else if (g->peers && peers_hold(g->peers, &x->out))
		peers_rows(g->peers, st, x);
	else
		send_rows(c, st, x);
}

/* Of the ranks' threads, not of their streams. */
static void
barrier(struct comm *c)
{
	struct nccl_group *g = c->impl;

	g->host->ops->barrier(g->host);
}

/* Groups are split from the host communicator and then converted to device ones. */
static struct comm *
split(struct comm *c, int color, int key, struct err *e)
{
	(void)c;
	(void)color;
	(void)key;
	(void)e;
	BUG("split of a device communicator: split the host's");
}

/* Errors and manifests are host memory: they go through the world. */
static char *
gather_bytes(struct comm *c, const void *bytes, size_t len, int root, size_t *total)
{
	(void)c;
	(void)bytes;
	(void)len;
	(void)root;
	(void)total;
	BUG("host bytes through a device communicator");
}

/* Device work that hangs in a collective ends with the process. */
static void __attribute__((noreturn)) abort_world(struct comm *c, int status)
{
	struct nccl_group *g = c->impl;

	g->host->ops->abort(g->host, status);
}

/* Also frees the host communicator it is built on. Collective, as MPI's free is. */
static void
free_comm(struct comm *c)
{
	struct nccl_group *g = c->impl;

	peers_close(g->peers);
	nccl_sums_close(&g->sums, g->device);
	if (g->handle)
		(void)ncclCommDestroy(g->handle);
	g->host->ops->free(g->host);
	free(g);
	free(c);
}

/* split and gather_bytes only report misuse: the engine uses the host's. */
const struct comm_ops nccl_ops = {
#define CALL(name, type) .name = nccl_##name,
#define CALL_MPI(name, type)
#include "train/comm_list.h"
	.split = split,
	.share = share,
	.barrier = barrier,
	.gather_bytes = gather_bytes,
	.abort = abort_world,
	.free = free_comm,
};

/* Rank 0 makes the id, the host communicator carries it, all join. Collective over host.
 * The id is 128 bytes that NCCL reads as an address; they go through the host as U8. -1 with both
 * of NCCL's reasons. */
static int
join(struct comm *host, const struct comm_config *c, ncclComm_t *handle, struct err *e)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = { { 0 } };
	struct tensor bytes = tensor_1d(&id, DTYPE_U8, sizeof id);
	ncclResult_t rc = host->rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;

	if (rc != ncclSuccess)
		return err_set(e, "cannot start NCCL: %s (%s)", ncclGetErrorString(rc),
		    ncclGetLastError(NULL));
	host->ops->broadcast(host, NULL, &(struct comm_broadcast){ bytes, 0 });
	if (c->max_blocks)
		config.maxCTAs = c->max_blocks;
	rc = ncclCommInitRankConfig(handle, host->size, id, host->rank, &config);
	if (rc != ncclSuccess)
		return err_set(e, "NCCL cannot connect %d %s: %s (%s)", host->size, c->name,
		    ncclGetErrorString(rc), ncclGetLastError(NULL));
	return 0;
}

/* 0 when the library does not say. */
int
nccl_version(void)
{
	int version = 0;

	return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

/* Ranks of pretended hosts go through the network for NCCL too, which reads this when it starts. */
static void
set_host(void)
{
	char where[PROCESS_WHERE];

	process_where(where);
	if (strchr(where, '#'))
		setenv("NCCL_HOSTID", where, 1);
}

/* Collective over host's ranks. Owns host from here on when it succeeds; on NULL host stays the
 * caller's. */
struct comm *
nccl_comm(struct device *d, struct comm *host, const struct comm_config *config, struct err *e)
{
	struct nccl_group *g;
	struct comm *c;
	ncclComm_t handle = NULL;

	/* NVLink's multicast would take memory for sums, of which NCCL makes none; links between
	 * hosts by NVLink are not used. In a recording buffers would be registered. A user who
	 * wants one of these sets the variable. */
	setenv("NCCL_NVLS_ENABLE", "0", 0);
	setenv("NCCL_MNNVL_ENABLE", "0", 0);
	setenv("NCCL_GRAPH_REGISTER", "0", 0);
	set_host();
	if (host->size > 1 && join(host, config, &handle, e) < 0)
		return NULL;
	g = mem_zalloc(1, sizeof *g);
	g->handle = handle;
	g->host = host;
	g->device = d;
	c = mem_zalloc(1, sizeof *c);
	c->ops = &nccl_ops;
	c->rank = host->rank;
	c->size = host->size;
	c->impl = g;
	if (host->size == 1 || nccl_sums_open(&g->sums, d, config->sum_bytes, e) == 0)
		return c;
	(void)ncclCommDestroy(handle);
	free(g);
	free(c);
	return NULL;
}
