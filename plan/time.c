/*
 * time.c - seconds of a training step
 *
 * A step is counted from the arithmetic, the bytes through device memory and the bytes over
 * links, each divided by a rate and an efficiency of plan/hardware.c; the parts are added where
 * they cannot overlap. Formulas: spec/planning.md 3. The aim is the order of plans, not seconds:
 * errors that all plans share do no harm. Nothing here is rounded or random, so equal inputs
 * give equal tables.
 */
#include "plan/time.h"

#include <string.h>

/* Rows of K at which a product reaches half of its asymptote; edge of an output tile; straggling
 * per doubling of the nodes. */
enum { K_HALF = 128, TILE = 128 };
static const double straggling = 0.003;

/* Other kernels of a layer: two norms, RoPE, attention, activation, two residual sums. */
enum { LAYER_KERNELS = 7 };

/* What one micro batch costs a stage, forward and backward. */
struct stage_time {
	double compute, memory, tp;
};

/* What the stage is busy with. */
static double
stage_total(const struct stage_time *s)
{
	return s->compute + s->memory + s->tp;
}

/* Part of the units that work in the waves of output tiles, rows and columns beyond the edge
 * counted as idle. Devices without units (num_sms 0, the CPU) have no waves. */
static double
tile_efficiency(const struct hardware *hw, int64_t m, int64_t n)
{
	double tiles = ceil((double)m / TILE) * ceil((double)n / TILE);

	if (hw->num_sms < 1)
		return 1;
	return (double)m * (double)n / (ceil(tiles / hw->num_sms) * hw->num_sms * TILE * TILE);
}

/* Bound by arithmetic or by memory, whichever takes longer. Seconds of c [m, n] = a [m, k] b [k,
 * n] in the run's type; with accumulate c is F32, read and written. */
double
time_gemm(const struct run_case *r, int64_t m, int64_t n, int64_t k, bool accumulate)
{
	const struct hardware *hw = r->hw;
	double e =
	    hw->gemm_efficiency * (double)k / (double)(k + K_HALF) * tile_efficiency(hw, m, n);
	double element = (double)dtype_size(r->shape->dtype), mn = (double)m * (double)n;
	double bytes = element * ((double)m * (double)k + (double)k * (double)n) +
	    mn * (accumulate ? 8 : element);
	double flop_time, byte_time = bytes / (hw->memory_bandwidth * 1e9 * hw->memory_efficiency);

	/* Rows that are no multiple of 64 elements miss the fast loads of 16-bit products. */
	if (hw->num_sms > 0 && (n % 64 || k % 64))
		e *= 0.8;
	flop_time = 2 * mn * (double)k / (hardware_peak(hw, r->shape->dtype) * e);
	return (flop_time > byte_time ? flop_time : byte_time) + hw->kernel_us * 1e-6;
}

/* y = x W^T for all rows: forward, gradient of x, gradient of W into F32. */
static double
linear(const struct run_case *r, int64_t rows, int64_t out, int64_t in)
{
	return time_gemm(r, rows, out, in, false) + time_gemm(r, rows, in, out, false) +
	    time_gemm(r, out, in, rows, true);
}

/* Causal attention of this rank's heads, forward and 2.5 times that backward. 3.5 is 1 + 2.5:
 * the backward pass makes five products where the forward pass makes two. A window is shorter at
 * the start of the sequence, hence the quadratic term. */
static double
attention(const struct run_case *r)
{
	const struct model_config *c = r->model;
	double s = (double)r->shape->seq_length, w = (double)c->window_size, seen = s / 2,
	       e = r->hw->attention_efficiency;
	double width = (double)(c->num_attention_heads / r->layout->tensor_model_parallel_size *
	    c->kv_channels);

	if (c->window_size && w < s)
		seen = w - w * w / (2 * s);
	if (c->kv_channels % 8)
		e *= 0.9;
	return 3.5 * 4 * (double)r->shape->micro_batch_size * s * seen * width /
	    (hardware_peak(r->hw, r->shape->dtype) * e);
}

/* Traffic of bytes through the device memory. */
static double
traffic(const struct hardware *hw, double bytes)
{
	return bytes / (hw->memory_bandwidth * 1e9 * hw->memory_efficiency);
}

/* One direction of a ring: each rank passes on (size - 1) / size of the bytes. Half of an all-
 * reduce. stride is the distance of neighbours' rank numbers, which tells how many of the group
 * share a node. */
