/*
 * corpora.c - every dataset of the lists, opened once
 *
 * The splits of a run and the pairs of a list name the same datasets repeatedly, and opening one
 * reads its whole index.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/data/blend_impl.h"

#include <stdlib.h>
#include <string.h>

struct corpora {
	int count, cap;
	struct dataset **dataset; /* [cap], of which count are open */
	const char **prefix;      /* owned by the lists until the datasets are open, then by
				   * those */
	int *table;      /* [2 cap], by hash of the prefix: 1 + index of the dataset; 0: free */
	struct err *why; /* of the first failure */
	int failed;      /* its index; count: none */
	struct dataset_options options;
	pthread_mutex_t lock; /* guards why and failed */
};

/* The slot of a prefix in the table: its own, or the free one where it belongs. */
static int *
find(const struct corpora *c, const char *prefix)
{
	uint64_t mask = 2 * (uint64_t)c->cap - 1, at = hash_xxh3(prefix, strlen(prefix)) & mask;

	while (c->table[at] && strcmp(c->prefix[c->table[at] - 1], prefix))
		at = (at + 1) & mask;
	return &c->table[at];
}

int
corpora_find(const struct corpora *c, const char *prefix)
{
	int at = *find(c, prefix);

	if (!at)
		BUG("'%s' was not opened", prefix);
	return at - 1;
}

/* Opens one dataset; keeps the failure that is first in the order of the lists. */
static void
open_one(void *ctx, int k)
{
	struct corpora *c = ctx;
	struct err e;

	c->dataset[k] = dataset_open_with(c->prefix[k], &c->options, &e);
	if (c->dataset[k])
		return;
	pthread_mutex_lock(&c->lock);
	if (k < c->failed) {
		c->failed = k;
		*c->why = e;
	}
	pthread_mutex_unlock(&c->lock);
}

/* Numbers the prefixes of all lists in the order of first mention. */
static void
collect(struct corpora *c, const struct data_paths *p)
{
	int words = 0;

	for (int i = 0; i < SPLIT_COUNT; i++)
		words += p->list[i].count;
	for (c->cap = 1; c->cap < words; c->cap *= 2)
		;
	c->dataset = mem_zalloc((size_t)c->cap, sizeof *c->dataset);
	c->prefix = mem_zalloc((size_t)c->cap, sizeof *c->prefix);
	c->table = mem_zalloc(2 * (size_t)c->cap, sizeof *c->table);
	for (int i = 0; i < SPLIT_COUNT; i++)
		for (int k = 0; k < p->list[i].count; k++) {
			int *at = find(c, p->list[i].prefix[k]);

			if (*at)
				continue;
			c->prefix[c->count++] = p->list[i].prefix[k];
			*at = c->count;
		}
}

/* Opens all or none. */
struct corpora *
corpora_open(
    const struct data_paths *p, const struct dataset_options *o, struct pool *pool, struct err *e)
{
	struct corpora *c = mem_zalloc(1, sizeof *c);
	struct err why;
	bool failed;

	pthread_mutex_init(&c->lock, NULL);
	collect(c, p);
	if (o)
		c->options = *o;
	c->why = &why;
	c->failed = c->count;
	if (pool)
		pool_run(pool, c->count, open_one, c);
	else
		for (int k = 0; k < c->count && c->failed == c->count; k++)
			open_one(c, k);
	failed = c->failed < c->count;
	c->why = NULL;
	for (int k = 0; k < c->count && !failed; k++)
		c->prefix[k] = dataset_prefix(c->dataset[k]);
	if (!failed)
		return c;
	if (e)
		*e = why;
	corpora_close(c);
	return NULL;
}

/* Blends and samples over it are invalid afterwards. */
void
corpora_close(struct corpora *c)
{
	if (!c)
		return;
	for (int k = 0; k < c->count; k++)
		dataset_close(c->dataset[k]);
	free(c->dataset);
	free(c->prefix);
	free(c->table);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* The number of different datasets in all lists. */
int
corpora_count(const struct corpora *c)
{
	return c->count;
}

/* Indexed in the order of first mention. */
const struct dataset *
corpora_dataset(const struct corpora *c, int k)
{
	return c->dataset[k];
}
