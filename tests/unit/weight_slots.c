/*
 * weight_slots.c - how often a step gathers each bucket of layers, where a layer is a bucket: each
 * pass what the slots do not have, and the update what the first pass finds there
 */
#include "lib/model/weight_slots.h"
#include "lib/base/mem.h"
#include "tests/check.h"
#include "tests/sized_model.h"

#include <stdlib.h>

enum { MOST_BUCKETS = 64 };

/* A model of so many layers on two data ranks of a stage each. */
struct gathers {
	struct model_config model;
	struct layout layout;
	struct train_shape shape;
	int64_t count[MOST_BUCKETS];
	bool layers[MOST_BUCKETS];
	int buckets;
};

static struct gathers
of_layers(int64_t layers)
{
	struct gathers g = { .layout = { 1, 1, 2, 1 },
		.shape = { .seq_length = 32,
		    .micro_batch_size = 1,
		    .num_microbatches = 1,
		    .bucket_size = 1,
		    .sharding = SHARDING_PARAMS,
		    .dtype = DTYPE_F32,
		    .rule = &optim_rules[0] } };

	g.model = sized_llama((struct model_sizes){ layers, 64, 4, 2, 96, 32, 256 });
	return g;
}

static void
count(struct gathers *g, int stage, int batches)
{
	struct memory_plan m;
	const int coord[AX_COUNT] = { [AX_PP] = stage };

	g->shape.num_microbatches = batches;
	memory_plan(&m, &g->model, &g->layout, &g->shape, coord);
	g->buckets = m.shards.num_buckets;
	CHECK(g->buckets <= MOST_BUCKETS);
	weight_slots_count(&m, &g->layout, stage, batches, g->count);
	for (int k = 0; k < g->buckets; k++)
		g->layers[k] = m.shards.bucket[k].layers;
	memory_release(&m);
}

/* A forward pass has the first two layers, which the update or the backward pass left, and a
 * backward pass the last two. */
static void
check_layers(struct gathers *g, int64_t layers, int batches)
{
	int64_t i = 0;

	count(g, 0, batches);
	for (int k = 0; k < g->buckets; k++) {
		if (!g->layers[k]) {
			CHECK(g->count[k] == 1);
			continue;
		}
		CHECK(g->count[k] == batches * ((i >= 2) + (i < layers - 2)) + (i < 2));
		i++;
	}
	CHECK(i == layers);
}

static void
test_layers(void)
{
	for (int64_t layers = 1; layers < 9; layers++)
		for (int batches = 1; batches < 12; batches++) {
			struct gathers g = of_layers(layers);

			check_layers(&g, layers, batches);
			g.shape.recompute =
			    (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1, 0 };
			check_layers(&g, layers, batches);
		}
}

/* Three layers at a time are recomputed. Forward passes gather 2 to 5; then 3 and 5 come again, 4
 * is there, and 3 on the way back; then 0 to 2, and 0 on the way back; and the update gathers 0 and
 * 1. Two at a time are there when they are run back through. */
static void
test_recompute(void)
{
	static const int64_t want[] = { 3, 2, 2, 3, 1, 2 };
	struct gathers g = of_layers(6);
	int i = 0;

	g.shape.recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 3, 0 };
	count(&g, 0, 1);
	for (int k = 0; k < g.buckets; k++)
		if (g.layers[k])
			CHECK(i < 6 && g.count[k] == want[i++]);
	CHECK(i == 6);
	g.shape.recompute.num_layers = 2;
	for (int batches = 1; batches < 4; batches++)
		check_layers(&g, 6, batches);
}

/* Each period of micro batches gathers as much as the one before it, however many there are. */
static void
check_periods(struct gathers *g, int stage, int period)
{
	struct gathers before = *g, last = *g;

	for (int batches = 2 * period; batches < 14 * period; batches += period) {
		count(g, stage, batches);
		for (int k = 0; batches > 4 * period && k < g->buckets; k++)
			CHECK(g->count[k] - last.count[k] == last.count[k] - before.count[k]);
		before = last;
		last = *g;
	}
}

static void
test_periods(void)
{
	struct gathers g = of_layers(12);

	for (int stage = 0; stage < 2; stage++) {
		g.layout = (struct layout){ 1, 1, 2, 2 };
		check_periods(&g, stage, 1);
		g.layout.virtual_stages = 3;
		check_periods(&g, stage, 2);
	}
}

int
main(void)
{
	test_layers();
	test_recompute();
	test_periods();
	return check_done();
}
