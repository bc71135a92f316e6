/*
 * time.c - seconds of a training step
 *
 * A step's time follows from its arithmetic, the bytes through device memory and the bytes over
 * links, each divided by a rate and an efficiency of lib/model/hardware.c; parts that cannot
 * overlap are added. Formulas: docs/planning.md 2. The aim is the order of plans, not exact
 * seconds: errors that all plans share do no harm. Nothing is rounded or random, so equal inputs
 * give equal tables.
 */
#include "plan/time.h"
#include "lib/model/capacity.h"
#include "lib/model/cut.h"
#include "lib/model/work.h"

#include <stdlib.h>
#include <string.h>

/* The K at which a GEMM reaches half of its asymptotic rate; the edge of an output tile; straggling
 * per doubling of the nodes. */
enum { K_HALF = 128, TILE = 128 };
static const double straggling = 0.003;

/* Seconds in which the stage is busy. */
static double
stage_total(const struct stage_cost *s)
{
	return s->compute + s->memory + s->tp + s->cp + s->ep + s->host;
}

/* Traffic of bytes through the device memory. */
static double
traffic(const struct hardware *hw, double bytes)
{
	return bytes / (hw->memory_bandwidth * 1e9 * hw->memory_efficiency);
}

/* Seconds of c [m, n] = a [m, k] b [k, n] in the run's type, or with 8-bit operands: arithmetic or
 * memory traffic, whichever takes longer. With accumulate c is F32, read and written. */
double
time_gemm(const struct run_case *r, int64_t m, int64_t n, int64_t k, bool accumulate)
{
	const struct hardware *hw = r->hw;
	double e = hw->gemm_efficiency * (double)k / (double)(k + K_HALF);
	enum dtype type = r->fp8 ? DTYPE_F8_E4M3 : r->shape->dtype;
	double element = (double)dtype_size(r->shape->dtype), mn = (double)m * (double)n;
	double bytes = (double)dtype_size(type) * ((double)m * (double)k + (double)k * (double)n) +
	    mn * (accumulate ? 8 : element);
	double tiles = ceil((double)m / TILE) * ceil((double)n / TILE);
	double flop_time, byte_time = traffic(hw, bytes);

	/* The share of multiprocessors at work in the waves of output tiles; rows and columns
	 * beyond the edge count as idle. Devices without them (the CPU) have no waves. */
	if (hw->num_sms >= 1)
		e *= mn / (ceil(tiles / hw->num_sms) * hw->num_sms * TILE * TILE);
	/* Rows that are not multiples of 64 elements miss the fast loads of 16-bit GEMMs. */
	if (hw->num_sms > 0 && (n % 64 || k % 64))
		e *= 0.8;
	flop_time = 2 * mn * (double)k / (hardware_peak(hw, type) * e);
	return (flop_time > byte_time ? flop_time : byte_time) + hw->kernel_us * 1e-6;
}

/* A linear layer: forward, gradient of x, gradient of W into F32. With 8-bit operands also their
 * copies: of x once in each pass, of the gradient of y together with its transpose; or of each
 * once, where the gradient of W reads 16 bits. */
static double
linear(const struct run_case *r, const struct gemm_shape *p)
{
	enum { COPY = 2 + 1 }; /* bytes of an element, read and written */
	bool in_16 = p->gradient_in_16;
	int x = in_16 ? COPY : 2 * COPY, dy = in_16 ? COPY : COPY + 1, kernels = in_16 ? 2 : 3;
	struct run_case gradient = *r;
	double seconds;

	gradient.fp8 = r->fp8 && !in_16;
	seconds = time_gemm(r, p->rows, p->out, p->in, false) +
	    time_gemm(r, p->rows, p->in, p->out, false) +
	    time_gemm(&gradient, p->out, p->in, p->rows, true);
	if (r->fp8)
		seconds +=
		    traffic(r->hw, (double)p->rows * (x * (double)p->in + dy * (double)p->out)) +
		    kernels * r->hw->kernel_us * 1e-6;
	return seconds;
}

/* How many of n ranks share a node, when neighbours among them are `stride` apart in rank
 * numbers. */
