/*
 * price.c - seconds of operations
 *
 * An operation takes the longer of its arithmetic and of its bytes, each at a rate that the device
 * reaches, and the start of its kernel. Nothing is rounded or random, so equal inputs give equal
 * tables.
 */
#include "plan/price.h"
#include "lib/model/block/workspace.h"
#include "lib/model/hosts.h"

#include <string.h>

/* --- products --------------------------------------------------------------------------------- */

/* Scales of blocks of 128 in place of one of a tensor: 22.7 against 18.2 ms for the GEMMs of a
 * layer of Llama 8B, of which the copies take 1.5 (results.tsv, 4c83f22e). */
static const double of_blocks = 0.8;
/* GEMMs of experts in one kernel beside one of the same size, in the mean of two models
 * (docs/SPEED.md 5). */
static const double of_groups = 0.97;

/* Traffic of bytes through the device memory. */
static double
moved(const struct hardware *hw, double bytes)
{
	return bytes / (hw->memory_bandwidth * 1e9 * hw->memory_efficiency);
}

/* What a gradient of weights costs beside its GEMM: the kernel that adds it where programs have
 * one. */
static double
addition(const struct hardware *hw, const struct operation *o)
{
	double weights = (double)o->m * (double)o->n * (double)o->count;

	if (!o->accumulate || hw->gradient_bytes <= 0)
		return 0;
	return moved(hw, hw->gradient_bytes * weights) + hw->kernel_us * 1e-6;
}

static double
product(const struct run_case *r, const struct operation *o)
{
	const struct hardware *hw = r->hw;
	double m = (double)o->m, n = (double)o->n, k = (double)o->k, count = (double)o->count;
	double together = o->grouped ? count : 1, times = count / together;
	double out =
	    o->accumulate && hw->gradient_bytes <= 0 ? 8 : (double)dtype_size(r->shape->dtype);
	double bytes = together * ((double)dtype_size(o->type) * (m * k + k * n) + out * m * n);
	double e = hw->gemm_efficiency * hardware_gemm_share(hw, m, n, k, together), flop_time;
	bool eight = dtype_is_float8(o->type);
	int align = hw->fp8 ? 8 : 64;

	if (eight)
		e *= hw->fp8_efficiency * (o->blocks ? of_blocks : 1);
	if (o->grouped)
		e *= of_groups;
	/* Rows that do not begin on a multiple of 16 bytes, or before Hopper of 128, miss the fast
	 * loads. */
	if (hw->num_sms > 0 && (o->n % align || o->k % align))
		e *= 0.8;
	flop_time = 2 * together * m * n * k / (hardware_peak(hw, o->type) * e);
	return times * (fmax(flop_time, moved(hw, bytes)) + hw->kernel_us * 1e-6) + addition(hw, o);
}

/* --- attention -------------------------------------------------------------------------------- */

/* The rate of an implementation over that of our kernels for Hopper: theirs with capped scores and
 * with wide heads, cuDNN's, the tiled kernels', in both passes together. Source: docs/gpu.md 1.6.
 * That of other programs with dropout is what published rows want: docs/planning.md 8. */
static double
implementation(const struct run_case *r)
{
	const struct model_config *c = r->model;
	bool capped = c->attn_logit_softcapping > 0, wide = c->kv_channels > 128,
	     tiled = capped || r->shape->reset_attention_mask || c->attention_dropout > 0 ||
	    c->softmax_type != SOFTMAX_VANILLA;

	if (!r->hw->hopper)
		return 1;
	if (c->attention_dropout > 0 && !hardware_is_own(r->hw))
		return 0.33;
	if (hopper_serves(c, r->shape, true))
		return capped ? (wide ? 0.66 : 0.75) : wide ? 0.71 : 1;
	return tiled ? 0.27 : 0.9;
}

/* Both passes of attention with so many forward FLOPs below the diagonal. Programs that store
 * scores multiply whole squares, and where heads do not begin on a multiple of 16 bytes without the
 * units for 16-bit GEMMs. BigScience's steps took a third longer with heads of 108 channels than of
 * 144 or 216. */
