/* pass_items.c - tests of the items of a pass: each block once in its direction, what was not kept
 * rerun before it is needed, and segments that part exactly where the buckets in use change,
 * or layers whose saved activations leave begin and end */
#include "lib/model/pass_items.h"

#include "lib/model/family.h"
#include "tests/check.h"
#include "tests/sized_model.h"

/* Six layers, some of which may leave, in buckets of about a layer or of all layers. */
static void
plan(struct memory_plan *m, struct recompute recompute, int64_t bucket, int64_t offloaded)
{
	struct layout l = {
		.tensor_model_parallel_size = 1,
		.context_parallel_size = 1,
		.data_parallel_size = 2,
		.pipeline_model_parallel_size = 1,
	};
	struct train_shape s = { .seq_length = 32,
		.micro_batch_size = 1,
		.num_microbatches = 1,
		.dtype = DTYPE_F32,
		.recompute = recompute,
		.bucket_size = bucket,
		.offloaded_layers = offloaded };
	struct model_config c = sized_model((struct model_sizes){ 6, 64, 4, 4, 128, 32, 500 });
	int coord[AX_COUNT] = { 0 };

	c.untie_embeddings_and_output_weights = true;
	memory_plan(m, &c, &l, &s, coord);
}

/* The bucket of matrices that a layer uses. */
static int
bucket_of(const struct memory_plan *m, int layer)
{
	for (int k = 0; k < m->shards.num_buckets; k++)
		if (m->shards.bucket[k].decay && m->shards.bucket[k].first_layer <= layer &&
		    layer <= m->shards.bucket[k].last_layer)
			return k;
	return -1;
}

/* Segments follow each other through the pass, and part where the bucket, the unit or the direction
 * changes. */
static void
check_segments(const struct memory_plan *m, const struct pass_items *p)
{
	CHECK(p->segment[0].first == 0 && p->segment[0].end == p->num_items);
	for (int i = 1, at = 0; i < p->num_segments; at = p->segment[i++].end) {
		const struct segment *l = &p->segment[i];

		CHECK(l->number == i && l->first == at && l->end > at);
		for (int k = l->first; k < l->end; k++) {
			const struct pass_item *a = &p->item[k], *b = a + 1;
			bool same = k + 1 < p->num_items &&
			    bucket_of(m, m->block[a->block].layer) ==
				bucket_of(m, m->block[b->block].layer) &&
			    m->block[a->block].activation_offload ==
				m->block[b->block].activation_offload &&
			    (a->kind == ITEM_BACKWARD) == (b->kind == ITEM_BACKWARD);

			CHECK(same == (k + 1 < l->end));
		}
	}
	CHECK(p->segment[p->num_segments - 1].end == p->num_items);
}

static void
test_forward(void)
{
	struct memory_plan m;
	struct pass_items p;

	plan(&m, (struct recompute){ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 }, 1, 0);
	pass_items_init(&p, &m, 0, PASS_FORWARD);
	CHECK(!p.backward && p.num_items == m.num_blocks && m.num_blocks == 14);
	for (int i = 0; i < p.num_items; i++)
		CHECK(p.item[i].kind == ITEM_FORWARD && p.item[i].block == i);
	/* The embedding, each layer, the head. */
	CHECK(p.num_segments == 1 + 8);
	check_segments(&m, &p);
	pass_items_release(&p);
	memory_release(&m);
	plan(&m, (struct recompute){ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 }, 0, 0);
	pass_items_init(&p, &m, 0, PASS_FORWARD);
	CHECK(p.num_segments == 1 + 3);
	check_segments(&m, &p);
	pass_items_release(&p);
	memory_release(&m);
	/* Layers 1 and 3 leave, so the others are in three segments. */
	plan(&m, (struct recompute){ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 }, 0, 2);
	pass_items_init(&p, &m, 0, PASS_FORWARD);
	CHECK(p.num_segments == 1 + 3 + 4);
	check_segments(&m, &p);
	pass_items_release(&p);
	memory_release(&m);
}

/* Each block goes back once, from the last; one that is recomputed has gone forward again before
 * it, together with those up to the next that was kept. */
static void
check_backward(const struct memory_plan *m, const struct pass_items *p)
{
	int next = m->num_blocks - 1;
	bool made[32] = { false };

	for (int k = 0; k < p->num_items; k++) {
		const struct pass_item *a = &p->item[k];
		const struct block *b = &m->block[a->block];

		if (a->kind == ITEM_BACKWARD) {
			CHECK(a->block == next-- && !a->first && !a->last);
			CHECK(made[a->block] == (b->recompute_chunk >= 0));
			continue;
		}
		CHECK(a->kind == ITEM_RECOMPUTE && !made[a->block] && b->recompute_chunk >= 0);
		made[a->block] = true;
		CHECK(a->first == (a->block == 0 || b[-1].recompute_chunk != b->recompute_chunk));
		CHECK(a->last == (b[1].recompute_chunk != b->recompute_chunk));
		CHECK(a->first || p->item[k - 1].block == a->block - 1);
		CHECK(!a->last || p->item[k + 1].block == a->block);
	}
	CHECK(next == -1);
	check_segments(m, p);
}

static void
test_backward(void)
{
	static const struct recompute how[] = {
		{ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 },
		{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 },
		{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 4 },
		{ RECOMPUTE_FULL, RECOMPUTE_BLOCK, 3 },
	};
	static const int again[] = { 0, 12, 12, 6 };
	struct memory_plan m;
	struct pass_items p;

	for (int i = 0; i < 24; i++) {
		plan(&m, how[i / 6], i % 2, i % 3);
		pass_items_init(&p, &m, 0, PASS_BACKWARD);
		CHECK(p.backward && p.num_items == m.num_blocks + again[i / 6]);
		check_backward(&m, &p);
		pass_items_release(&p);
		memory_release(&m);
	}
}

int
main(void)
{
	test_forward();
	test_backward();
	return check_done();
}
