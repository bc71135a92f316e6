/* plan.c - tests of the planner: the time model changes in the right direction, search results are
 * legal, fit and are sorted, tables add up */
#include "lib/model/block/workspace.h"
#include "lib/model/family.h"
#include "plan/memtable.h"
#include "plan/search.h"
#include "tests/check.h"
#include "tests/sized_model.h"

struct config {
	struct hardware hw;
	int gpu;
};

static const struct opt table[] = { HARDWARE_OPTS(struct config, hw, gpu), OPT_END };

/* The device of a row, with options typed over it. */
static struct hardware
device(const char *text)
{
	struct config cfg = { 0 };
	struct opt_parse p;
	struct hardware hw;
	struct err e = { "" };

	opt_begin(&p, table, &cfg);
	CHECK(opt_text(&p, "text", text, false, &e) == 0);
	CHECK_STR(e.msg, "");
	hardware_resolve(&p, cfg.gpu, &cfg.hw, &hw);
	opt_release(&p);
	return hw;
}

/* Llama-3.2-1B's shape. */
static struct model_config
llama_1b(void)
{
	return sized_llama((struct model_sizes){ 16, 2048, 32, 8, 8192, 2048, 128256 });
}

/* Of any case: the bytes of the fullest rank. */
static uint64_t
most_bytes(const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	struct memory_stages stages;
	uint64_t most;

	memory_stages_init(&stages, c, l, s);
	most = memtable_most(&stages, s, NULL, NULL);
	memory_stages_release(&stages);
	return most;
}

/* The time of a step; fills in what r lacks. */
static void
time_case(struct run_case *r, struct step_time *t)
{
	struct memory_stages stages;
	int64_t elements, own;

	memory_stages_init(&stages, r->model, r->layout, r->shape);
	r->stages = &stages;
	memtable_most(&stages, r->shape, &elements, &own);
	r->owned = operation_owned(&stages, r->shape, operation_stage(&stages, elements), own);
	time_step(r, t);
	memory_stages_release(&stages);
}

/* The time of a step of this model and shape under a layout of t x p x d ranks. */
static struct step_time
timed_model(const struct hardware *hw, struct model_config c, struct layout l, struct train_shape s)
{
	struct run_case r = { &c, &l, &s, hw, NULL, { 0 } };
	struct step_time t;
	struct err e;

	CHECK(model_check(&c, &e) == 0 && layout_check(&l, &c, &e) == 0);
	time_case(&r, &t);
	CHECK_NEAR(
	    t.total, t.compute + t.memory + t.tp + t.cp + t.ep + t.bubble + t.dp + t.other, 1e-12);
	CHECK(t.compute > 0 && t.memory > 0 && t.tp >= 0 && t.bubble >= 0 && t.dp >= 0 &&
	    t.other >= 0);
	return t;
}

static struct step_time
timed_shape(const struct hardware *hw, struct layout l, struct train_shape s)
{
	return timed_model(hw, llama_1b(), l, s);
}

/* The same with m micro batches of b. */
static struct step_time
timed(const struct hardware *hw, struct layout l, int64_t b, int64_t m, enum sharding sharding)
{
	return timed_shape(hw, l,
	    (struct train_shape){ 2048, b, m, DTYPE_BF16, sharding, optim_rules, false, { 0 } });
}

/* Rows are plausible, and typed figures override them. */
static void
test_devices(void)
{
	struct hardware h = device("gpu h200\nmemory-gb 10\ntflops 500\n"),
			v = device("gpu v100-16\n");

	CHECK(h.memory_gb == 10 && h.tflops == 500 && h.memory_bandwidth == 4800);
	CHECK_STR(h.name, "h200");
	CHECK(hardware_peak(&h, DTYPE_BF16) == 500e12 && hardware_peak(&h, DTYPE_F32) == 500e12);
	CHECK(hardware_peak(&v, DTYPE_F16) == 125e12 && hardware_peak(&v, DTYPE_BF16) == 15.7e12);
	for (int i = 0; hardware_names[i]; i++) {
		char text[64];
		struct hardware hw;

		snprintf(text, sizeof text, "gpu %s\n", hardware_names[i]);
		hw = device(text);
		CHECK_STR(hw.name, hardware_names[i]);
		CHECK(hw.tflops >= hw.tflops_fp32 && hw.memory_gb > hw.reserve_gb &&
		    hw.gpus_per_node >= 1);
		CHECK(hw.gemm_efficiency > 0 && hw.gemm_efficiency <= 1 &&
		    hw.attention_efficiency > 0 && hw.link_efficiency > 0);
	}
}

