/* host.c - jobs on the host: in order, held during a save; pieces of arrays pass through the ring
 */
#include "train/engine/host.h"

#include "tests/check.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { REPLICAS = 2, ELEMENTS = 5 * BUCKET_CHUNK, LARGE = 4 * BUCKET_CHUNK };

/* A rank with two buckets; the ring holds two pieces, and the first bucket has three. */
static void
open_rank(struct engine *e, struct bucket bucket[2])
{
	static struct buffer ring = { .level = HOST,
		.place = ARENA_HOST,
		.dtype = DTYPE_F32,
		.shape = { 2 * BUCKET_CHUNK, 1 },
		.vector = true,
		.bytes = 2 * BUCKET_CHUNK * sizeof(float) };
	struct device_config c = { .num_threads = 1, .dtype = DTYPE_F32 };
	struct err err;

	memset(e, 0, sizeof *e);
	bucket[0] = (struct bucket){ .count = LARGE + 2 * BUCKET_ALIGN,
		.data_rank = 1,
		.data_ranks = REPLICAS,
		.owner = 1,
		.owners = REPLICAS };
	bucket[1] = (struct bucket){ .first = bucket[0].count,
		.count = ELEMENTS - bucket[0].count,
		.data_rank = 1,
		.data_ranks = REPLICAS,
		.owner = 1,
		.owners = REPLICAS,
		.in_optim = bucket[0].count / REPLICAS };
	e->backend = &backend_cpu;
	e->device = e->backend->open(&c, &err);
	e->stream = e->backend->stream(e->device, STREAM_COMPUTE);
	e->mem.shards = (struct shards){
		.num_buckets = 2, .bucket = bucket, .elements = ELEMENTS, .largest = bucket[0].count
	};
	e->mem.sharded = true;
	e->mem.optim_elements = ELEMENTS / REPLICAS;
	e->mem.buffer = &ring;
	e->mem.at[BUF_STAGING_RING] = 1;
	e->mem.arena[ARENA_HOST] = ring.bytes;
	CHECK(host_open(e, &c, &err) == 0);
}

static void
close_rank(struct engine *e)
{
	host_close(e);
	e->backend->close(e->device);
}

static atomic_int count;

/* Checks its place in the order. */
static void
tick(struct engine *e, void *arg)
{
	(void)e;
	CHECK(atomic_fetch_add(&count, 1) == *(int *)arg);
}

static void
test_order(struct engine *e)
{
	int number[40];
	int64_t job = 0;

	atomic_store(&count, 0);
	for (int i = 0; i < 40; i++) {
		number[i] = i;
		job = host_queue(e, tick, &number[i]);
	}
	host_await(e, job);
	CHECK(atomic_load(&count) == 40);
	host_await(e, 0);
}

/* What was queued before a hold is done when it holds, what comes after it waits. */
static void
test_hold(struct engine *e)
{
	int number[3] = { 0, 1, 2 };
	int64_t job;

	for (int round = 0; round < 2; round++) {
		atomic_store(&count, 0);
		host_queue(e, tick, &number[0]);
		host_hold(e);
		host_queue(e, tick, &number[1]);
		job = host_queue(e, tick, &number[2]);
		host_held(e);
		CHECK(atomic_load(&count) == 1);
		host_resume(e);
		host_await(e, job);
		CHECK(atomic_load(&count) == 3);
	}
}

/* --- the ring --------------------------------------------------------------------------------- */

struct passing {
	float *device, *host; /* all elements, and the own ones */
	int64_t pieces, next;
};

static void
fetch(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	struct passing *x = ctx;

	CHECK(slot->shape[0] == p->part.count && p->part.count <= BUCKET_CHUNK);
	e->backend->copy_out(host_arrivals(e), slot->data, x->device + p->part.first,
	    (size_t)p->part.count * sizeof(float));
}

static void
take(struct engine *e, const struct bucket_chunk *p, const struct tensor *slot, void *ctx)
{
	struct passing *x = ctx;

	(void)e;
	CHECK(p->part.in_optim == x->next);
	memcpy(x->host + p->part.in_optim, slot->data, tensor_bytes(slot));
	x->next += p->part.count;
	x->pieces++;
}

static void
pass(struct engine *e, void *arg)
{
	host_walk(e, &(struct host_walk){ 0, 2, fetch, take, arg });
}

static void
test_ring(struct engine *e)
{
	struct passing x = { .device = malloc(ELEMENTS * sizeof(float)),
		.host = malloc(ELEMENTS / REPLICAS * sizeof(float)) };

	for (int i = 0; i < ELEMENTS; i++)
		x.device[i] = (float)i;
	host_await(e, host_queue(e, pass, &x));
	CHECK(x.next == ELEMENTS / REPLICAS && x.pieces == 4);
	for (int b = 0; b < 2; b++) {
		struct part p = bucket_optim_part(&e->mem.shards.bucket[b]);

		for (int64_t i = 0; i < p.count; i += 997)
			CHECK(x.host[p.in_optim + i] == (float)(p.first + i));
	}
	free(x.device);
	free(x.host);
}

int
main(void)
{
	struct engine e;
	struct bucket bucket[2];

	open_rank(&e, bucket);
	test_order(&e);
	test_hold(&e);
	test_ring(&e);
	close_rank(&e);
	return check_done();
}
