/*
 * context.c - attention over sequences that context ranks share: one of the ways, or none
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
context_before(const struct engine *e, int stretch)
{
	return stretch > 0 ? e->stretch[0].count : 0;
}

struct tensor
context_stretch(const struct engine *e, const struct tensor *t, int stretch)
{
	return t->data ? tensor_rows(t, context_rows(e, context_before(e, stretch)),
			     context_rows(e, e->stretch[stretch].count))
		       : *t;
}

struct tensor
context_positions(const struct engine *e, const struct tensor *t, const struct stretch *s)
{
	return tensor_rows(t, context_rows(e, s->first), context_rows(e, s->count));
}

void
context_stretches(const struct engine *e, int rank, struct stretch out[STRETCHES])
{
	layout_positions(&e->plan.layout, e->plan.shape.seq_length, rank, out);
}

/* --- both passes ------------------------------------------------------------------------------ */

static const struct context_kind *const kinds[] = {
	[CONTEXT_GATHER] = &context_gather, [CONTEXT_HEADS] = &context_heads
};

size_t
context_blocks(const struct run_plan *plan)
{
	return (
	    size_t)(kinds[plan->shape.context_form]->arrays * plan->layout.context_parallel_size);
}

/* NULL: no other rank has positions of the sequence. */
static const struct context_kind *
kind_of(const struct step *s)
{
	return s->e->groups.cp->size > 1 ? kinds[s->e->plan.shape.context_form] : NULL;
}

void
context_attention_begin(struct step *s, const struct attention *a)
{
	const struct context_kind *k = kind_of(s);

	if (k)
		k->begin(s, a);
}

void
context_attention_fwd(struct step *s, const struct attention *a)
{
	const struct context_kind *k = kind_of(s);

	if (k)
		k->fwd(s, a);
	else
		s->e->ops->attention_fwd(s->e->stream, a);
}

void
context_attention_begin_bwd(struct step *s, const struct attention_grad *g)
{
	const struct context_kind *k = kind_of(s);

	if (k)
		k->begin_bwd(s, g);
}

void
context_attention_give_dout(struct step *s, const struct attention_grad *g)
{
	const struct context_kind *k = kind_of(s);

	if (k && k->give_dout)
		k->give_dout(s, g);
}

void
context_attention_bwd(struct step *s, const struct attention_grad *g)
{
	const struct context_kind *k = kind_of(s);

	if (k)
		k->bwd(s, g);
	else
		s->e->ops->attention_bwd(s->e->stream, g);
}

bool
context_keys_first(const struct step *s)
{
	const struct context_kind *k = kind_of(s);

	return k && k->keys_first;
}

void
context_attention_end(struct step *s, const struct attention_grad *g)
{
	const struct context_kind *k = kind_of(s);

	if (k)
		k->end(s, g);
}