static double
attention_seconds(const struct run_case *r, const struct operation *o, double forward)
{
	const struct hardware *hw = r->hw;
	int64_t d = r->model->kv_channels;
	double rate = hw->attention_efficiency * hardware_attention_share(o->keys, (double)d) *
	    (d % 8 ? 0.9 : 1);

	if (hw->attention_passes > 0 && d % 8)
		return 3 * 2 * forward / (hardware_peak(hw, DTYPE_F32) * hw->gemm_efficiency);
	return 3.5 * forward / (hardware_peak(hw, r->shape->dtype) * rate * implementation(r));
}

/* Seconds that scores take which pass through memory. Of the passes those of dropout are left out
 * where a model has none. Forward, GEMM and softmax write them and softmax and GEMM read them, and
 * dropout reads and writes them and half as much of a mask; backward, three GEMMs read them, one
 * writes them, and softmax reads two arrays and writes one. */
static double
stored_scores(const struct run_case *r, const struct operation *o, bool backward)
{
	static const double softmax[2] = { 4, 7 }, dropout = 2.5;
	double share =
	    r->model->attention_dropout > 0 ? 1 : softmax[backward] / (softmax[backward] + dropout);

	return moved(
	    r->hw, share * r->hw->attention_passes * (backward ? 2.2 : 1) * 2 * 2 * o->bytes);
}

/* Seconds in which our kernels draw which scores dropout keeps: tiled ones twice backward, once for
 * dq and once for dk and dv. Source: docs/gpu.md 1.6. */
static double
drawn_scores(const struct run_case *r, const struct operation *o, bool backward)
{
	static const double each[2] = { 1.75e-12, 2.1e-12 };
	bool twice = backward && !hopper_serves(r->model, r->shape, true);

	if (r->model->attention_dropout <= 0 || !hardware_is_own(r->hw) || r->hw->num_sms <= 0)
		return 0;
	return (twice ? 2 : 1) * each[backward] * o->bytes * 132 / (double)r->hw->num_sms;
}

/* A quarter of the time is the forward pass's: docs/gpu.md 1.6. */
static double
softmax_attention(const struct run_case *r, const struct operation *o, bool backward)
{
	const struct hardware *hw = r->hw;
	double both = attention_seconds(r, o, o->flops / (backward ? 2.5 : 1)), stored = 0;

	/* Programs that store scores compute them again with selective recomputation. */
	if (backward && hw->attention_passes > 0 &&
	    r->shape->recompute.granularity == RECOMPUTE_SELECTIVE)
		stored = both * 0.25 + stored_scores(r, o, false);
	return stored + both * (backward ? 0.75 : 0.25) + stored_scores(r, o, backward) +
	    drawn_scores(r, o, backward) + o->kernels * hw->kernel_us * 1e-6;
}

/* Linear attention goes from chunk to chunk, at a small share of the peak: docs/gpu.md 1.7. */
static double
attention(const struct run_case *r, const struct operation *o)
{
	static const double of_peak[2] = { 0.0139, 0.0110 };
	const struct hardware *hw = r->hw;
	bool backward = o->pass == OPERATION_BACKWARD;

	if (o->states && hardware_is_own(hw))
		return o->flops / (hardware_peak(hw, r->shape->dtype) * of_peak[backward]) +
		    o->kernels * hw->kernel_us * 1e-6;
	return softmax_attention(r, o, backward);
}

/* --- exchanges -------------------------------------------------------------------------------- */

/* Rows of 4 KiB between GPUs of a host go at 260 GB/s, where 338 of 450 are those of large arrays
 * (results.tsv, 7f200154). */
static const double of_rows = 260 / 338.0;
/* What four ranks of a host, which do not run at one speed, wait for each other: context ranks as a
 * share of attention's time, tensor ranks whose exchanges have nothing beside them as a share of
 * computation. Eight layers with four context ranks wait 68 ms beside 460 of attention
 * (results.tsv, 6a80849c), with two 6 to 30 ms beside 124 to 1,113; with two tensor ranks they wait
 * 116 ms where bytes take 70 and computation 836 (d3b59103). Context ranks of other programs, of
 * any number, wait 0.07. */
static const double of_attention = 0.1, of_others = 0.07, of_computation = 0.055;

/* How much the slowest of n ranks, whose times are independent, exceeds their mean, beside four:
 * the largest of n normal numbers is 0.56, 0.85 and 1.03 for 2, 3 and 4. That those of more are
 * independent is not known. */
