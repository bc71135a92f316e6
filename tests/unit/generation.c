/* generation.c - the plans of a generation: what lasts for the run lies in the same place in both,
 * and passes over one position have room in the memory of the others */
#include "lib/model/block/attention.h"
#include "lib/model/generation.h"
#include "tests/check.h"
#include "tests/sized_model.h"

#include <string.h>

/* The plan of a run on each of these layouts. */
static const struct layout layouts[] = {
	{ 1, 1, 1, 1 },
	{ 4, 1, 1, 1, true },
	{ 2, 1, 2, 2 },
	{ 1, 1, 1, 2, .virtual_stages = 2, .microbatch_group = 2, .overlap_p2p = true },
};

static struct run_plan
plan_of(const struct layout *l)
{
	struct run_plan p = { .model =
				  sized_llama((struct model_sizes){ 4, 64, 8, 4, 176, 32, 500 }),
		.layout = *l,
		.shape = { 1024, 4, 8, DTYPE_BF16, SHARDING_NONE, NULL, true },
		.eval_batch_size = 8 };
	struct err e;

	CHECK(model_check(&p.model, &e) == 0);
	split_balance(&p.model, p.shape.seq_length, &p.layout);
	return p;
}

/* Both memory plans of a rank. */
static void
check_rank(const struct run_plan *p, int pp)
{
	struct run_plan one = generation_decoding(p);
	struct memory_plan prompts, decoding;
	int coord[AX_COUNT] = { [AX_PP] = pp };
	int64_t layers = p->model.num_layers / p->layout.pipeline_model_parallel_size;
	const struct buffer *keys;

	memory_plan(&prompts, &p->model, &p->layout, &p->shape, coord);
	generation_memory(&decoding, &one, &prompts, coord);
	keys = memory_buffer(&prompts, ATTENTION_KEPT_KEYS);
	CHECK(keys->shape[0] == layers * p->shape.kept_positions * p->shape.micro_batch_size);
	CHECK(keys->shape[1] == layout_local_groups(&p->layout, &p->model) * 8);
	for (int i = 0; i < decoding.num_buffers; i++) {
		const struct buffer *b = &decoding.buffer[i],
				    *same = memory_buffer(&prompts, b->number);

		if (b->level != RUN)
			continue;
		CHECK(b->offset == same->offset && b->bytes <= same->bytes);
		CHECK(b->number == BUF_RECEIVE || b->bytes == same->bytes);
	}
	for (int a = 0; a < ARENA_COUNT; a++)
		CHECK(decoding.arena[a] <= prompts.arena[a]);
	memory_release(&decoding);
	memory_release(&prompts);
}

static void
test_memory(void)
{
	static const struct generation sizes[] = { { 1, 1, 1, true }, { 3, 300, 7, true } };

	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
			struct run_plan p = plan_of(&layouts[i]),
					g = generation_plan(&p, &sizes[k]);

			for (int pp = 0; pp < p.layout.pipeline_model_parallel_size; pp++)
				check_rank(&g, pp);
		}
}

/* Passes over a prompt are equal, and as few as there can be. */
static void
test_lengths(void)
{
	struct run_plan p = plan_of(&layouts[0]);

	for (int64_t n = 1; n < 700; n++) {
		struct generation s = { 2, n, 5, true };
		struct run_plan g = generation_plan(&p, &s);
		int64_t passed = generation_prompt(&g, n);

		CHECK(passed >= n && passed % g.shape.seq_length == 0);
		CHECK(passed / g.shape.seq_length == (n + 127) / 128);
		CHECK(g.shape.kept_positions == passed + 5 && g.shape.micro_batch_size == 2);
		s.keeps = false;
		g = generation_plan(&p, &s);
		CHECK(g.shape.seq_length == n + 5 && g.shape.kept_positions == 0);
	}
}

int
main(void)
{
	test_memory();
	test_lengths();
	return check_done();
}
