/*
 * prefetch.c - a ring of micro batches that a thread fills
 *
 * Entries go round: free, filled, given out, free again. Three counters that only grow tell them apart:
 * filled - taken are ready, taken - passed are with the device, the rest are free. When the run asks for
 * something else (an evaluation, a step once more), what is ready is thrown away and the thread goes on
 * from there; what it is filling at that moment is known by its generation and dropped.
 */
#include "train/prefetch.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The ring holds two steps, or what fits in so many bytes, but never less than four batches. */
enum { RING_BYTES = 256 << 20, RING_LEAST = 4 };

struct entry {
	struct batch batch;
	struct prefetch_key key;
	int64_t tokens;
	struct err err;                 /* when tokens is -1 */
};

struct prefetch {
	const struct engine *e;
	struct data_reader *reader;     /* the thread's */
	int size;
	struct entry *ring;
	size_t bytes;                   /* of a batch */
	char *memory;                   /* of all batches, pinned where that helps */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;            /* an entry is ready, or free, or there is something else to fill */
	/* under the lock */
	bool stop;
	int64_t filled, taken, passed;
	struct prefetch_key next;       /* to be filled; step -1: nothing has been asked for */
	int64_t generation;
	struct prefetch_waits waits;
};

/* The micro batch that is asked for behind k. */
static struct prefetch_key
behind(const struct prefetch *p, struct prefetch_key k)
{
	if (++k.microbatch == p->e->plan.shape.num_microbatches) {
		k.microbatch = 0;
		k.step += p->e->plan.global_batch_size;
	}
	return k;
}

static bool
same(struct prefetch_key a, struct prefetch_key b)
{
	return a.set == b.set && a.step == b.step && a.microbatch == b.microbatch;
}

/* Reads without the lock. A batch that cannot be had is all zeros, which no pass minds: no token of it counts. */
static void
fill(const struct prefetch *p, struct entry *x)
{
	struct data_place at = { x->key.set, pipeline_first_sample(&p->e->plan, x->key.step, x->key.microbatch, 0),
		p->e->coord[AX_DP] };

	x->tokens = data_batch(p->reader, &at, &x->batch, &x->err);
	if (x->tokens < 0)
		memset(x->batch.tokens, 0, p->bytes);
}

/* The thread: fills free entries in order until told to stop. */
static void *
run(void *arg)
{
	struct prefetch *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct entry *x = &p->ring[p->filled % p->size];
		int64_t generation = p->generation;

		if (p->next.step < 0 || p->filled - p->passed == p->size) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		x->key = p->next;
		pthread_mutex_unlock(&p->lock);
		fill(p, x);
		pthread_mutex_lock(&p->lock);
		if (generation != p->generation)
			continue;
		p->filled++;
		p->next = behind(p, p->next);
		pthread_cond_broadcast(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Arrays of one entry in the ring's memory, of 4 bytes an element: four, and the starts of documents. */
static struct batch
batch_at(char *at, size_t rows, bool documents)
{
	return (struct batch){ (int32_t *)(void *)at, (int32_t *)(void *)(at + 4 * rows),
		(int32_t *)(void *)(at + 8 * rows), (float *)(void *)(at + 12 * rows),
		documents ? (int32_t *)(void *)(at + 16 * rows) : NULL };
}

/* A host that can make no thread is out of something that no run can do without. */
struct prefetch *
prefetch_new(const struct engine *e, const struct data *d)
{
	struct prefetch *p = mem_zalloc(1, sizeof *p);
	const struct train_shape *s = &e->plan.shape;
	size_t rows = (size_t)(s->seq_length * s->micro_batch_size), bytes = (s->reset_attention_mask ? 20 : 16) * rows;
	int64_t fit = (int64_t)(RING_BYTES / bytes), two = 2 * s->num_microbatches;

	p->e = e;
	p->bytes = bytes;
	p->reader = data_reader_new(d);
	p->size = (int)(fit < two ? fit : two);
	p->size = p->size < RING_LEAST ? RING_LEAST : p->size;
	p->next.step = -1;
	p->ring = mem_zalloc((size_t)p->size, sizeof *p->ring);
	p->memory = mem_alloc((size_t)p->size, bytes);
	if (e->backend->pin)
		e->backend->pin(e->device, p->memory, (size_t)p->size * bytes);
	for (int i = 0; i < p->size; i++)
		p->ring[i].batch = batch_at(p->memory + (size_t)i * bytes, rows, s->reset_attention_mask);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	if (pthread_create(&p->thread, NULL, run, p))
		die("cannot start a thread that reads batches");
	return p;
}

/* Waits for the batch that is being read. */
void
prefetch_free(struct prefetch *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	if (p->e->backend->unpin)
		p->e->backend->unpin(p->e->device, p->memory);
	data_reader_free(p->reader);
	free(p->memory);
	free(p->ring);
	free(p);
}

/* With the lock: forgets what is ready and goes on from k. */
static void
restart(struct prefetch *p, struct prefetch_key k)
{
	p->generation++;
	p->filled = p->taken;
	p->next = k;
	pthread_cond_broadcast(&p->wake);
}

void
prefetch_start(struct prefetch *p, struct prefetch_key k)
{
	pthread_mutex_lock(&p->lock);
	restart(p, k);
	pthread_mutex_unlock(&p->lock);
}

/* With the lock: is k what comes out next, now or when it has been read? */
static bool
expected(const struct prefetch *p, struct prefetch_key k)
{
	return p->filled > p->taken ? same(p->ring[p->taken % p->size].key, k) : same(p->next, k);
}

/* With the lock: waits until an entry is ready. All of them may be with the device in a long step; then
 * the device is waited for. */
static void
wait_ready(struct prefetch *p)
{
	double start = clock_seconds();

	if (p->taken - p->passed == p->size) {
		engine_sync(p->e);
		p->passed = p->taken;
		pthread_cond_broadcast(&p->wake);
	}
	while (p->filled == p->taken)
		pthread_cond_wait(&p->wake, &p->lock);
	p->waits.count++;
	p->waits.seconds += clock_seconds() - start;
}

/* An evaluation begins anew, which waits for its first batch; so does the step behind it. */
int64_t
prefetch_batch(struct prefetch *p, struct prefetch_key k, struct batch *out, struct err *err)
{
	struct entry *x;

	pthread_mutex_lock(&p->lock);
	if (!expected(p, k))
		restart(p, k);
	if (p->filled == p->taken)
		wait_ready(p);
	x = &p->ring[p->taken++ % p->size];
	pthread_mutex_unlock(&p->lock);
	*out = x->batch;
	if (x->tokens < 0)
		*err = x->err;
	return x->tokens;
}

void
prefetch_passed(struct prefetch *p)
{
	pthread_mutex_lock(&p->lock);
	p->passed = p->taken;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

struct prefetch_waits
prefetch_waits(struct prefetch *p)
{
	struct prefetch_waits w;

	pthread_mutex_lock(&p->lock);
	w = p->waits;
	pthread_mutex_unlock(&p->lock);
	return w;
}
