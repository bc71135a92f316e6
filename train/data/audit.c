/*
 * audit.c - the data of a run, looked at while it trains
 *
 * The blocks are read through the maps that training reads, one at a time, and the thread sleeps
 * three times as long as each of them took: a disk that is busy with batches makes it slower. What
 * it finds is kept for the next step, at whose end all ranks learn of it.
 */
#include "lib/base/clock.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/data/audit.h"
#include "train/data/data_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REST = 3 }; /* times as long as a block took */

struct audit {
	const struct data *d;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, changed; /* of the thread; of those who wait for it */
	void *room;                   /* the thread's, a block */
	/* the thread's: the next block */
	int corpus;
	int64_t block;
	/* under the lock */
	bool stop, look, done;
	struct err why; /* empty: nothing was found */
};

/* The next block of this rank: blocks are dealt to the ranks of a host in an order that moves with
 * the datasets, so that many small ones are shared too. False when there is none. */
static bool
next_block(struct audit *a)
{
	const struct data *d = a->d;

	for (; a->corpus < corpora_count(d->corpora); a->corpus++, a->block = 0) {
		int64_t count = d->sums[a->corpus]
		    ? sums_count(dataset_bin_bytes(corpora_dataset(d->corpora, a->corpus)))
		    : 0;

		while (a->block < count && (a->block + a->corpus) % d->host_size != d->host_rank)
			a->block++;
		if (a->block < count)
			return true;
	}
	return false;
}

/* Prints a line for each file that is not what it was. */
static void
look(void)
{
	struct str text = { 0 };

	map_changes(&text);
	for (char *line = text.buf, *end; line && (end = strchr(line, '\n')); line = end + 1)
		warn("data: %.*s", (int)(end - line), line);
	str_release(&text);
}

/* With the lock: sleeps, unless there is something to do before. */
static void
rest(struct audit *a, double seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	seconds += (double)until.tv_nsec * 1e-9;
	until.tv_sec += (time_t)seconds;
	until.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
	while (!a->stop && !a->look && pthread_cond_timedwait(&a->wake, &a->lock, &until) == 0)
		;
}

/* Without the lock: compares one block. Returns the seconds that it took. */
static double
compare(struct audit *a)
{
	const struct dataset *d = corpora_dataset(a->d->corpora, a->corpus);
	double start = clock_seconds();
	struct err e;

	if (sums_check(a->d->sums[a->corpus], d, a->block, a->room, &e) < 0) {
		pthread_mutex_lock(&a->lock);
		a->why = e;
		pthread_mutex_unlock(&a->lock);
	}
	a->block++;
	return clock_seconds() - start;
}

static void *
run(void *arg)
{
	struct audit *a = arg;

	pthread_mutex_lock(&a->lock);
	while (!a->stop || a->look) {
		double took = 0;
		bool wanted = a->look;

		a->look = false;
		if (!wanted && (a->done = a->why.msg[0] || !next_block(a))) {
			pthread_cond_broadcast(&a->changed);
			pthread_cond_wait(&a->wake, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		if (wanted)
			look();
		else
			took = compare(a);
		pthread_mutex_lock(&a->lock);
		rest(a, REST * took);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

struct audit *
audit_start(const struct data *d)
{
	struct audit *a;

	if (!d->corpora)
		return NULL;
	a = mem_zalloc(1, sizeof *a);
	a->d = d;
	a->room = mem_alloc(SUMS_BLOCK, 1);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	pthread_cond_init(&a->changed, NULL);
	if (pthread_create(&a->thread, NULL, run, a) != 0)
		die("cannot start a thread that compares checksums");
	return a;
}

bool
audit_failed(struct audit *a, struct err *e)
{
	bool failed;

	if (!a)
		return false;
	pthread_mutex_lock(&a->lock);
	failed = a->why.msg[0] != '\0';
	if (failed && e)
		*e = a->why;
	pthread_mutex_unlock(&a->lock);
	return failed;
}

void
audit_files(struct audit *a)
{
	if (!a || a->d->host_rank != 0)
		return;
	pthread_mutex_lock(&a->lock);
	a->look = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

void
audit_wait(struct audit *a, double seconds)
{
	struct timespec until;
	int rc = 0;

	if (!a)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)seconds;
	pthread_mutex_lock(&a->lock);
	while (!a->done && rc == 0)
		rc = pthread_cond_timedwait(&a->changed, &a->lock, &until);
	pthread_mutex_unlock(&a->lock);
}

void
audit_free(struct audit *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->wake);
	pthread_cond_destroy(&a->changed);
	free(a->room);
	free(a);
}