static double
gemm(const struct run_case *r, int64_t m, int64_t n, int64_t k, bool accumulate)
{
	const struct operation o = { .class = OPERATION_PRODUCT,
		.m = m,
		.n = n,
		.k = k,
		.count = 1,
		.accumulate = accumulate,
		.type = DTYPE_BF16 };

	return price_operation(r, &o);
}

/* Of both directions, over so many tensor ranks. */
static double
all_reduce(const struct run_case *r, int64_t size, double bytes)
{
	const struct operation o = {
		.class = OPERATION_TENSOR, .axes = AX_BIT(AX_TP), .bytes = bytes
	};
	struct layout l = { size, 1, 1, 1 };
	struct run_case of = *r;

	of.layout = &l;
	return 2 * price_operation(&of, &o);
}

/* The times of GEMMs and all-reduces follow from their arithmetic and bytes. */
static void
test_gemms(void)
{
	struct hardware hw = device("gpu h200\n");
	struct model_config c = llama_1b();
	struct layout l = { 1, 1, 1, 1 };
	struct train_shape s = { 2048, 1, 1, DTYPE_BF16, false, optim_rules, false, { 0 } };
	struct run_case r = { &c, &l, &s, &hw, NULL, { 0 } };
	double big = gemm(&r, 8192, 8192, 8192, false), peak = 2 * 8192.0 * 8192 * 8192 / 989e12;

	CHECK(big > peak / 0.75 && big < peak / 0.6);
	CHECK(gemm(&r, 8192, 8192, 8190, false) > big);
	CHECK(gemm(&r, 8192, 8192, 8192, true) >= big);
	/* A GEMM of one row takes as long as reading its weights. */
	CHECK(gemm(&r, 1, 8192, 8192, false) > 2 * 8192.0 * 8192 / 4.8e12);
	CHECK(all_reduce(&r, 1, 1e9) == 0);
	CHECK(all_reduce(&r, 8, 1e9) > all_reduce(&r, 2, 1e9));
	CHECK(all_reduce(&r, 16, 1e9) > 1.5 * all_reduce(&r, 8, 1e9));
	CHECK_NEAR(all_reduce(&r, 8, 1e9), 2 * 7.0 / 8 * 1e9 / (450e9 * 0.75), 0.01);
}

/* What other programs do beside ours: a kernel adds gradients after their GEMM, kernels bound by
 * memory move more bytes, and the host waits for each kernel before it starts the next. */
static void
test_programs(void)
{
	struct hardware hw = device("gpu h200\n"), apart = device("gpu h200\ngradient-bytes 6\n"),
			twice = device("gpu h200\nmemory-passes 2\n"),
			blocking = device("gpu h200\nlaunch-blocking 1\n");
	struct model_config c = llama_1b();
	struct layout l = { 1, 1, 1, 1 };
	struct train_shape s = { 2048, 1, 1, DTYPE_BF16, false, optim_rules, false, { 0 } };
	struct run_case ours = { &c, &l, &s, &hw, NULL, { 0 } }, other = ours;
	const struct operation moves = { .class = OPERATION_MEMORY, .bytes = 1e9 };
	const double rate = 4.8e12 * 0.75;
	struct step_time a = timed(&hw, l, 4, 8, SHARDING_NONE), b;

	other.hw = &apart;
	CHECK_NEAR(gemm(&other, 8192, 8192, 8192, true),
	    gemm(&ours, 8192, 8192, 8192, false) + 6 * 8192.0 * 8192 / rate + 3e-6, 1e-12);
	CHECK(gemm(&other, 8192, 8192, 8192, false) == gemm(&ours, 8192, 8192, 8192, false));
	CHECK_NEAR(price_operation(&ours, &moves), 1e9 / rate, 1e-12);
	other.hw = &twice;
	CHECK_NEAR(price_operation(&other, &moves), 2e9 / rate, 1e-12);
	b = timed(&blocking, l, 4, 8, SHARDING_NONE);
	CHECK(b.compute == a.compute && b.memory == a.memory);
	/* 16 layers of two blocks, of at least five kernels each in both passes, 8 times */
	CHECK(b.other - a.other > 8 * 16 * 2 * 5 * 4e-6);
}

