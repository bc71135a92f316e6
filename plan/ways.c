/* ways.c - enumerates how a step's work may be shared */
#include "plan/ways.h"
#include "lib/model/hosts.h"

#include <stdio.h>
#include <string.h>

struct walk {
	const struct search_input *in;
	struct refusal *refusals;
	void (*each)(void *ctx, const struct way *w);
	void *ctx;
};

void
way_layout(const struct way *w, struct layout *l)
{
	*l = (struct layout){ .tensor_model_parallel_size = w->tensor,
		.context_parallel_size = w->context,
		.data_parallel_size = w->data,
		.pipeline_model_parallel_size = w->pipeline,
		.expert_model_parallel_size = w->expert_ranks,
		.expert_tensor_parallel_size = w->expert_slices,
		.optimizer_instances = w->instances,
		.outer_sharding = w->outer_sharding,
		.sequence_parallel = w->rows };
}

void
way_shape(const struct search_input *in, const struct way *w, struct train_shape *s)
{
	*s = in->shape;
	s->context_form = w->form;
	s->micro_batch_size = w->micro_batch;
	s->num_microbatches = w->num_microbatches;
	s->tp_comm_overlap |= w->tensor > 1 && (int64_t)in->hw.gpus_per_node % w->tensor == 0 &&
	    hardware_is_own(&in->hw) && s->fp8.format == FP8_NONE;
}

/* Counts what a rule forbids by the option that its message begins with; the last refusal but one
 * stands for all options that have none of their own. */
static void
refuse(struct walk *k, const struct err *e)
{
	size_t n = strcspn(e->msg, " :");
	struct refusal *r = k->refusals;

	n = n < sizeof r->option ? n : sizeof r->option - 1;
	while (r < k->refusals + SEARCH_REFUSALS - 2 && r->count &&
	    (strncmp(r->option, e->msg, n) != 0 || r->option[n]))
		r++;
	if (r->count++ == 0) {
		memcpy(r->option, e->msg, n);
		r->option[n] = 0;
		snprintf(r->example, sizeof r->example, "%.*s", (int)sizeof r->example - 1, e->msg);
	}
}

static void
refuse_batch(struct walk *k, int64_t group)
{
	int64_t all = k->in->global_batch_size, below = all / group * group;
	struct err e;

	err_set(&e,
	    "--global-batch-size %lld: must be a multiple of %lld, the data ranks times the "
	    "micro batch (try %lld)",
	    (long long)all, (long long)group, (long long)(below > 0 ? below : group));
	refuse(k, &e);
}

/* Every divisor of the samples of a data rank, or the size that was given. Micro batches end at
 * 2^30 tokens, more than any device can run, which keeps products of sizes in 64 bits. */
static void
each_batch(struct walk *k, struct way *w)
{
	const struct search_input *in = k->in;
	int64_t each = in->global_batch_size / w->data, group = w->data;

	group *= in->micro_batch ? in->micro_batch : 1;
	if (in->global_batch_size % group) {
		refuse_batch(k, group);
		return;
	}
	for (int64_t b = in->micro_batch ? in->micro_batch : 1;
	     b <= each && b * in->shape.seq_length <= 1 << 30; b++) {
		if (each % b == 0) {
			w->micro_batch = (int)b;
			w->num_microbatches = (int)(each / b);
			k->each(k->ctx, w);
		}
		if (in->micro_batch)
			break;
	}
}

/* Whether a way obeys all rules. */
static bool
legal(struct walk *k, const struct way *w)
{
	const struct search_input *in = k->in;
	struct layout l;
	struct err e;

	way_layout(w, &l);
	if (layout_check(&l, &in->model, &e) == 0 &&
	    layout_check_instances(&l, &in->model, &e) == 0 &&
	    layout_check_experts(&l, &in->model, &e) == 0 &&
	    layout_check_rows(&l, in->shape.seq_length, &e) == 0 &&
	    (w->form != CONTEXT_HEADS || layout_check_heads(&l, &in->model, &e) == 0))
		return true;
	refuse(k, &e);
	return false;
}

/* One instance and one a host, or what was given. Those that are not given share the optimizer's
 * state, which costs nothing. */
