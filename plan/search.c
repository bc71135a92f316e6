/*
 * search.c - enumerates, evaluates and ranks layouts
 *
 * All divisors are tried, some thousand plans at most. What ranks hold of the parameters is found
 * once for each layout, so the only pruning is that of micro batches above the first that does not
 * fit. layout_check decides legality, as in training. A plan that needs more than 1 - margin of the
 * device counts as tight, since libraries and fragmentation take memory that no plan includes.
 */
#include "lib/base/mem.h"
#include "lib/model/fit.h"
#include "lib/model/layout_text.h"
#include "lib/model/options.h"
#include "plan/memtable.h"
#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNKS_MAX = 8 }; /* of a stage; more of them exchange more and save little */

static const double gib = 1073741824.0, margin = 0.04, tie = 0.01;

static const char *const fit_names[] = { "fits", "tight", "no" };

/* Device bytes that a rank needs: arenas and the device's own reserve. */
static double
need(const struct candidate *c, const struct hardware *hw)
{
	return (double)c->bytes + hw->reserve_gb * gib;
}

/* Evaluates a legal plan and keeps it if it fits. The smallest plan is kept even if none fits, to
 * report how much memory is missing. */
static void
weigh(struct search *s, const struct search_input *in, struct memory_stages *stages,
    struct candidate *c)
{
	struct run_case r = { &in->model, &c->layout, &c->shape, &in->hw, stages, 0, 0 };
	double used;

	c->bytes = memtable_most(stages, &c->shape, &r.elements, &r.optim_elements);
	if (s->legal++ == 0 || c->bytes < s->smallest.bytes)
		s->smallest = *c;
	used = need(c, &in->hw) / (in->hw.memory_gb * gib);
	c->fit = used > 1 ? FIT_NO : used > 1 - margin ? FIT_TIGHT : FIT_YES;
	if (c->fit == FIT_NO)
		return;
	time_step(&r, &c->time);
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->item = mem_realloc(s->item, (size_t)s->cap, sizeof *s->item);
	}
	s->item[s->count++] = *c;
}

/* Tries each sharding over data ranks, if there are several: of nothing, of the optimizer's state,
 * and of gradients and weights only where neither fits, since those cost traffic in every pass.
 * True if one of them fits. */
static bool
try_shardings(struct search *s, const struct search_input *in, struct memory_stages *stages,
    struct candidate *c)
{
	int first = in->keep_sharding ? (int)in->shape.sharding : SHARDING_NONE;
	int last = in->keep_sharding            ? first
	    : layout_data_ranks(&c->layout) > 1 ? SHARDING_PARAMS
						: SHARDING_NONE;
	bool fits = false;

	for (int k = first; k <= last && !(fits && k > SHARDING_OPTIM); k++) {
		c->shape.sharding = (enum sharding)k;
		weigh(s, in, stages, c);
		fits = fits || c->fit != FIT_NO;
	}
	return fits;
}

/* Every power of two that divides the samples of a data rank, or the size that was given, if the
 * chunks of each stage can take turns with so many micro batches. A larger one never needs less
 * memory. Micro batches end at 2^30 tokens, more than any device can run, which keeps products of
 * sizes in 64 bits. */
static void
try_batches(struct search *s, const struct search_input *in, struct candidate *c)
{
	int64_t each = in->global_batch_size / c->layout.data_parallel_size,
		b = in->micro_batch ? in->micro_batch : 1;
	struct memory_stages stages;

	if (in->global_batch_size % c->layout.data_parallel_size)
		return;
	memory_stages_like(&stages, &s->common, &c->layout, &c->shape);
	for (; b <= each && each % b == 0 && b * c->shape.seq_length <= 1 << 30; b *= 2) {
		struct schedule_shape passes = layout_schedule(&c->layout, (int)(each / b), true);

		c->shape.micro_batch_size = b;
		c->shape.num_microbatches = each / b;
		if (schedule_fits(&passes) && !try_shardings(s, in, &stages, c))
			break;
		if (in->micro_batch)
			break;
	}
	memory_stages_release(&stages);
}

/* One chunk of layers a stage, or every power of two of chunks that leaves each of them a layer; or
 * what was given. More chunks never need less memory. */
static void
try_chunks(struct search *s, const struct search_input *in, struct candidate *c)
{
	int64_t p = c->layout.pipeline_model_parallel_size, layers = in->model.num_layers;
	struct err e;

	for (int64_t v = 1; v == 1 || (p > 1 && v <= CHUNKS_MAX && p * v <= layers); v *= 2) {
		struct split_options o = in->split;
		int before = s->count;

		if (!split_given(&in->split) && v > 1)
			o.num_virtual_stages_per_pipeline_rank = v;
		if (split_resolve(&o, &in->model, in->shape.seq_length, &c->layout, &e) == 0) {
			c->layout.overlap_p2p = in->overlap_p2p && layout_chunks(&c->layout) > 1;
			try_batches(s, in, c);
		}
		if (split_given(&in->split) || s->count == before)
			break;
	}
}

