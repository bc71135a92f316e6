/*
 * ema.c - the average of the master weights
 *
 * A piece of the masters that lies on the device passes to the host as it is: real, or in the
 * ring's slot a BF16 weight and then its low bits, which are as large together.
 */
#include "train/optim/ema.h"
#include "lib/base/mem.h"
#include "train/engine/host.h"

#include <stdlib.h>

struct ema {
	struct event *updated; /* the masters that the next job reads are there */
	double share;          /* what the average takes of them */
	int64_t job;           /* the last one */
};

struct ema *
ema_new(struct engine *e)
{
	struct ema *m;

	if (!memory_buffer(&e->mem, BUF_AVERAGE)->bytes)
		return NULL;
	m = mem_zalloc(1, sizeof *m);
	m->updated = e->backend->event(e->device);
	return m;
}

void
ema_free(struct ema *m)
{
	free(m);
}

/* Master and low bits, or the master alone, in a slot. */
static struct average
in_slot(const struct engine *e, const struct tensor *slot)
{
	int64_t n = slot->shape[0];
	uint16_t *halves = slot->data;

	if (!memory_has(&e->mem, BUF_LOW_BITS))
		return (struct average){ .master = *slot };
	return (struct average){ .master = tensor_1d(halves, DTYPE_BF16, n),
		.low_bits = tensor_1d(halves + n, DTYPE_U16, n) };
}

static void
copy(struct engine *e, const struct tensor *to, const struct tensor *from)
{
	if (to->data)
		e->backend->copy_out(host_arrivals(e), to->data, from->data, tensor_bytes(to));
}

static void
fetch(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	struct average to = in_slot(e, slot);
	struct tensor master = engine_masters(e, &p->part),
		      low_bits = engine_part(e, BUF_LOW_BITS, &p->part);

	(void)ctx;
	if (engine_updated_on_host(e, &p->part))
		return;
	copy(e, &to.master, &master);
	copy(e, &to.low_bits, &low_bits);
}

/* Masters that lie on the host are read there, others from the slot. */
static void
take(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	const struct ema *m = ctx;
	struct average a = { .master = engine_masters(e, &p->part),
		.low_bits = engine_part(e, BUF_LOW_BITS, &p->part) };

	if (!engine_updated_on_host(e, &p->part))
		a = in_slot(e, slot);
	a.average = engine_part(e, BUF_AVERAGE, &p->part);
	a.share = m->share;
	e->host_stream->ops->average(e->host_stream, &a);
}

static void
run(struct engine *e, void *arg)
{
	struct ema *m = arg;

	e->backend->wait(host_arrivals(e), m->updated);
	host_walk(e, &(struct host_walk){ 0, e->mem.shards.num_buckets, fetch, take, m });
}

static void
begin(struct engine *e, double share)
{
	struct ema *m = e->ema;

	m->share = share;
	e->backend->record(e->stream, m->updated);
	m->job = host_queue(e, run, m);
}

void
ema_start(struct engine *e)
{
	struct tensor average;

	if (!e->ema)
		return;
	ema_settle(e);
	average = engine_buffer(e, BUF_AVERAGE);
	memset(average.data, 0, tensor_bytes(&average));
	begin(e, 1);
	ema_settle(e);
}

void
ema_step(struct engine *e, double decay)
{
	if (e->ema)
		begin(e, 1 - decay);
}

void
ema_settle(struct engine *e)
{
	if (e->ema)
		host_await(e, e->ema->job);
}