static double
near(const struct run_case *r, int64_t n, int64_t stride)
{
	return fmin(fmax(floor(r->hw->gpus_per_node / (double)stride), 1), (double)n);
}

/* One direction of a ring: each rank passes on (size - 1) / size of the bytes. Half of an
 * all-reduce. `inside` of its ranks share a node. */
static double
ring(const struct run_case *r, int64_t size, double inside, double bytes)
{
	const struct hardware *hw = r->hw;
	double seconds = 0, nodes = ceil((double)size / inside);

	if (size == 1)
		return 0;
	if (inside > 1)
		seconds = (inside - 1) / inside * bytes /
			(hw->link_bandwidth * 1e9 * hw->link_efficiency) +
		    hw->link_us * 1e-6;
	/* Between nodes each rank sends its part of the reduction inside the node. */
	if (nodes > 1)
		seconds += (nodes - 1) / nodes * bytes / inside /
			(hw->network_bandwidth * 1e9 * hw->network_efficiency) +
		    hw->network_us * 1e-6 * log2(nodes);
	return seconds;
}

/* Reduce-scatter and all-gather, one direction each. bytes is the size of the array, not of the
 * traffic. */
double
time_all_reduce(const struct run_case *r, int64_t size, int64_t stride, double bytes)
{
	return 2 * ring(r, size, near(r, size, stride), bytes);
}

/* A ring of the ranks that differ on these axes alone. */
static double
ring_along(const struct run_case *r, unsigned axes, double bytes)
{
	double inside = 1;
	int64_t size = 1;

	for (int a = 0; a < AX_COUNT; a++)
		if (axes & AX_BIT(a)) {
			int64_t n = layout_size(r->layout, (enum axis)a);

			size *= n;
			inside *= near(r, n, layout_stride(r->layout, (enum axis)a));
		}
	return ring(r, size, inside, bytes);
}

/* All rows between blocks that a context rank holds. */
static double
rows_bytes(const struct run_case *r, enum dtype type)
{
	return (double)(layout_held(r->layout, r->shape->seq_length) * r->shape->micro_batch_size *
		   r->model->hidden_size) *
	    (double)dtype_size(type);
}

/* Seconds of collectives, of `way` each, that GEMMs beside them hide (linear.c of train/layers),
 * and attention, whose forward pass takes `core`: an all-reduce by the gradient of the first weight
 * and, where rows go in parts, a scatter by the last GEMM of all ranks' rows but the first. Where
 * rows are shared, a gather by the first GEMM of all rows but the own, one by the gradient of the
 * last GEMM's input, one more by attention or by the gradient of the first one's input, and a
 * scatter by that of its weight. The second of the gathers comes in attention by the gradient of a
 * dense MLP's first weight, which is long enough, and the scatter by those of both weights. */
static double
hidden(const struct run_case *r, const struct work *w, double way, double core)
{
	const struct gemm_shape *p = &w->gemm[0], *q;
	double t = (double)r->layout->tensor_model_parallel_size, weight, last = 0, given;

	if (!w->overlap || !r->shape->tp_comm_overlap)
		return 0;
	q = &w->gemm[w->num_gemms - 1];
	if (capacity_in_parts(r->layout, r->shape))
		last = fmin(way, (1 - 1 / t) * time_gemm(r, q->rows, q->out, q->in, false));
	weight = time_gemm(r, p->out, p->in, p->rows, true);
	if (layout_row_shards(r->layout) == 1)
		return last + fmin(2 * way, weight);
	if (core > 0 && !r->fp8)
		weight += time_gemm(r, q->out, q->in, q->rows, true);
	given = core > 0 && !r->fp8 && !r->model->num_experts
	    ? way
	    : fmin(way, (1 - 1 / t) * time_gemm(r, q->rows, q->in, q->out, false));
	return last + fmin(way, weight) + given +
	    fmin(way, core > 0 ? 2.5 * core : time_gemm(r, p->rows, p->in, p->out, false)) +
	    fmin(way, (1 - 1 / t) * time_gemm(r, p->rows, p->out, p->in, false));
}

