/*
 * sent.c - the bytes that a rank sends in a step, against the formulas of docs/parallelism.md 9,
 * to the last one: Llama 3 8B and Qwen3-30B-A3B on 2 hosts of 8, 4 of 4 and 16 of 1
 */
#include "lib/model/sent.h"
#include "tests/check.h"
#include "tests/sized_model.h"

/* As they are printed; the mean over passes that is priced need not be whole. */
#define CHECK_BYTES(a, b) CHECK(fabs((a) - (b)) < 0.5)

enum { RANKS = 16, BATCHES = 8, ROWS = 4096, EXPERT_RANKS = 8 };

static struct run_plan
llama(void)
{
	struct run_plan p = { .layout = { 1, 1, RANKS, 1 },
		.shape = { .seq_length = ROWS,
		    .micro_batch_size = 1,
		    .num_microbatches = BATCHES,
		    .dtype = DTYPE_BF16,
		    .rule = &optim_rules[0] } };

	p.model = sized_llama((struct model_sizes){ 32, 4096, 32, 8, 14336, ROWS, 128256 });
	p.model.untie_embeddings_and_output_weights = true;
	return p;
}

/* Elements of it, those of the matrices of a layer and all others. */
static const double llama_layer = 2.0 * 4096 * 4096 + 2.0 * 1024 * 4096 + 3.0 * 14336 * 4096,
		    llama_rest = 2.0 * 128256 * 4096 + 65 * 4096,
		    llama_elements = llama_rest + 32 * llama_layer;

static double
between(const struct run_plan *p, int per_host, enum sent_axis a)
{
	const struct host_places where = { .ranks_per_host = per_host };
	struct sent t[SENT_AXES];

	sent_of(t, p, &where);
	return t[a].between;
}

/* n elements of which each rank gets or sends a part, between `hosts` of `inside` ranks. */
static double
share(double n, double hosts, double inside)
{
	return n * (hosts - 1) / (hosts * inside);
}

/* Gradients in fp32 and weights in bf16. ZeRO-3 gathers what is of no layer once, and in each pass
 * the layers but the two that are in slots, which an update gathers; so does recomputation layer by
 * layer. */
static void
test_sharding(void)
{
	struct run_plan p = llama();
	const double m = BATCHES,
		     gathered = (llama_rest + llama_layer * (60 * m + 2)) / llama_elements;

	for (int inside = 1; inside <= 8; inside *= inside == 1 ? 4 : 2) {
		double f = share(llama_elements, (double)RANKS / inside, inside);
		const double want[] = { 4 + 4, 4 + 2, 4 * m + 2, 4 * m + 2 * gathered };

		for (int zero = 0; zero < 4; zero++) {
			p.shape.sharding = (enum sharding)zero;
			p.shape.recompute.granularity = RECOMPUTE_NONE;
			CHECK_BYTES(between(&p, inside, SENT_DATA), want[zero] * f);
			CHECK(between(&p, RANKS, SENT_DATA) == 0);
		}
		p.shape.recompute.granularity = RECOMPUTE_FULL;
		p.shape.recompute.num_layers = 1;
		CHECK_BYTES(between(&p, inside, SENT_DATA), want[3] * f);
		CHECK(between(&p, inside, SENT_PIPELINE) == 0);
	}
}

/* Partial sums of gradients in bf16 are fp32 between hosts; terms alone are bf16. */
static void
test_narrow(void)
{
	struct run_plan p = llama();

	p.shape.sharding = SHARDING_OPTIM;
	p.shape.grad_reduce_in_bf16 = true;
	CHECK(between(&p, 8, SENT_DATA) == (4 + 2) * share(llama_elements, 2, 8));
	CHECK(between(&p, 1, SENT_DATA) == (2 + 2) * share(llama_elements, 16, 1));
}

/* As many instances as hosts: gathers of weights stay inside, and gradients pass between hosts
 * once, scattered and gathered; where instances share the optimizer's state, weights return. */
