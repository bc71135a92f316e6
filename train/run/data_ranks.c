/*
 * data_ranks.c - data ranks compare the hashes of their weights
 *
 * Tensors of experts that ranks share have data ranks of their own. A number for each kind of
 * tensor tells whether all is well; only if it is not do the ranks gather those of every tensor.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "train/engine/hashes.h"
#include "train/run/data_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { SHARED_BY_DATA, SHARED_BY_EXPERTS, KINDS };

static enum kind
kind_of(const struct shards *s, int tensor)
{
	return s->bucket[s->item[tensor].bucket].experts ? SHARED_BY_EXPERTS : SHARED_BY_DATA;
}

/* The number of a rank's data ranks, from 0 to the number of ranks. */
static int64_t
group(const struct engine *e, enum kind kind, int rank)
{
	const struct layout *l = &e->plan.layout;

	return kind == SHARED_BY_EXPERTS ? layout_expert_group(l, EX_BIT(EX_DP), rank)
					 : layout_group(l, AX_BIT(AX_CP) | AX_BIT(AX_DP), rank);
}

/* The values of all ranks, `count` of each, in rank order; the caller frees. Collective. */
static int64_t *
gather(const struct engine *e, int64_t *own, int64_t count)
{
	struct comm *w = e->groups.world;
	int64_t *all = mem_alloc((size_t)(count * w->size), sizeof *all);
	struct tensor in = tensor_1d(own, DTYPE_I64, count),
		      out = tensor_1d(all, DTYPE_I64, count * w->size);

	w->ops->all_gather(COMM_HERE(w), NULL, &(struct comm_gather){ out, in });
	return all;
}

/* True when the ranks of each group have the same sum, of KINDS of each rank; the same answer on
 * all ranks. */
static bool
equal_in_groups(const struct engine *e, enum kind kind, const int64_t *sum)
{
	int n = e->groups.world->size;
	/* a rank of each group, plus 1; 0: not seen yet */
	int *first = mem_zalloc((size_t)n, sizeof *first);
	bool equal = true;

	for (int i = 0; i < n; i++) {
		int *of = &first[group(e, kind, i)];

		if (!*of)
			*of = i + 1;
		equal &= sum[i * KINDS + kind] == sum[(*of - 1) * KINDS + kind];
	}
	free(first);
	return equal;
}

bool
data_ranks_odd(const int64_t *value, int n, int self)
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

/* Finds the first of this rank's tensors of a kind that differ among its data ranks, if it is odd
 * in that; hashes: a row of this length for each rank. Data ranks have their tensors in the same
 * places.
 */
static void
find_odd(const struct engine *e, enum kind kind, const struct tensor *hashes, char odd[128])
{
	const struct shards *s = &e->mem.shards;
	int ranks = e->groups.world->size, n = 0, self = 0,
	    *member = mem_alloc((size_t)ranks, sizeof *member);
	int64_t *value = mem_alloc((size_t)ranks, sizeof *value);
	bool differ = false;

	for (int i = 0; i < ranks; i++)
		if (group(e, kind, i) == group(e, kind, e->rank)) {
			self = i == e->rank ? n : self;
			member[n++] = i;
		}
	for (int t = 0; t < s->count && !differ; t++) {
		for (int k = 0; k < n && kind_of(s, t) == kind; k++) {
			value[k] = ((int64_t *)hashes->data)[member[k] * hashes->shape[1] + t];
			differ |= value[k] != value[0];
		}
		if (differ && data_ranks_odd(value, n, self))
			snprintf(odd, 128, "'%s'", e->table[s->item[t].param].name);
	}
	free(member);
	free(value);
}

/* Names the tensor in which this rank is odd, if any; own: the hashes of its tensors. Collective.
 */
static void
name_odd(const struct engine *e, const int64_t *own, char odd[128])
{
	struct comm *w = e->groups.world;
	int64_t count = e->mem.shards.count, longest = count, *row;
	struct tensor most = tensor_1d(&longest, DTYPE_I64, 1), all;

	/* Stages hold different numbers of tensors. */
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ most, REDUCE_MAX });
	row = mem_zalloc((size_t)longest, sizeof *row);
	memcpy(row, own, (size_t)count * sizeof *row);
	all = tensor_2d(gather(e, row, longest), DTYPE_I64, w->size, longest);
	odd[0] = '\0';
	for (int kind = 0; kind < KINDS && !odd[0]; kind++)
		find_odd(e, (enum kind)kind, &all, odd);
	free(all.data);
	free(row);
}

bool
data_ranks_agree(struct engine *e, char odd[128])
{
	const struct layout *l = &e->plan.layout;
	const struct shards *s = &e->mem.shards;
	int64_t sum[KINDS], *own, *of, *all;
	size_t bytes = (size_t)s->count * sizeof *own;
	bool agree = true;

	if (layout_data_ranks(l) == 1 && layout_expert_data_ranks(l) == 1)
		return true;
	own = mem_zalloc(1, bytes);
	of = mem_zalloc(1, bytes);
	hashes_of_weights(e, own);
	for (int kind = 0; kind < KINDS; kind++) {
		for (int t = 0; t < s->count; t++)
			of[t] = kind_of(s, t) == (enum kind)kind ? own[t] : 0;
		sum[kind] = (int64_t)hash_xxh3(of, bytes);
	}
	all = gather(e, sum, KINDS);
	for (int kind = 0; kind < KINDS; kind++)
		agree &= equal_in_groups(e, (enum kind)kind, all);
	if (!agree)
		name_odd(e, own, odd);
	free(all);
	free(of);
	free(own);
	return agree;
}
