/*
 * deadline.c - ends the program when something takes too long
 *
 * For calls that cannot be interrupted, such as MPI_Init, which waits for every rank that the
 * launcher promised. A second thread waits during the call; nothing of the call can be cleaned up,
 * so the end is _exit.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/watch/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct deadline {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct timespec at;
	bool met;
	const char *text;
};

static void *
watch(void *arg)
{
	struct deadline *d = arg;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	while (!d->met && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&d->changed, &d->lock, &d->at);
	if (!d->met) {
		warn("%s", d->text);
		_exit(EXIT_PEER);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static void
release(struct deadline *d)
{
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Uses the monotonic clock. Signals are left to the other threads. A rank that ended here would
 * leave the others waiting for it in MPI_Init, so it goes on without a clock. */
struct deadline *
deadline_start(int64_t seconds, const char *text)
{
	struct deadline *d = mem_zalloc(1, sizeof *d);
	pthread_condattr_t monotonic;
	bool began;
	sigset_t all, before;

	d->text = text;
	clock_gettime(CLOCK_MONOTONIC, &d->at);
	d->at.tv_sec += (time_t)seconds;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&d->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	began = pthread_create(&d->thread, NULL, watch, d) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (began)
		return d;
	warn("cannot start a thread that limits the time of a call to %lld seconds",
	    (long long)seconds);
	release(d);
	return NULL;
}

void
deadline_met(struct deadline *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->met = true;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	release(d);
}