/* Whether k and v have a GEMM of their own, beside whose other part they go. */
static bool
keys_alone(const struct run_case *r)
{
	return r->layout->tensor_model_parallel_size == 1 && !r->fp8;
}

/* What context ranks that gather keys hide (train/layers/gather.c): keys come by the GEMM of q,
 * where it is one of its own, and by the gradients of the last GEMM; half of their gradients are
 * summed by the attention of the first stretch, which the rank that ends last has least of, and
 * half by the gradient of the weight of q. */
static double
hidden_keys(const struct run_case *r, const struct work *w, double way, double core)
{
	const struct gemm_shape *p = &w->gemm[0], *q = &w->gemm[w->num_gemms - 1];
	double c = (double)r->layout->context_parallel_size, t;

	t = fmin(way,
		time_gemm(r, q->rows, q->in, q->out, false) +
		    time_gemm(r, q->out, q->in, q->rows, true)) +
	    fmin(way / 2, 2.5 * core / (4 * c));
	if (keys_alone(r))
		t += fmin(way, time_gemm(r, p->rows, q->in, p->in, false)) +
		    fmin(way / 2, time_gemm(r, q->in, p->in, p->rows, true));
	return t;
}

/* What context ranks that exchange heads hide (train/layers/heads.c), `way` for q, k, v and the
 * output: all go by the input gradient of the last GEMM, and dout by that of its weight; k and v by
 * the GEMM of q, and dq by the gradient of the weight of k and v. */
static double
hidden_heads(const struct run_case *r, const struct work *w, double way)
{
	const struct gemm_shape *p = &w->gemm[0], *q = &w->gemm[w->num_gemms - 1];
	int64_t width = p->out - q->in;
	double all = (double)(p->out + q->in), dout = way * (double)q->in / all,
	       keys = way * (double)width / all, t;

	t = fmin(way, time_gemm(r, q->rows, q->in, q->out, false)) +
	    fmin(dout, time_gemm(r, q->out, q->in, q->rows, true));
	if (keys_alone(r))
		t += fmin(keys, time_gemm(r, p->rows, q->in, p->in, false)) +
		    fmin(dout, time_gemm(r, width, p->in, p->rows, true));
	return t;
}

/* One block of a kind on one micro batch. Attention takes 2.5 times as long backward as forward:
 * five GEMMs where the forward pass has two. Kernels start three times: once forward and twice
 * backward. Tensor ranks all-reduce branches, or gather and scatter rows where they share them;
 * recomputing repeats one of a layer's four reductions, or three of ten gathers and scatters. Each
 * exchange of context ranks sends to all others what a ring passes on. Rows go to any of the ranks
 * that hold the experts once together, which are neighbours: to each as many as a ring passes
 * on. */
static struct stage_cost
block_time(const struct run_case *r, const struct block_kind *kind)
{
	double act = (double)dtype_size(r->shape->dtype),
	       stream = (double)dtype_size(memory_residual(r->shape));
	double way = ring_along(r, AX_BIT(AX_TP), rows_bytes(r, r->shape->dtype)), all;
	double efficiency = r->hw->attention_efficiency * (r->model->kv_channels % 8 ? 0.9 : 1);
	bool shards = layout_row_shards(r->layout) > 1;
	int64_t holders = layout_expert_holders(r->layout), c = r->layout->context_parallel_size;
	struct stage_cost t = { 0 };
	double core, keys;
	struct work w;

	work_of(&w, kind, r->model, r->layout, r->shape);
	for (int i = 0; i < w.num_gemms; i++)
		t.compute += linear(r, &w.gemm[i]) *
		    (w.gemm[i].recompute & recompute_modules(&r->shape->recompute) ? 4 / 3.0 : 1);
	core = w.attention / (hardware_peak(r->hw, r->shape->dtype) * efficiency);
	t.compute += 3.5 * core;
	t.memory = traffic(r->hw, act * w.elements + stream * w.stream) +
	    3 * w.kernels * r->hw->kernel_us * 1e-6;
	all = way * (shards ? w.scatters : 2 * w.reductions);
	t.tp = all - hidden(r, &w, way, core);
	t.again = all * (shards ? 0.3 : 0.25);
	if (c > 1 && w.exchanges) {
		keys = ring_along(
		    r, AX_BIT(AX_CP), w.sent * act * ((double)c / (double)(c - 1) / w.exchanges));
		t.cp = w.exchanges * keys -
		    (r->shape->context_form == CONTEXT_GATHER ? hidden_keys(r, &w, keys, core)
							      : hidden_heads(r, &w, keys));
	}
	t.ep = w.routings * ring(r, holders, near(r, holders, 1), w.routed * act);
	return t;
}