static double
ring(const struct run_case *r, int64_t size, int64_t stride, double bytes)
{
	const struct hardware *hw = r->hw;
	double inside = floor(hw->gpus_per_node / (double)stride), seconds = 0, nodes,
	       n = (double)size;

	if (size == 1)
		return 0;
	inside = inside < 1 ? 1 : inside > n ? n : inside;
	nodes = ceil(n / inside);
	if (inside > 1)
		seconds = (inside - 1) / inside * bytes /
			(hw->link_bandwidth * 1e9 * hw->link_efficiency) +
		    hw->link_us * 1e-6;
	/* Between nodes each rank carries what the reduction inside left it. */
	if (nodes > 1)
		seconds += (nodes - 1) / nodes * bytes / inside /
			(hw->network_bandwidth * 1e9 * hw->network_efficiency) +
		    hw->network_us * 1e-6 * log2(nodes);
	return seconds;
}

/* Reduce-scatter and all-gather, one direction each. bytes are those of the array, not of what
 * is sent. */
double
time_all_reduce(const struct run_case *r, int64_t size, int64_t stride, double bytes)
{
	return 2 * ring(r, size, stride, bytes);
}

/* All-reduces of the residual stream's width. */
static double
tensor_reductions(const struct run_case *r, int count)
{
	double bytes =
	    (double)(r->shape->seq_length * r->shape->micro_batch_size * r->model->hidden_size) *
	    (double)dtype_size(r->shape->dtype);

	return count * time_all_reduce(r, r->layout->tensor_model_parallel_size, 1, bytes);
}

/* One layer: four products, attention, kernels bound by memory, two all-reduces forward and two
 * backward. Backward takes twice the passes of forward over activations, hence the 3. */
static struct stage_time
layer_time(const struct run_case *r)
{
	const struct model_config *c = r->model;
	int64_t t = r->layout->tensor_model_parallel_size, h = c->hidden_size,
		f = c->ffn_hidden_size / t;
	int64_t q = c->num_attention_heads / t * c->kv_channels,
		kv = layout_local_groups(r->layout, c) * c->kv_channels;
	int64_t rows = r->shape->seq_length * r->shape->micro_batch_size,
		fc1 = model_gated(c) ? 2 * f : f;
	double passes = 8 * (double)h + (double)fc1 + (double)f,
	       element = (double)dtype_size(r->shape->dtype);
	struct stage_time s;

	s.compute = linear(r, rows, q + 2 * kv, h) + linear(r, rows, h, q) +
	    linear(r, rows, fc1, h) + linear(r, rows, h, f) + attention(r);
	s.memory = traffic(r->hw, 3 * element * passes * (double)rows) +
	    3 * LAYER_KERNELS * r->hw->kernel_us * 1e-6;
	s.tp = tensor_reductions(r, 4);
	return s;
}

/* The output product and the loss of the last stage. */
static struct stage_time
head_time(const struct run_case *r)
{
	int64_t rows = r->shape->seq_length * r->shape->micro_batch_size;
	int64_t v = layout_vocab(r->layout, r->model) / r->layout->tensor_model_parallel_size;
	double element = (double)dtype_size(r->shape->dtype);
	struct stage_time s;

	s.compute = linear(r, rows, v, r->model->hidden_size);
	s.memory = traffic(r->hw, 8 * element * (double)v * (double)rows);
	s.tp = tensor_reductions(r, 1);
	return s;
}

/* Layers of the stage that the backward pass runs forward once more; a forward pass is a third of
 * what layer_time counts, and its last product and reduction are left out. */
static double
redone_layers(const struct run_case *r, int64_t layers)
{
	const struct recompute *how = &r->shape->recompute;

	if (how->granularity != RECOMPUTE_FULL)
		return 0;
	return how->method == RECOMPUTE_UNIFORM || how->num_layers > layers
	    ? (double)layers
	    : (double)how->num_layers;
}

/* The layers of a stage, with the embedding of the first and the head of the last. */
static struct stage_time
stage_time(const struct run_case *r, int64_t stage)
{
	int64_t p = r->layout->pipeline_model_parallel_size, layers = r->model->num_layers / p;
	double passes = (double)layers + redone_layers(r, layers) / 3;
	struct stage_time one = layer_time(r),
			  s = { one.compute * passes, one.memory * passes,
				  one.tp * ((double)layers + redone_layers(r, layers) / 4) };

	if (stage == 0) {
		s.memory += traffic(r->hw,
		    4.0 * (double)dtype_size(r->shape->dtype) *
			(double)(r->model->hidden_size * r->shape->seq_length *
			    r->shape->micro_batch_size));
		s.tp += tensor_reductions(r, 1);
	}
	if (stage == p - 1) {
		struct stage_time head = head_time(r);

		s.compute += head.compute;
		s.memory += head.memory;
		s.tp += head.tp;
	}
	return s;
}