static double
slowest_of(int64_t n)
{
	static const double of_fewer[] = { 0, 0, 0.54, 0.82 };

	return (size_t)n < sizeof of_fewer / sizeof *of_fewer ? of_fewer[n] : 1;
}

/* How many of n ranks share a node, when neighbours among them are `stride` apart in rank
 * numbers. */
static double
near(const struct run_case *r, int64_t n, int64_t stride)
{
	return fmin(fmax(floor(r->hw->gpus_per_node / (double)stride), 1), (double)n);
}

/* Bytes a second that a device sends to other hosts. */
static double
network(const struct hardware *hw)
{
	double share = hw->rails > 0 ? fmin(1, hw->rails / hw->gpus_per_node) : 1;

	return hw->network_bandwidth * 1e9 * hw->network_efficiency * share;
}

/* What a direction of an exchange between hosts takes beside its bytes: each host sends to all
 * others. */
static double
between_hosts(const struct hardware *hw, double hosts)
{
	double more =
	    hw->message_us > 0 ? (hosts - 1) * hw->message_us : (log2(hosts) - 1) * hw->network_us;

	return (hw->network_us + more) * 1e-6;
}

/* One direction of a ring: each rank passes on (size - 1) / size of the bytes. Half of an
 * all-reduce. `inside` of its ranks share a node. Our exchanges go inside nodes and between them
 * one after the other; rings of NCCL pass slices on over both at once, so that the slower counts.
 */
static double
ring(const struct run_case *r, int64_t size, double inside, double bytes)
{
	const struct hardware *hw = r->hw;
	double seconds = 0, between, nodes = ceil((double)size / inside);

	if (size == 1)
		return 0;
	if (inside > 1)
		seconds = (inside - 1) / inside * bytes /
			(hw->link_bandwidth * 1e9 * hw->link_efficiency) +
		    hw->link_us * 1e-6;
	if (nodes == 1)
		return seconds;
	/* Between nodes each rank sends its part of the reduction inside the node. */
	between = (nodes - 1) / nodes * bytes / inside / network(hw);
	if (hw->message_us <= 0)
		seconds = fmax(seconds - between, 0);
	return seconds + (between + between_hosts(hw, nodes));
}

/* Reduce-scatter and all-gather, one direction each. bytes is the size of the array, not of the
 * traffic. */
static double
all_reduce(const struct run_case *r, int64_t size, int64_t stride, double bytes)
{
	return 2 * ring(r, size, near(r, size, stride), bytes);
}

/* How many ranks differ on these axes alone, and how many of them share a node. */
struct ranks {
	int64_t size;
	double inside;
};

static struct ranks
ranks_along(const struct run_case *r, unsigned axes)
{
	struct ranks g = { 1, 1 };

	for (int a = 0; a < AX_COUNT; a++)
		if (axes & AX_BIT(a)) {
			int64_t n = layout_size(r->layout, (enum axis)a);

			g.size *= n;
			g.inside *= near(r, n, layout_stride(r->layout, (enum axis)a));
		}
	return g;
}

/* An exchange of data ranks: weights are gathered in an instance; gradients that are kept are
 * summed in one, and once a step over the ranks with equal shards, which gather the sums, or where
 * they share the optimizer's state the weights; others over all ranks, and those with equal shards
 * gather them. Source: docs/parallelism.md 5. */
static double
among_data(const struct run_case *r, const struct operation *o, struct ranks all)
{
	int64_t instances = layout_instances(r->layout), shards = all.size / instances;
	double own = fmin(all.inside, (double)shards), equal = fmax(1, all.inside / (double)shards),
	       part = o->bytes / (double)shards,
	       back = layout_state_instances(r->layout) == 1 ? 1
							     : (double)dtype_size(r->shape->dtype) /
		(double)dtype_size(memory_compute(r->shape->dtype));

	if (instances == 1)
		return ring(r, all.size, all.inside, o->bytes);
	if (!o->sums)
		return ring(r, shards, own, o->bytes);
	if (r->shape->sharding >= SHARDING_GRADS)
		return ring(r, shards, own, o->bytes) +
		    (1 + back) * ring(r, instances, equal, part) / (double)o->count;
	return ring(r, all.size, all.inside, o->bytes) + ring(r, instances, equal, part);
}

