/*
 * grads.c - main gradients over the groups that share them
 *
 * Main gradients are one flat F32 array in the order of the shards (F64 when the run is). Three
 * kinds of copies are summed: parameters that several tensor ranks hold whole (key and value
 * groups fewer than ranks), word embeddings that first and last stage share, and what the data
 * ranks computed. A rank's optimizer owns the range [own_first, own_first + own_elements) of it;
 * with the distributed optimizer that is one equal part, else all.
 */
#include "train/engine/grads.h"

#include <math.h>
#include <stdio.h>

/* A group that this rank is not in is NULL, and one of size one has nothing to add: both are
 * passed over, on every rank of a group alike. */
static void
sum_over(struct engine *e, struct comm *c, const struct tensor *x)
{
	if (c && c->size > 1)
		c->ops->all_reduce(c, e->stream, x, REDUCE_SUM);
}

/* What is held more than once inside a replica of the model. Goes before the data ranks' sum, in
 * the order of the shards, which is the same on all ranks of a group. */
static void
reduce_shared(struct engine *e)
{
	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct param *p = &e->table[e->mem.shards.item[i].param];
		struct tensor g = engine_grad(e, p->layer, p->role);

		g = tensor_flat(&g);
		if (p->shard == SHARD_GROUPS)
			sum_over(e, e->groups.kv, &g);
		if (p->role == ROLE_WORD_EMBEDDINGS)
			sum_over(e, e->groups.embedding, &g);
	}
}

/* Collective over the kv, embedding and data groups. Afterwards the own range holds the sum over
 * all micro batches of the step, not divided by anything: the number of tokens is known only
 * with the step's totals. Outside the own range the values are of no use. */
void
grads_reduce(struct engine *e)
{
	struct tensor g = engine_buffer(e, BUF_GRADS),
		      own = tensor_rows(&g, e->own_first, e->mem.own_elements);
	struct comm *dp = e->groups.dp;

	reduce_shared(e);
	if (dp->size > 1 && e->mem.own_elements < e->mem.shards.elements)
		dp->ops->reduce_scatter(dp, e->stream, &own, &g);
	else
		sum_over(e, dp, &g);
}

/* Run i of the own range, cut to it; false when it has none of it. */
static bool
own_run(const struct engine *e, int i, struct shard_run *out)
{
	const struct shard_run *r = &e->mem.shards.run[i];
	int64_t own_end = e->own_first + e->mem.own_elements;
	int64_t first = r->first > e->own_first ? r->first : e->own_first;
	int64_t end = r->first + r->count < own_end ? r->first + r->count : own_end;

	*out = (struct shard_run){ first, end - first, r->decay, r->owner };
	return first < end;
}

/* Counting from the start each time keeps the caller free of state; the list is a handful long. */
bool
grads_run(const struct engine *e, int i, struct shard_run *out)
{
	for (int k = 0; k < e->mem.shards.num_runs; k++)
		if (own_run(e, k, out) && i-- == 0)
			return true;
	return false;
}

/* Adds this rank's part of the squared norm (F64) to the scalars, so that the world's sum counts
 * every parameter once: of copies the owner's, and where every data rank has the same, the first
 * one's. Squares are added in double, so the sum is finite when all gradients are. Before
 * unscaling: the caller divides. */
void
grads_measure(struct engine *e)
{
	struct tensor scalars = engine_buffer(e, BUF_SCALARS), g = engine_buffer(e, BUF_GRADS);
	struct tensor norm = tensor_rows(&scalars, SCALAR_NORM, 1);
	bool shared = e->mem.own_elements == e->mem.shards.elements;
	struct shard_run r;

	e->ops->fill(e->stream, &norm, 0);
	for (int i = 0; grads_run(e, i, &r); i++) {
		struct tensor x = tensor_rows(&g, r.first, r.count);

		if (r.owner && (!shared || e->coord[AX_DP] == 0))
			e->ops->dot(e->stream, &norm, &x, &x);
	}
}

/* A stretch of the own part of the flat buffer that belongs to one parameter. */
struct piece {
	const struct shard *shard;
	int64_t first, count; /* in the flat buffer */
};

/* The i-th shard that meets the own range, cut to it; false when there are fewer. Counting from
 * the start each time keeps the caller free of state; the list is a few hundred long. */
static bool
own_piece(const struct engine *e, int i, struct piece *out)
{
	int64_t own_end = e->own_first + e->mem.own_elements;

	for (int k = 0; k < e->mem.shards.count; k++) {
		const struct shard *s = &e->mem.shards.item[k];
		int64_t first = s->offset > e->own_first ? s->offset : e->own_first;
		int64_t end = s->offset + s->count < own_end ? s->offset + s->count : own_end;

		if (first >= end || i-- > 0)
			continue;
		*out = (struct piece){ s, first, end - first };
		return true;
	}
	return false;
}

/* Collective over the world; every rank gives the same name. Weights lie in the order of the
 * gradients. Gradients that are not finite spread from where they arise down to the embedding, so
 * that the last of the table is the first. Syncs for each piece: this runs once, at the end of a
 * run that has failed. */
void
grads_first_bad(struct engine *e, enum buffer of, char name[96])
{
	struct comm *w = e->groups.world;
	struct tensor g = engine_buffer(e, of), scalars = engine_buffer(e, BUF_SCALARS);
	struct tensor bad = tensor_rows(&scalars, SCALAR_NONFINITE, 1);
	double read[SCALAR_COUNT], none = -(double)e->num_params, sign = of == BUF_GRADS ? 1 : -1,
				   first = none;
	struct tensor host = tensor_1d(&first, DTYPE_F64, 1);
	struct piece p;

	for (int i = 0; own_piece(e, i, &p); i++) {
		struct tensor x = tensor_rows(&g, p.first, p.count);

		e->ops->fill(e->stream, &bad, 0);
		e->ops->count_nonfinite(e->stream, &bad, &x);
		engine_read_scalars(e, read);
		if (read[SCALAR_NONFINITE] > 0)
			first = fmax(first, sign * (double)p.shard->param);
	}
	w->ops->all_reduce(w, NULL, &host, REDUCE_MAX);
	snprintf(name, 96, "%s", first > none ? e->table[(int)fabs(first)].name : "");
}
