/*
 * time.c - seconds of a training step
 *
 * The operations of a block are priced once for each kind; a stage adds up its blocks, and its
 * passes are simulated with those of all other stages. Formulas: docs/planning.md 2. Nothing is
 * rounded or random, so equal inputs give equal tables.
 */
#include "plan/time.h"

#include <stdlib.h>
#include <string.h>

/* How much slower the slowest is for each doubling of the GPUs of a node, and of the nodes. Data
 * ranks on four H200s reach 95.4 % of the rate that one of them sustains, of which they wait 1 %
 * for exchanges, where one GPU alone reaches 98 to 99 % (results.tsv, d9f42012); Llama 3 70B loses
 * 1.6 % from 8 to 256 nodes. */
static const double straggling_inside = 0.008, straggling = 0.003;

/* Seconds of a micro batch on a stage, by class, and those that the device waits for the host; the
 * same by pass, of chunk j at pass[j * stages], and those of heads, which the last chunk has. */
struct stage_time {
	double part[OPERATION_CLASSES], waits;
	struct pass_cost *pass, heads;
	int stages, chunks;
};

void
time_blocks(const struct run_case *r, struct block_costs *out)
{
	bool eight = r->shape->fp8.format != FP8_NONE;
	struct operation_list x;

	memset(out, 0, sizeof *out);
	for (const struct block_kind *const *k = block_kinds; *k; k++) {
		if (!block_in_model(*k, r->model))
			continue;
		for (int i = 0; i <= eight; i++) {
			operations_of_block(&x, *k, i, r->model, r->layout, r->shape);
			price_block(r, &x, &out->kind[block_number(*k)][i]);
		}
	}
}

/* Adds a pass of a block; returns its seconds. A host that starts kernels more slowly than the
 * device runs them holds it up: a floor under the pass. One that waits for each kernel before it
 * starts the next adds to it. */
static double
add_pass(const struct run_case *r, struct stage_time *s, const struct price *p)
{
	double seconds = 0, starts = p->launches * r->hw->host_us * 1e-6, whole;

	for (int i = 0; i < OPERATION_CLASSES; i++) {
		s->part[i] += p->part[i];
		seconds += p->part[i];
	}
	whole = r->hw->launch_blocking >= 1 ? seconds + starts : fmax(starts, seconds);
	s->waits += whole - seconds;
	return whole;
}

static double
busy(const struct stage_time *s)
{
	double sum = s->waits;

	for (int i = 0; i < OPERATION_CLASSES; i++)
		sum += s->part[i];
	return sum;
}

static void
add_blocks(const struct run_case *r, const struct block_costs *costs, const struct block *b, int n,
    struct stage_time *s)
{
	for (int i = 0; i < n; i++) {
		const struct block_price *p = &costs->kind[block_number(b[i].kind)][b[i].fp8 >= 0];
		struct pass_cost *pass = &s->pass[b[i].chunk * s->stages];
		double forward = add_pass(r, s, &p->forward),
		       backward = add_pass(r, s, &p->backward);

		pass->forward += forward;
		pass->backward += backward;
		if (b[i].kind == &block_head) {
			s->heads.forward += forward;
			s->heads.backward += backward;
		}
		if (b[i].recompute_chunk >= 0)
			pass->backward +=
			    add_pass(r, s, block_recompute_ends(b, n, i) ? &p->ending : &p->again);
	}
}

/* What a pass whose layers take `busy_seconds` waits for copies of saved activations. Of the units
 * that leave, evenly spread, the first begins to be copied when it is done, and they go one after
 * the other; a unit waits for the copy of that whose place it takes. */
static double
wait_for_copies(const struct activation_offload_plan *p, double copies, double busy_seconds)
{
	double each = busy_seconds / (double)p->moved;

	return fmax(copies - (double)(p->places + p->copied - 2) * each, 0);
}

/* Adds what the passes through the chunks of a stage wait for copies of saved activations. A head
 * runs after all layers and before they run back. */
static void
add_activation_offload(const struct run_case *r, int64_t stage, struct stage_time *s)
{
	const struct pass_cost none = { 0 };
	struct memory_plan m;
	double copies;

	if (!r->shape->offloaded_layers)
		return;
	memory_plan_stage(&m, r->stages, r->shape, (int)stage);
	copies =
	    (double)m.offload_host_bytes / (r->hw->host_bandwidth * 1e9 * r->hw->host_efficiency);
	for (int j = 0; m.activation_offload.moved && j < s->chunks; j++) {
		struct pass_cost *pass = &s->pass[j * s->stages];
		const struct pass_cost *heads = j == s->chunks - 1 ? &s->heads : &none;
		double forward = wait_for_copies(
			   &m.activation_offload, copies, pass->forward - heads->forward),
		       back = wait_for_copies(
			   &m.activation_offload, copies, pass->backward - heads->backward);

		pass->forward += forward;
		pass->backward += back;
		s->part[OPERATION_HOST] += forward + back;
	}
	memory_release(&m);
}

