/*
 * fit.c - options that would make a run fit into a device's memory
 *
 * Each remedy changes a copy of the plan, and the memory of the copy is computed, not estimated.
 * Remedies are sorted by their cost in speed, cheapest first.
 */
#include "lib/base/int64.h"
#include "lib/model/evaluation.h"
#include "lib/model/fit.h"

#include <stdio.h>
#include <string.h>

/* A remedy changes the plan and writes the option that does so; false when it does not apply. */

/* Half the samples per micro batch, twice as many micro batches. */
static bool
smaller_micro_batch(struct run_plan *p, char option[64])
{
	int64_t half = p->shape.micro_batch_size / 2;

	if (half < 1 || p->shape.micro_batch_size % 2)
		return false;
	p->shape.micro_batch_size = half;
	p->shape.num_microbatches *= 2;
	snprintf(option, 64, "--micro-batch-size %lld", (long long)half);
	return true;
}

/* Evaluations in training's micro batches. */
static bool
smaller_evaluation(struct run_plan *p, char option[64])
{
	if (evaluation_micro_batch(p) <= p->shape.micro_batch_size)
		return false;
	p->eval_micro_batch_size = p->shape.micro_batch_size;
	snprintf(option, 64, "--eval-micro-batch-size %lld", (long long)p->eval_micro_batch_size);
	return true;
}

/* Between blocks tensor ranks hold rows of their own. */
static bool
share_rows(struct run_plan *p, char option[64])
{
	struct err ignored;

	if (p->layout.sequence_parallel || p->layout.tensor_model_parallel_size == 1)
		return false;
	p->layout.sequence_parallel = true;
	snprintf(option, 64, "--sequence-parallel");
	return layout_check_rows(&p->layout, p->shape.seq_length, &ignored) == 0;
}

/* The stages that o asks for, in place of the default's, whose last is the smallest: its head costs
 * work, not memory. False where the layers were split by options. */
static bool
split_by(struct run_plan *p, struct split_options *o)
{
	struct layout usual = p->layout;
	struct err ignored;

	split_balance(&p->model, p->shape.seq_length, &usual);
	if (memcmp(usual.split, p->layout.split, sizeof usual.split) != 0)
		return false;
	o->microbatch_group_size_per_virtual_pipeline_stage = p->layout.microbatch_group;
	return split_resolve(o, &p->model, p->shape.seq_length, &p->layout, &ignored) == 0;
}

static bool
equal_stages(struct run_plan *p, char option[64])
{
	int64_t stages = layout_stages(&p->layout), layers = p->model.num_layers;
	struct split_options o = { .num_layers_per_virtual_pipeline_stage = layers / stages };

	if (p->layout.pipeline_model_parallel_size == 1 || layers % stages)
		return false;
	snprintf(option, 64, "--num-layers-per-virtual-pipeline-stage %lld",
	    (long long)(layers / stages));
	return split_by(p, &o);
}

/* As few less as leave the others equal. */
static bool
smaller_first_stage(struct run_plan *p, char option[64])
{
	int64_t stages = p->layout.pipeline_model_parallel_size, first = p->layout.split[0] - 1;
	struct split_options o = { 0 };

	if (stages == 1 || layout_chunks(&p->layout) > 1)
		return false;
	while (first > 0 && (p->model.num_layers - first) % (stages - 1))
		first--;
	if (first < 1)
		return false;
	o.decoder_first_pipeline_num_layers = first;
	snprintf(option, 64, "--decoder-first-pipeline-num-layers %lld", (long long)first);
	return split_by(p, &o);
}

static bool
share_optimizer(struct run_plan *p, char option[64])
{
	if (p->shape.sharding || layout_data_ranks(&p->layout) < 2)
		return false;
	p->shape.sharding = SHARDING_OPTIM;
	snprintf(option, 64, "--use-distributed-optimizer");
	return true;
}

/* Costs a gather of each layer's weights in every pass. */
static bool
share_weights(struct run_plan *p, char option[64])
{
	if (p->shape.sharding == SHARDING_PARAMS || layout_data_ranks(&p->layout) < 2)
		return false;
	p->shape.sharding = SHARDING_PARAMS;
	snprintf(option, 64, "--data-parallel-sharding-strategy optim_grads_params");
	return true;
}

static bool
recompute_some(struct run_plan *p, char option[64])
{
	if (p->shape.recompute.granularity != RECOMPUTE_NONE)
		return false;
	p->shape.recompute.granularity = RECOMPUTE_SELECTIVE;
	snprintf(option, 64, "--recompute-granularity selective");
	return true;
}

/* A third of a stage's layers: their copies take about as long as the passes of all. Then twice as
 * many, up to all but the first. */