double
price_message(const struct run_case *r, double bytes, bool inside)
{
	const struct hardware *hw = r->hw;
	double bus = inside ? hw->link_bandwidth * 1e9 * hw->link_efficiency : network(hw);
	int64_t t = r->layout->tensor_model_parallel_size;
	bool whole = hw->stage_slices < 1 || layout_row_shards(r->layout) > 1;

	if (!whole)
		return ring(r, t, near(r, t, layout_stride(r->layout, AX_TP)), bytes) +
		    bytes / (double)t / bus + (inside ? hw->link_us : hw->network_us) * 1e-6;
	return bytes / bus + (inside ? hw->link_us : hw->network_us) * 1e-6;
}

bool
price_message_lands(const struct run_case *r, bool inside)
{
	return inside && hardware_is_own(r->hw) && r->hw->num_sms > 0;
}

/* To the next stage, over links of a node where all stages of a pipeline share one. */
static double
message(const struct run_case *r, double bytes)
{
	int64_t p = r->layout->pipeline_model_parallel_size;

	return price_message(
	    r, bytes, (double)(p * layout_stride(r->layout, AX_PP)) <= r->hw->gpus_per_node);
}

/* A direction of rows between the ranks of a host that share experts, or of all hosts where these
 * take no turns. */
static double
rows_inside(const struct run_case *r, const struct operation *o)
{
	int64_t ranks = layout_expert_inside(r->layout);

	return ring(r, ranks, near(r, ranks, 1), o->bytes) / of_rows;
}

/* And between hosts that take turns: each row, of those for all experts that it chose, once to each
 * other host. */
static double
rows_between(const struct run_case *r, const struct operation *o)
{
	double hosts = (double)layout_expert_hosts(r->layout),
	       chosen = (double)(r->model->moe_router_topk * layout_expert_slices(r->layout));

	if (hosts == 1)
		return 0;
	return (hosts - 1) * o->bytes / chosen / network(r->hw) + between_hosts(r->hw, hosts);
}

void
price_hosts(struct layout *l, const struct model_config *c, const struct hardware *hw)
{
	const struct host_places where = { .ranks_per_host = (int64_t)hw->gpus_per_node };

	l->host_ranks = where.ranks_per_host;
	l->expert_hosts = c->num_experts && hardware_is_own(hw) ? hosts_of_experts(l, &where) : 1;
}

/* Terms are added by a kernel, after the last of them has come: of n ranks it reads as many parts
 * and writes one. Between two GPUs rows are gathered at 350 GB/s and summed at 272 (results.tsv,
 * ca5deb13). */
static double
adding(const struct run_case *r, const struct operation *o, int64_t size)
{
	if (!o->sums || size == 1 || !hardware_is_own(r->hw) || r->hw->num_sms <= 0)
		return 0;
	return moved(r->hw, o->bytes * (1 + 1 / (double)size));
}

static double
exchange(const struct run_case *r, const struct operation *o)
{
	const struct layout *l = r->layout;
	int64_t holders = layout_expert_holders(l), same = layout_expert_data_ranks(l);
	struct ranks all;

	if (o->class == OPERATION_STAGES)
		return message(r, o->bytes);
	/* Others sum what tensor ranks hold whole in one call, and experts among data ranks. */
	if (o->class == OPERATION_TENSOR && o->pass == OPERATION_STEP && !hardware_is_own(r->hw))
		return 0;
	if (o->axes == AX_BIT(AX_PP)) /* the ends of a pipeline */
		return all_reduce(r, 2,
		    layout_stride(l, AX_PP) * (l->pipeline_model_parallel_size - 1), o->bytes);
	all = o->axes == OPERATION_EXPERT_DATA ? (struct ranks){ same, near(r, same, holders) }
					       : ranks_along(r, o->axes);
	return adding(r, o, all.size) +
	    (o->class == OPERATION_DATA ? among_data(r, o, all)
					: ring(r, all.size, all.inside, o->bytes));
}

/* --- all -------------------------------------------------------------------------------------- */

/* The rank that gets the most rows holds up the others; balanced routers are for benchmarks. The
 * constant is of four ranks. The deviation of the loads of n grows as the root of n - 1. */
static double
skew(const struct run_case *r, const struct operation *o)
{
	double ranks = (double)layout_expert_ranks(r->layout),
	       share = slowest_of(layout_expert_ranks(r->layout)) * fmin(1, sqrt((ranks - 1) / 3));

	return o->routed && !r->shape->random_logits ? 1 + share * (r->hw->expert_skew - 1) : 1;
}