/* Whether a layout obeys all rules. */
static bool
legal(const struct search_input *in, const struct layout *l)
{
	bool heads = in->shape.context_form == CONTEXT_HEADS;
	struct err e;

	return layout_check(l, &in->model, &e) == 0 &&
	    layout_check_experts(l, &in->model, &e) == 0 &&
	    layout_check_rows(l, in->shape.seq_length, &e) == 0 &&
	    (!heads || layout_check_heads(l, &in->model, &e) == 0);
}

/* Where there are experts, all numbers of ranks that may share those of a layer, each expert on one
 * rank or on as many as there are tensor ranks; or what was given. More of them may be slower than
 * fewer, and still more faster. */
static void
try_experts(struct search *s, const struct search_input *in, struct candidate *c)
{
	int64_t experts = in->model.num_experts, ranks = in->typed.expert_model_parallel_size,
		slices = in->typed.expert_tensor_parallel_size,
		t = c->layout.tensor_model_parallel_size, of[] = { slices ? slices : 1, t };

	if (!experts && ranks <= 1 && slices <= 1 && legal(in, &c->layout))
		try_chunks(s, in, c);
	for (int64_t e = 1; e <= experts && e <= layout_world(&c->layout); e++) {
		if (ranks ? e != ranks : experts % e != 0)
			continue;
		c->layout.expert_model_parallel_size = e;
		for (int i = 0; i < (slices || t == 1 ? 1 : 2); i++) {
			c->layout.expert_tensor_parallel_size = of[i];
			if (legal(in, &c->layout))
				try_chunks(s, in, c);
		}
	}
}

/* Divisors of the world whose layout is legal; tensor ranks stay in a node unless their number was
 * given. The rest are data ranks. The order of enumeration does not matter: the result is
 * sorted. */
static void
try_layouts(struct search *s, const struct search_input *in)
{
	int64_t most = (int64_t)in->hw.gpus_per_node, heads = in->model.num_attention_heads,
		layers = in->model.num_layers;

	for (int64_t t = 1; t <= heads && t <= in->world_size; t++) {
		if (in->world_size % t || (in->tensor ? t != in->tensor : t > most))
			continue;
		for (int64_t p = 1; p <= layers + 1 && t * p <= in->world_size; p++) {
			int64_t left = in->world_size / (t * p);
			struct candidate c = {
				.layout = { .tensor_model_parallel_size = t,
				    .context_parallel_size = in->typed.context_parallel_size,
				    .data_parallel_size = left / in->typed.context_parallel_size,
				    .pipeline_model_parallel_size = p,
				    .sequence_parallel =
					in->typed.sequence_parallel || in->model.num_experts },
				.shape = in->shape,
			};

			if (in->world_size % (t * p) == 0 &&
			    left % in->typed.context_parallel_size == 0 &&
			    (!in->pipeline || p == in->pipeline))
				try_experts(s, in, &c);
		}
	}
}

/* Plans that fit come before tight ones; then by time. */
static int
by_time(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->fit != y->fit)
		return (int)x->fit - (int)y->fit;
	return x->time.total < y->time.total ? -1 : x->time.total > y->time.total;
}

/* The smaller one first, the faster one among equals. */
static int
by_memory(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->time.total < y->time.total ? -1 : x->time.total > y->time.total;
}

/* The time model cannot distinguish plans this close, so the one that leaves more memory comes
 * first. Each is compared with the first of the group, not with its neighbour, so that chains of
 * ties stay short. */
static void
settle_ties(struct search *s)
{
	int end;

	for (int i = 0; i < s->count; i = end) {
		for (end = i + 1; end < s->count && s->item[end].fit == s->item[i].fit &&
		     s->item[end].time.total <= (1 + tie) * s->item[i].time.total;
		     end++)
			;
		qsort(s->item + i, (size_t)(end - i), sizeof *s->item, by_memory);
	}
}

/* What would make the smallest plan fit, by the same remedies as a run is told; of the first stage
 * that does not. */
static void
add_remedies(const struct search *s, const struct search_input *in, struct str *out)
{
	struct run_plan plan = { .model = in->model,
		.layout = s->smallest.layout,
		.shape = s->smallest.shape,
		.global_batch_size = in->global_batch_size,
		.eval_batch_size = in->global_batch_size };
	int coord[AX_COUNT] = { 0 };
	struct err e;
	int rc = 0;

	for (; rc == 0 && coord[AX_PP] < plan.layout.pipeline_model_parallel_size; coord[AX_PP]++)
		rc = memory_fit(&plan, coord, (uint64_t)(in->hw.reserve_gb * gib),
		    (uint64_t)(in->hw.memory_gb * gib), &e);
	/* With all remedies at once the last one is more ranks, which a search has been given. */
	if (rc < 0)
		str_adds(out,
		    strstr(e.msg, " and --tensor-model-parallel-size")
			? "; no change of options makes it fit"
			: strstr(e.msg, "; "));
}

