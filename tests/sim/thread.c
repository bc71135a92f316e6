/* thread.c - pthreads: a thread is a coroutine; mutexes and conditions lie where the product has
 * them */
#include "tests/sim/files.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

/* What the simulator keeps in the product's objects: zeroes are the state of an initialiser. */
struct mutex {
	int owner; /* 1 + the thread's number */
};
struct cond {
	int monotonic;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex has room for its state");
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "a condition has room for its state");

static struct thread *
thread_of(pthread_t t)
{
	return (struct thread *)(uintptr_t)t;
}

int
sim_pthread_create(pthread_t *out, const pthread_attr_t *a, void *(*start)(void *), void *arg)
{
	int err = call_begin(CALL_THREAD, "create", 0);

	(void)a;
	if (err)
		return err;
	*out = (pthread_t)(uintptr_t)thread_new(sim.current->process, start, arg);
	thread_of(*out)->ready = sim.now + draw_delay(sim.call_cost);
	return 0;
}

int
sim_pthread_join(pthread_t id, void **result)
{
	struct thread *t = thread_of(id), *self = sim.current;

	call_begin(CALL_WAIT, "join", t->number);
	while (!t->ended) {
		self->waits_for = t;
		self->ready = NEVER;
		schedule();
	}
	if (result)
		*result = t->result;
	return 0;
}

pthread_t
sim_pthread_self(void)
{
	return (pthread_t)(uintptr_t)sim.current;
}

int
sim_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
	(void)a;
	memset(m, 0, sizeof *m);
	return 0;
}

int
sim_pthread_mutex_destroy(pthread_mutex_t *m)
{
	(void)m;
	return 0;
}

static void
take(pthread_mutex_t *m)
{
	struct mutex *x = (void *)m;
	struct thread *self = sim.current;

	while (x->owner) {
		self->waits_for = m;
		self->ready = NEVER;
		schedule();
	}
	self->waits_for = NULL;
	x->owner = 1 + self->number;
}

static void
give(pthread_mutex_t *m)
{
	struct thread *self = sim.current;

	((struct mutex *)(void *)m)->owner = 0;
	for (struct thread *t = sim.threads; t; t = t->next)
		if (t->waits_for == m && t->process == self->process)
			thread_wake(t, 0);
}

int
sim_pthread_mutex_lock(pthread_mutex_t *m)
{
	call_begin(CALL_MUTEX, "lock", 0);
	take(m);
	return 0;
}

int
sim_pthread_mutex_unlock(pthread_mutex_t *m)
{
	give(m);
	call_begin(CALL_MUTEX, "unlock", 0);
	return 0;
}

int
sim_pthread_condattr_init(pthread_condattr_t *a)
{
	memset(a, 0, sizeof *a);
	return 0;
}

int
sim_pthread_condattr_destroy(pthread_condattr_t *a)
{
	(void)a;
	return 0;
}

int
sim_pthread_condattr_setclock(pthread_condattr_t *a, clockid_t which)
{
	*(unsigned char *)a = which == CLOCK_MONOTONIC;
	return 0;
}

int
sim_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *a)
{
	memset(c, 0, sizeof *c);
	((struct cond *)(void *)c)->monotonic = a && *(const unsigned char *)a;
	return 0;
}

int
sim_pthread_cond_destroy(pthread_cond_t *c)
{
	(void)c;
	return 0;
}

/* Wakes may come without a signal, as POSIX allows: one wait in some hundreds. */
static int
wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t at)
{
	struct thread *self = sim.current;
	bool woken;

	self->waits_for = c;
	self->ready = draw_one_in(300) ? sim.now + draw_delay(sim.call_cost) : at;
	give(m);
	schedule();
	woken = self->waits_for == NULL;
	self->waits_for = NULL;
	take(m);
	return !woken && at != NEVER && sim.now >= at ? ETIMEDOUT : 0;
}

int
sim_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	call_begin(CALL_COND, "wait", 0);
	return wait_until(c, m, NEVER);
}

int
sim_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	int64_t at = t->tv_sec * SECOND + t->tv_nsec;

	call_begin(CALL_COND, "timed wait", 0);
	if (!((struct cond *)(void *)c)->monotonic)
		at -= sim.realtime + sim.current->process->time_offset;
	return wait_until(c, m, at > sim.now ? at : sim.now + 1);
}

/* Wakes one of those that wait, drawn, or all. */
static void
wake(pthread_cond_t *c, bool all)
{
	int waiting = 0, chosen;

	for (struct thread *t = sim.threads; t; t = t->next)
		waiting += t->waits_for == c && t->process == sim.current->process;
	chosen = waiting && !all ? (int)draw((uint64_t)waiting) : -1;
	for (struct thread *t = sim.threads; t; t = t->next)
		if (t->waits_for == c && t->process == sim.current->process &&
		    (all || chosen-- == 0))
			thread_wake(t, 0);
}

int
sim_pthread_cond_signal(pthread_cond_t *c)
{
	call_begin(CALL_COND, "signal", 0);
	wake(c, false);
	return 0;
}

int
sim_pthread_cond_broadcast(pthread_cond_t *c)
{
	call_begin(CALL_COND, "broadcast", 0);
	wake(c, true);
	return 0;
}
