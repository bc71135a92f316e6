/*
 * host.c - a thread with a queue of jobs, and the ring
 *
 * The main thread queues a job for each bucket that the host updates and a few more in a step; it
 * waits while the queue is full. A hold is a job that waits.
 */
#include "lib/base/mem.h"
#include "train/engine/host.h"
#include "train/engine/pinned.h"

#include <pthread.h>
#include <stdlib.h>

enum { QUEUE = 64 };

struct job {
	void (*run)(struct engine *, void *);
	void *arg;
};

struct host {
	struct engine *e;
	struct device *device; /* of the host's backend */
	struct stream *arrivals, *returns;
	struct event *arrived[2]; /* what was copied to each slot */
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* any of the following */
	struct job queue[QUEUE];
	int64_t queued, done;
	bool held, resumed; /* the job that holds the others has begun; it may end */
	bool ends;
};

/* --- jobs ------------------------------------------------------------------------------------- */

/* The next job; false when there will be none. */
static bool
next_job(struct host *h, struct job *out)
{
	bool more;

	pthread_mutex_lock(&h->mutex);
	while (h->done == h->queued && !h->ends)
		pthread_cond_wait(&h->changed, &h->mutex);
	more = h->done < h->queued;
	if (more)
		*out = h->queue[h->done % QUEUE];
	pthread_mutex_unlock(&h->mutex);
	return more;
}

static void *
work(void *arg)
{
	struct host *h = arg;
	struct job job;

	if (h->e->backend->enter)
		h->e->backend->enter(h->e->device);
	while (next_job(h, &job)) {
		job.run(h->e, job.arg);
		pthread_mutex_lock(&h->mutex);
		h->done++;
		pthread_cond_broadcast(&h->changed);
		pthread_mutex_unlock(&h->mutex);
	}
	return NULL;
}

int64_t
host_queue(struct engine *e, void (*run)(struct engine *, void *), void *arg)
{
	struct host *h = e->host;
	int64_t number;

	pthread_mutex_lock(&h->mutex);
	while (h->queued - h->done == QUEUE)
		pthread_cond_wait(&h->changed, &h->mutex);
	h->queue[h->queued % QUEUE] = (struct job){ run, arg };
	number = ++h->queued;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->mutex);
	return number;
}

void
host_await(struct engine *e, int64_t job)
{
	struct host *h = e->host;

	if (!job)
		return;
	pthread_mutex_lock(&h->mutex);
	while (h->done < job)
		pthread_cond_wait(&h->changed, &h->mutex);
	pthread_mutex_unlock(&h->mutex);
}

/* --- holds ------------------------------------------------------------------------------------ */

/* The job that holds the others. */
static void
hold(struct engine *e, void *arg)
{
	struct host *h = e->host;

	(void)arg;
	pthread_mutex_lock(&h->mutex);
	h->held = true;
	pthread_cond_broadcast(&h->changed);
	while (!h->resumed)
		pthread_cond_wait(&h->changed, &h->mutex);
	h->held = h->resumed = false;
	pthread_mutex_unlock(&h->mutex);
}

void
host_hold(struct engine *e)
{
	if (e->host)
		host_queue(e, hold, NULL);
}

void
host_held(struct engine *e)
{
	struct host *h = e->host;

	if (!h)
		return;
	pthread_mutex_lock(&h->mutex);
	while (!h->held)
		pthread_cond_wait(&h->changed, &h->mutex);
	pthread_mutex_unlock(&h->mutex);
}

/* A hold that has not begun yet is over at once. */
void
host_resume(struct engine *e)
{
	struct host *h = e->host;

	if (!h)
		return;
	pthread_mutex_lock(&h->mutex);
	h->resumed = true;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->mutex);
}

/* --- the ring --------------------------------------------------------------------------------- */