/* Two nodes: either the data ranks share one, or the stages do, which then exchange faster and
 * reduce gradients more slowly. */
static void
test_mapping(void)
{
	struct hardware hw = device("gpu h200\ndp-overlap 0\n");
	struct layout l = { 2, 1, 4, 2 };
	struct step_time data = timed(&hw, l, 4, 8, SHARDING_NONE), stages;

	l.use_tp_pp_dp_mapping = true;
	stages = timed(&hw, l, 4, 8, SHARDING_NONE);
	CHECK(stages.dp > data.dp && stages.other < data.other &&
	    stages.other + stages.bubble < data.other + data.bubble);
	CHECK_NEAR(stages.compute, data.compute, 1e-12);
	CHECK_NEAR(stages.tp, data.tp, 1e-12);
}

/* Each part of the time changes in the right direction. */
static void
test_directions(void)
{
	struct hardware hw = device("gpu h200\n"), slow = device("gpu h200\nlink-bandwidth 20\n");
	struct hardware hidden = device("gpu h200\ndp-overlap 1\n"),
			rings = device("gpu h200\nmessage-us 0\n");
	struct step_time one = timed(&hw, (struct layout){ 1, 1, 1, 1 }, 4, 8, SHARDING_NONE), a, b;

	CHECK(one.bubble == 0 && one.tp == 0 && one.dp == 0);
	/* Fewer micro batches: a larger share of waiting; (p - 1) / m of the ideal time with even
	 * stages. */
	a = timed(&hw, (struct layout){ 1, 1, 1, 4 }, 4, 8, SHARDING_NONE);
	b = timed(&hw, (struct layout){ 1, 1, 1, 4 }, 4, 32, SHARDING_NONE);
	CHECK(a.bubble / a.total > b.bubble / b.total && b.bubble > 0);
	CHECK_NEAR(a.bubble, b.bubble, 0.005);
	CHECK(a.total < one.total && a.total > one.total / 4);
	/* Tensor ranks share the GEMMs and pay for communication, the more the slower the link. */
	a = timed(&hw, (struct layout){ 8, 1, 1, 1 }, 4, 8, SHARDING_NONE);
	b = timed(&slow, (struct layout){ 8, 1, 1, 1 }, 4, 8, SHARDING_NONE);
	CHECK(a.tp > 0 && a.compute < one.compute && a.compute > one.compute / 8);
	CHECK(b.tp > 10 * a.tp && b.compute == a.compute);
	/* With sequence parallel, four gathers and scatters of ten and four come on top of as many
	 * as the all-reduces are, in this program beside waits and sums of gradients, and norms
	 * have an eighth of the work. A stage sends a part. */
	b = timed(&hw, (struct layout){ 8, 1, 1, 1, true }, 4, 8, SHARDING_NONE);
	CHECK_NEAR(timed(&rings, (struct layout){ 8, 1, 1, 1, true }, 4, 8, SHARDING_NONE).tp /
		timed(&rings, (struct layout){ 8, 1, 1, 1 }, 4, 8, SHARDING_NONE).tp,
	    (10.0 * 16 + 4) / (8.0 * 16 + 4), 1e-9);
	CHECK(b.tp > 1.15 * a.tp);
	CHECK(b.memory < a.memory && b.compute == a.compute);
	CHECK(timed(&hw, (struct layout){ 4, 1, 1, 2, true }, 4, 8, SHARDING_NONE).other <
	    timed(&hw, (struct layout){ 4, 1, 1, 2 }, 4, 8, SHARDING_NONE).other);
	/* Context ranks share all the work of a sample, and pay for communication. */
	a = timed(&hw, (struct layout){ 1, 4, 1, 1 }, 4, 8, SHARDING_NONE);
	b = timed(&slow, (struct layout){ 1, 4, 1, 1 }, 4, 8, SHARDING_NONE);
	CHECK(one.cp == 0 && a.cp > 0 && a.dp > 0 && a.compute < one.compute / 3);
	CHECK(b.cp > 10 * a.cp && b.compute == a.compute);
	/* Data ranks share the optimizer's work when it is distributed; their traffic can hide. */
	a = timed(&hw, (struct layout){ 1, 1, 8, 1 }, 4, 8, SHARDING_NONE);
	b = timed(&hw, (struct layout){ 1, 1, 8, 1 }, 4, 8, SHARDING_OPTIM);
	CHECK(a.dp > 0 && b.memory < a.memory && b.dp < a.dp);
	/* Sharded gradients are reduced eight times, and of six buckets of sharded weights four
	 * gathered sixteen times. */
	one = timed(&hw, (struct layout){ 1, 1, 8, 1 }, 4, 8, SHARDING_GRADS);
	CHECK(one.memory == b.memory && one.dp > 3 * b.dp);
	CHECK(timed(&hw, (struct layout){ 1, 1, 8, 1 }, 4, 8, SHARDING_PARAMS).dp > 1.3 * one.dp);
	CHECK(timed(&hidden, (struct layout){ 1, 1, 8, 1 }, 4, 8, SHARDING_NONE).dp == 0);
}