/* pass: of the stage's first chunk, zero. */
static struct stage_time
stage_time(const struct run_case *r, const struct block_costs *costs, int64_t stage,
    struct pass_cost *pass)
{
	struct stage_time s = { .pass = pass,
		.stages = (int)r->layout->pipeline_model_parallel_size,
		.chunks = layout_chunks(r->layout) };
	struct block *block;
	int n = block_list(r->model, r->layout, r->shape, (int)stage, &block);

	add_blocks(r, costs, block, n, &s);
	free(block);
	add_activation_offload(r, stage, &s);
	return s;
}

double
time_model(const struct run_case *r, const struct block_costs *costs)
{
	struct layout one = { 1, 1, 1, 1 };
	struct train_shape plain = *r->shape;
	struct pass_cost pass = { 0 };
	struct stage_time s = { .pass = &pass, .stages = 1, .chunks = 1 };
	struct block *block;
	int n;

	plain.recompute = (struct recompute){ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1, 0 };
	n = block_list(r->model, &one, &plain, 0, &block);
	add_blocks(r, costs, block, n, &s);
	free(block);
	return busy(&s);
}

/* --- the pipeline ----------------------------------------------------------------------------- */

/* Whether some replica of a stage and of the next are on two hosts; the first comes after the last.
 */
static bool
leaves_host(const struct run_case *r, int64_t stage)
{
	int64_t p = r->layout->pipeline_model_parallel_size,
		stride = layout_stride(r->layout, AX_PP), next = (stage + 1) % p,
		low = stage < next ? stage : next, high = stage < next ? next : stage;
	double host = r->hw->gpus_per_node;

	return floor((double)(low * stride) / host) !=
	    floor((double)((high + 1) * stride - 1) / host);
}

/* x: of the step. */
static void
add_messages(const struct run_case *r, const struct operation_list *x, struct pipeline_costs *out)
{
	int64_t p = r->layout->pipeline_model_parallel_size;
	double bytes = 0, exposed_share = r->layout->overlap_p2p ? 1 : r->hw->stage_exposed;

	for (int i = 0; i < x->count; i++)
		if (x->item[i].class == OPERATION_STAGES)
			bytes = x->item[i].bytes;
	for (int64_t i = 0; i < p; i++) {
		bool inside = !leaves_host(r, i);

		out->message[i] = i < p - 1 || layout_chunks(r->layout) > 1
		    ? exposed_share * price_message(r, bytes, inside)
		    : 0;
		out->lands[i] = price_message_lands(r, inside);
	}
}

/* Fills in the costs of all stages; returns the slowest. */
static struct stage_time
all_stages(const struct run_case *r, const struct block_costs *costs,
    const struct operation_list *x, struct pipeline_costs *out)
{
	struct stage_time slowest = { .waits = 0 };

	memset(out->pass, 0, (size_t)layout_stages(r->layout) * sizeof *out->pass);
	for (int64_t i = 0; i < r->layout->pipeline_model_parallel_size; i++) {
		struct stage_time s = stage_time(r, costs, i, &out->pass[i]);

		if (i == 0 || busy(&s) > busy(&slowest))
			slowest = s;
	}
	add_messages(r, x, out);
	return slowest;
}

void
time_pipeline(const struct run_case *r, const struct block_costs *costs, struct pipeline_costs *out)
{
	struct operation_list x;

	operations_of_step(&x, &r->owned, r->model, r->layout, r->shape);
	all_stages(r, costs, &x, out);
}

static double
pass_of(const void *ctx, int virtual_stage, int microbatch, bool backward)
{
	const struct pass_cost *c = &((const struct pipeline_costs *)ctx)->pass[virtual_stage];

	(void)microbatch;
	return backward ? c->backward : c->forward;
}

static double
message_of(const void *ctx, int stage)
{
	return ((const struct pipeline_costs *)ctx)->message[stage];
}

static bool
lands(const void *ctx, int stage)
{
	return ((const struct pipeline_costs *)ctx)->lands[stage];
}

/* The seconds of all stages together, by simulate_total or simulate_bound. */
static double
together(const struct run_case *r, const struct pipeline_costs *costs,
    double (*how)(const struct simulation *s))
{
	struct schedule_shape shape =
	    layout_schedule(r->layout, (int)r->shape->num_microbatches, true);
	struct simulation s = { &shape, pass_of, message_of, lands, costs };

	return how(&s);
}

