/*
 * model.c - one micro batch through this stage's layers
 *
 * The engine hands out memory by (buffer, slot, layer): a micro batch in flight owns one slot of
 * the saved arena, and inside it the buffers that exist once a layer lie layer_bytes apart. All
 * places are computed from lib/model/memory's plan and nothing is allocated. Tensor ranks
 * communicate inside the layers, replicas between them (traffic.h).
 */
#include "train/engine/model.h"
#include "train/engine/observe.h"
#include "train/engine/traffic.h"
#include "train/layers/layer.h"

/* The batch is in host memory and may be reused when this returns only after the copies are
 * done: copy_in has read its source by then on both backends. Every stage gets all arrays that
 * there are: tokens for the embedding, positions and documents for each attention, labels and mask
 * for the head. */
void
step_load(struct step *s, const struct batch *b)
{
	struct {
		enum buffer to;
		const void *from;
	} part[] = {
		{ BUF_TOKENS, b->tokens },
		{ BUF_LABELS, b->labels },
		{ BUF_POSITIONS, b->positions },
		{ BUF_LOSS_MASK, b->loss_mask },
		{ BUF_DOCUMENTS, b->documents },
	};

	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		struct tensor t = step_buffer(s, part[i].to, 0);

		if (t.data)
			s->e->backend->copy_in(
			    s->e->stream, t.data, part[i].from, tensor_bytes(&t));
	}
}

/* What the stage before sends goes straight to where the first layer reads it, without a copy. */
struct tensor
step_input(const struct step *s)
{
	return step_buffer(s, BUF_LAYER_INPUT, 0);
}

/* One buffer for all micro batches: it is sent before the next forward pass writes it, and no
 * backward pass reads it. On the last stage the head writes no output and this is not used. */
struct tensor
step_output(const struct step *s)
{
	return engine_buffer(s->e, BUF_STAGE_OUT);
}

/* Where layer i reads: the embedding has no input of its own. */
static struct tensor
input_of(const struct step *s, int i)
{
	const struct layer *l = &s->e->layer[i];

	return step_buffer(s, l->input, l->local);
}

/* Where layer i writes: the input of the next one, or what the next stage gets. */
static struct tensor
output_of(const struct step *s, int i)
{
	return i + 1 < s->e->num_layers ? input_of(s, i + 1) : step_output(s);
}

/* Tells an observer where the step is. */
static void
observed(const struct step *s, int i, bool backward)
{
	struct observer *o = s->e->stream->observer;

	if (!o)
		return;
	o->microbatch = s->microbatch;
	o->layer = s->e->layer[i].index;
	o->backward = backward;
}

/* Queues the layers of this stage in order; the input must have been loaded or received.
 * Collective over the tensor group. */
void
step_forward(struct step *s)
{
	s->normed = false;
	for (int i = 0; i < s->e->num_layers; i++) {
		struct tensor x = input_of(s, i), y = output_of(s, i);

		observed(s, i, false);
		traffic_forward_enter(s, s->e->layer[i].index);
		s->e->layer[i].kind->forward(&s->e->layer[i], s, &y, &x);
	}
}

/* A block of the stage that is made again, or -1: its layer's number in the stage. */
static int64_t
redone(const struct step *s, int i)
{
	const struct layer *l = &s->e->layer[i];
	bool block = l->index >= 0 && l->index < s->e->plan.model.num_layers;

	return block && l->local < s->e->mem.redo_layers ? l->local : -1;
}

/* Is block i the last of its recomputed chunk, or of the recomputed layers? */
static bool
ends_chunk(const struct step *s, int i)
{
	int64_t layer = redone(s, i), chunk = s->e->mem.redo_chunk, next;

	if (layer < 0)
		return false;
	next = i + 1 < s->e->num_layers ? redone(s, i + 1) : -1;
	return next != layer && (next < 0 || next / chunk != layer / chunk);
}

/* The forward pass once more over the chunk that ends with block i, from its saved input. What it
 * hands on is there already, so the last block stops at what its backward pass needs. */
static void
redo_chunk(struct step *s, int i)
{
	int64_t chunk = s->e->mem.redo_chunk, start = redone(s, i) / chunk;
	struct tensor none = { .data = NULL };
	int first = i;

	while (first > 0 && redone(s, first - 1) >= 0 && redone(s, first - 1) / chunk == start)
		first--;
	s->normed = false;
	for (int k = first; k <= i; k++) {
		struct tensor x = input_of(s, k), y = k < i ? output_of(s, k) : none;

		observed(s, k, true);
		traffic_forward_enter(s, s->e->layer[k].index);
		s->e->layer[k].kind->forward(&s->e->layer[k], s, &y, &x);
	}
	s->normed = false;
}

/* Layers in reverse. BUF_DX holds the gradient of the output on entry (the head makes it on the
 * last stage) and that of the stage's input on return; each layer turns it in place, so the
 * residual path is never copied. Main gradients are added to. */
void
step_backward(struct step *s)
{
	struct tensor dx = engine_buffer(s->e, BUF_DX);

	s->summed = false;
	traffic_backward_begin(s);
	for (int i = s->e->num_layers; i-- > 0;) {
		const struct layer *l = &s->e->layer[i];
		struct tensor x = input_of(s, i);

		if (ends_chunk(s, i))
			redo_chunk(s, i);
		observed(s, i, true);
		traffic_backward_enter(s, l->index);
		l->kind->backward(l, s, &dx, &x);
		if (i == 0 || l[-1].index != l->index)
			traffic_backward_leave(s, i == 0 ? -1 : l->index);
	}
}