/* Seconds of an operation of 16 ranks, or of so many stages of them. */
static double
priced(const struct hardware *hw, const struct layout *l, const struct operation *o)
{
	struct train_shape s = {
		.dtype = DTYPE_BF16, .sharding = SHARDING_GRADS, .random_logits = true
	};
	struct model_config c = llama_1b();
	struct run_case r = { &c, l, &s, hw, NULL, { 0 } };

	c.num_experts = 128;
	c.moe_router_topk = 8;
	return price_operation(&r, o);
}

static bool
near_to(double a, double b)
{
	return fabs(a - b) <= 1e-9 * b;
}

/* On two hosts of eight H200s, by the formulas of docs/planning.md 2.3: an exchange of data ranks,
 * whose terms are added, and of instances; rows of experts, of which the network takes a row once,
 * of eight of two hosts of four. Four cards on a host halve its rate. */
static void
test_hosts(void)
{
	struct hardware hw = device("gpu h200\n"), few = device("gpu h200\nrails 4\n"),
			rings = device("gpu h200\nmessage-us 0\n"),
			thin = device("gpu h200\nmessage-us 0\nnetwork-bandwidth 10\n"),
			half = device("gpu h200\ngpus-per-node 4\n");
	const double link = 450e9 * 0.75, net = 50e9 * 0.85, bytes = 1e9;
	struct operation data = { .class = OPERATION_DATA,
		.axes = AX_BIT(AX_DP) | AX_BIT(AX_CP),
		.bytes = bytes,
		.count = 4,
		.sums = true },
			 rows = { .class = OPERATION_EXPERTS, .bytes = bytes, .routed = true };
	struct layout l = { 1, 1, 16, 1, .expert_model_parallel_size = 8 };
	double in = 7 / 8. * bytes / link + 10e-6, out = 1 / 16. * bytes,
	       add = 17 / 16. * bytes / (hw.memory_bandwidth * 1e9 * hw.memory_efficiency);

	CHECK(near_to(priced(&hw, &l, &data), in + out / net + 30e-6 + add));
	CHECK(near_to(priced(&few, &l, &data), in + out / (net / 2) + 30e-6 + add));
	/* Rings keep links and network busy at once. */
	CHECK(near_to(priced(&rings, &l, &data), in + 25e-6));
	CHECK(near_to(priced(&thin, &l, &data), out / 8.5e9 + 25e-6));
	l.optimizer_instances = 2;
	CHECK(near_to(priced(&hw, &l, &data), in + 2 * (out / net + 30e-6) / 4 + add));
	data.sums = false;
	CHECK(near_to(priced(&hw, &l, &data), in));
	l.optimizer_instances = 1;
	price_hosts(&l, &(struct model_config){ .num_experts = 128 }, &hw);
	CHECK(l.expert_hosts == 1 && l.host_ranks == (int64_t)hw.gpus_per_node);
	price_hosts(&l, &(struct model_config){ .num_experts = 128 }, &half);
	CHECK(l.expert_hosts == 2 && l.host_ranks == (int64_t)half.gpus_per_node);
	CHECK(near_to(priced(&half, &l, &rows),
	    (3 / 4. * bytes / link + 10e-6) * 338 / 260 + bytes / 8 / net + 30e-6));
}