/* Adds blocks of a kind, which all cost the same. Recomputed ones run forward once more: a third of
 * both passes and of their exchanges, but half of those of experts, which have as many in either
 * pass. */
static void
add_blocks(struct stage_cost *s, const struct stage_cost *one, int count, int recomputed)
{
	s->compute += one->compute * (count + recomputed / 3.0);
	s->memory += one->memory * (count + recomputed / 3.0);
	s->tp += one->tp * count + one->again * recomputed;
	s->cp += one->cp * (count + recomputed / 3.0);
	s->ep += one->ep * (count + recomputed / 2.0);
}

/* Seconds of copies that no computation hides: saved activations go to the host beside a forward
 * pass and come back beside a backward pass, which takes twice as long. */
static double
activation_offload_time(const struct run_case *r, int64_t stage, double busy)
{
	struct memory_plan m;
	double way;

	if (!r->shape->offloaded_layers)
		return 0;
	memory_plan_stage(&m, r->stages, r->shape, (int)stage);
	way = (double)m.offload_host_bytes * layout_chunks(r->layout) /
	    (r->hw->host_bandwidth * 1e9 * r->hw->link_efficiency);
	memory_release(&m);
	return fmax(way - busy / 3, 0) + fmax(way - 2 * busy / 3, 0);
}

void
time_blocks(const struct run_case *r, struct block_costs *out)
{
	struct run_case of[] = { *r, *r };

	of[false].fp8 = false;
	of[true].fp8 = r->shape->fp8.format != FP8_NONE;
	memset(out, 0, sizeof *out);
	for (const struct block_kind *const *k = block_kinds; *k; k++)
		for (int eight = 0; eight < 2; eight++)
			out->kind[block_number(*k)][eight] = block_time(&of[eight], *k);
}

/* The blocks of a list. */
static struct stage_cost
sum_blocks(const struct block_costs *costs, const struct block *block, int n)
{
	int count[BLOCK_COUNT][2] = { 0 }, recomputed[BLOCK_COUNT][2] = { 0 };
	struct stage_cost s = { 0 };

	for (int i = 0; i < n; i++) {
		int k = block_number(block[i].kind), eight = block[i].fp8 >= 0;

		count[k][eight]++;
		recomputed[k][eight] += block[i].recompute_chunk >= 0;
	}
	for (int k = 0; k < BLOCK_COUNT; k++)
		for (int eight = 0; eight < 2; eight++)
			add_blocks(
			    &s, &costs->kind[k][eight], count[k][eight], recomputed[k][eight]);
	return s;
}

static struct stage_cost
stage_time(const struct run_case *r, const struct block_costs *costs, int64_t stage)
{
	struct block *block;
	int n = block_list(r->model, r->layout, r->shape, (int)stage, &block);
	struct stage_cost s = sum_blocks(costs, block, n);

	free(block);
	s.host = activation_offload_time(r, stage, stage_total(&s));
	return s;
}

double
time_model(const struct run_case *r, const struct block_costs *costs)
{
	struct layout one = { 1, 1, 1, 1 };
	struct train_shape plain = *r->shape;
	struct block *block;
	struct stage_cost s;
	int n;

	plain.recompute = (struct recompute){ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1, 0 };
	n = block_list(r->model, &one, &plain, 0, &block);
	s = sum_blocks(costs, block, n);
	free(block);
	return stage_total(&s);
}

/* Seconds to send the activations of a micro batch to the next stage and its gradients back: over
 * links of a node where all stages of a pipeline share one. */
