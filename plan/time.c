/*
 * time.c - seconds of a training step
 *
 * A step's time follows from its arithmetic, the bytes through device memory and the bytes over
 * links, each divided by a rate and an efficiency of plan/hardware.c; parts that cannot overlap are
 * added. Formulas: spec/planning.md 3. The aim is the order of plans, not exact seconds: errors
 * that all plans share do no harm. Nothing is rounded or random, so equal inputs give equal tables.
 */
#include "plan/time.h"
#include "lib/model/cut.h"
#include "lib/model/work.h"

#include <stdlib.h>
#include <string.h>

/* The K at which a GEMM reaches half of its asymptotic rate; the edge of an output tile; straggling
 * per doubling of the nodes. */
enum { K_HALF = 128, TILE = 128 };
static const double straggling = 0.003;

/* The cost of one micro batch on a stage, forward and backward. */
struct stage_time {
	double compute, memory, tp, cp, ep;
	double again; /* of tp, when the forward pass is recomputed */
	double host;  /* copies of saved activations that nothing hides */
};

/* Seconds in which the stage is busy. */
static double
stage_total(const struct stage_time *s)
{
	return s->compute + s->memory + s->tp + s->cp + s->ep + s->host;
}

/* Traffic of bytes through the device memory. */
static double
traffic(const struct hardware *hw, double bytes)
{
	return bytes / (hw->memory_bandwidth * 1e9 * hw->memory_efficiency);
}

/* Bound by arithmetic or by memory, whichever takes longer. Seconds of c [m, n] = a [m, k] b [k,
 * n] in the run's type, or read in 8 bits; with accumulate c is F32, read and written. */
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

/* 8-bit copies of what a linear reads: of x in both passes, of the gradient of y and its transpose
 * at once; or of either once, where the gradient of W reads 16 bits. Nothing for 16 bits. */
static double
copies(const struct run_case *r, const struct product *p)
{
	enum { COPY = 2 + 1 };
	int x = p->wide_gradient ? COPY : 2 * COPY, dy = p->wide_gradient ? COPY : COPY + 1,
	    kernels = p->wide_gradient ? 2 : 3;

	if (!r->fp8)
		return 0;
	return traffic(r->hw, (double)p->rows * (x * (double)p->in + dy * (double)p->out)) +
	    kernels * r->hw->kernel_us * 1e-6;
}

/* A linear: forward, gradient of x, gradient of W into F32. */
static double
linear(const struct run_case *r, const struct product *p)
{
	struct run_case gradient = *r;

	gradient.fp8 = r->fp8 && !p->wide_gradient;
	return time_gemm(r, p->rows, p->out, p->in, false) +
	    time_gemm(r, p->rows, p->in, p->out, false) +
	    time_gemm(&gradient, p->out, p->in, p->rows, true) + copies(r, p);
}

/* Forward, and 2.5 times that backward: five GEMMs where the forward pass has two. */
static double
attention(const struct run_case *r, double flops)
{
	double e = r->hw->attention_efficiency;

	if (r->model->kv_channels % 8)
		e *= 0.9;
	return 3.5 * flops / (hardware_peak(r->hw, r->shape->dtype) * e);
}

/* How many of n ranks share a node, of which neighbours are so far apart in rank numbers. */
static double
near(const struct run_case *r, int64_t n, int64_t stride)
{
	return fmin(fmax(floor(r->hw->gpus_per_node / (double)stride), 1), (double)n);
}

/* One direction of a ring: each rank passes on (size - 1) / size of the bytes. Half of an all-
 * reduce. inside: how many of its ranks share a node. */
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

/* Each exchange sends to all others what a ring passes on. */
static double
context_exchanges(const struct run_case *r, const struct work *w)
{
	int64_t c = r->layout->context_parallel_size;
	double bytes = w->sent * (double)dtype_size(r->shape->dtype);

	if (c == 1 || w->exchanges == 0)
		return 0;
	bytes *= (double)c / (double)(c - 1) / w->exchanges;
	return w->exchanges * ring_along(r, AX_BIT(AX_CP), bytes);
}

