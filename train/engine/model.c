/*
 * model.c - one micro batch through this stage's layers
 *
 * Memory is addressed by (buffer, slot, layer): a micro batch in flight owns one slot of the saved
 * arena, in which buffers that exist once per layer are layer_bytes apart. All addresses follow
 * from lib/model/memory's plan and nothing is allocated. Tensor ranks communicate inside the
 * layers, replicas between them (traffic.h).
 */
#include "train/engine/hashes.h"
#include "train/engine/model.h"
#include "train/engine/observe.h"
#include "train/engine/traffic.h"
#include "train/layers/layer.h"

/* The batch is in host memory and may be reused when this returns, because copy_in has read its
 * source by then on every backend. Every stage gets all arrays: tokens for the embedding, positions
 * and documents for each attention, labels and mask for the head. */
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
step_link(const struct step *s)
{
	return step_buffer(s, BUF_LINK, 0);
}

/* The output of layer i: the input of the next layer, or the link to the next stage; the head, the
 * last of all, has none. */
static struct tensor
output_of(const struct step *s, int i)
{
	struct tensor none = { .data = NULL };

	if (i + 1 < blocks_of(s).end)
		return input_of(s, i + 1);
	return s->link < 0 ? none : step_link(s);
}

/* Tells an observer the position in the step. */
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

/* Queues the chunk's layers in order; its input must have been loaded or received. Collective over
 * the tensor group. */
void
step_forward(struct step *s)
{
	struct block_range r = blocks_of(s);

	for (int i = r.first; i < r.end; i++) {
		struct tensor x = input_of(s, i), y = output_of(s, i);

		observed(s, i, false);
		traffic_forward_enter(s, s->e->mem.block[i].layer);
		s->e->layer[i].kind->forward(&s->e->layer[i], s, &y, &x);
	}
}

/* True when block i is the last of its recomputed chunk. */
static bool
ends_chunk(const struct step *s, int i)
{
	const struct block *b = &s->e->mem.block[i];

	return b->recompute_chunk >= 0 &&
	    (i + 1 == blocks_of(s).end || b[1].recompute_chunk != b->recompute_chunk);
}

/* Repeats the forward pass over the chunk that ends with block i, from its saved input, whose norm
 * the block before it computed in the forward pass. The chunk's output already exists, so the last
 * block computes only what its backward pass needs. */
static void
recompute_chunk(struct step *s, int i)
{
	const struct block *b = s->e->mem.block;
	struct tensor none = { .data = NULL };
	int first = i, begin = blocks_of(s).first;

	while (first > begin && b[first - 1].recompute_chunk == b[i].recompute_chunk)
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

/* Layers in reverse. On entry the link holds the gradient of the output (the head starts it), on
 * return that of the chunk's input; each layer updates it in place, so the residual path is never
 * copied. Accumulates main gradients. */
void
step_backward(struct step *s)
{
	struct tensor dx = step_link(s);
	struct block_range r = blocks_of(s);
	const struct block *b = s->e->mem.block;

	traffic_backward_begin(s);
	for (int i = r.end; i-- > r.first;) {
		const struct layer *l = &s->e->layer[i];
		struct tensor x = input_of(s, i);

		if (ends_chunk(s, i))
			recompute_chunk(s, i);
		observed(s, i, true);
		traffic_backward_enter(s, b[i].layer);
		l->kind->backward(l, s, &dx, &x);
		if (i == r.first || b[i - 1].layer != b[i].layer) {
			hashes_backward_leave(s, b[i].layer);
			traffic_backward_leave(s, b[i].layer);
		}
	}
}
