/*
 * pipeline.c - read in order, work in parallel, write in order, in bounded memory
 *
 * One worker needs no other thread. With more there is one lock and one condition for everything: a
 * slot is a quarter of a megabyte of text, so they are touched a few times a millisecond at most. The state
 * of a slot only goes round: free, filled, done, free.
 */
#include "tok/pipeline.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum state { SLOT_FREE, SLOT_FILLED, SLOT_DONE };

/* Item k of the input lives in slot k modulo the number of slots. */
struct run {
	const struct pipeline *p;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum state *state;
	int64_t num_read, num_taken;    /* items filled, items that a worker has begun */
	bool ended, stopped;            /* nothing more will be read; write failed */
	int read_rc;
	struct err read_err;
};

/* A thread and its number, by which work() finds its scratch. */
struct worker {
	struct run *run;
	int index;
	pthread_t thread;
};

/* Fills free slots in turn. The lock is released while reading: a slot that is free belongs to
 * the reader. */
static void *
reader_main(void *arg)
{
	struct run *r = arg;
	int rc = 1;

	pthread_mutex_lock(&r->lock);
	while (rc > 0 && !r->stopped) {
		int s = (int)(r->num_read % r->p->num_slots);

		if (r->state[s] != SLOT_FREE) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		rc = r->p->read(r->p->ctx, r->p->slot[s], &r->read_err);
		pthread_mutex_lock(&r->lock);
		if (rc > 0) {
			r->state[s] = SLOT_FILLED;
			r->num_read++;
			pthread_cond_broadcast(&r->changed);
		}
	}
	r->read_rc = rc;
	r->ended = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Takes the next filled slot, whichever it is. Ends when nothing is left to take, or when
 * writing has failed; a batch that is begun is finished. */
static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;

	pthread_mutex_lock(&r->lock);
	while (!r->stopped && !(r->ended && r->num_taken == r->num_read)) {
		int s;

		if (r->num_taken == r->num_read) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		s = (int)(r->num_taken++ % r->p->num_slots);
		pthread_mutex_unlock(&r->lock);
		r->p->work(r->p->ctx, w->index, r->p->slot[s]);
		pthread_mutex_lock(&r->lock);
		r->state[s] = SLOT_DONE;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Writes the items in order until there are no more. On the caller's thread. Waits for item k
 * even if later ones are done: the order of the output is the order of the input. */
static int
write_all(struct run *r, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	for (int64_t k = 0; rc == 0; k++) {
		int s = (int)(k % r->p->num_slots);

		while (r->state[s] != SLOT_DONE && !(r->ended && k == r->num_read))
			pthread_cond_wait(&r->changed, &r->lock);
		if (r->state[s] != SLOT_DONE)
			break;
		pthread_mutex_unlock(&r->lock);
		rc = r->p->write(r->p->ctx, r->p->slot[s], e);
		pthread_mutex_lock(&r->lock);
		r->state[s] = SLOT_FREE;
		pthread_cond_broadcast(&r->changed);
	}
	if (rc < 0)
		r->stopped = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* Starts a thread; running out of threads ends the program as running out of memory does. */
static void
start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	int rc = pthread_create(t, NULL, fn, arg);

	if (rc)
		BUG("cannot start a thread: %s", strerror(rc));
}

/* One worker: everything on this thread, one slot after the other. On one core this is the fastest way,
 * as a batch is still in the cache when it is encoded. */
static int
run_alone(const struct pipeline *p, struct err *e)
{
	int rc;

	while ((rc = p->read(p->ctx, p->slot[0], e)) > 0) {
		p->work(p->ctx, 0, p->slot[0]);
		if (p->write(p->ctx, p->slot[0], e) < 0)
			return -1;
	}
	return rc;
}

/* A failed read counts only after everything before it was written. All threads have ended when
 * it returns. stop() is called after a failed write, since the reader may wait for a pipe that
 * never speaks. */
int
line_pipeline_run(const struct pipeline *p, struct err *e)
{
	struct run r = {
		.p = p, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER
	};
	struct worker *w;
	pthread_t reader;
	int rc;

	if (p->num_workers == 1)
		return run_alone(p, e);
	w = mem_zalloc((size_t)p->num_workers, sizeof *w);
	r.state = mem_zalloc((size_t)p->num_slots, sizeof *r.state);
	start(&reader, reader_main, &r);
	for (int i = 0; i < p->num_workers; i++) {
		w[i].run = &r;
		w[i].index = i;
		start(&w[i].thread, worker_main, &w[i]);
	}
	rc = write_all(&r, e);
	if (rc < 0)
		p->stop(p->ctx);
	pthread_join(reader, NULL);
	for (int i = 0; i < p->num_workers; i++)
		pthread_join(w[i].thread, NULL);
	if (rc == 0 && r.read_rc < 0)
		rc = err_set(e, "%s", r.read_err.msg);
	free(r.state);
	free(w);
	return rc;
}