/* What collectives of one way each are hidden by the products that they are beside (linear.c of
 * train/layers): an all-reduce by the gradient of the first weight and, where rows go in parts, a
 * scatter by the last product of all ranks' rows but the first. Where rows are shared, a gather by
 * the first product of all rows but the own, one by the gradient of the last product's input, one
 * more and a scatter by the gradients of the first one's input and weight. */
static double
hidden(const struct run_case *r, const struct work *w, double way)
{
	const struct product *p = &w->product[0], *q;
	double t = (double)r->layout->tensor_model_parallel_size, weight, last = 0;

	if (!w->beside || !r->shape->tp_comm_overlap)
		return 0;
	q = &w->product[w->num_products - 1];
	if (memory_in_parts(r->layout, r->shape))
		last = fmin(way, (1 - 1 / t) * time_gemm(r, q->rows, q->out, q->in, false));
	weight = time_gemm(r, p->out, p->in, p->rows, true);
	if (layout_row_shards(r->layout) == 1)
		return last + fmin(2 * way, weight);
	return last + fmin(way, weight) + fmin(way, time_gemm(r, p->rows, p->in, p->out, false)) +
	    fmin(way, (1 - 1 / t) * time_gemm(r, p->rows, p->out, p->in, false)) +
	    fmin(way, (1 - 1 / t) * time_gemm(r, q->rows, q->in, q->out, false));
}

/* One block of a kind on one micro batch. Kernels start three times: once forward and twice
 * backward. Tensor ranks all-reduce branches, or gather and scatter rows where they share them;
 * forward again goes one of a layer's four reductions, or three of ten gathers and scatters. Rows
 * go to any of the ranks that hold the experts once together, which are neighbours: to each as many
 * as a ring passes on. */
static struct stage_time
block_time(const struct run_case *r, const struct block_kind *kind)
{
	double act = (double)dtype_size(r->shape->dtype),
	       stream = (double)dtype_size(memory_stream(r->shape));
	double way = ring_along(r, AX_BIT(AX_TP), rows_bytes(r, r->shape->dtype)), all;
	bool shards = layout_row_shards(r->layout) > 1;
	int64_t holders = layout_expert_holders(r->layout);
	struct stage_time t = { 0 };
	struct work w;

	work_of(&w, kind, r->model, r->layout, r->shape);
	for (int i = 0; i < w.num_products; i++)
		t.compute += linear(r, &w.product[i]) *
		    (w.product[i].recompute & recompute_modules(&r->shape->recompute) ? 4 / 3.0
										      : 1);
	t.compute += attention(r, w.attention);
	t.memory = traffic(r->hw, act * w.elements + stream * w.stream) +
	    3 * w.kernels * r->hw->kernel_us * 1e-6;
	all = way * (shards ? w.scatters : 2 * w.reductions);
	t.tp = all - hidden(r, &w, way);
	t.again = all * (shards ? 0.3 : 0.25);
	t.cp = context_exchanges(r, &w);
	t.ep = w.routings * ring(r, holders, near(r, holders, 1), w.routed * act);
	return t;
}

/* Adds the blocks of a kind whose linears read 8-bit operands, or those that do not, which all cost
 * the same. Recomputed ones run forward once more: a third of both passes and of their exchanges,
 * of which experts have as many in either. */
static void
add_kind(struct stage_time *s, const struct run_case *r, const struct block_kind *kind,
    const struct block_range *of, const struct block *block)
{
	struct stage_time one = block_time(r, kind);
	int count = 0, recomputed = 0;

	for (int i = of->first; i < of->end; i++) {
		bool is = block[i].kind == kind && (block[i].fp8 >= 0) == r->fp8;

		count += is;
		recomputed += is && block[i].recompute_chunk >= 0;
	}
	s->compute += one.compute * (count + recomputed / 3.0);
	s->memory += one.memory * (count + recomputed / 3.0);
	s->tp += one.tp * count + one.again * recomputed;
	s->cp += one.cp * (count + recomputed / 3.0);
	s->ep += one.ep * (count + recomputed / 2.0);
}

