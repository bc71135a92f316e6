/* cut.c - parts of buckets that hold whole matrices */
#include "lib/model/cut.h"
#include "lib/base/mem.h"

#include <stdlib.h>

/* A stretch of a bucket. */
struct span {
	int64_t first, end;
	double flops;
};

struct cutting {
	struct shards *s;
	const struct param *table;
	struct span *span; /* of the current bucket: no more than there are matrices */
	double
	    *flops[2]; /* of each data rank so far: of the rest, and of experts that ranks share */
	int64_t in_shard,
	    state[2];    /* this rank's elements so far: all, and of each kind of bucket */
	int64_t kept[2]; /* of each kind, those of all data ranks */
};

/* With m the shorter side: X X^T and B X of 2 m m n each, A A of 2 m m m. */
double
cut_flops(int64_t rows, int64_t columns)
{
	double m = (double)(rows < columns ? rows : columns),
	       n = (double)(rows < columns ? columns : rows);

	return m * m * (4 * n + 2 * m);
}

/* Of a shard's whole matrix, to which its tensor ranks contribute alike. */
static double
flops_of(const struct cutting *x, int shard)
{
	const struct param *p = &x->table[x->s->item[shard].param];

	return cut_flops(p->shape[0], p->shape[1]);
}

/* Cuts bucket k: of the data ranks' equal shares of its FLOPs, a matrix belongs to the one in which
 * its middle lies. Returns the number of stretches, which tile the bucket. Matrices of a bucket are
 * in the order of the model. */
static int
spans(struct cutting *x, int k)
{
	const struct bucket *b = &x->s->bucket[k];
	double total = 0, before = 0;
	int n = 0, last = -1;

	for (int i = 0; i < x->s->count; i++)
		total += x->s->item[i].bucket == k ? flops_of(x, i) : 0;
	for (int i = 0; i < x->s->count; i++) {
		double flops = x->s->item[i].bucket == k ? flops_of(x, i) : 0;
		int share = (int)((before + flops / 2) / total * b->data_ranks);

		if (flops == 0)
			continue;
		if (share != last)
			x->span[n++] = (struct span){ .first = x->s->item[i].offset };
		last = share;
		before += flops;
		x->span[n - 1].flops += flops;
	}
	x->span[0].first = b->first;
	for (int i = 0; i < n; i++)
		x->span[i].end = i + 1 < n ? x->span[i + 1].first : b->first + b->count;
	return n;
}

/* Heaviest first; of equals the first. */
static int
compare_spans(const void *a, const void *b)
{
	const struct span *p = a, *q = b;

	if (p->flops != q->flops)
		return p->flops < q->flops ? 1 : -1;
	return p->first < q->first ? -1 : p->first > q->first;
}

/* Each stretch goes to the data rank with the least FLOPs that has no part of the bucket yet. */
static void
cut_layers(struct cutting *x, int k, struct part *part)
{
	const struct bucket *b = &x->s->bucket[k];
	double *flops = x->flops[b->experts];
	int n = spans(x, k);

	for (int i = 0; i < b->data_ranks; i++)
		part[i] = (struct part){ .first = b->first };
	qsort(x->span, (size_t)n, sizeof *x->span, compare_spans);
	for (int i = 0; i < n; i++) {
		const struct span *s = &x->span[i];
		int least = -1;

		for (int r = 0; r < b->data_ranks; r++)
			if (part[r].count == 0 && (least < 0 || flops[r] < flops[least]))
				least = r;
		part[least] = (struct part){ .first = s->first, .count = s->end - s->first };
		flops[least] += s->flops;
	}
}

/* Cuts each bucket into the parts of its data ranks, and places this rank's. */
void
cut_whole(struct shards *s, const struct param *table)
{
	struct cutting x = { .s = s, .table = table };
	size_t parts = 0, most = 0;
	struct part *part;

	for (int k = 0; k < s->num_buckets; k++) {
		size_t n = (size_t)s->bucket[k].data_ranks;

		parts += n;
		most = n > most ? n : most;
	}
	x.span = mem_alloc((size_t)s->count, sizeof *x.span);
	x.flops[0] = mem_zalloc(2 * most, sizeof **x.flops);
	x.flops[1] = x.flops[0] + most;
	part = s->part = mem_alloc(parts, sizeof *s->part);
	for (int k = 0; k < s->num_buckets; k++) {
		struct bucket *b = &s->bucket[k];

		for (int i = 0; i < b->data_ranks; i++)
			part[i] = bucket_share(b, i, b->data_ranks);
		if (b->layers)
			cut_layers(&x, k, part);
		b->part = part;
		b->state = x.kept[b->layers];
		b->in_shard = x.in_shard;
		b->in_state = x.state[b->layers];
		x.kept[b->layers] += b->count;
		x.in_shard += part[b->data_rank].count;
		x.state[b->layers] += part[b->data_rank].count;
		part += b->data_ranks;
	}
	free(x.flops[0]);
	free(x.span);
}
