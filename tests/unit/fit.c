/* fit.c - tests of the advice for a run that does not fit: every piece of advice helps */
#include "lib/model/block/head.h"
#include "lib/model/evaluation.h"
#include "lib/model/family.h"
#include "lib/model/fit.h"
#include "lib/model/split.h"
#include "tests/check.h"
#include "tests/sized_model.h"

/* A Llama-like model of 16 layers on two data ranks. */
static struct run_plan
plan_of(int64_t micro_batch)
{
	struct run_plan p = { .model = sized_model(
				  (struct model_sizes){ 16, 512, 8, 8, 2048, 1024, 8000 }),
		.layout = { 1, 1, 2, 1 },
		.shape = { 1024, micro_batch, 1, DTYPE_BF16, false, optim_rules, false, { 0 } },
		.global_batch_size = 2 * micro_batch };

	return p;
}

static uint64_t
need(const struct run_plan *p)
{
	int coord[AX_COUNT] = { 0 };
	struct memory_plan m;
	uint64_t bytes;

	memory_plan(&m, &p->model, &p->layout, &p->shape, coord);
	bytes = memory_total(&m);
	memory_release(&m);
	return bytes;
}

/* The run's own buffers have one place in both plans. */
static void
check_places(const struct memory_plan *train, const struct memory_plan *evaluation)
{
	for (int i = 0; i < train->num_buffers; i++) {
		const struct buffer *b = &train->buffer[i],
				    *other = memory_buffer(evaluation, b->number);

		CHECK(b->place != ARENA_PARAMS ||
		    (b->bytes == other->bytes && b->offset == other->offset));
	}
}

/* Evaluations in larger micro batches: their activations fit, the run's own buffers keep their
 * places, and a smaller one is the first advice. */
static void
test_evaluation(void)
{
	int coord[AX_COUNT] = { 0 };
	struct run_plan p = plan_of(8), same = plan_of(8), smaller = plan_of(8);
	struct memory_plan train, evaluation, both;
	struct err e;

	p.eval_micro_batch_size = 32;
	smaller.eval_micro_batch_size = 2;
	memory_plan(&train, &p.model, &p.layout, &p.shape, coord);
	evaluation_memory(&evaluation, &p, coord);
	run_memory(&both, &p, coord);
	check_places(&train, &evaluation);
	CHECK(both.arena[ARENA_PARAMS] == train.arena[ARENA_PARAMS]);
	CHECK(both.arena[ARENA_SAVED] == evaluation.arena[ARENA_SAVED] &&
	    both.arena[ARENA_SAVED] > train.arena[ARENA_SAVED]);
	CHECK(both.slot_bytes == train.slot_bytes &&
	    both.arena[ARENA_SCRATCH] >= train.arena[ARENA_SCRATCH]);
	CHECK(memory_fit(&p, coord, 0, memory_total(&both), &e) == 0);
	CHECK(memory_fit(&p, coord, 0, memory_total(&both) - 1, &e) < 0 &&
	    strstr(e.msg, "it fits with --eval-micro-batch-size 8"));
	CHECK(memory_fit(&same, coord, 0, need(&same), &e) == 0);
	CHECK(memory_fit(&smaller, coord, 0, need(&same), &e) == 0);
	memory_release(&train);
	memory_release(&evaluation);
	memory_release(&both);
}

/* Evaluations of tasks have buffers that training has not, and room for them. */
static void
test_tasks(void)
{
	int coord[AX_COUNT] = { 0 };
	struct run_plan p = plan_of(8), of_tasks = evaluation_tasks(&p);
	struct memory_plan train, tasks, both;

	p.tasks = true;
	memory_plan(&train, &p.model, &p.layout, &p.shape, coord);
	evaluation_memory(&tasks, &of_tasks, coord);
	run_memory(&both, &p, coord);
	check_places(&train, &tasks);
	for (int a = 0; a < ARENA_HOST; a++)
		CHECK(both.arena[a] >= train.arena[a] && both.arena[a] >= tasks.arena[a]);
	CHECK(
	    memory_buffer(&tasks, HEAD_BEST)->bytes && memory_buffer(&tasks, BUF_DOCUMENTS)->bytes);
	CHECK(
	    !memory_buffer(&both, HEAD_BEST)->bytes && !memory_buffer(&both, BUF_DOCUMENTS)->bytes);
	memory_release(&train);
	memory_release(&tasks);
	memory_release(&both);
}