/* Saved activations go to the host beside a forward pass and come back beside a backward pass,
 * which takes twice as long: what is left of the copies. */
static double
stash_time(const struct run_case *r, int64_t stage, double busy)
{
	struct memory_plan m;
	double way;

	if (!r->shape->offloaded_layers)
		return 0;
	memory_plan_stage(&m, r->stages, r->shape, (int)stage);
	way = (double)m.stash_host_bytes * layout_chunks(r->layout) /
	    (r->hw->host_bandwidth * 1e9 * r->hw->link_efficiency);
	memory_release(&m);
	return fmax(way - busy / 3, 0) + fmax(way - 2 * busy / 3, 0);
}

/* The blocks of a stage; each kind is priced once in each precision. */
static struct stage_time
stage_time(const struct run_case *r, int64_t stage)
{
	struct run_case eight = *r;
	struct stage_time s = { 0 };
	struct block *block;
	struct block_range all = { 0,
		block_list(r->model, r->layout, r->shape, (int)stage, &block) };

	eight.fp8 = true;
	for (const struct block_kind *const *k = block_kinds; *k; k++) {
		add_kind(&s, r, *k, &all, block);
		add_kind(&s, &eight, *k, &all, block);
	}
	free(block);
	s.host = stash_time(r, stage, stage_total(&s));
	return s;
}

/* Hands the activations of a micro batch on, and its gradients back: inside a node where all stages
 * of a pipeline share one. */
static double
exchange_time(const struct run_case *r)
{
	const struct hardware *hw = r->hw;
	double bytes =
	    rows_bytes(r, memory_stream(r->shape)) / (double)layout_row_shards(r->layout);
	int64_t p = r->layout->pipeline_model_parallel_size;
	bool inside = (double)(p * layout_stride(r->layout, AX_PP)) <= hw->gpus_per_node;
	double bus = inside ? hw->link_bandwidth * hw->link_efficiency
			    : hw->network_bandwidth * hw->network_efficiency;

	if (p == 1)
		return 0;
	return 2 * (bytes / (bus * 1e9) + (inside ? hw->link_us : hw->network_us) * 1e-6);
}

/* Fills, runs and drains the pipeline: the slowest stage works m times, the others add one pass
 * each, or where chunks take turns one pass of a chunk. Exact for 1F1B. Each chunk hands over,
 * which costs nothing beside other passes. */
static void
pipeline_time(const struct run_case *r, struct step_time *out)
{
	int64_t p = r->layout->pipeline_model_parallel_size;
	double m = (double)r->shape->num_microbatches, sum = 0, hand_over = exchange_time(r);
	double chunks = layout_chunks(r->layout);
	struct stage_time slowest = { 0 };

	for (int64_t i = 0; i < p; i++) {
		struct stage_time s = stage_time(r, i);

		sum += stage_total(&s);
		if (stage_total(&s) > stage_total(&slowest))
			slowest = s;
	}
	out->compute = m * slowest.compute;
	out->memory = m * slowest.memory;
	out->tp = m * slowest.tp;
	out->cp = m * slowest.cp;
	out->ep = m * slowest.ep;
	out->bubble = (sum - stage_total(&slowest)) / chunks + (double)(p - 1) * hand_over;
	out->other = m * slowest.host + (r->layout->overlap_p2p ? 0 : m * chunks * hand_over);
}

/* Gradients over the data and context ranks, new weights back, and a tied table between the ends of
 * the pipeline. Sharded gradients are reduced once per micro batch, sharded weights gathered once
 * per pass. Gradients travel in the precision of main gradients, weights in the run's type. */
