/*
 * fit.c - options that would make a run fit into a device's memory
 *
 * Each remedy changes a copy of the plan, whose memory is then computed anew: nothing is estimated.
 * Remedies are sorted by their cost in speed, cheapest first.
 */
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

static bool
share_optimizer(struct run_plan *p, char option[64])
{
	if (p->shape.sharding || layout_replicas(&p->layout) < 2)
		return false;
	p->shape.sharding = SHARDING_OPTIM;
	snprintf(option, 64, "--use-distributed-optimizer");
	return true;
}

/* Costs a gather of each layer's weights in every pass. */
static bool
share_weights(struct run_plan *p, char option[64])
{
	if (p->shape.sharding == SHARDING_PARAMS || layout_replicas(&p->layout) < 2)
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

static bool
recompute_layers(struct run_plan *p, char option[64])
{
	if (p->shape.recompute.granularity == RECOMPUTE_FULL)
		return false;
	p->shape.recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 };
	snprintf(option, 64, "--recompute-granularity full");
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
	smaller_micro_batch, recompute_some, share_optimizer, share_weights, recompute_layers,
	more_tensor_ranks };

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

/* The remedies that suffice alone, separated by commas. */
static void
list_single(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t limit, struct str *out)
{
	for (int i = 0; i < REMEDIES; i++) {
		struct run_plan p = *plan;
		char option[64] = "";

		if (remedies[i](&p, option) && need(&p, coord) <= limit)
			str_addf(out, "%s%s", out->len ? ", or " : "", option);
	}
}

/* Applies all remedies as often as they go, until the run fits; empty when it never does. */
static void
list_all(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t limit, struct str *out)
{
	struct run_plan p = *plan;
	char option[REMEDIES][64] = { "" };

	for (bool changed = true; changed && need(&p, coord) > limit;) {
		changed = false;
		for (int i = 0; i < REMEDIES && need(&p, coord) > limit; i++) {
			struct run_plan next = p;
			char said[64] = "";

			if (!remedies[i](&next, said))
				continue;
			memcpy(option[i], said, sizeof said);
			p = next;
			changed = true;
		}
	}
	for (int i = 0; i < REMEDIES && need(&p, coord) <= limit; i++)
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