/* -1 with a reason that includes the relevant numbers when no layout is legal or none fits. Release
 * *s in either case. */
int
search_run(struct search *s, const struct search_input *in, struct err *e)
{
	struct str smallest = { 0 }, remedies = { 0 };

	memset(s, 0, sizeof *s);
	s->common = (struct memory_stages){ .model = &in->model, .shared = &s->common.counts };
	s->common.num_params = model_params(&in->model, &s->common.table);
	try_layouts(s, in);
	schedule_counts_release(&s->common.counts);
	free(s->common.table);
	if (!s->legal)
		return err_set(e,
		    "no legal layout of %lld ranks: sizes must divide the ranks, %lld heads, %lld "
		    "layers and "
		    "--global-batch-size %lld; mplan check gives the reason for one",
		    (long long)in->world_size, (long long)in->model.num_attention_heads,
		    (long long)in->model.num_layers, (long long)in->global_batch_size);
	if (!s->count) {
		layout_words(&s->smallest.layout, &smallest);
		add_remedies(s, in, &remedies);
		err_set(e,
		    "none of %lld legal layouts of %lld ranks fits %.4g GiB: the smallest needs "
		    "%.4g GiB (%s, micro-batch-size %lld)%s",
		    (long long)s->legal, (long long)in->world_size, in->hw.memory_gb,
		    need(&s->smallest, &in->hw) / gib, smallest.buf,
		    (long long)s->smallest.shape.micro_batch_size,
		    remedies.len ? remedies.buf : "");
		str_release(&remedies);
		str_release(&smallest);
		return -1;
	}
	qsort(s->item, (size_t)s->count, sizeof *s->item, by_time);
	settle_ties(s);
	return 0;
}

/* Leaves an empty search, so a second release does nothing. */
void
search_release(struct search *s)
{
	free(s->item);
	memset(s, 0, sizeof *s);
}

/* TSV with a header line. tokens_per_second are those of one rank; shares are parts of the step's
 * seconds and add up to 1; memory_gib includes the device's reserve. */
void
search_print(const struct search *s, const struct search_input *in, int64_t top, FILE *f)
{
	fputs("rank\ttp\tcp\tdp\tpp\tmicro_batch_size\tnum_microbatches\tsharding\t"
	      "memory_gib\tfit\tseconds\t"
	      "tokens_per_second\tcompute\ttp_share\tbubble\tdp_share\tmemory_bound\tother\t"
	      "cp_share\tchunks\tep\tetp\tep_share\n",
	    f);
	for (int i = 0; i < s->count && i < top; i++) {
		const struct candidate *c = &s->item[i];
		const struct step_time *t = &c->time;
		double tokens_per_second = (double)in->global_batch_size *
		    (double)c->shape.seq_length / t->total / (double)in->world_size;

		fprintf(f, "%d\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%s\t%.3f\t%s\t%.4g\t%.4g",
		    i + 1, (long long)c->layout.tensor_model_parallel_size,
		    (long long)c->layout.context_parallel_size,
		    (long long)c->layout.data_parallel_size,
		    (long long)c->layout.pipeline_model_parallel_size,
		    (long long)c->shape.micro_batch_size, (long long)c->shape.num_microbatches,
		    opt_shardings[c->shape.sharding], need(c, &in->hw) / gib, fit_names[c->fit],
		    t->total, tokens_per_second);
		fprintf(f, "\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d", t->compute / t->total,
		    t->tp / t->total, t->bubble / t->total, t->dp / t->total, t->memory / t->total,
		    t->other / t->total, t->cp / t->total, layout_chunks(&c->layout));
		fprintf(f, "\t%lld\t%lld\t%.3f\n", (long long)layout_expert_ranks(&c->layout),
		    (long long)(in->model.num_experts ? layout_expert_slices(&c->layout) : 1),
		    t->ep / t->total);
	}
}

/* An option file as mtrain --config reads it: only the search's choices, to be combined with the
 * model's own file. pick counts from 1 and must be at most s->count. */
