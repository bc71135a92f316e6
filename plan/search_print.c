/* search_print.c - plans as a table, as an option file and in words */
#include "lib/model/layout_text.h"
#include "lib/model/options.h"
#include "plan/search.h"

#include <string.h>

static const double gib = 1073741824.0;

static const char *const fit_names[] = { "fits", "tight", "no" };
static const char *const split_names[] = { "typed", "weighed", "equal" };

/* How a plan saves memory, in words. */
static void
add_recompute(const struct recompute *r, struct str *out)
{
	str_adds(out, opt_recompute_granularities[r->granularity]);
	if (r->granularity == RECOMPUTE_FULL && r->method == RECOMPUTE_BLOCK)
		str_addf(out, ":%lld", (long long)r->num_layers);
}

static const char *
form_name(const struct candidate *c)
{
	return c->shape.context_form == CONTEXT_HEADS ? "a2a" : "all_gather";
}

/* The columns of what saves memory, and of what has more than one form. */
static void
print_forms(const struct candidate *c, FILE *f)
{
	struct str recompute = { 0 };

	add_recompute(&c->shape.recompute, &recompute);
	fprintf(f, "\t%d\t%s\t%s\t%s\t%lld\t%s%s\t%lld\t%d\t%.3f\n",
	    layout_row_shards(&c->layout) > 1,
	    c->layout.context_parallel_size > 1 ? form_name(c) : "-", split_names[c->split],
	    recompute.buf, (long long)c->shape.offloaded_layers,
	    c->shape.optimizer_offload > 0 ? "host" : "device",
	    c->shape.optim.chosen && c->shape.optim.state[0] == DTYPE_BF16 ? " bf16" : "",
	    (long long)layout_instances(&c->layout),
	    c->layout.tensor_model_parallel_size > 1 && c->shape.tp_comm_overlap,
	    (double)c->host / gib);
	str_release(&recompute);
}

/* TSV with a header line. tokens_per_second are those of one rank; shares are parts of the step's
 * seconds and add up to 1; memory_gib includes the device's reserve. */
void
search_print(const struct search *s, const struct search_input *in, int64_t top, FILE *f)
{
	fputs("rank\ttp\tcp\tdp\tpp\tmicro_batch_size\tnum_microbatches\tsharding\t"
	      "memory_gib\tfit\tseconds\t"
	      "tokens_per_second\tcompute\ttp_share\tbubble\tdp_share\tmemory_bound\tother\t"
	      "cp_share\tchunks\tep\tetp\tep_share\tsp\tcp_comm_type\tsplit\trecompute\t"
	      "offloaded_layers\toptimizer\tinstances\ttp_overlap\thost_gib\n",
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
		    opt_shardings[c->shape.sharding], search_need(c, &in->hw) / gib,
		    fit_names[c->fit], t->total, tokens_per_second);
		fprintf(f, "\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d", t->compute / t->total,
		    t->tp / t->total, t->bubble / t->total, t->dp / t->total, t->memory / t->total,
		    t->other / t->total, t->cp / t->total, layout_chunks(&c->layout));
		fprintf(f, "\t%lld\t%lld\t%.3f", (long long)layout_expert_ranks(&c->layout),
		    (long long)(in->model.num_experts ? layout_expert_slices(&c->layout) : 1),
		    t->ep / t->total);
		print_forms(c, f);
	}
}

/* The options by which a plan saves memory, where they were not typed. */
static void
add_savings(const struct search_input *in, const struct candidate *c, struct str *out)
{
	const struct train_shape *s = &c->shape;

	if (!in->keep_recompute && s->recompute.granularity)
		str_addf(out, "recompute-granularity %s\n",
		    opt_recompute_granularities[s->recompute.granularity]);
	if (!in->keep_recompute && s->recompute.granularity == RECOMPUTE_FULL)
		str_addf(out, "recompute-method %s\nrecompute-num-layers %lld\n",
		    opt_recompute_methods[s->recompute.method], (long long)s->recompute.num_layers);
	if (!in->keep_offload && s->offloaded_layers)
		str_addf(out, "cpu-offloading-num-layers %lld\n", (long long)s->offloaded_layers);
	if (in->keep_optimizer)
		return;
	if (s->optimizer_offload > 0)
		str_adds(out, "optimizer-cpu-offload\n");
	if (s->optim.chosen && s->optim.state[0] == DTYPE_BF16)
		str_adds(out,
		    "use-precision-aware-optimizer\nexp-avg-dtype bf16\nexp-avg-sq-dtype bf16\n");
}

