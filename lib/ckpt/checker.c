/* checker.c - compares checksums of blocks in its own thread while other blocks are read */
#include "lib/ckpt/checker.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* Few, so that waiting blocks are still in the processor's cache. */
enum { RING = 4 };

struct checker {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct check_block ring[RING];
	uint64_t added, compared;
	bool threaded, end, wrong;
	int tag; /* of a damaged block */
};

/* The thread: compares blocks in order, until the end. */
static void *
compare(void *arg)
{
	struct checker *k = arg;

	pthread_mutex_lock(&k->mutex);
	for (;;) {
		struct check_block b;
		bool right;

		while (k->compared == k->added && !k->end)
			pthread_cond_wait(&k->changed, &k->mutex);
		if (k->compared == k->added)
			break;
		b = k->ring[k->compared % RING];
		pthread_mutex_unlock(&k->mutex);
		right = hash_xxh3(b.data, b.bytes) == b.sum;
		pthread_mutex_lock(&k->mutex);
		if (!right && !k->wrong) {
			k->wrong = true;
			k->tag = b.tag;
		}
		k->compared++;
		pthread_cond_broadcast(&k->changed);
	}
	pthread_mutex_unlock(&k->mutex);
	return NULL;
}

/* The thread blocks all signals, so that other threads get them. */
struct checker *
checker_new(void)
{
	struct checker *k = mem_zalloc(1, sizeof *k);
	sigset_t all, before;

	pthread_mutex_init(&k->mutex, NULL);
	pthread_cond_init(&k->changed, NULL);
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	k->threaded = pthread_create(&k->thread, NULL, compare, k) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return k;
}

void
checker_add(struct checker *k, const struct check_block *b)
{
	if (!k->threaded) {
		if (hash_xxh3(b->data, b->bytes) != b->sum) {
			k->wrong = true;
			k->tag = b->tag;
		}
		return;
	}
	pthread_mutex_lock(&k->mutex);
	while (k->added - k->compared == RING)
		pthread_cond_wait(&k->changed, &k->mutex);
	k->ring[k->added++ % RING] = *b;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->mutex);
}

bool
checker_wait(struct checker *k, int *tag)
{
	bool wrong;

	pthread_mutex_lock(&k->mutex);
	while (k->compared != k->added)
		pthread_cond_wait(&k->changed, &k->mutex);
	wrong = k->wrong;
	*tag = k->tag;
	k->wrong = false;
	pthread_mutex_unlock(&k->mutex);
	return !wrong;
}

void
checker_free(struct checker *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->mutex);
	k->end = true;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->mutex);
	if (k->threaded)
		pthread_join(k->thread, NULL);
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->mutex);
	free(k);
}
