/* relay.c - two threads pass a row of buffers on, in a ring */
#include "lib/base/mem.h"
#include "lib/base/relay.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct ring {
	const struct relay *r;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t filled, emptied;
	bool failed, stop; /* fill failed, with the reason in why; empty failed */
	struct err why;
	void *buffer[RELAY_BUFFERS];
};

/* Waits for a buffer that may be filled; false when none will be needed. */
static bool
next_to_fill(struct ring *q)
{
	bool more;

	pthread_mutex_lock(&q->lock);
	while (!q->stop && q->filled - q->emptied == RELAY_BUFFERS)
		pthread_cond_wait(&q->changed, &q->lock);
	more = !q->stop && q->filled < q->r->count;
	pthread_mutex_unlock(&q->lock);
	return more;
}

/* The thread that fills, until the last buffer or the first failure. */
static void *
fill(void *arg)
{
	struct ring *q = arg;

	while (!q->failed && next_to_fill(q)) {
		int64_t i = q->filled;
		bool bad = q->r->fill(q->r->ctx, i, q->buffer[i % RELAY_BUFFERS], &q->why) < 0;

		pthread_mutex_lock(&q->lock);
		q->failed = bad;
		q->filled += !bad;
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->lock);
	}
	return NULL;
}

/* Waits for the next buffer; false when filling it failed. */
static bool
next_to_empty(struct ring *q)
{
	bool there;

	pthread_mutex_lock(&q->lock);
	while (!q->failed && q->filled == q->emptied)
		pthread_cond_wait(&q->changed, &q->lock);
	there = q->filled > q->emptied;
	pthread_mutex_unlock(&q->lock);
	return there;
}

/* The thread that empties. What was filled before a failure is emptied, too. */
static int
empty(struct ring *q, struct err *e)
{
	int rc = 0;

	for (int64_t i = 0; i < q->r->count && rc == 0; i++) {
		if (!next_to_empty(q))
			return err_set(e, "%s", q->why.msg);
		rc = q->r->empty(q->r->ctx, i, q->buffer[i % RELAY_BUFFERS], e);
		pthread_mutex_lock(&q->lock);
		q->emptied++;
		q->stop = rc < 0;
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->lock);
	}
	return rc;
}

/* The thread blocks all signals but the one of a lost page, so that other threads get them. */
static bool
begin(pthread_t *thread, struct ring *q)
{
	sigset_t all, before;
	bool began;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	began = pthread_create(thread, NULL, fill, q) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return began;
}

int
relay_run(const struct relay *r, struct err *e)
{
	struct ring q = { .r = r };
	pthread_t thread;
	int rc = 0;

	pthread_mutex_init(&q.lock, NULL);
	pthread_cond_init(&q.changed, NULL);
	for (int i = 0; i < RELAY_BUFFERS && i < r->count; i++)
		q.buffer[i] = mem_alloc(r->bytes, 1);
	if (r->count > 1 && begin(&thread, &q)) {
		rc = empty(&q, e);
		pthread_join(thread, NULL);
	} else { /* the same in one thread */
		for (int64_t i = 0; i < r->count && rc == 0; i++) {
			rc = r->fill(r->ctx, i, q.buffer[0], e);
			if (rc == 0)
				rc = r->empty(r->ctx, i, q.buffer[0], e);
		}
	}
	for (int i = 0; i < RELAY_BUFFERS; i++)
		free(q.buffer[i]);
	pthread_cond_destroy(&q.changed);
	pthread_mutex_destroy(&q.lock);
	return rc;
}