/* The head makes the last of four stages small and the others large: 5 5 5 1. Equal ones, or a
 * smaller first one, save a layer of it; where a user has split the layers nothing is said. */
static void
test_stages(void)
{
	int coord[AX_COUNT] = { 0 };
	struct run_plan p = plan_of(8);
	struct err e;

	p.layout.pipeline_model_parallel_size = 4;
	p.shape.num_microbatches = 8;
	p.model.vocab_size = 24000;
	p.model.untie_embeddings_and_output_weights = true;
	split_balance(&p.model, p.shape.seq_length, &p.layout);

	CHECK(p.layout.split[0] == 5 && p.layout.split[3] == 1);
	CHECK(memory_fit(&p, coord, 0, need(&p) - 1, &e) < 0);
	CHECK(strstr(e.msg, "it fits with --num-layers-per-virtual-pipeline-stage 4, or "));
	CHECK(strstr(e.msg, "--decoder-first-pipeline-num-layers 4, or "));
	/* The last stage would hold four layers, and of two weights the larger. */
	p.shape.num_microbatches = 1;
	CHECK(memory_fit(&p, coord, 0, need(&p) - 1, &e) < 0);
	CHECK(!strstr(e.msg, "--num-layers-per-virtual-pipeline-stage"));
	p.shape.num_microbatches = 8;
	p.layout.split[0] = 6;
	p.layout.split[1] = 4;
	CHECK(memory_fit(&p, coord, 0, need(&p) - 1, &e) < 0);
	CHECK(!strstr(e.msg, "-pipeline-"));
}

int
main(void)
{
	int coord[AX_COUNT] = { 0 };
	struct run_plan p = plan_of(8), half = plan_of(4), odd = plan_of(1), full = plan_of(8);
	uint64_t bytes = need(&p);
	struct err e;

	CHECK(memory_fit(&p, coord, 0, bytes, &e) == 0);
	CHECK(memory_fit(&p, coord, 1, bytes, &e) < 0);
	/* One byte too few: everything that saves memory is named, in order. */
	CHECK(memory_fit(&p, coord, 0, bytes - 1, &e) < 0);
	CHECK(strstr(e.msg,
	    "it fits with --micro-batch-size 4, or --recompute-granularity selective, or "
	    "--use-distributed-optimizer, or "
	    "--data-parallel-sharding-strategy optim_grads_params, or "
	    "--cpu-offloading-num-layers 6, or "
	    "--recompute-granularity full, or "
	    "--optimizer-cpu-offload, or "
	    "--tensor-model-parallel-size 2 on twice as many ranks"));
	/* Just enough for half the micro batch; with a byte less it is no longer named. */
	half.shape.num_microbatches = 2;
	CHECK(
	    memory_fit(&p, coord, 0, need(&half), &e) < 0 && strstr(e.msg, "--micro-batch-size 4"));
	CHECK(memory_fit(&p, coord, 0, need(&half) - 1, &e) < 0 &&
	    !strstr(e.msg, "--micro-batch-size 4,"));
	full.shape.recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 };
	CHECK(memory_fit(&p, coord, 5, need(&full) + 5, &e) < 0 &&
	    strstr(e.msg, "--recompute-granularity full"));
	/* An eighth: only several measures together suffice. A kilobyte: none does. */
	CHECK(memory_fit(&p, coord, 0, bytes / 8, &e) < 0 && strstr(e.msg, " and "));
	CHECK(memory_fit(&p, coord, 0, 1024, &e) < 0 &&
	    strstr(e.msg, "no change of options makes it fit"));
	/* Sharing rows among tensor ranks comes first, since it costs nothing; where rows are
	 * already shared it is not named.
	 */
	p.layout.tensor_model_parallel_size = 2;
	CHECK(memory_fit(&p, coord, 0, need(&p) - 1, &e) < 0 &&
	    strstr(e.msg, "it fits with --sequence-parallel, or --micro-batch-size 4"));
	p.layout.sequence_parallel = true;
	CHECK(memory_fit(&p, coord, 0, need(&p) - 1, &e) < 0 &&
	    !strstr(e.msg, "--sequence-parallel"));
	/* A change that the run does not allow is not advised. */
	CHECK(memory_fit(&odd, coord, 0, need(&odd) - 1, &e) < 0 &&
	    !strstr(e.msg, "--micro-batch-size"));
	test_evaluation();
	test_tasks();
	test_stages();
	return check_done();
}
