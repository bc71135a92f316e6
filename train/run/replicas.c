/*
 * replicas.c - replicas compare the hashes of their weights
 *
 * One number per rank tells whether all is well; only if it is not do the ranks gather those of
 * every tensor.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "train/engine/hashes.h"
#include "train/run/replicas.h"

#include <stdio.h>
#include <stdlib.h>

/* The number of a rank's replicas, from 0 to the number of ranks. */
static int64_t
group(const struct engine *e, int rank)
{
	return layout_group(&e->plan.layout, AX_BIT(AX_CP) | AX_BIT(AX_DP), rank);
}

/* The values of all ranks, `count` of each, in rank order; the caller frees. Collective. */
static int64_t *
gather(const struct engine *e, int64_t *own, int64_t count)
{
	struct comm *w = e->groups.world;
	int64_t *all = mem_alloc((size_t)(count * w->size), sizeof *all);
	struct tensor in = tensor_1d(own, DTYPE_I64, count),
		      out = tensor_1d(all, DTYPE_I64, count * w->size);

	w->ops->all_gather(COMM_HERE(w), NULL, &out, &in);
	return all;
}

/* True when the ranks of each group have the same sum; the same answer on all ranks. */
static bool
equal_in_groups(const struct engine *e, const int64_t *sum)
{
	int n = e->groups.world->size;
	/* a rank of each group, plus 1; 0: not seen yet */
	int *first = mem_zalloc((size_t)n, sizeof *first);
	bool equal = true;

	for (int i = 0; i < n; i++) {
		int *of = &first[group(e, i)];

		if (!*of)
			*of = i + 1;
		equal &= sum[i] == sum[*of - 1];
	}
	free(first);
	return equal;
}

bool
replicas_odd(const int64_t *value, int n, int self)
{
	int same = 0, most = 0;

	for (int i = 0; i < n; i++) {
		int count = 0;

		for (int k = 0; k < n; k++)
			count += value[k] == value[i];
		same = i == self ? count : same;
		most = count > most ? count : most;
	}
	return 2 * most <= n || same < most;
}

/* Finds the first of this rank's tensors in which it is odd among its replicas; hashes: a row of
 * this length for each rank. */
static void
find_odd(const struct engine *e, const int64_t *hashes, int64_t row, char odd[128])
{
	const struct shards *s = &e->mem.shards;
	int n = 0, self = 0, *member = mem_alloc((size_t)e->groups.world->size, sizeof *member);
	int64_t *value = mem_alloc((size_t)e->groups.world->size, sizeof *value);
	bool differ = false;

	for (int i = 0; i < e->groups.world->size; i++)
		if (group(e, i) == group(e, e->rank)) {
			self = i == e->rank ? n : self;
			member[n++] = i;
		}
	odd[0] = '\0';
	for (int t = 0; t < s->count && !differ; t++) {
		for (int k = 0; k < n; k++) {
			value[k] = hashes[member[k] * row + t];
			differ |= value[k] != value[0];
		}
		if (differ && replicas_odd(value, n, self))
			snprintf(odd, 128, "'%s'", e->table[s->item[t].param].name);
	}
	free(member);
	free(value);
}

bool
replicas_agree(struct engine *e, char odd[128])
{
	struct comm *w = e->groups.world;
	int64_t row = e->mem.shards.count, sum, *own, *all;
	struct tensor longest = tensor_1d(&row, DTYPE_I64, 1);
	bool agree;

	if (layout_replicas(&e->plan.layout) == 1)
		return true;
	own = mem_zalloc((size_t)row, sizeof *own);
	hashes_of_weights(e, own);
	sum = (int64_t)hash_xxh3(own, (size_t)row * sizeof *own);
	all = gather(e, &sum, 1);
	agree = equal_in_groups(e, all);
	free(all);
	if (!agree) {
		/* Stages hold different numbers of tensors. */
		w->ops->all_reduce(COMM_HERE(w), NULL, &longest, REDUCE_MAX);
		own = mem_realloc(own, (size_t)row, sizeof *own);
		all = gather(e, own, row);
		find_odd(e, all, row, odd);
		free(all);
	}
	free(own);
	return agree;
}
