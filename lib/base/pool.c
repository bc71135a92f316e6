/*
 * pool.c - a fixed set of threads that share the indices of a loop
 *
 * The threads live as long as the pool and sleep between loops, because a loop over one small
 * matrix is shorter than starting a thread. Indices are handed out one at a time by an atomic
 * counter, so uneven work balances itself; which thread gets which index is undefined, and results
 * must not depend on it.
 */
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
	int num_threads; /* the caller's included */
	pthread_t *thread;
	pthread_mutex_t lock;
	pthread_cond_t start, done;
	long round; /* counts pool_run calls */
	int busy;   /* threads still in this round */
	bool quit;
	void (*fn)(void *, int);
	void *ctx;
	int count;
	atomic_int next;
};

/* Runs in every thread, including the caller's, until the counter passes the end. */
static void
work(struct pool *p)
{
	for (;;) {
		int i = atomic_fetch_add(&p->next, 1);

		if (i >= p->count)
			return;
		p->fn(p->ctx, i);
	}
}

/*
 * A round has a number instead of a flag, so a thread that wakes late can neither miss a round nor
 * run one twice. The lock orders the loop's fields before the work, and the work before the end of
 * pool_run.
 */
static void *
worker(void *arg)
{
	struct pool *p = arg;
	long seen = 0;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (p->round == seen && !p->quit)
			pthread_cond_wait(&p->start, &p->lock);
		if (p->quit)
			break;
		seen = p->round;
		pthread_mutex_unlock(&p->lock);
		work(p);
		pthread_mutex_lock(&p->lock);
		if (--p->busy == 0)
			pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/*
 * Starts num_threads - 1 threads, since the caller works too, or as many as the system allows. A
 * number below 1 counts as 1.
 */
struct pool *
pool_new(int num_threads)
{
	struct pool *p = mem_zalloc(1, sizeof *p);

	p->num_threads = num_threads < 1 ? 1 : num_threads;
	p->thread = mem_zalloc((size_t)p->num_threads, sizeof *p->thread);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->start, NULL);
	pthread_cond_init(&p->done, NULL);
	for (int i = 1; i < p->num_threads; i++)
		if (pthread_create(&p->thread[i], NULL, worker, p) != 0)
			p->num_threads = i;
	return p;
}

/*
 * Returns when every call is done. One thread at a time may call this, and fn may not call it for
 * the same pool. One thread or one index needs no locking.
 */
void
pool_run(struct pool *p, int count, void (*fn)(void *, int), void *ctx)
{
	if (p->num_threads == 1 || count <= 1) {
		for (int i = 0; i < count; i++)
			fn(ctx, i);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->fn = fn;
	p->ctx = ctx;
	p->count = count;
	atomic_store(&p->next, 0);
	p->busy = p->num_threads - 1;
	p->round++;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	work(p);
	pthread_mutex_lock(&p->lock);
	while (p->busy)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

/* For dividing scratch memory: at most this many calls of fn run at once. */
int
pool_size(const struct pool *p)
{
	return p->num_threads;
}

double
pool_cpu_seconds(const struct pool *p)
{
	double sum = clock_thread(pthread_self());

	for (int i = 1; i < p->num_threads; i++)
		sum += clock_thread(p->thread[i]);
	return sum;
}

/* No loop may be running. NULL is allowed. */
void
pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	for (int i = 1; i < p->num_threads; i++)
		pthread_join(p->thread[i], NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->start);
	pthread_cond_destroy(&p->done);
	free(p->thread);
	free(p);
}