/* The host's memory is shared by its ranks; a link goes both ways. */
static double
host(const struct run_case *r, const struct operation *o)
{
	double ranks = fmin(r->hw->gpus_per_node, (double)layout_world(r->layout));

	if (o->pass == OPERATION_STEP && !strcmp(o->name, "update on the host"))
		return o->bytes * ranks / (r->hw->host_update_bandwidth * 1e9);
	return o->bytes / (r->hw->host_bandwidth * 1e9 * r->hw->host_efficiency);
}

double
price_operation(const struct run_case *r, const struct operation *o)
{
	const struct hardware *hw = r->hw;
	double starts = o->kernels * hw->kernel_us * 1e-6;

	switch (o->class) {
	case OPERATION_PRODUCT: return skew(r, o) * product(r, o);
	case OPERATION_ATTENTION: return attention(r, o);
	case OPERATION_MEMORY: return skew(r, o) * moved(hw, hw->memory_passes * o->bytes) + starts;
	case OPERATION_UPDATE:
		return moved(hw, o->bytes) +
		    (o->flops > 0 ? o->flops / (hardware_peak(hw, o->type) * hw->gemm_efficiency)
				  : 0);
	case OPERATION_HOST: return host(r, o);
	case OPERATION_EXPERTS: return skew(r, o) * rows_inside(r, o) + rows_between(r, o);
	default: return skew(r, o) * exchange(r, o);
	}
}

/* What of an exchange the operations beside it hide. Parts wait for each other, so that a share of
 * it stays even where there is room. */
static double
hidden(const struct run_case *r, const struct operation *o, double seconds, const double *alone)
{
	double room = 0, most = seconds * r->hw->layer_overlap;

	/* Rows of other hosts come while a turn computes. */
	if (o->class == OPERATION_EXPERTS)
		most = rows_between(r, o);
	/* Other programs gather keys beside nothing. */
	if (o->class == OPERATION_CONTEXT && r->shape->context_form == CONTEXT_GATHER &&
	    !hardware_is_own(r->hw))
		return 0;
	for (int i = 0; i < o->num_beside; i++)
		room += o->beside[i].operation == OPERATION_ROOM
		    ? seconds
		    : o->beside[i].share * alone[o->beside[i].operation];
	return fmin(room, most);
}

static void
take(struct price *p, const struct operation *o, double seconds)
{
	p->part[o->class] += seconds;
	p->launches += o->kernels;
}

/* Adds what ranks wait for each other beside what their bytes take. */
static void
wait_for_others(const struct run_case *r, struct block_price *b)
{
	struct price *const of[] = { &b->forward, &b->again, &b->ending, &b->backward };
	int64_t c = r->layout->context_parallel_size, t = r->layout->tensor_model_parallel_size;
	double context = c > 1 ? of_others : 0, tensor = 0;

	if (hardware_is_own(r->hw)) {
		context = of_attention * slowest_of(c);
		tensor = r->shape->tp_comm_overlap ? 0 : of_computation * slowest_of(t);
	}

	for (int i = 0; i < 4; i++) {
		double *part = of[i]->part;

		part[OPERATION_CONTEXT] += context * part[OPERATION_ATTENTION];
		if (part[OPERATION_TENSOR] > 0)
			part[OPERATION_TENSOR] += tensor *
			    (part[OPERATION_PRODUCT] + part[OPERATION_ATTENTION] +
				part[OPERATION_MEMORY]);
	}
}

void
price_block(const struct run_case *r, const struct operation_list *x, struct block_price *out)
{
	double alone[OPERATIONS_MAX];

	memset(out, 0, sizeof *out);
	for (int i = 0; i < x->count; i++)
		alone[i] = price_operation(r, &x->item[i]);
	for (int i = 0; i < x->count; i++) {
		const struct operation *o = &x->item[i];
		bool forward = o->pass == OPERATION_FORWARD || (o->early && hardware_is_own(r->hw));
		double seconds = alone[i] - hidden(r, o, alone[i], alone);

		take(forward ? &out->forward : &out->backward, o, seconds);
		if (forward)
			take(&out->again, o, seconds);
		if (forward && (!o->ends || r->hw->whole_recompute >= 1))
			take(&out->ending, o, seconds);
	}
	wait_for_others(r, out);
}