static double
exchange_time(const struct run_case *r)
{
	const struct hardware *hw = r->hw;
	double bytes =
	    rows_bytes(r, memory_residual(r->shape)) / (double)layout_row_shards(r->layout);
	int64_t p = r->layout->pipeline_model_parallel_size;
	bool inside = (double)(p * layout_stride(r->layout, AX_PP)) <= hw->gpus_per_node;
	double bus = inside ? hw->link_bandwidth * hw->link_efficiency
			    : hw->network_bandwidth * hw->network_efficiency;

	if (p == 1)
		return 0;
	return 2 * (bytes / (bus * 1e9) + (inside ? hw->link_us : hw->network_us) * 1e-6);
}

/* The pipeline from filling to draining: the slowest stage works m times, the others add one pass
 * each, or where chunks take turns one pass of a chunk. Exact for 1F1B. Each chunk sends to the
 * next, which costs nothing beside other passes. */
static double
pipeline_time(const struct run_case *r, const struct block_costs *costs, struct step_time *out)
{
	int64_t p = r->layout->pipeline_model_parallel_size;
	double m = (double)r->shape->num_microbatches, sum = 0, exchange = exchange_time(r);
	double chunks = layout_chunks(r->layout);
	struct stage_cost slowest = { 0 };

	for (int64_t i = 0; i < p; i++) {
		struct stage_cost s = stage_time(r, costs, i);

		sum += stage_total(&s);
		if (stage_total(&s) > stage_total(&slowest))
			slowest = s;
	}
	out->compute = m * slowest.compute;
	out->memory = m * slowest.memory;
	out->tp = m * slowest.tp;
	out->cp = m * slowest.cp;
	out->ep = m * slowest.ep;
	out->bubble = (sum - stage_total(&slowest)) / chunks + (double)(p - 1) * exchange;
	out->other = m * slowest.host + (r->layout->overlap_p2p ? 0 : m * chunks * exchange);
	return stage_total(&slowest);
}

/* What of a collective beside `room` seconds of computation is not hidden: it slows the computation
 * down even where it fits. */
static double
exposed(const struct hardware *hw, double seconds, double room)
{
	return fmax(seconds * (1 - hw->dp_overlap), seconds - room);
}

/* Gradients over the data and context ranks, new weights back, and a tied table between the ends of
 * the pipeline. Sharded gradients are reduced once per micro batch, sharded weights gathered once
 * per pass. Gradients travel in the precision of main gradients, weights in the run's type. */