/* Copies of saved activations cost nothing where they fit beside the passes, and on a slow link as
 * much as they exceed them. With a pass in flight three layers find their places as they left. */
static void
test_activation_offload(void)
{
	struct hardware hw = device("gpu h200\n"), slow = device("gpu h200\nhost-bandwidth 0.01\n");
	struct layout l = { 1, 1, 1, 1 };
	struct train_shape s = { .seq_length = 2048,
		.micro_batch_size = 1,
		.num_microbatches = 4,
		.dtype = DTYPE_BF16,
		.rule = optim_rules };
	double none = timed_shape(&slow, l, s).total, fast = timed_shape(&hw, l, s).total, once,
	       twice;

	CHECK(fast == none);
	s.offloaded_layers = 3;
	CHECK(timed_shape(&hw, l, s).total == fast);
	s.offloaded_layers = 4;
	CHECK(timed_shape(&hw, l, s).total > fast);
	s.offloaded_layers = 6;
	once = timed_shape(&slow, l, s).total - none;
	s.offloaded_layers = 9;
	twice = timed_shape(&slow, l, s).total - none;
	CHECK(once > 0 && twice > 1.9 * once && twice < 3 * once);
}

static double
update_of(const struct hardware *hw, struct layout l, struct train_shape s)
{
	return timed_shape(hw, l, s).part[OPERATION_UPDATE];
}

/* Whole matrices take GEMMs, which data ranks share only where the optimizer is sharded. */
static void
test_matrices(void)
{
	struct hardware hw = device("gpu h200\n");
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules }, t = s;
	struct layout one = { 1, 1, 1, 1 }, eight = { 1, 1, 8, 1 };
	double alone, shared;

	t.rule = &optim_rules[2];
	CHECK(t.rule->matrix_states);
	alone = update_of(&hw, one, t) - update_of(&hw, one, s);
	CHECK(alone > 0);
	shared = update_of(&hw, eight, t) - update_of(&hw, eight, s);
	CHECK_NEAR(shared, alone, 1e-9);
	s.sharding = t.sharding = SHARDING_OPTIM;
	shared = update_of(&hw, eight, t) - update_of(&hw, eight, s);
	CHECK(shared < alone && shared > alone / 9);
}

/* With overlap, three of a layer's four reductions are hidden on a fast link, and all of ten
 * gathers and scatters, but none of the sums of gradients; on a slow link no more than the GEMMs
 * take. Ranks whose exchanges have nothing beside them wait for each other too. */
static void
test_overlap(void)
{
	struct hardware fast = device("gpu h200\nlink-bandwidth 1e6\nlayer-overlap 1\n"
				      "message-us 0\n"),
			ours = device("gpu h200\nlink-bandwidth 1e6\nlayer-overlap 1\n"),
			slow = device("gpu h200\nlink-bandwidth 1\n");
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules }, t = s;
	struct layout plain = { 8, 1, 1, 1 }, rows = { 8, 1, 1, 1, true };
	double saved, slower;

	t.tp_comm_overlap = true;
	CHECK_NEAR(timed_shape(&fast, plain, t).tp / timed_shape(&fast, plain, s).tp,
	    (2.0 * 16 + 4) / (8.0 * 16 + 4), 1e-9);
	CHECK_NEAR(timed_shape(&fast, rows, t).tp / timed_shape(&fast, rows, s).tp,
	    4 / (10.0 * 16 + 4), 1e-9);
	CHECK(timed_shape(&ours, rows, t).tp > timed_shape(&fast, rows, t).tp);
	CHECK(timed_shape(&ours, rows, s).tp >
	    timed_shape(&fast, rows, s).tp + 0.05 * timed_shape(&ours, rows, s).compute);
	saved = timed_shape(&slow, plain, s).tp - timed_shape(&slow, plain, t).tp;
	slower = timed_shape(&slow, rows, s).tp - timed_shape(&slow, rows, t).tp;
	CHECK(saved > 0 && slower > 2 * saved && saved < timed_shape(&slow, plain, s).compute);
}

/* 8-bit operands: GEMMs of layers take less time, and copies some of it back; layers that stay in
 * 16 bits gain nothing, nor do devices without such GEMMs. */
