/*
 * pipeline.c - read in order, work in parallel, write in order, in bounded memory
 *
 * One lock and one condition for everything: a slot is some tenths of a millisecond of work, during
 * which the lock is not held. Item k of the input is in slot k modulo the number of slots, whose
 * state cycles: free, taken, done, free. A single worker takes the same turns and never waits.
 */
#include "lib/base/mem.h"
#include "tok/pipeline.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum state { SLOT_FREE, SLOT_TAKEN, SLOT_DONE };

struct run {
	const struct pipeline *p;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum state *state;
	int64_t num_read, num_written;
	bool reading, writing; /* a thread is at it */
	bool ended, stopped;   /* there is nothing more to read; a write has failed */
	int read_rc, write_rc;
	struct err read_err, write_err;
};

/* A thread and its number, by which work() finds its scratch. */
struct worker {
	struct run *run;
	int index;
	pthread_t thread;
};

/* The slot of item k. */
static int
slot_of(const struct run *r, int64_t k)
{
	return (int)(k % r->p->num_slots);
}

/* Writes the next item, which is done. The lock is held on entry and return, here and below. A
 * failed write wakes a reader that waits for a silent pipe. */
static void
write_next(struct run *r)
{
	int s = slot_of(r, r->num_written);
	int rc;

	r->writing = true;
	pthread_mutex_unlock(&r->lock);
	rc = r->p->write(r->p->ctx, r->p->slot[s], &r->write_err);
	if (rc < 0)
		r->p->stop(r->p->ctx);
	pthread_mutex_lock(&r->lock);
	r->writing = false;
	r->write_rc = rc;
	r->stopped = rc < 0;
	r->state[s] = SLOT_FREE;
	r->num_written++;
	pthread_cond_broadcast(&r->changed);
}

/* Reads the next item into its free slot and works on it; another thread may read meanwhile. */
static void
read_next(struct run *r, int worker)
{
	int s = slot_of(r, r->num_read);
	int rc;

	r->reading = true;
	pthread_mutex_unlock(&r->lock);
	rc = r->p->read(r->p->ctx, r->p->slot[s], &r->read_err);
	pthread_mutex_lock(&r->lock);
	r->reading = false;
	pthread_cond_broadcast(&r->changed);
	if (rc <= 0) {
		r->ended = true;
		r->read_rc = rc;
		return;
	}
	r->num_read++;
	r->state[s] = SLOT_TAKEN;
	pthread_mutex_unlock(&r->lock);
	r->p->work(r->p->ctx, worker, r->p->slot[s]);
	pthread_mutex_lock(&r->lock);
	r->state[s] = SLOT_DONE;
	pthread_cond_broadcast(&r->changed);
}

/* Takes work until everything is written or writing has failed; what was begun is finished. Writing
 * comes first, since it frees slots. */
static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;

	pthread_mutex_lock(&r->lock);
	while (!r->stopped && !(r->ended && r->num_written == r->num_read)) {
		if (!r->writing && r->state[slot_of(r, r->num_written)] == SLOT_DONE)
			write_next(r);
		else if (!r->reading && !r->ended && r->state[slot_of(r, r->num_read)] == SLOT_FREE)
			read_next(r, w->index);
		else
			pthread_cond_wait(&r->changed, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* A failed read counts only after everything before it was written. All threads have ended when
 * it returns. Where no more threads can be started, those that there are do all. */
int
line_pipeline_run(const struct pipeline *p, struct err *e)
{
	struct run r = {
		.p = p, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER
	};
	struct worker *w = mem_zalloc((size_t)p->num_workers, sizeof *w);
	int started = 1; /* the caller's is one of them */

	r.state = mem_zalloc((size_t)p->num_slots, sizeof *r.state);
	for (int i = 0; i < p->num_workers; i++)
		w[i] = (struct worker){ .run = &r, .index = i };
	while (started < p->num_workers &&
	    pthread_create(&w[started].thread, NULL, worker_main, &w[started]) == 0)
		started++;
	worker_main(&w[0]);
	for (int i = 1; i < started; i++)
		pthread_join(w[i].thread, NULL);
	free(r.state);
	free(w);
	if (r.write_rc < 0)
		return err_set(e, "%s", r.write_err.msg);
	return r.read_rc < 0 ? err_set(e, "%s", r.read_err.msg) : 0;
}
