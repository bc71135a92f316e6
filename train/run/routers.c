/*
 * routers.c - the sums of routers over a step, from the device to means and loads
 *
 * A row of sums for each layer with experts, as route_grad leaves them: a stage fills those of its
 * own layers, so that the sum over all ranks has all rows, each row of tokens counted once. The
 * losses are without their coefficients, as Megatron-LM logs them.
 */
#include "train/run/routers.h"
#include "lib/base/mem.h"
#include "train/layers/router.h"

#include <math.h>
#include <stdlib.h>

struct routers {
	int64_t layers, experts, columns;
	int64_t *layer; /* numbers of the layers, those after the head counted on */
	double *sum;    /* [layers, columns] */
};

struct routers *
routers_new(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;
	struct routers *r;
	int64_t n = 0;

	if (model_routers(c) == 0 || e->plan.shape.forward_only)
		return NULL;
	r = mem_zalloc(1, sizeof *r);
	r->layers = model_routers(c);
	r->experts = c->num_experts;
	r->columns = r->experts + ROUTER_COLUMNS;
	r->layer = mem_alloc((size_t)r->layers, sizeof *r->layer);
	r->sum = mem_zalloc((size_t)(r->layers * r->columns), sizeof *r->sum);
	for (int64_t i = 0; i <= model_end(c); i++)
		if (layer_transforms(c, i) && layer_has_experts(c, i))
			r->layer[n++] = layer_transforms_before(c, i);
	return r;
}

void
routers_free(struct routers *r)
{
	if (!r)
		return;
	free(r->layer);
	free(r->sum);
	free(r);
}

void
routers_read(struct routers *r, const struct engine *e)
{
	struct tensor t = engine_buffer(e, BUF_ROUTER_SUMS);

	if (r)
		e->backend->copy_out(e->stream, r->sum, t.data, tensor_bytes(&t));
}

/* Rows of a layer in the step, those of all experts. */
static double
rows_of(const struct routers *r, const double *sum)
{
	double n = 0;

	for (int64_t i = 0; i < r->experts; i++)
		n += sum[i];
	return n;
}

/* Over layers, their micro batches and ranks. Each of these has as many rows of tokens, and gets as
 * many on average, from each rank that shares its experts with it once more. */
static void
sum_rounds(const struct routers *r, const struct engine *e, struct metrics_routers *m)
{
	const struct run_plan *p = &e->plan;
	double mean = (double)(capacity_rows(&p->layout, &p->shape) * p->model.moe_router_topk),
	       times = 0;

	for (int64_t l = 0; l < r->layers; l++) {
		const double *sum = r->sum + l * r->columns;

		times += rows_of(r, sum) / mean;
		m->rounds += sum[r->experts + ROUTER_ROUNDS];
	}
	m->rounds /= fmax(times, 1);
	m->fullest /= mean * (double)layout_expert_slices(&p->layout);
}

/* The most rows that a rank got, of all ranks, before the sums are added up; then means over layers
 * and tokens, of which each has topk rows. A loss of balance is E / (k T) times the sum of n P over
 * the T tokens of a group, divided by T again. */
struct metrics_routers
routers_sum(struct routers *r, const struct engine *e)
{
	struct comm *w = e->groups.world;
	struct metrics_routers m = { 0 };
	struct tensor t, fullest = tensor_1d(&m.fullest, DTYPE_F64, 1);

	if (!r)
		return m;
	for (int64_t l = 0; l < r->layers; l++)
		m.fullest = fmax(m.fullest, r->sum[l * r->columns + r->experts + ROUTER_RECEIVED]);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ fullest, REDUCE_MAX });
	t = tensor_1d(r->sum, DTYPE_F64, r->layers * r->columns);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	for (int64_t l = 0; l < r->layers; l++) {
		const double *sum = r->sum + l * r->columns, *other = sum + r->experts;
		double k = (double)e->plan.model.moe_router_topk, rows = fmax(rows_of(r, sum), 1),
		       tokens = rows / k * (double)r->layers;

		m.balance += (double)r->experts / (k * router_group_tokens(&e->plan)) *
		    other[ROUTER_BALANCE] / tokens;
		m.square += other[ROUTER_SQUARE] / tokens;
		m.entropy += other[ROUTER_ENTROPY] / tokens;
		m.dropped += (1 - other[ROUTER_KEPT] / rows) / (double)r->layers;
		for (int64_t i = 0; i < r->experts; i++)
			m.busiest = fmax(m.busiest, sum[i] / rows * (double)r->experts);
	}
	sum_rounds(r, e, &m);
	return m;
}

void
routers_write(const struct routers *r, struct metrics *m, int64_t iteration)
{
	double *load;

	if (!r || !m)
		return;
	load = mem_alloc((size_t)r->experts, sizeof *load);
	for (int64_t l = 0; l < r->layers; l++) {
		const double *sum = r->sum + l * r->columns;
		double mean = fmax(rows_of(r, sum), 1) / (double)r->experts;

		for (int64_t i = 0; i < r->experts; i++)
			load[i] = sum[i] / mean;
		metrics_loads(
		    m, iteration, &(struct metrics_load){ r->layer[l], (int)r->experts, load });
	}
	free(load);
}