static double
gradient_time(const struct run_case *r)
{
	const struct layout *l = r->layout;
	unsigned replicas = AX_BIT(AX_CP) | AX_BIT(AX_DP);
	int64_t t = l->tensor_model_parallel_size, p = l->pipeline_model_parallel_size;
	double real = (double)dtype_size(memory_real(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double table = (double)(layout_vocab(l, r->model) / t * r->model->hidden_size) * real;
	int64_t m = r->shape->num_microbatches;
	int64_t passes = r->shape->recompute.granularity == RECOMPUTE_FULL ? 3 : 2;
	int64_t reductions = r->shape->sharding >= SHARDING_GRADS ? m : 1;
	int64_t gathers = r->shape->sharding == SHARDING_PARAMS ? passes * m : 1;
	double seconds = (double)reductions * ring_along(r, replicas, (double)r->elements * real);

	seconds += (double)gathers *
	    ring_along(r, replicas, (double)r->elements * (r->shape->sharding ? act : real));
	seconds *= 1 - r->hw->dp_overlap;
	if (p > 1 && !r->model->untie_embeddings_and_output_weights)
		seconds += time_all_reduce(r, 2, layout_stride(l, AX_PP) * (p - 1), table);
	return seconds;
}

/* What an update rule with whole matrices does with them. */
struct matrices {
	double share; /* of the model's parameters */
	double flops; /* of a rank, of one Newton-Schulz iteration on each */
};

/* Over how many ranks the iterations on a matrix and its like are spread: all, or where nothing is
 * sharded those that hold the model's once together. */
static double
matrix_ranks(const struct run_case *r, const struct param *p)
{
	const struct layout *l = r->layout;
	int64_t holders =
	    param_among_experts(p, l) ? layout_expert_holders(l) : l->tensor_model_parallel_size;

	return (double)(r->shape->sharding ? layout_world(l)
					   : holders * l->pipeline_model_parallel_size);
}

static void
count_matrices(const struct run_case *r, struct matrices *m)
{
	double all = 0, matrices = 0;

	m->flops = 0;
	for (int i = 0; i < r->stages->num_params; i++) {
		const struct param *p = &r->stages->table[i];
		double elements = (double)param_elements(p);

		all += elements;
		if (!param_is_layer_matrix(p, r->model))
			continue;
		matrices += elements;
		m->flops += cut_flops(p->shape[0], p->shape[1]) / matrix_ranks(r, p);
	}
	m->share = matrices / all;
}

/* Per owned parameter: gradient, master weight and moments read, the last three and the weight
 * written; the norm of the gradient once more. Gradients are cleared for every parameter, and 8-bit
 * copies of weights and their transposes made. Newton-Schulz iterations are as many as by default.
 */
static void
optimizer_time(const struct run_case *r, struct step_time *out)
{
	enum { ITERATIONS = 5 };
	double real = (double)dtype_size(memory_real(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double states = 0, grads = (double)dtype_size(memory_own_grads(r->shape));
	double copies_of_weights = r->shape->fp8.format == FP8_NONE ? 0 : 2 + 1 + 1;
	double masters = r->shape->optim.remainders ? 2 * (2 + act) : 2 * real + act;
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
	out->memory += traffic(r->hw,
	    (double)r->own_elements * (2 * grads + masters + 2 * states) +
		(double)r->elements * (real + copies_of_weights));
}

/* Adds up the parts; each doubling of the nodes adds one straggler. All fields of out are seconds;
 * total is the sum of the others. */
void
time_step(const struct run_case *r, struct step_time *out)
{
	double nodes = ceil((double)layout_world(r->layout) / r->hw->gpus_per_node);

	memset(out, 0, sizeof *out);
	pipeline_time(r, out);
	optimizer_time(r, out);
	out->dp = gradient_time(r);
	out->other += r->hw->step_ms * 1e-3;
	out->total = out->compute + out->memory + out->tp + out->cp + out->ep + out->bubble +
	    out->dp + out->other;
	out->other += out->total * straggling * log2(nodes);
	out->total += out->total * straggling * log2(nodes);
}