static void
print_plan(const struct search *s, const struct search_input *in, int64_t pick, struct str *out)
{
	const struct candidate *c = &s->item[pick - 1];

	str_addf(out,
	    "# mplan search: %lld ranks of %s; about %.4g s per step, %.2f of %.4g GiB per rank "
	    "(%s)\n",
	    (long long)in->world_size, in->hw.name, c->time.total, need(c, &in->hw) / gib,
	    in->hw.memory_gb, fit_names[c->fit]);
	str_addf(out, "tensor-model-parallel-size %lld\npipeline-model-parallel-size %lld\n",
	    (long long)c->layout.tensor_model_parallel_size,
	    (long long)c->layout.pipeline_model_parallel_size);
	if (c->layout.context_parallel_size > 1)
		str_addf(out, "context-parallel-size %lld\n",
		    (long long)c->layout.context_parallel_size);
	if (layout_expert_ranks(&c->layout) > 1)
		str_addf(out, "expert-model-parallel-size %lld\n",
		    (long long)layout_expert_ranks(&c->layout));
	if (layout_expert_slices(&c->layout) != c->layout.tensor_model_parallel_size)
		str_addf(out, "expert-tensor-parallel-size %lld\n",
		    (long long)layout_expert_slices(&c->layout));
	if (layout_chunks(&c->layout) > 1 && !split_given(&in->split))
		str_addf(
		    out, "num-virtual-stages-per-pipeline-rank %d\n", layout_chunks(&c->layout));
	if (layout_row_shards(&c->layout) > 1)
		str_adds(out, "sequence-parallel\n");
	if (c->shape.sharding)
		str_addf(
		    out, "data-parallel-sharding-strategy %s\n", opt_shardings[c->shape.sharding]);
	str_addf(out, "micro-batch-size %lld\nglobal-batch-size %lld\n",
	    (long long)c->shape.micro_batch_size, (long long)in->global_batch_size);
}

const struct target_kind search_file = { "a plan", "# mplan search: ", 16 };

int
search_text(const struct search *s, const struct search_input *in, int64_t pick, struct str *out,
    struct err *e)
{
	if (pick > s->count)
		return err_set(
		    e, "--pick %lld: there are %d plans that fit", (long long)pick, s->count);
	print_plan(s, in, pick, out);
	return 0;
}

/* Names of the parts of a step. */
static const struct step_part {
	const char *name;
	size_t off;
} parts[] = {
	{ "computation", offsetof(struct step_time, compute) },
	{ "memory-bound kernels", offsetof(struct step_time, memory) },
	{ "tensor-parallel traffic", offsetof(struct step_time, tp) },
	{ "context-parallel traffic", offsetof(struct step_time, cp) },
	{ "expert-parallel traffic", offsetof(struct step_time, ep) },
	{ "pipeline bubble", offsetof(struct step_time, bubble) },
	{ "data-parallel traffic", offsetof(struct step_time, dp) },
	{ "stage exchanges and host work", offsetof(struct step_time, other) },
};
enum { PARTS = sizeof parts / sizeof *parts };

/* The seconds of one part. */
static double
seconds_of(const struct step_time *t, int part)
{
	double x;

	memcpy(&x, (const char *)t + parts[part].off, sizeof x);
	return x;
}

/* A layout in words, which are taken from the options' names. */
static void
name_layout(const struct candidate *c, struct str *out)
{
	layout_words(&c->layout, out);
	if (layout_chunks(&c->layout) > 1)
		str_addf(out, ", chunks %d", layout_chunks(&c->layout));
	str_addf(out, ", micro-batch-size %lld%s%s", (long long)c->shape.micro_batch_size,
	    c->shape.sharding ? ", sharding " : "",
	    c->shape.sharding ? opt_shardings[c->shape.sharding] : "");
}

/* Explains the first plan: its largest part, and where the second loses time. Needs at least one
 * plan. */
void
search_reason(const struct search *s, struct str *out)
{
	const struct candidate *best = &s->item[0], *next = &s->item[1];
	int big = 0, worse = 0;

	for (int i = 1; i < PARTS; i++)
		if (seconds_of(&best->time, i) > seconds_of(&best->time, big))
			big = i;
	str_addf(out, "%lld legal layouts, %d fit; the best (", (long long)s->legal, s->count);
	name_layout(best, out);
	str_addf(out, ") spends %.0f %% of a step on %s",
	    100 * seconds_of(&best->time, big) / best->time.total, parts[big].name);
	if (s->count < 2)
		return;
	for (int i = 1; i < PARTS; i++)
		if (seconds_of(&next->time, i) - seconds_of(&best->time, i) >
		    seconds_of(&next->time, worse) - seconds_of(&best->time, worse))
			worse = i;
	str_adds(out, "; the next (");
	name_layout(next, out);
	if (next->fit != best->fit)
		str_adds(out, ") fits only tightly");
	else if (next->time.total <= (1 + tie) * best->time.total)
		str_addf(out, ") is as fast and needs %.3g GiB more",
		    ((double)next->bytes - (double)best->bytes) / gib);
	else
		str_addf(out, ") takes %.1f %% longer, most of it by %s",
		    100 * (next->time.total / best->time.total - 1), parts[worse].name);
}