/* The slot of piece number i. */
static struct tensor
slot(const struct engine *e, int i, const struct bucket_chunk *p)
{
	struct tensor ring = engine_buffer(e, BUF_STAGING_RING);

	return tensor_rows(&ring, i % 2 * (ring.shape[0] / 2), p->part.count);
}

static void
fetch(struct engine *e, const struct host_walk *w, int i, const struct bucket_chunk *p)
{
	struct tensor to = slot(e, i, p);

	w->fetch(e, p, &to, w->ctx);
	e->backend->record(e->host->arrivals, e->host->arrived[i % 2]);
}

/* The next piece of the walk, if there is one. */
static bool
next_chunk(const struct engine *e, const struct host_walk *w, struct bucket_chunk *p)
{
	return memory_bucket_chunk(&e->mem, p) && p->bucket < w->end;
}

/* A piece is asked for before the one before it is used; its slot was used by the one before
 * that. */
void
host_walk(struct engine *e, const struct host_walk *w)
{
	struct bucket_chunk p, next = { .bucket = w->first };
	bool more = next_chunk(e, w, &next);

	if (more)
		fetch(e, w, 0, &next);
	for (int i = 0; more; i++) {
		struct tensor at;

		p = next;
		more = next_chunk(e, w, &next);
		if (more)
			fetch(e, w, i + 1, &next);
		e->backend->await(e->device, e->host->arrived[i % 2]);
		at = slot(e, i, &p);
		w->take(e, &p, &at, w->ctx);
	}
}

/* --- beginning and end ------------------------------------------------------------------------ */

struct stream *
host_arrivals(const struct engine *e)
{
	return e->host->arrivals;
}

struct stream *
host_returns(const struct engine *e)
{
	return e->host->returns;
}

/* host_close frees what was made before a failure. */
int
host_open(struct engine *e, const struct device_config *c, struct err *err)
{
	const struct backend *b = e->backend;
	size_t bytes = e->mem.arena[ARENA_HOST];
	struct device *d;
	struct host *h;

	if (!bytes)
		return 0;
	e->arena[ARENA_HOST] = pinned_alloc(e, bytes, bytes);
	if (!e->arena[ARENA_HOST])
		return err_set(err, "cannot take %.1f MiB of host memory", (double)bytes / 1048576);
	if (!memory_buffer(&e->mem, BUF_STAGING_RING)->bytes)
		return 0;
	d = b->host->open(c, err);
	if (!d)
		return -1;
	h = e->host = mem_zalloc(1, sizeof *h);
	h->e = e;
	h->device = d;
	e->host_stream = b->host->stream(d, STREAM_COMPUTE);
	h->arrivals = b->stream(e->device, STREAM_TO_HOST);
	h->returns = b->stream(e->device, STREAM_FROM_HOST);
	for (int i = 0; i < 2; i++)
		h->arrived[i] = b->event(e->device);
	pthread_mutex_init(&h->mutex, NULL);
	pthread_cond_init(&h->changed, NULL);
	h->running = pthread_create(&h->thread, NULL, work, h) == 0;
	return h->running ? 0 : err_set(err, "cannot start the thread that computes on the host");
}

/* The thread runs the jobs that are queued before it ends. */
void
host_close(struct engine *e)
{
	struct host *h = e->host;

	if (h) {
		pthread_mutex_lock(&h->mutex);
		h->ends = h->resumed = true;
		pthread_cond_broadcast(&h->changed);
		pthread_mutex_unlock(&h->mutex);
		if (h->running)
			pthread_join(h->thread, NULL);
		pthread_cond_destroy(&h->changed);
		pthread_mutex_destroy(&h->mutex);
		e->backend->host->close(h->device);
		free(h);
	}
	pinned_free(e, e->arena[ARENA_HOST], e->mem.arena[ARENA_HOST], e->mem.arena[ARENA_HOST]);
	e->host = NULL;
	e->host_stream = NULL;
	e->arena[ARENA_HOST] = NULL;
}