/* Hands the activations of a micro batch on, and its gradients back. Neighbouring stages are far
 * apart in rank numbers, so they share a node only when the whole run does. */
static double
exchange_time(const struct run_case *r)
{
	const struct hardware *hw = r->hw;
	double bytes =
	    (double)(r->shape->seq_length * r->shape->micro_batch_size * r->model->hidden_size) *
	    (double)dtype_size(r->shape->dtype);
	bool inside = (double)layout_world(r->layout) <= hw->gpus_per_node;
	double bus = inside ? hw->link_bandwidth * hw->link_efficiency
			    : hw->network_bandwidth * hw->network_efficiency;

	if (r->layout->pipeline_model_parallel_size == 1)
		return 0;
	return 2 * (bytes / (bus * 1e9) + (inside ? hw->link_us : hw->network_us) * 1e-6);
}

/* Fills, runs and drains the pipeline: the slowest stage works m times, the others once around
 * it. Exact for 1F1B. Stages between the ends are alike: one is timed for all of them. */
static void
pipeline_time(const struct run_case *r, struct step_time *out)
{
	int64_t p = r->layout->pipeline_model_parallel_size, kinds = p < 3 ? p : 3;
	int64_t stages[3] = { 0, p - 1, 1 };
	double m = (double)r->shape->num_microbatches, sum = 0, hand_over = exchange_time(r);
	struct stage_time slowest = { 0 };

	for (int64_t i = 0; i < kinds; i++) {
		struct stage_time s = stage_time(r, stages[i]);

		sum += stage_total(&s) * (i == 2 ? (double)(p - 2) : 1);
		if (stage_total(&s) > stage_total(&slowest))
			slowest = s;
	}
	out->compute = m * slowest.compute;
	out->memory = m * slowest.memory;
	out->tp = m * slowest.tp;
	out->bubble = sum - stage_total(&slowest) + (double)(p - 1) * hand_over;
	out->other = m * hand_over;
}

/* Gradients over the data ranks, new weights back, and a tied table between the ends of the
 * pipeline. Gradients travel in the precision of main gradients, weights in the run's type. */
static double
gradient_time(const struct run_case *r)
{
	const struct layout *l = r->layout;
	int64_t d = l->data_parallel_size, t = l->tensor_model_parallel_size,
		p = l->pipeline_model_parallel_size;
	double real = (double)dtype_size(memory_real(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double table = (double)(layout_vocab(l, r->model) / t * r->model->hidden_size) * real;
	double seconds = ring(r, d, t, (double)r->elements * real);

	seconds += ring(r, d, t, (double)r->elements * (r->shape->sharding ? act : real));
	seconds *= 1 - r->hw->dp_overlap;
	if (p > 1 && !r->model->untie_embeddings_and_output_weights)
		seconds += time_all_reduce(r, 2, t * d * (p - 1), table);
	return seconds;
}

/* Per owned parameter: gradient, master weight and moments read, the last three and the weight
 * written; the norm of the gradient once more. Gradients are cleared for every parameter. */
static double
optimizer_time(const struct run_case *r)
{
	double real = (double)dtype_size(memory_real(r->shape->dtype)),
	       act = (double)dtype_size(r->shape->dtype);
	double states = r->shape->optimizer_states;

	return traffic(r->hw,
	    (double)r->own_elements * (real * (4 + 2 * states) + act) + (double)r->elements * real);
}

/* Adds the parts up; each doubling of the nodes waits for one more straggler. Seconds in every
 * field of out; total is the sum of the others. */
void
time_step(const struct run_case *r, struct step_time *out)
{
	double nodes = ceil((double)layout_world(r->layout) / r->hw->gpus_per_node);

	memset(out, 0, sizeof *out);
	pipeline_time(r, out);
	out->memory += optimizer_time(r);
	out->dp = gradient_time(r);
	out->other += r->hw->step_ms * 1e-3;
	out->total = out->compute + out->memory + out->tp + out->bubble + out->dp + out->other;
	out->other += out->total * straggling * log2(nodes);
	out->total += out->total * straggling * log2(nodes);
}
