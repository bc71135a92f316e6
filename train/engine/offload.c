/*
 * offload.c - updates by the host: a job for each bucket
 */
#include "train/engine/offload.h"
#include "lib/base/mem.h"
#include "train/engine/host.h"

#include <stdlib.h>

/* A bucket that the host updates. */
struct lane {
	int bucket;
	int64_t job;
	struct event *returned; /* its weights are on the device */
	bool pending;
};

struct offload {
	struct offload_update how; /* the update under way */
	void *ctx;                 /* its copy */
	struct event *ready;       /* gradients are final, and the old weights are used no more */
	struct lane *lane;         /* of each bucket */
};

struct offload *
offload_new(struct engine *e)
{
	int n = e->mem.shards.num_buckets;
	struct offload *x;

	if (!memory_buffer(&e->mem, BUF_HOST_WEIGHTS)->bytes)
		return NULL;
	x = mem_zalloc(1, sizeof *x);
	x->ready = e->backend->event(e->device);
	x->lane = mem_zalloc((size_t)n, sizeof *x->lane);
	for (int k = 0; k < n; k++) {
		struct part own = engine_optim_part(e, k);

		if (engine_updated_on_host(e, &own))
			x->lane[k] =
			    (struct lane){ .bucket = k, .returned = e->backend->event(e->device) };
	}
	return x;
}

void
offload_free(struct offload *x)
{
	if (!x)
		return;
	free(x->ctx);
	free(x->lane);
	free(x);
}

/* --- the host's side -------------------------------------------------------------------------- */

/* The gradients of a piece, in their own type, in a slot. */
static struct tensor
grads_in(const struct engine *e, const struct tensor *slot)
{
	return tensor_1d(slot->data, memory_buffer(&e->mem, BUF_GRADS)->dtype, slot->shape[0]);
}

static void
fetch(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	struct tensor from = engine_part(e, BUF_GRADS, &p->part), to = grads_in(e, slot);

	(void)ctx;
	e->backend->copy_out(host_arrivals(e), to.data, from.data, tensor_bytes(&to));
}

static void
take(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	const struct offload *x = ctx;
	struct tensor grads = grads_in(e, slot), from, to = engine_part(e, BUF_WEIGHTS, &p->part);

	x->how.update(e, p, &grads, x->ctx);
	from = engine_updated(e, &p->part);
	e->backend->copy_in(host_returns(e), to.data, from.data, tensor_bytes(&to));
}

static void
update(struct engine *e, void *arg)
{
	struct lane *l = arg;
	struct offload *x = e->offload;

	e->backend->wait(host_arrivals(e), x->ready);
	e->backend->wait(host_returns(e), x->ready);
	host_walk(e, &(struct host_walk){ l->bucket, l->bucket + 1, fetch, take, x });
	e->backend->record(host_returns(e), l->returned);
}

/* --- the main thread's ------------------------------------------------------------------------ */

void
offload_begin(struct engine *e, const struct offload_update *how)
{
	struct offload *x = e->offload;

	if (!x)
		return;
	x->how = *how;
	x->ctx = mem_realloc(x->ctx, how->size, 1);
	memcpy(x->ctx, how->ctx, how->size);
	e->backend->record(e->stream, x->ready);
	for (int k = 0; k < e->mem.shards.num_buckets; k++)
		if (x->lane[k].returned) {
			x->lane[k].pending = true;
			x->lane[k].job = host_queue(e, update, &x->lane[k]);
		}
}

bool
offload_pending(const struct engine *e, int bucket)
{
	return e->offload && e->offload->lane[bucket].pending;
}

void
offload_await(struct engine *e, int bucket)
{
	struct lane *l = &e->offload->lane[bucket];

	host_await(e, l->job);
	e->backend->wait(e->stream, l->returned);
	l->pending = false;
}

void
offload_copy_weights(struct engine *e, bool to_device)
{
	for (int k = 0; e->offload && k < e->mem.shards.num_buckets; k++) {
		struct part own = engine_optim_part(e, k);
		struct tensor host = engine_updated(e, &own),
			      device = engine_part(e, BUF_WEIGHTS, &own);

		if (!engine_updated_on_host(e, &own))
			continue;
		if (to_device)
			e->backend->copy_in(e->stream, device.data, host.data, tensor_bytes(&host));
		else
			e->backend->copy_out(
			    e->stream, host.data, device.data, tensor_bytes(&host));
	}
	if (e->offload)
		engine_sync(e);
}