static void
each_instances(struct walk *k, struct way *w)
{
	const struct search_input *in = k->in;
	const struct host_places where = { .ranks_per_host = (int64_t)in->hw.gpus_per_node };
	struct layout l;
	struct err ignored;

	each_batch(k, w);
	if (w->instances || in->world_size <= where.ranks_per_host ||
	    (in->keep_sharding && in->shape.sharding < SHARDING_GRADS))
		return;
	way_layout(w, &l);
	l.optimizer_instances = hosts_of_data(&l, &where);
	w->instances = (int)l.optimizer_instances;
	if (!in->keep_outer_sharding)
		w->outer_sharding = OUTER_OPTIM;
	if (w->instances > 1 && layout_check_instances(&l, &in->model, &ignored) == 0)
		each_batch(k, w);
	w->instances = 0;
	w->outer_sharding = in->typed.outer_sharding;
}

/* Sequence parallelism where it was typed or a model has experts, and else with and without. */
static void
each_rows(struct walk *k, struct way *w)
{
	const struct search_input *in = k->in;
	bool always = in->typed.sequence_parallel || in->model.num_experts,
	     both = !always && w->tensor > 1;

	for (int rows = always; rows <= (both || always); rows++) {
		w->rows = rows;
		if (legal(k, w))
			each_instances(k, w);
	}
}

/* Where there are experts, all numbers of ranks that may share those of a layer, each expert on one
 * rank or on as many as there are tensor ranks; or what was given. More of them may be slower than
 * fewer, and still more faster. */
static void
each_experts(struct walk *k, struct way *w)
{
	const struct search_input *in = k->in;
	int experts = (int)in->model.num_experts, ranks = (int)in->typed.expert_model_parallel_size,
	    slices = (int)in->typed.expert_tensor_parallel_size,
	    of[] = { slices ? slices : w->tensor, 1 };

	if (!experts && ranks <= 1 && slices <= 1)
		each_rows(k, w);
	for (int e = 1; e <= experts; e++) {
		if (ranks ? e != ranks : experts % e != 0)
			continue;
		for (int i = 0; i < (slices || w->tensor == 1 ? 1 : 2); i++) {
			w->expert_ranks = e;
			w->expert_slices = of[i];
			each_rows(k, w);
		}
	}
	w->expert_ranks = w->expert_slices = 0;
}

/* Whether context ranks cannot share the positions. Of a search within some time nobody reads what
 * rules refuse, which is most of its work. */
static bool
passed_over(const struct search_input *in, int64_t context)
{
	return in->seconds > 0 && context > 1 && in->shape.seq_length % (POSITION_RANGES * context);
}

/* Divisors of the ranks that are left as context ranks, in both forms, or what was given. */
static void
each_context(struct walk *k, struct way *w, int64_t left)
{
	const struct search_input *in = k->in;

	for (int64_t c = 1; c <= left && c <= in->shape.seq_length; c++) {
		if (left % c || (in->context && c != in->context) || passed_over(in, c))
			continue;
		w->context = (int)c;
		w->data = (int)(left / c);
		for (int form = CONTEXT_GATHER; form <= CONTEXT_HEADS; form++) {
			bool typed = in->keep_form || c == 1;

			if (typed && form != (int)in->shape.context_form)
				continue;
			w->form = (enum context_form)form;
			each_experts(k, w);
		}
	}
}

void
ways_each(const struct search_input *in, struct refusal refusals[SEARCH_REFUSALS],
    void (*each)(void *ctx, const struct way *w), void *ctx)
{
	struct walk k = { in, refusals, each, ctx };
	int64_t most = (int64_t)in->hw.gpus_per_node, heads = in->model.num_attention_heads,
		layers = in->model.num_layers;

	for (int64_t t = 1; t <= heads && t <= in->world_size; t++) {
		if (in->world_size % t || (in->tensor ? t != in->tensor : t > most))
			continue;
		for (int64_t p = 1; p <= layers + 1 && t * p <= in->world_size; p++) {
			struct way w = { .tensor = (int)t,
				.pipeline = (int)p,
				.instances = (int)in->typed.optimizer_instances,
				.outer_sharding = in->typed.outer_sharding };

			if (in->world_size % (t * p) == 0 && (!in->pipeline || p == in->pipeline))
				each_context(&k, &w, in->world_size / (t * p));
		}
	}
}
