/*
 * model.c - one micro batch through this stage's layers
 *
 * The engine hands out memory by (buffer, slot, layer): a micro batch in flight owns one slot of
 * the saved arena, and inside it the buffers that exist once a layer lie layer_bytes apart. All
 * places are computed from lib/model/memory's plan and nothing is allocated. Tensor ranks
 * communicate inside the layers, replicas between them (traffic.h).
 */
#include "train/engine/hashes.h"
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

/* The input of layer i; the embedding has none. */
static struct tensor
input_of(const struct step *s, int i)
{
	const struct block *b = &s->e->mem.block[i];

	return step_buffer(s, b->kind->input, b->local);
}

/* The previous stage's output goes straight to the first layer's input, without a copy. */
struct tensor
step_input(const struct step *s)
{
	return input_of(s, 0);
}

/* One buffer for all micro batches: it is sent before the next forward pass writes it, and no
 * backward pass reads it. On the last stage the head writes no output and this is not used. */
struct tensor
step_output(const struct step *s)
{
	return engine_buffer(s->e, BUF_STAGE_OUT);
}

/* The output of layer i: the input of the next layer, or of the next stage. */
static struct tensor
output_of(const struct step *s, int i)
{
	return i + 1 < s->e->mem.num_blocks ? input_of(s, i + 1) : step_output(s);
}

/* Tells an observer where the step is. */
static void
observed(const struct step *s, int i, bool backward)
{
	struct observer *o = s->e->stream->observer;

	if (!o)
		return;
	o->microbatch = s->microbatch;
	o->layer = s->e->mem.block[i].layer;
	o->backward = backward;
}

/* Queues the layers of this stage in order; the input must have been loaded or received.
 * Collective over the tensor group. */
void
step_forward(struct step *s)
{
	for (int i = 0; i < s->e->mem.num_blocks; i++) {
		struct tensor x = input_of(s, i), y = output_of(s, i);

		observed(s, i, false);
		traffic_forward_enter(s, s->e->mem.block[i].layer);
		s->e->layer[i].kind->forward(&s->e->layer[i], s, &y, &x);
	}
}

/* Whether block i is the last of its recomputed chunk. */
static bool
ends_chunk(const struct step *s, int i)
{
	const struct block *b = &s->e->mem.block[i];

	return b->recompute_chunk >= 0 &&
	    (i + 1 == s->e->mem.num_blocks || b[1].recompute_chunk != b->recompute_chunk);
}

/* The forward pass once more over the chunk that ends with block i, from its saved input, whose
 * norm the block before took in the forward pass. Its output exists already, so the last block
 * computes only what its backward pass needs. */
static void
recompute_chunk(struct step *s, int i)
{
	const struct block *b = s->e->mem.block;
	struct tensor none = { .data = NULL };
	int first = i;

	while (first > 0 && b[first - 1].recompute_chunk == b[i].recompute_chunk)
		first--;
	for (int k = first; k <= i; k++) {
		struct tensor x = input_of(s, k), y = k < i ? output_of(s, k) : none;

		observed(s, k, true);
		traffic_forward_enter(s, b[k].layer);
		if (k == first && b[k].norm_taken)
			norm_take(&s->e->layer[k], s, &x);
		s->e->layer[k].kind->forward(&s->e->layer[k], s, &y, &x);
	}
}

/* Layers in reverse. BUF_DX holds the gradient of the output on entry (the head makes it on the
 * last stage) and that of the stage's input on return; each layer updates it in place, so the
 * residual path is never copied. Main gradients are added to. */
void
step_backward(struct step *s)
{
	struct tensor dx = engine_buffer(s->e, BUF_DX);
	const struct block *b = s->e->mem.block;

	traffic_backward_begin(s);
	for (int i = s->e->mem.num_blocks; i-- > 0;) {
		const struct layer *l = &s->e->layer[i];
		struct tensor x = input_of(s, i);

		if (ends_chunk(s, i))
			recompute_chunk(s, i);
		observed(s, i, true);
		traffic_backward_enter(s, b[i].layer);
		l->kind->backward(l, s, &dx, &x);
		if (i == 0 || b[i - 1].layer != b[i].layer) {
			hashes_backward_leave(s, i == 0 ? -1 : b[i].layer);
			traffic_backward_leave(s, i == 0 ? -1 : b[i].layer);
		}
	}
}