/* The options of a split that was not typed. */
static void
add_split(const struct candidate *c, struct str *out)
{
	if (c->split == SPLIT_EQUAL)
		str_addf(out, "num-layers-per-virtual-pipeline-stage %d\n", c->layout.split[0]);
	else if (c->split == SPLIT_BY_WORK && layout_chunks(&c->layout) > 1)
		str_addf(
		    out, "num-virtual-stages-per-pipeline-rank %d\n", layout_chunks(&c->layout));
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
	    (long long)in->world_size, in->hw.name, c->time.total, search_need(c, &in->hw) / gib,
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
	if (c->layout.context_parallel_size > 1 && !in->keep_form)
		str_addf(out, "cp-comm-type %s\n", form_name(c));
	add_split(c, out);
	if (layout_row_shards(&c->layout) > 1)
		str_adds(out, "sequence-parallel\n");
	if (c->layout.tensor_model_parallel_size > 1 && c->shape.tp_comm_overlap)
		str_adds(out, "tp-comm-overlap\n");
	if (c->shape.sharding)
		str_addf(
		    out, "data-parallel-sharding-strategy %s\n", opt_shardings[c->shape.sharding]);
	if (layout_instances(&c->layout) > 1)
		str_addf(out, "num-distributed-optimizer-instances %lld\n",
		    (long long)layout_instances(&c->layout));
	if (layout_state_instances(&c->layout) > 1)
		str_addf(out, "outer-dp-sharding-strategy %s\n",
		    opt_outer_shardings[c->layout.outer_sharding]);
	add_savings(in, c, out);
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

void
search_name(const struct candidate *c, struct str *out)
{
	layout_words(&c->layout, out);
	if (layout_chunks(&c->layout) > 1)
		str_addf(out, ", chunks %d", layout_chunks(&c->layout));
	if (c->shape.recompute.granularity) {
		str_adds(out, ", recompute ");
		add_recompute(&c->shape.recompute, out);
	}
	if (c->shape.offloaded_layers)
		str_addf(out, ", %lld layers offloaded", (long long)c->shape.offloaded_layers);
	if (c->shape.optimizer_offload > 0)
		str_adds(out, ", optimizer on the host");
	str_addf(out, ", micro-batch-size %lld%s%s", (long long)c->shape.micro_batch_size,
	    c->shape.sharding ? ", sharding " : "",
	    c->shape.sharding ? opt_shardings[c->shape.sharding] : "");
	if (layout_instances(&c->layout) > 1)
		str_addf(out, " in %lld instances", (long long)layout_instances(&c->layout));
}

/* The fastest tight plan where it is much faster than the best, which fits. */
static void
add_tight(const struct search *s, struct str *out)
{
	static const double much = 0.9;
	const struct candidate *best = &s->item[0], *tight = &s->tight;

	if (!tight->bytes || best->fit != FIT_YES || tight->time.total > much * best->time.total)
		return;
	str_adds(out, "; one that fits tightly (");
	search_name(tight, out);
	str_addf(out, ") takes %.0f %% less", 100 * (1 - tight->time.total / best->time.total));
}

/* Why the plan after the best is not the best. */
static void
add_next(const struct search *s, struct str *out)
{
	const struct candidate *best = &s->item[0], *next = &s->item[1];
	int worse = 0;

	for (int i = 1; i < PARTS; i++)
		if (seconds_of(&next->time, i) - seconds_of(&best->time, i) >
		    seconds_of(&next->time, worse) - seconds_of(&best->time, worse))
			worse = i;
	str_adds(out, "; the next (");
	search_name(next, out);
	if (next->fit != best->fit)
		str_adds(out, ") fits only tightly");
	else if (next->time.total <= (1 + SEARCH_TIE) * best->time.total)
		str_addf(out, ") is as fast and needs %.3g GiB more",
		    ((double)next->bytes - (double)best->bytes) / gib);
	else
		str_addf(out, ") takes %.1f %% longer, most of it by %s",
		    100 * (next->time.total / best->time.total - 1), parts[worse].name);
}

/* Explains the first plan: its largest part, and where the second loses time. Needs at least one
 * plan. */
void
search_reason(const struct search *s, struct str *out)
{
	const struct candidate *best = &s->item[0];
	int big = 0;

	for (int i = 1; i < PARTS; i++)
		if (seconds_of(&best->time, i) > seconds_of(&best->time, big))
			big = i;
	str_addf(out, "%lld legal layouts, %lld plans made in the order of their time; the best (",
	    (long long)s->legal, (long long)s->planned);
	search_name(best, out);
	str_addf(out, ") spends %.0f %% of a step on %s",
	    100 * seconds_of(&best->time, big) / best->time.total, parts[big].name);
	if (s->count > 1)
		add_next(s, out);
	add_tight(s, out);
}