static void
test_instances(void)
{
	struct run_plan p = llama();

	for (int inside = 1; inside <= 8; inside *= inside == 1 ? 4 : 2)
		for (int zero = 1; zero < 4; zero++) {
			double f = share(llama_elements, (double)RANKS / inside, inside);

			p.shape.sharding = (enum sharding)zero;
			p.layout.optimizer_instances = RANKS / inside;
			p.layout.outer_sharding = OUTER_NO_SHARD;
			CHECK(between(&p, inside, SENT_DATA) == 8 * f);
			CHECK(between(&p, RANKS, SENT_DATA) == 0);
			p.layout.outer_sharding = OUTER_OPTIM;
			run_join_instances(&p.layout, p.shape.sharding);
			CHECK(between(&p, inside, SENT_DATA) == 6 * f);
		}
}

/* One level where hosts are not even: of 16 ranks, 6 on the first host. */
static void
test_uneven(void)
{
	struct run_plan p = llama();

	CHECK(between(&p, 6, SENT_DATA) == 8 * (llama_elements / RANKS * 10));
}

/* Two stages of 8 tensor ranks: each of these sends all rows, or with rows of its own a part. */
static void
test_stages(void)
{
	struct run_plan p = llama();
	const double rows = 2.0 * ROWS * 4096;

	p.layout = (struct layout){ 8, 1, 1, 2 };
	CHECK(between(&p, 8, SENT_PIPELINE) == BATCHES * rows);
	CHECK(between(&p, 16, SENT_PIPELINE) == 0);
	CHECK(between(&p, 8, SENT_TENSOR) == 0 && between(&p, 4, SENT_TENSOR) > 0);
	p.layout.sequence_parallel = true;
	CHECK(between(&p, 8, SENT_PIPELINE) == BATCHES * rows / 8);
	p.layout = (struct layout){ 4, 1, 1, 4 };
	CHECK(between(&p, 8, SENT_PIPELINE) == BATCHES * rows);
	CHECK(between(&p, 4, SENT_PIPELINE) == 2 * BATCHES * rows);
}

/* Rows go to each other host of the experts once and back, in both passes, with their choices and
 * weights and the gradients of these; gradients of experts over the two ranks that hold the same.
 */
static void
test_experts(void)
{
	struct run_plan p = llama();
	const double h = 2048, k = 8, layers = 48, experts = 128;
	double of_experts = layers * experts / EXPERT_RANKS * 3 * 768 * h,
	       dense = 2.0 * 151936 * h +
	    layers * (2 * 32 * 128 * h + 2 * 4 * 128 * h + 2 * 128 + 2 * h + experts * h) + h;

	p.model = sized_llama((struct model_sizes){ 48, 2048, 32, 4, 768, ROWS, 151936 });
	p.model.untie_embeddings_and_output_weights = true;
	p.model.kv_channels = 128;
	p.model.qk_layernorm = true;
	p.model.num_experts = 128;
	p.model.moe_router_topk = 8;
	p.model.moe_ffn_hidden_size = 768;
	p.layout.expert_model_parallel_size = EXPERT_RANKS;
	p.layout.expert_tensor_parallel_size = 1;
	p.shape.sharding = SHARDING_OPTIM;
	for (int inside = 1; inside <= 8; inside *= inside == 1 ? 4 : 2) {
		double others = (double)EXPERT_RANKS / inside - 1;

		CHECK(between(&p, inside, SENT_EXPERTS) ==
		    (4 * others * ROWS * h * 2 + 12 * others * ROWS * k) * layers * BATCHES);
		CHECK(between(&p, inside, SENT_DATA) ==
		    6 * share(dense, (double)RANKS / inside, inside) + 6 * share(of_experts, 2, 1));
	}
}

/* Where hosts have 6 of 8 ranks and 2, and where an expert's two ranks are on two hosts, each row
 * goes to each of its experts. */
static void
test_straight(void)
{
	struct run_plan p = llama();
	const double rows = 4 * 4096.0 * 2 * ROWS * 2 * 32 * BATCHES;

	p.model.num_experts = 16;
	p.model.moe_router_topk = 2;
	p.model.moe_ffn_hidden_size = 1024;
	p.layout.expert_model_parallel_size = EXPERT_RANKS;
	CHECK(between(&p, 6, SENT_EXPERTS) == rows * 2 / 8);
	p.layout.expert_tensor_parallel_size = 2;
	CHECK(between(&p, 1, SENT_EXPERTS) == 2 * rows * 15 / 16);
}

int
main(void)
{
	test_sharding();
	test_narrow();
	test_instances();
	test_uneven();
	test_stages();
	test_experts();
	test_straight();
	return check_done();
}
