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
	struct span *span;  /* of the current division: no more than there are matrices */
	struct part *shard; /* of the data ranks of the current bucket */
	/* of each data rank of an instance, and of each owner, so far: of the rest, and of experts
	 * that ranks share */
	double *flops[2], *own_flops[2];
	/* this rank's elements so far: of its shards; of its parts, all, and of each kind of
	 * bucket */
	int64_t in_shard, in_optim, state[2];
	int64_t kept[2]; /* of each kind, those of all data ranks */
};

/* A stretch of bucket k of which each of n ranks gets a part, with their FLOPs so far. */
struct dealing {
	int k, n;
	struct part all;
	double *flops;
	struct part *part;
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

/* Those of a shard of which a stretch has all or nothing; 0: nothing. */
static double
flops_in(const struct cutting *x, const struct dealing *d, int shard)
{
	const struct shard *s = &x->s->item[shard];

	return s->bucket == d->k && part_cut(&d->all, s->offset, s->count).count
	    ? flops_of(x, shard)
	    : 0;
}

/* Cuts a stretch: of the ranks' equal shares of its FLOPs, a matrix belongs to the one in which
 * its middle lies. Returns the number of pieces, which tile it; 0 without matrices. Matrices of a
 * bucket are in the order of the model. */
static int
spans(struct cutting *x, const struct dealing *d)
{
	double total = 0, before = 0;
	int n = 0, last = -1;

	for (int i = 0; i < x->s->count; i++)
		total += flops_in(x, d, i);
	for (int i = 0; i < x->s->count; i++) {
		double flops = flops_in(x, d, i);
		int share = (int)((before + flops / 2) / total * d->n);

		if (flops == 0)
			continue;
		if (share != last)
			x->span[n++] = (struct span){ .first = x->s->item[i].offset };
		last = share;
		before += flops;
		x->span[n - 1].flops += flops;
	}
	if (n > 0)
		x->span[0].first = d->all.first;
	for (int i = 0; i < n; i++)
		x->span[i].end = i + 1 < n ? x->span[i + 1].first : d->all.first + d->all.count;
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

/* Each piece goes to the rank with the least FLOPs that has none of the stretch yet. */
static void
deal(struct cutting *x, const struct dealing *d)
{
	int n = spans(x, d);

	for (int i = 0; i < d->n; i++)
		d->part[i] = (struct part){ .first = d->all.first };
	qsort(x->span, (size_t)n, sizeof *x->span, compare_spans);
	for (int i = 0; i < n; i++) {
		const struct span *s = &x->span[i];
		int least = -1;

		for (int r = 0; r < d->n; r++)
			if (d->part[r].count == 0 && (least < 0 || d->flops[r] < d->flops[least]))
				least = r;
		d->part[least] = (struct part){ .first = s->first, .count = s->end - s->first };
		d->flops[least] += s->flops;
	}
}

/* The data ranks of an instance get shards, and the owners of a shard parts of it. */
static void
cut_layers(struct cutting *x, int k, struct part *part)
{
	const struct bucket *b = &x->s->bucket[k];
	int each = b->owners / b->data_ranks;

	deal(x,
	    &(struct dealing){
		k, b->data_ranks, bucket_share(b, 0, 1), x->flops[b->experts], x->shard });
	for (int r = 0; r < b->data_ranks; r++)
		deal(x,
		    &(struct dealing){ k, each, x->shard[r], x->own_flops[b->experts] + r * each,
			part + r * each });
}

/* Cuts the buckets, and places this rank's parts. */
static void
cut_all(struct cutting *x, struct part *part)
{
	for (int k = 0; k < x->s->num_buckets; k++) {
		struct bucket *b = &x->s->bucket[k];

		for (int i = 0; i < b->owners; i++)
			part[i] = bucket_share(b, i, b->owners);
		if (b->layers)
			cut_layers(x, k, part);
		b->part = part;
		b->state = x->kept[b->layers];
		b->in_shard = x->in_shard;
		b->in_optim = x->in_optim;
		b->in_state = x->state[b->layers];
		x->kept[b->layers] += b->count;
		x->in_shard += bucket_own_shard(b).count;
		x->in_optim += part[b->owner].count;
		x->state[b->layers] += part[b->owner].count;
		part += b->owners;
	}
}

/* FLOPs of both kinds of bucket are one array, for data ranks and then for owners. */
void
cut_whole(struct shards *s, const struct param *table)
{
	struct cutting x = { .s = s, .table = table };
	size_t parts = 0, most = 0;

	for (int k = 0; k < s->num_buckets; k++) {
		size_t n = (size_t)s->bucket[k].owners;

		parts += n;
		most = n > most ? n : most;
	}
	x.span = mem_alloc((size_t)s->count, sizeof *x.span);
	x.shard = mem_alloc(most, sizeof *x.shard);
	x.flops[0] = mem_zalloc(4 * most, sizeof **x.flops);
	x.flops[1] = x.flops[0] + most;
	x.own_flops[0] = x.flops[1] + most;
	x.own_flops[1] = x.own_flops[0] + most;
	s->part = mem_alloc(parts, sizeof *s->part);
	cut_all(&x, s->part);
	free(x.flops[0]);
	free(x.shard);
	free(x.span);
}