static double
gradient_time(const struct run_case *r, double pass)
{
	const struct layout *l = r->layout;
	unsigned data_ranks = AX_BIT(AX_CP) | AX_BIT(AX_DP);
	int64_t t = l->tensor_model_parallel_size, p = l->pipeline_model_parallel_size;
	double real = (double)dtype_size(memory_compute(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double table = (double)(layout_vocab(l, r->model) / t * r->model->hidden_size) * real;
	int64_t m = r->shape->num_microbatches;
	int64_t passes = r->shape->recompute.granularity == RECOMPUTE_FULL ? 3 : 2;
	int64_t reductions = r->shape->sharding >= SHARDING_GRADS ? m : 1;
	int64_t gathers = r->shape->sharding == SHARDING_PARAMS ? passes * m : 1;
	double reduce = ring_along(r, data_ranks, (double)r->elements * real),
	       gather = ring_along(
		   r, data_ranks, (double)r->elements * (r->shape->sharding ? act : real));
	double seconds = (double)reductions * exposed(r->hw, reduce, 2 * pass / 3) +
	    (double)gathers * exposed(r->hw, gather, pass / 3);

	if (p > 1 && !r->model->untie_embeddings_and_output_weights)
		seconds += time_all_reduce(r, 2, layout_stride(l, AX_PP) * (p - 1), table);
	return seconds;
}

/* What an update rule with whole matrices does with them. */
struct matrices {
	double share; /* of the model's parameters */
	double flops; /* of a rank, of one Newton-Schulz iteration on each */
};

/* The iterations on a matrix and those like it are spread over all ranks, or where nothing is
 * sharded over those that hold the model once together. */
static void
count_matrices(const struct run_case *r, struct matrices *m)
{
	const struct layout *l = r->layout;
	double all = 0, matrices = 0;

	m->flops = 0;
	for (int i = 0; i < r->stages->num_params; i++) {
		const struct param *p = &r->stages->table[i];
		double elements = (double)param_elements(p);
		int64_t holders = param_among_experts(p, l) ? layout_expert_holders(l)
							    : l->tensor_model_parallel_size;

		all += elements;
		if (!param_is_layer_matrix(p, r->model))
			continue;
		matrices += elements;
		m->flops += cut_flops(p->shape[0], p->shape[1]) /
		    (double)(r->shape->sharding ? layout_world(l)
						: holders * l->pipeline_model_parallel_size);
	}
	m->share = matrices / all;
}

/* An update on the host: the bytes of its arrays at the rate of the host's memory, which its ranks
 * share, after the gradients came and before the weights go. Measured: docs/SPEED.md 4. */
static double
host_update(const struct run_case *r, double elements, double bytes)
{
	static const double memory = 110e9;
	double real = (double)dtype_size(memory_compute(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype),
	       ranks = fmin(r->hw->gpus_per_node, (double)layout_world(r->layout));

	return elements *
	    (bytes * ranks / memory +
		(real + act) / (r->hw->host_bandwidth * 1e9 * r->hw->link_efficiency));
}

/* Per owned parameter: gradient, master weight and moments read, master weight, moments and weight
 * written; the gradient read once more for its norm. Gradients of all parameters are cleared, and
 * 8-bit copies of weights and their transposes made. There are as many Newton-Schulz iterations as
 * by default. */
static void
optimizer_time(const struct run_case *r, struct step_time *out)
{
	enum { ITERATIONS = 5 };
	double real = (double)dtype_size(memory_compute(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double on_host, states = 0, grads = (double)dtype_size(memory_main_grads(r->shape));
	double copies_of_weights = r->shape->fp8.format == FP8_NONE ? 0 : 2 + 1 + 1;
	double masters = r->shape->optim.low_bits ? 2 * (2 + act) : 2 * real + act;
	const struct optim_rule *rule = r->shape->rule;
	struct matrices m = { 0 };

	if (rule && rule->matrix_states) {
		count_matrices(r, &m);
		out->compute += ITERATIONS * m.flops /
		    (hardware_peak(r->hw, memory_update(r->shape)) * r->hw->gemm_efficiency);
	}
	for (int i = 0; i < optim_num_states(rule); i++)
		states += (double)dtype_size(memory_state(r->shape, i)) *
		    (optim_keeps(rule, i, true) * m.share +
			optim_keeps(rule, i, false) * (1 - m.share));
	on_host = r->shape->optimizer_offload * (double)r->optim_elements;
	out->other += host_update(r, on_host, grads + masters + 2 * states);
	out->memory += traffic(r->hw,
	    (double)r->optim_elements * grads +
		((double)r->optim_elements - on_host) * (grads + masters + 2 * states) +
		(double)r->elements * (real + copies_of_weights));
}

/* Adds up the parts; each doubling of the nodes adds one straggler. All fields of out are seconds;
 * total is the sum of the others. */
void
time_step_of(const struct run_case *r, const struct block_costs *costs, struct step_time *out)
{
	double nodes = ceil((double)layout_world(r->layout) / r->hw->gpus_per_node), pass;

	memset(out, 0, sizeof *out);
	pass = pipeline_time(r, costs, out);
	optimizer_time(r, out);
	out->dp = gradient_time(r, pass);
	out->other += r->hw->step_ms * 1e-3;
	out->total = out->compute + out->memory + out->tp + out->cp + out->ep + out->bubble +
	    out->dp + out->other;
	out->other += out->total * straggling * log2(nodes);
	out->total += out->total * straggling * log2(nodes);
}

void
time_step(const struct run_case *r, struct step_time *out)
{
	struct block_costs costs;

	time_blocks(r, &costs);
	time_step_of(r, &costs, out);
}
