/* operations_text.c - the operations of a step as a table */
#include "lib/model/operations_text.h"

#include <stdlib.h>

/* In the order of enum operation_class and enum operation_pass. */
static const char *const classes[OPERATION_CLASSES] = { "product", "attention", "memory", "tensor",
	"context", "experts", "data", "stages", "host", "update" };
static const char *const passes[OPERATION_PASSES] = { "forward", "again", "backward", "step" };

/* Blocks of a stage that have the same list, those whose forward pass is repeated, and of these
 * those that are the last to be. */
struct blocks {
	int64_t all, rerun, ending;
};

static void
add_row(struct str *out, int stage, const char *block, const struct operation *o, int64_t times)
{
	bool product = o->class == OPERATION_PRODUCT;

	if (!times)
		return;
	str_addf(out, "%d\t%s\t%s\t%s\t%s\t%lld\t", stage, block, o->name, classes[o->class],
	    passes[o->early ? OPERATION_FORWARD : o->pass], (long long)times);
	if (product)
		str_addf(out, "%lld\t%lld\t%lld\t%lld\t%s\t%s\t", (long long)o->m, (long long)o->n,
		    (long long)o->k, (long long)o->count, dtype_name(o->type),
		    o->accumulate ? "yes" : "no");
	else
		str_adds(out, "-\t-\t-\t-\t-\t-\t");
	str_addf(out, "%.17g\t%.17g\t%d\n", o->flops, o->bytes, o->kernels);
}

/* What recomputed blocks repeat of a list. */
static void
visit_rerun(
    const struct operation_visitor *v, const char *block, const struct operation *o, int64_t times)
{
	struct operation rerun = *o;

	if (o->pass != OPERATION_FORWARD)
		return;
	rerun.pass = OPERATION_AGAIN;
	v->visit(v->ctx, block, &rerun, times);
}

static void
visit_blocks(const struct operation_visitor *v, const struct run_plan *p, int stage)
{
	int64_t batches = p->shape.num_microbatches;
	struct block *block;
	int n = block_list(&p->model, &p->layout, &p->shape, stage, &block);

	for (int i = 0; i < 2 * BLOCK_COUNT; i++) {
		struct blocks b = { 0, 0, 0 };
		const struct block_kind *kind = NULL;
		struct operation_list x;

		for (int j = 0; j < n; j++)
			if (block_number(block[j].kind) == i / 2 && (block[j].fp8 >= 0) == i % 2) {
				kind = block[j].kind;
				b.all++;
				b.rerun += block[j].recompute_chunk >= 0;
				b.ending += block_recompute_ends(block, n, j);
			}
		if (!kind)
			continue;
		operations_of_block(&x, kind, i % 2, &p->model, &p->layout, &p->shape);
		for (int j = 0; j < x.count; j++) {
			v->visit(v->ctx, kind->name, &x.item[j], b.all * batches);
			visit_rerun(v, kind->name, &x.item[j],
			    (b.rerun - (x.item[j].ends ? b.ending : 0)) * batches);
		}
	}
	free(block);
}

/* Gradients, weights, messages and the update of the first rank of a stage. */
static void
visit_step(const struct operation_visitor *v, const struct run_plan *p, struct memory_stages *held,
    int stage)
{
	struct memory_plan m;
	struct operation_owned owned;
	struct operation_list x;

	memory_plan_stage(&m, held, &p->shape, stage);
	owned = operation_owned(held, &p->shape, stage, m.optim_elements);
	memory_release(&m);
	operations_of_step(&x, &owned, &p->model, &p->layout, &p->shape);
	for (int i = 0; i < x.count; i++)
		v->visit(v->ctx, "step", &x.item[i], x.item[i].count);
}

void
operations_visit(const struct operation_visitor *v, const struct run_plan *plan,
    struct memory_stages *held, int stage)
{
	visit_blocks(v, plan, stage);
	visit_step(v, plan, held, stage);
}

/* Where rows go. */
struct rows {
	struct str *out;
	int stage;
};

static void
visit_row(void *ctx, const char *block, const struct operation *o, int64_t times)
{
	const struct rows *r = ctx;

	add_row(r->out, r->stage, block, o, times);
}

void
operations_text(const struct run_plan *plan, struct str *out)
{
	struct memory_stages held;

	memory_stages_init(&held, &plan->model, &plan->layout, &plan->shape);
	str_adds(out,
	    "stage\tblock\toperation\tclass\tpass\ttimes\tm\tn\tk\tcount\ttype\taccumulate\tflops"
	    "\tbytes\tkernels\n");
	for (int i = 0; i < plan->layout.pipeline_model_parallel_size; i++) {
		operations_visit(&(struct operation_visitor){ visit_row, &(struct rows){ out, i } },
		    plan, &held, i);
	}
	memory_stages_release(&held);
}
