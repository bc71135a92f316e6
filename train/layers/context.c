/*
 * context.c - rows of context ranks, and which kind shares their attention
 */
#include "train/layers/context.h"

#include <stddef.h>

/* --- rows ------------------------------------------------------------------------------------- */

/* Token rows of so many positions of the samples. */
static int64_t
context_rows(const struct engine *e, int64_t positions)
{
	return positions * e->plan.shape.micro_batch_size;
}

int64_t
context_before(const struct engine *e, int position_range)
{
	return position_range > 0 ? e->position_range[0].count : 0;
}

struct tensor
context_range(const struct engine *e, const struct tensor *t, int position_range)
{
	return t->data ? tensor_rows(t, context_rows(e, context_before(e, position_range)),
			     context_rows(e, e->position_range[position_range].count))
		       : *t;
}

struct tensor
context_positions(const struct engine *e, const struct tensor *t, const struct position_range *s)
{
	return tensor_rows(t, context_rows(e, s->first), context_rows(e, s->count));
}

void
context_ranges(const struct engine *e, int rank, struct position_range out[POSITION_RANGES])
{
	layout_positions(&e->plan.layout, e->plan.shape.seq_length, rank, out);
}

/* --- one context rank ------------------------------------------------------------------------- */

static void
begin(struct step *s, const struct attention *a)
{
	(void)s;
	(void)a;
}

static void
forward(struct step *s, const struct attention *a)
{
	s->e->ops->attention_fwd(s->e->stream, a);
}

static void
backward(struct step *s, const struct attention_grad *g)
{
	s->e->ops->attention_bwd(s->e->stream, g);
}

static void
max(struct step *s, const struct attention_max *m)
{
	s->e->ops->attention_max(s->e->stream, m);
}

void
context_nothing(struct step *s, const struct attention_grad *g)
{
	(void)s;
	(void)g;
}

static const struct context_kind alone = {
	.begin = begin,
	.fwd = forward,
	.begin_bwd = begin,
	.give_dout = context_nothing,
	.bwd = backward,
	.max = max,
	.end = context_nothing,
};

static const struct context_kind *const kinds[] = {
	[CONTEXT_GATHER] = &context_gather, [CONTEXT_HEADS] = &context_heads
};

const struct context_kind *
context_kind_of(const struct run_plan *plan)
{
	return plan->layout.context_parallel_size > 1 ? kinds[plan->shape.context_form] : &alone;
}