static void
test_fp8(void)
{
	struct hardware hw = device("gpu h200\n"), old = device("gpu a100-80\n");
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules }, f = s, ends;
	struct layout one = { 1, 1, 1, 1 };
	double wide = timed_shape(&hw, one, s).compute, narrow;

	f.fp8.format = FP8_HYBRID;
	ends = f;
	ends.fp8.bf16_first = ends.fp8.bf16_last = 4;
	narrow = timed_shape(&hw, one, f).compute;
	CHECK(narrow < wide && narrow > wide / 2);
	CHECK_NEAR(timed_shape(&hw, one, ends).compute, (wide + narrow) / 2, 1e-9);
	CHECK(timed_shape(&old, one, f).compute > timed_shape(&old, one, s).compute);
}

/* Experts, one for each row, of the size of the MLP: the same GEMMs, but the gradients of their
 * weights stay in 16 bits. */
static void
test_fp8_experts(void)
{
	struct hardware hw = device("gpu h200\n");
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules }, f = s;
	struct layout one = { 1, 1, 1, 1 };
	struct model_config c = llama_1b();
	double wide, dense, experts;

	f.fp8.format = FP8_HYBRID;
	wide = timed_model(&hw, c, one, s).compute;
	dense = timed_model(&hw, c, one, f).compute;
	c.num_experts = 8;
	c.moe_router_topk = 1;
	c.moe_ffn_hidden_size = c.ffn_hidden_size;
	c.moe_router_pre_softmax = true;
	CHECK_NEAR(timed_model(&hw, c, one, s).compute, wide, 0.05);
	experts = timed_model(&hw, c, one, f).compute;
	CHECK(experts > dense && experts < wide);
}

/* One H200 on a model of 1.2 billion parameters: 30 to 70 % of the peak. */
static void
test_scale(void)
{
	struct hardware hw = device("gpu h200\n"), laptop = device("gpu cpu\n");
	struct step_time t = timed(&hw, (struct layout){ 1, 1, 1, 1 }, 8, 8, SHARDING_NONE);
	double rate = 64 * 2048 / t.total;

	CHECK(rate > 35000 && rate < 90000);
	CHECK(timed(&laptop, (struct layout){ 1, 1, 1, 1 }, 8, 8, SHARDING_NONE).total >
	    100 * t.total);
}

/* Published steps: model, layout, batch, seconds. Publications: Megatron-LM and other
 * programs, docs/planning.md 3, which make more passes over memory; the first stores the scores of
 * attention. */
static const struct published {
	const char *device;
	int64_t layers, hidden, heads, groups, ffn, vocab, seq;
	bool gated;
	struct layout layout;
	int64_t micro_batch, num_microbatches;
	double seconds;
} published[] = {
	/* kor-002, mpt-012, mlm-018, mlm-020, fms-004, smx-002; FSDP's traffic does not hide */
	{ "gpu a100-80\nattention-passes 7\n", 48, 6144, 64, 64, 24576, 51200, 2048, false,
	    { 8, 1, 1, 1 }, 4, 1, 1.1 },
	{ "gpu h100", 32, 4096, 32, 32, 16384, 50368, 2048, false, { 1, 1, 128, 1 }, 6, 1, 1.173 },
	{ "gpu a100-80", 32, 4096, 32, 8, 16384, 131073, 8192, false, { 4, 1, 2, 1 }, 2, 2, 2.596 },
	{ "gpu h100", 32, 4096, 32, 8, 16384, 131073, 8192, false, { 4, 1, 2, 1 }, 2, 2, 1.1155 },
	{ "gpu h100\ndp-overlap 0\n", 40, 5120, 40, 40, 13824, 32000, 4096, true, { 1, 1, 96, 1 },
	    2, 1, 1.689 },
	{ "gpu b200", 12, 8192, 64, 8, 28672, 128256, 4096, true, { 2, 1, 4, 1 }, 1, 4, 0.7255 },
};

/* Other programs' published steps are predicted to within a third, which is enough to rank layouts.
 */