static bool
offload_layers(struct run_plan *p, char option[64])
{
	struct train_shape *s = &p->shape;
	int64_t layers = int64_div_up(p->model.num_layers, layout_stages(&p->layout)),
		now = s->offloaded_layers, more = now ? 2 * now : int64_div_up(layers, 3);

	more = int64_min(more, layers - 1);
	if (s->forward_only || s->qk_clip || more <= now)
		return false;
	s->offloaded_layers = more;
	snprintf(option, 64, "--cpu-offloading-num-layers %lld", (long long)more);
	return true;
}

static bool
recompute_layers(struct run_plan *p, char option[64])
{
	if (p->shape.recompute.granularity == RECOMPUTE_FULL)
		return false;
	p->shape.recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 };
	snprintf(option, 64, "--recompute-granularity full");
	return true;
}

/* Costs the host an update of everything. */
static bool
offload_optimizer(struct run_plan *p, char option[64])
{
	struct train_shape *s = &p->shape;

	if (s->forward_only || s->optimizer_offload > 0 || !(s->rule->traits & OPTIM_CHOOSES_TYPES))
		return false;
	optim_types_offload(s);
	snprintf(option, 64, "--optimizer-cpu-offload");
	return true;
}

/* Twice as many tensor ranks and as many data ranks as before, so twice as many devices. */
static bool
more_tensor_ranks(struct run_plan *p, char option[64])
{
	struct err ignored;

	p->layout.tensor_model_parallel_size *= 2;
	snprintf(option, 64, "--tensor-model-parallel-size %lld on twice as many ranks",
	    (long long)p->layout.tensor_model_parallel_size);
	return layout_check(&p->layout, &p->model, &ignored) == 0 &&
	    (p->shape.context_form != CONTEXT_HEADS ||
		layout_check_heads(&p->layout, &p->model, &ignored) == 0) &&
	    layout_check_rows(&p->layout, p->shape.seq_length, &ignored) == 0;
}

static bool (*const remedies[])(struct run_plan *, char[64]) = { smaller_evaluation, share_rows,
	equal_stages, smaller_first_stage, smaller_micro_batch, recompute_some, share_optimizer,
	share_weights, offload_layers, recompute_layers, offload_optimizer, more_tensor_ranks };

enum { REMEDIES = sizeof remedies / sizeof *remedies };

/* Bytes that the rank at coord needs under the plan. */
static uint64_t
need(const struct run_plan *p, const int coord[AX_COUNT])
{
	struct memory_plan m;
	uint64_t bytes;

	run_memory(&m, p, coord);
	bytes = memory_total(&m);
	memory_release(&m);
	return bytes;
}

/* The most that a rank needs that stands where coord does in one of the stages: a remedy for one
 * stage may take from another. */
static uint64_t
need_most(const struct run_plan *p, const int coord[AX_COUNT])
{
	int at[AX_COUNT];
	uint64_t most = 0;

	memcpy(at, coord, sizeof at);
	for (at[AX_PP] = 0; at[AX_PP] < p->layout.pipeline_model_parallel_size; at[AX_PP]++) {
		uint64_t bytes = need(p, at);

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* The remedies that suffice alone, separated by commas. */
static void
list_single(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t limit, struct str *out)
{
	for (int i = 0; i < REMEDIES; i++) {
		struct run_plan p = *plan;
		char option[64] = "";

		if (remedies[i](&p, option) && need_most(&p, coord) <= limit)
			str_addf(out, "%s%s", out->len ? ", or " : "", option);
	}
}

/* Applies all remedies as often as they go, until the run fits; empty when it never does. */
static void
list_all(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t limit, struct str *out)
{
	struct run_plan p = *plan;
	char option[REMEDIES][64] = { "" };

	for (bool changed = true; changed && need_most(&p, coord) > limit;) {
		changed = false;
		for (int i = 0; i < REMEDIES && need_most(&p, coord) > limit; i++) {
			struct run_plan next = p;
			char said[64] = "";

			if (!remedies[i](&next, said))
				continue;
			memcpy(option[i], said, sizeof said);
			p = next;
			changed = true;
		}
	}
	for (int i = 0; i < REMEDIES && need_most(&p, coord) <= limit; i++)
		if (option[i][0])
			str_addf(out, "%s%s", out->len ? " and " : "", option[i]);
}

int
memory_fit(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t extra,
    uint64_t available, struct err *e)
{
	const double gib = 1024.0 * 1024 * 1024;
	uint64_t want = need(plan, coord) + extra,
		 limit = available > extra ? available - extra : 0;
	struct str fits = { 0 };

	if (want <= available)
		return 0;
	list_single(plan, coord, limit, &fits);
	if (!fits.len)
		list_all(plan, coord, limit, &fits);
	err_set(e,
	    "the run needs %.2f GiB of device memory, %.2f GiB more than the %.2f GiB that are "
	    "free; %s%s",
	    (double)want / gib, (double)(want - available) / gib, (double)available / gib,
	    fits.len ? "it fits with " : "no change of options makes it fit",
	    fits.len ? fits.buf : "");
	str_release(&fits);
	return -1;
}
