/*
 * model.c - one micro batch through this stage's layers
 *
 * Memory is addressed by (buffer, slot, layer): a micro batch in flight owns one slot of the saved
 * arena, in which buffers that exist once per layer are layer_bytes apart. All addresses follow
 * from lib/model/memory's plan and nothing is allocated. Tensor ranks communicate inside the
 * layers, data ranks between segments (dp_comm.h).
 */
#include "train/engine/hashes.h"
#include "train/layers/layer.h"
#include "train/layers/norm.h"
#include "train/step/model.h"
#include "train/watch/observe.h"

/* The batch is in host memory and may be reused when this returns, because copy_in has read its
 * source by then on every backend. Every stage gets all arrays: tokens for the embedding, positions
 * and documents for each attention, labels and mask for the head. */
void
step_load(struct step *s, const struct batch *b)
{
	int32_t kept = (int32_t)s->kept;
	struct {
		int to;
		const void *from;
	} part[] = {
		{ BUF_TOKENS, b->tokens },
		{ BUF_LABELS, b->labels },
		{ BUF_POSITIONS, b->positions },
		{ BUF_LOSS_MASK, b->loss_mask },
		{ BUF_DOCUMENTS, b->documents },
		{ BUF_KEPT, &kept },
		{ BUF_LATER_LABELS, b->later_labels },
		{ BUF_LATER_MASK, b->later_mask },
		{ BUF_LATER_POSITIONS, b->later_positions },
	};

	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		struct tensor t = step_buffer(s, part[i].to, 0);

		if (t.data && part[i].from)
			s->e->backend->copy_in(
			    s->e->stream, t.data, part[i].from, tensor_bytes(&t));
	}
}

/* The input of layer i; the embedding has none. */
static struct tensor
input_of(const struct step *s, int i)
{
	const struct block *b = &s->e->mem.block[i];

	return step_buffer(s, b->kind->input, b->local);
}

static struct block_range
blocks_of(const struct step *s)
{
	return s->e->mem.chunk[s->chunk];
}

/* The previous stage's output goes straight to the first layer's input, without a copy. */
struct tensor
step_input(const struct step *s)
{
	return input_of(s, blocks_of(s).first);
}

/* The schedule keeps each output until it has been sent; no backward pass reads it. */
struct tensor
step_stage_output(const struct step *s)
{
	return step_buffer(s, BUF_STAGE_OUTPUT, 0);
}

/* A layer's output is the input of the next one, or the stage output to the next stage; the head,
 * the last of all, has none. The norm of the first of several blocks that run again was computed by
 * the block before it in the forward pass; the output of the last exists, so it computes only what
 * its backward pass needs. */
static void
item_forward(struct step *s, const struct pass_item *m)
{
	const struct layer *l = &s->e->layer[m->block];
	struct tensor x = input_of(s, m->block), y = { .data = NULL };

	s->recomputes = m->kind == ITEM_RECOMPUTE;
	if (!m->last && m->block + 1 < blocks_of(s).end)
		y = input_of(s, m->block + 1);
	else if (!m->last && s->stage_output >= 0)
		y = step_stage_output(s);
	if (m->first && l->block->norm_taken)
		norm_take(l, s, &x);
	l->kind->forward(l, s, &y, &x);
	s->recomputes = false;
}

/* On entry the stage output holds the gradient of the output, on return that of the input: the
 * residual path is never copied. */
static void
item_backward(struct step *s, const struct pass_item *m)
{
	const struct block *b = &s->e->mem.block[m->block];
	const struct layer *l = &s->e->layer[m->block];
	struct tensor x = input_of(s, m->block), dx = step_stage_output(s);

	l->kind->backward(l, s, &dx, &x);
	if (m->block == blocks_of(s).first || b[-1].layer != b->layer)
		hashes_backward_leave(s, b->layer);
}

void
step_segment(struct step *s, const struct pass_items *of, const struct segment *segment)
{
	for (const struct pass_item *m = of->item + segment->first; m < of->item + segment->end;
	     m++) {
		struct observer *o = s->e->stream->observer;

		if (o) {
			o->microbatch = s->microbatch;
			o->layer = s->e->mem.block[m->block].layer;
			o->backward = m->kind != ITEM_FORWARD;
		}
		if (m->kind == ITEM_BACKWARD)
			item_backward(s, m);
		else
			item_forward(s, m);
	}
}