static void
test_published(void)
{
	for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
		const struct published *x = &published[i];
		struct hardware hw = device(x->device);
		struct model_config c = llama_1b();
		struct train_shape s = { x->seq, x->micro_batch, x->num_microbatches, DTYPE_BF16,
			true, optim_rules, false };
		struct run_case r = { &c, &x->layout, &s, &hw, NULL, { 0 } };
		struct step_time t;

		c.num_layers = x->layers;
		c.hidden_size = x->hidden;
		c.num_attention_heads = x->heads;
		c.num_query_groups = x->groups;
		c.kv_channels = x->hidden / x->heads;
		c.ffn_hidden_size = x->ffn;
		c.vocab_size = x->vocab;
		c.untie_embeddings_and_output_weights = true;
		c.activation = x->gated ? ACTIVATION_SWIGLU : ACTIVATION_GELU_TANH;
		if (hw.attention_passes == 0)
			hw.memory_efficiency /= 2;
		time_case(&r, &t);
		CHECK(t.total > x->seconds / 1.33 && t.total < x->seconds * 1.33);
	}
}

/* Every plan is legal and fits, the plans are sorted, and typed options are kept. */
static void
test_search(void)
{
	struct search_input in = { .model = llama_1b(),
		.shape = { .seq_length = 2048, .dtype = DTYPE_BF16, .rule = optim_rules },
		.hw = device("gpu h200\n"),
		.world_size = 16,
		.global_batch_size = 96 };
	struct search s;
	struct err e;

	CHECK(search_run(&s, &in, &e) == 0);
	CHECK(s.count > 20);
	for (int i = 0; i < s.count; i++) {
		const struct candidate *c = &s.item[i];

		CHECK(
		    layout_world(&c->layout) == 16 && layout_check(&c->layout, &in.model, &e) == 0);
		CHECK(c->shape.num_microbatches * c->shape.micro_batch_size *
			c->layout.data_parallel_size ==
		    96);
		CHECK((double)c->bytes + 1.5 * 1073741824.0 <= 139.8 * 1073741824.0);
		CHECK(c->bytes == most_bytes(&in.model, &c->layout, &c->shape));
		CHECK(i == 0 || c->fit > s.item[i - 1].fit ||
		    c->time.total * 1.01 >= s.item[i - 1].time.total);
	}
	search_release(&s);
	in.tensor = 4;
	in.pipeline = 2;
	in.micro_batch = 3;
	in.context = 1;
	in.typed.sequence_parallel = true;
	in.keep_recompute = in.keep_offload = in.keep_optimizer = true;
	in.keep_sharding = true;
	in.shape.sharding = SHARDING_OPTIM;
	in.overlap_p2p = true;
	/* Chunks of its layers take turns on a stage, from 1 to 8. Two equal ones wait less
	 * than one; of more, the head beside few layers holds all others up. */
	CHECK(search_run(&s, &in, &e) == 0 && s.count >= 8);
	for (int i = 0; i < s.count; i++)
		for (int k = 0; k < s.count; k++)
			CHECK(s.item[i].split != s.item[k].split ||
			    s.item[i].split != SPLIT_EQUAL ||
			    layout_chunks(&s.item[k].layout) > 1 ||
			    layout_chunks(&s.item[i].layout) != 2 ||
			    s.item[i].time.bubble < s.item[k].time.bubble);
	search_release(&s);
	in.split.num_virtual_stages_per_pipeline_rank = 1;
	CHECK(
	    search_run(&s, &in, &e) == 0 && s.count == 1 && s.item[0].shape.num_microbatches == 16);
	CHECK(layout_chunks(&s.item[0].layout) == 1);
	search_release(&s);
	in.split = (struct split_options){ .num_layers_per_virtual_pipeline_stage = 2 };
	CHECK(search_run(&s, &in, &e) == 0 && s.count == 1);
	CHECK(layout_chunks(&s.item[0].layout) == 4);
	search_release(&s);
	in.micro_batch = 5;
	CHECK(search_run(&s, &in, &e) < 0 && s.count == 0);
	search_release(&s);
}

/* Within 4 % of the memory a plan is tight; with less memory nothing fits and the reason names the
 * smallest plan. */
