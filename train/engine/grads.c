/*
 * grads.c - main gradients over the groups that share them
 *
 * Main gradients are F32 (F64 when the run is) in the flat order of the shards. dp_comm.c sums them
 * over the data ranks; partial sums in a model replica (param_sum) are summed here, only on the own
 * part.
 */
#include "train/engine/grads.h"
#include "train/engine/timing.h"
#include "train/engine/dp_comm.h"

#include <math.h>
#include <stdio.h>

/* Sums a gradient over the group of a kind of param_sum. A group is NULL for ranks outside it, and
 * a group of one has nothing to add: every rank of a group decides alike. */
static void
sum_over(struct engine *e, unsigned kind, const struct tensor *x)
{
	enum span span = kind == SUM_ENDS ? SPAN_EMBEDDING_GRADS : SPAN_TENSOR_GRADS;
	struct comm *c = kind == SUM_TENSOR ? e->groups.tp
	    : kind == SUM_GROUPS            ? e->groups.kv
					    : e->groups.embedding;

	if (!c || c->size == 1)
		return;
	timing_begin(e, span);
	c->ops->all_reduce(COMM_HERE(c), e->stream, &(struct comm_reduce){ *x, REDUCE_SUM });
	timing_end(e, span);
}

/* Goes through the flat order, which is the same on all ranks of a group. */
void
grads_reduce(struct engine *e)
{
	timing_begin(e, SPAN_GRADS);
	dp_comm_reduced(e);
	for (int i = 0; i < e->mem.shards.num_sums; i++) {
		const struct shard_sum *s = &e->mem.shards.sum[i];
		struct part own = engine_optim_part(e, s->bucket);
		struct part p = part_cut(&own, s->first, s->count);
		struct tensor g = engine_part(e, BUF_GRADS, &p);

		for (unsigned kind = SUM_TENSOR; kind <= SUM_ENDS && p.count; kind <<= 1)
			if (s->sums & kind)
				sum_over(e, kind, &g);
	}
	timing_end(e, SPAN_GRADS);
}

/* A scalar of the step, reset to zero. */
static struct tensor
cleared(struct engine *e, enum scalar which)
{
	struct tensor scalars = engine_buffer(e, BUF_SCALARS);
	struct tensor one = tensor_rows(&scalars, which, 1);

	e->ops->fill(e->stream, &(struct fill){ one, 0 });
	return one;
}

/* Whether this rank counts the elements of a run, such that the world's sum counts every parameter
 * once: of copies the owner's, of instances with equal parts the first one's, and where all data
 * ranks hold the same, the first one's. */
static bool
counts(const struct engine *e, const struct shard_run *r)
{
	const struct bucket *b = &e->mem.shards.bucket[r->bucket];

	return r->owner && !r->balance && bucket_first_copy(b) &&
	    (e->mem.sharded || b->data_rank == 0);
}

/* The part of run i of its shards that this rank owns; count 0 when none. */
static struct part
own_run(const struct engine *e, int i)
{
	const struct shard_run *r = &e->mem.shards.run[i];
	struct part own = engine_optim_part(e, r->bucket);

	return part_cut(&own, r->first, r->count);
}

/* Squares are summed in double, so the sum is finite if all elements are. */
static void
add_squares(struct engine *e, const struct tensor *sum,
    struct tensor (*place)(const struct engine *, const struct part *))
{
	for (int i = 0; i < e->mem.shards.num_runs; i++) {
		struct part p = own_run(e, i);
		struct tensor x = place(e, &p);

		if (p.count && x.data && counts(e, &e->mem.shards.run[i]))
			e->ops->dot(e->stream, &(struct dot){ *sum, x, x });
	}
}

static struct tensor
main_grads(const struct engine *e, const struct part *p)
{
	return engine_part(e, BUF_GRADS, p);
}

/* Before unscaling; the caller divides. */
void
grads_measure(struct engine *e)
{
	struct tensor norm = cleared(e, SCALAR_NORM);

	add_squares(e, &norm, main_grads);
}

static struct tensor
device_masters(const struct engine *e, const struct part *p)
{
	struct tensor none = { .data = NULL };

	return engine_updated_on_host(e, p) ? none : engine_masters(e, p);
}

/* Masters that the host updates are the last in the flat order, so the device's sum comes first and
 * is continued on the host. */
void
grads_measure_params(struct engine *e)
{
	struct tensor norm = cleared(e, SCALAR_PARAMS);
	double squares;
	struct tensor on_host = tensor_1d(&squares, DTYPE_F64, 1);

	add_squares(e, &norm, device_masters);
	if (!e->offload)
		return;
	dp_comm_settle(e);
	e->backend->copy_out(e->stream, &squares, norm.data, sizeof squares);
	engine_sync(e);
	for (int i = 0; i < e->mem.shards.num_runs; i++) {
		struct part p = own_run(e, i);
		struct tensor x = engine_masters(e, &p);

		if (p.count && engine_updated_on_host(e, &p) && counts(e, &e->mem.shards.run[i]))
			e->host_stream->ops->dot(e->host_stream, &(struct dot){ on_host, x, x });
	}
	e->backend->copy_in(e->stream, norm.data, &squares, sizeof squares);
	engine_sync(e);
}

/* By shard, because the gaps between shards and the padding of the vocabulary are zeros that do not
 * count; the real elements of a shard come first. */
void
grads_count_zeros(struct engine *e)
{
	struct tensor zeros = cleared(e, SCALAR_ZEROS);

	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		const struct shard_run of = { .bucket = s->bucket,
			.owner = s->owner,
			.balance = e->table[s->param].flags & PARAM_BALANCE };
		struct part own = engine_optim_part_of(e, s);
		struct part real = part_cut(&own, s->offset, slice_elements(&s->slice));
		struct tensor x = engine_part(e, BUF_GRADS, &real);

		if (real.count && counts(e, &of))
			e->ops->count_zero(e->stream, &(struct pair){ zeros, x });
	}
}

/* Collective over the world; every rank returns the same name. Weights have the order of the
 * gradients. Gradients that are not finite spread from their origin down to the embedding, so the
 * last one in the table is the first in time. Syncs for each piece, since this runs once, at the
 * end of a failed run. */
void
grads_first_bad(struct engine *e, int of, char name[96])
{
	struct comm *w = e->groups.world;
	struct tensor scalars = engine_buffer(e, BUF_SCALARS);
	struct tensor bad = tensor_rows(&scalars, SCALAR_NONFINITE, 1);
	double read[SCALAR_COUNT], none = -(double)e->num_params, sign = of == BUF_GRADS ? 1 : -1,
				   first = none;
	struct tensor host = tensor_1d(&first, DTYPE_F64, 1);

	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		struct part own = engine_optim_part_of(e, s);
		struct tensor x = engine_part(e, of, &own);

		if (own.count == 0)
			continue;
		e->ops->fill(e->stream, &(struct fill){ bad, 0 });
		e->ops->count_nonfinite(e->stream, &(struct pair){ bad, x });
		engine_read_scalars(e, read);
		if (read[SCALAR_NONFINITE] > 0)
			first = fmax(first, sign * (double)s->param);
	}
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ host, REDUCE_MAX });
	snprintf(name, 96, "%s", first > none ? e->table[(int)fabs(first)].name : "");
}
