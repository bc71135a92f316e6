/* traffic.c - the exchanges of a step, by where their bytes go */
#include "plan/traffic.h"
#include "plan/time_plan.h"

#include <stdlib.h>
#include <string.h>

static void
add(const struct run_case *r, const struct operation *o, double times, struct traffic *of)
{
	struct exchange_ranks e = price_ranks(r, o);
	struct traffic *t = &of[o->class];
	double hosts = ceil(e.size / e.inside);

	t->ranks = fmax(t->ranks, e.size);
	t->inside = fmax(t->inside, e.inside);
	times *= e.directions * o->bytes;
	t->inside_bytes += times * (e.inside - 1) / e.inside;
	t->between_bytes += times * (hosts - 1) / hosts / e.inside;
}

static bool
is_exchange(const struct operation *o)
{
	return o->class >= OPERATION_TENSOR && o->class <= OPERATION_DATA;
}

/* The passes of a block on all micro batches; again: what its layer computes twice. */
static void
add_block(const struct run_case *r, const struct block *b, bool again, bool ends, double share,
    struct traffic *of)
{
	struct operation_list x;

	operations_of_block(&x, b->kind, b->fp8 >= 0, r->model, r->layout, r->shape);
	for (int i = 0; i < x.count; i++) {
		const struct operation *o = &x.item[i];
		bool twice = again && o->pass == OPERATION_FORWARD && !(ends && o->ends);

		if (is_exchange(o))
			add(r, o, share * (1 + twice), of);
	}
}

/* A stage's blocks, as a share of those of all stages. */
static void
add_stage(const struct run_case *r, int stage, struct traffic *of)
{
	double share =
	    (double)r->shape->num_microbatches / (double)r->layout->pipeline_model_parallel_size;
	struct block *block;
	int n = block_list(r->model, r->layout, r->shape, stage, &block);

	for (int i = 0; i < n; i++)
		add_block(r, &block[i], block[i].recompute_chunk >= 0,
		    block_recompute_ends(block, n, i), share, of);
	free(block);
}

/* Messages of all stages to the next, which have as many in return. */
static void
add_messages(const struct run_case *r, const struct operation *o, struct traffic *t)
{
	int64_t p = r->layout->pipeline_model_parallel_size;
	bool chunks = layout_chunks(r->layout) > 1;
	double hosts = 1;

	for (int64_t i = 0; i < p; i++) {
		double bytes = o->bytes * (double)o->count / (double)p;

		if (i == p - 1) /* to the first stage, for its next chunk */
			bytes *= chunks ? 1 - 1 / (double)layout_chunks(r->layout) : 0;
		if (time_leaves_host(r, i))
			t->between_bytes += bytes;
		else
			t->inside_bytes += bytes;
		hosts += i < p - 1 && time_leaves_host(r, i);
	}
	t->ranks = (double)p;
	t->inside = ceil((double)p / hosts);
}

void
traffic_of(
    const struct run_plan *plan, const struct hardware *hw, struct traffic out[OPERATION_CLASSES])
{
	struct memory_stages stages;
	struct run_case r = time_plan_case(plan, hw, &stages);
	struct operation_list x;

	memset(out, 0, OPERATION_CLASSES * sizeof *out);
	for (int i = 0; i < plan->layout.pipeline_model_parallel_size; i++)
		add_stage(&r, i, out);
	operations_of_step(&x, &r.owned, r.model, r.layout, r.shape);
	for (int i = 0; i < x.count; i++) {
		const struct operation *o = &x.item[i];

		if (o->class == OPERATION_STAGES)
			add_messages(&r, o, &out[o->class]);
		else if (is_exchange(o))
			add(&r, o, (double)o->count, out);
	}
	memory_stages_release(&stages);
}

void
traffic_print(const struct traffic of[OPERATION_CLASSES], FILE *f)
{
	static const struct {
		enum operation_class class;
		const char *name;
	} rows[] = { { OPERATION_TENSOR, "tensor" }, { OPERATION_CONTEXT, "context" },
		{ OPERATION_EXPERTS, "expert" }, { OPERATION_DATA, "data" },
		{ OPERATION_STAGES, "stage" } };

	fputs("exchanges\tranks\tinside_host\tinside_bytes\tbetween_bytes\n", f);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct traffic *t = &of[rows[i].class];

		fprintf(f, "%s\t%.0f\t%.0f\t%.0f\t%.0f\n", rows[i].name, fmax(t->ranks, 1),
		    fmax(t->inside, 1), t->inside_bytes, t->between_bytes);
	}
}