static void
test_fit(void)
{
	struct search_input in = { .model = llama_1b(),
		.shape = { .seq_length = 2048, .dtype = DTYPE_BF16, .rule = optim_rules },
		.hw = device("gpu h200\nreserve-gb 0\n"),
		.world_size = 1,
		.global_batch_size = 1,
		.keep_recompute = true,
		.keep_offload = true,
		.keep_optimizer = true };
	struct search s;
	struct err e;
	double gb;

	CHECK(search_run(&s, &in, &e) == 0 && s.count == 1 && s.item[0].fit == FIT_YES);
	gb = (double)s.item[0].bytes / 1073741824.0;
	search_release(&s);
	in.hw.memory_gb = gb * 1.02;
	CHECK(search_run(&s, &in, &e) == 0 && s.count == 1 && s.item[0].fit == FIT_TIGHT);
	search_release(&s);
	in.hw.memory_gb = gb * 0.99;
	CHECK(search_run(&s, &in, &e) < 0 &&
	    strstr(e.msg, "none of 1 legal layouts of 1 ranks fits") == e.msg);
	search_release(&s);
}

/* The fullest rank is at an end of the pipeline. */
static void
test_most(void)
{
	struct model_config c = llama_1b();

	for (int p = 1; p <= 16; p *= 2)
		for (int m = 1; m <= 32; m *= 4) {
			struct layout l = { 2, 1, 3, p };
			struct train_shape s = { 512, 2, m, DTYPE_BF16, p & 1, optim_rules, false };
			uint64_t most = 0;

			for (int stage = 0; stage < p; stage++) {
				int coord[AX_COUNT] = { [AX_PP] = stage };
				struct memory_plan mp;

				memory_plan(&mp, &c, &l, &s, coord);
				if (memory_total(&mp) > most)
					most = memory_total(&mp);
				memory_release(&mp);
			}
			CHECK(most_bytes(&c, &l, &s) == most);
		}
}

/* This program computes the head's gradients in the forward pass, others in the backward pass. */
static void
test_head(void)
{
	struct hardware ours = device("gpu h200\n"), others = device("gpu h200\nmessage-us 0\n");
	struct model_config c = llama_1b();
	struct layout l = { 1, 1, 1, 2 };
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules };
	struct memory_stages stages;
	struct run_case r = { &c, &l, &s, &ours, &stages, { 0 } };
	struct block_costs costs;
	struct pipeline_costs at[2];

	memory_stages_init(&stages, &c, &l, &s);
	for (int i = 0; i < 2; i++) {
		r.hw = i ? &others : &ours;
		time_blocks(&r, &costs);
		time_pipeline(&r, &costs, &at[i]);
	}
	memory_stages_release(&stages);
	CHECK(at[0].pass[0].forward == at[1].pass[0].forward);
	CHECK(at[0].pass[1].backward < 0.8 * at[1].pass[1].backward);
	CHECK_NEAR(at[0].pass[1].forward + at[0].pass[1].backward,
	    at[1].pass[1].forward + at[1].pass[1].backward, 1e-12);
	CHECK(at[0].lands[0] && !at[1].lands[0]);
}

/* Two tensor ranks that hold all experts whole sum their gradients, in both directions; those that
 * each hold half of them do not. */
static void
test_sums(void)
{
	struct hardware hw = device("gpu h200\n");
	struct model_config c = llama_1b();
	struct layout whole = { 2, 1, 1, 1, true }, halves = whole;
	struct train_shape s = { 2048, 4, 8, DTYPE_BF16, SHARDING_NONE, optim_rules };
	double experts, link = hw.link_bandwidth * hw.link_efficiency * 1e9;

	c.num_experts = 8;
	c.moe_router_topk = 2;
	c.moe_ffn_hidden_size = 2048;
	experts = 16.0 * 8 * 3 * 2048 * 2048;
	whole.expert_tensor_parallel_size = 1;
	halves.expert_tensor_parallel_size = 2;
	CHECK(timed_model(&hw, c, whole, s).tp - timed_model(&hw, c, halves, s).tp >
	    4 * experts / link);
}

int
main(void)
{
	test_devices();
	test_gemms();
	test_programs();
	test_mapping();
	test_directions();
	test_hosts();
	test_activation_offload();
	test_overlap();
	test_matrices();
	test_head();
	test_sums();
	test_scale();
	test_fp8();
	test_fp8_experts();
	test_published();
	test_search();
	test_fit();
	test_most();
	return check_done();
}
