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
	int replicas;
	struct span *span;       /* of the bucket at hand: no more than there are matrices */
	double *flops;           /* of each replica so far */
	int64_t *own, *state[2]; /* its elements so far: all, and of each kind of bucket */
	int64_t kept[2];         /* of each kind, those of all replicas */
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

/* Cuts bucket k: of the replicas' equal shares of its FLOPs, a matrix belongs to the one in which
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
		int share = (int)((before + flops / 2) / total * x->replicas);

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

/* The replica with the least FLOPs that has no part of the bucket yet. */
static int
least(const struct cutting *x, const struct part *part)
{
	int best = -1;

	for (int i = 0; i < x->replicas; i++)
		if (part[i].count == 0 && (best < 0 || x->flops[i] < x->flops[best]))
			best = i;
	return best;
}

static void
cut_layers(struct cutting *x, int k, struct part *part)
{
	int n = spans(x, k);

	for (int i = 0; i < x->replicas; i++)
		part[i] = (struct part){ .first = x->s->bucket[k].first };
	qsort(x->span, (size_t)n, sizeof *x->span, compare_spans);
	for (int i = 0; i < n; i++) {
		const struct span *s = &x->span[i];
		int to = least(x, part);

		part[to] = (struct part){ .first = s->first, .count = s->end - s->first };
		x->flops[to] += s->flops;
	}
}

static void
cut_bucket(struct cutting *x, int k)
{
	struct bucket *b = &x->s->bucket[k];
	struct part *part = x->s->part + (size_t)k * (size_t)x->replicas;

	b->state = x->kept[b->layers];
	x->kept[b->layers] += b->count;
	if (b->layers)
		cut_layers(x, k, part);
	for (int i = 0; i < x->replicas; i++) {
		if (!b->layers)
			part[i] = bucket_share(b, i, x->replicas);
		part[i].own = x->own[i];
		part[i].state = x->state[b->layers][i];
		x->own[i] += part[i].count;
		x->state[b->layers][i] += part[i].count;
	}
	b->part = part;
}

void
cut_whole(struct shards *s, const struct param *table, int replicas)
{
	size_t n = (size_t)replicas;
	struct cutting x = { .s = s,
		.table = table,
		.replicas = replicas,
		.span = mem_alloc((size_t)s->count, sizeof *x.span),
		.flops = mem_zalloc(n, sizeof *x.flops),
		.own = mem_zalloc(3 * n, sizeof *x.own) };

	x.state[0] = x.own + n;
	x.state[1] = x.own + 2 * n;
	s->part = mem_alloc((size_t)s->num_buckets * n, sizeof *s->part);
	for (int k = 0; k < s->num_buckets; k++)
		cut_bucket(&x, k);
	free(x.own);
	free(x.flops);
	free(x.span);
}