/* Adds the passes of the slowest stage, and what it waits until the last pass of all. Messages
 * that pass between its passes hold it up at least as long as they take. Returns the seconds of a
 * micro batch on the slowest stage. */
static double
add_pipeline(const struct run_case *r, const struct block_costs *costs,
    const struct operation_list *x, double (*how)(const struct simulation *s),
    struct step_time *out)
{
	double m = (double)r->shape->num_microbatches, waits, link = 0;
	struct pipeline_costs all;
	struct stage_time slowest = all_stages(r, costs, x, &all);

	for (int64_t i = 0; i < r->layout->pipeline_model_parallel_size; i++)
		link = fmax(link, all.message[i]);
	for (int i = 0; i < OPERATION_CLASSES; i++)
		out->part[i] += m * slowest.part[i];
	out->part[OPERATION_HOST] += m * slowest.waits;
	/* Alone it waits for nobody, whatever the sums of its passes round to. */
	waits = r->layout->pipeline_model_parallel_size > 1
	    ? fmax(together(r, &all, how) - m * busy(&slowest), 0)
	    : 0;
	if (!r->layout->overlap_p2p)
		out->part[OPERATION_STAGES] += fmin(waits, m * layout_chunks(r->layout) * 2 * link);
	out->bubble = waits - out->part[OPERATION_STAGES];
	return busy(&slowest);
}

/* --- the step --------------------------------------------------------------------------------- */

/* What of an exchange of data ranks beside `room` seconds of computation is not hidden: it slows
 * the computation down even where it fits. */
static double
exposed(const struct hardware *hw, double seconds, double room)
{
	return fmax(seconds * (1 - hw->dp_overlap), seconds - room);
}

/* Exchanges of data ranks, beside the last backward or the next forward pass of `pass` seconds
 * both; the update. The host updates while the pieces before and after come and go, so that the
 * slowest of these counts. */
static void
add_step(
    const struct run_case *r, const struct operation_list *x, double pass, struct step_time *out)
{
	double host = 0;

	for (int i = 0; i < x->count; i++) {
		const struct operation *o = &x->item[i];
		double seconds = price_operation(r, o);
		bool back = !strcmp(o->name, "gradients");

		if (o->class == OPERATION_DATA && o->axes != AX_BIT(AX_PP))
			seconds = exposed(r->hw, seconds, (back ? 2 : 1) * pass / 3);
		if (o->class == OPERATION_HOST)
			host = fmax(host, seconds);
		else if (o->class != OPERATION_STAGES)
			out->part[o->class] += (double)o->count * seconds;
	}
	out->part[OPERATION_HOST] += host;
}

/* The sums by which plans are compared. */
static void
sum_parts(struct step_time *t)
{
	t->compute = t->part[OPERATION_PRODUCT] + t->part[OPERATION_ATTENTION];
	t->memory = t->part[OPERATION_MEMORY] + t->part[OPERATION_UPDATE];
	t->tp = t->part[OPERATION_TENSOR];
	t->cp = t->part[OPERATION_CONTEXT];
	t->ep = t->part[OPERATION_EXPERTS];
	t->dp = t->part[OPERATION_DATA];
	t->other = t->part[OPERATION_STAGES] + t->part[OPERATION_HOST];
	t->total = t->compute + t->memory + t->tp + t->cp + t->ep + t->bubble + t->dp + t->other;
}

static void
step(const struct run_case *r, const struct block_costs *costs,
    double (*how)(const struct simulation *s), struct step_time *out)
{
	double nodes = ceil((double)layout_world(r->layout) / r->hw->gpus_per_node), pass, straggle,
	       inside;
	struct operation_list x;

	memset(out, 0, sizeof *out);
	operations_of_step(&x, &r->owned, r->model, r->layout, r->shape);
	pass = add_pipeline(r, costs, &x, how, out);
	add_step(r, &x, pass, out);
	out->part[OPERATION_HOST] += r->hw->step_ms * 1e-3;
	sum_parts(out);
	inside = fmin(r->hw->gpus_per_node, (double)layout_world(r->layout));
	straggle = out->total * (straggling * log2(nodes) + straggling_inside * log2(inside));
	out->part[OPERATION_HOST] += straggle;
	sum_parts(out);
}

void
time_step_of(const struct run_case *r, const struct block_costs *costs, struct step_time *out)
{
	step(r, costs, simulate_total, out);
}

double
time_bound(const struct run_case *r, const struct block_costs *costs)
{
	struct step_time t;

	step(r, costs, simulate_bound, &t);
	return t.total;
}

void
time_step(const struct run_case *r, struct step_time *out)
{
	struct block_costs costs;

	time_blocks(r, &costs);
	time_step_of(r, &costs, out);
}
