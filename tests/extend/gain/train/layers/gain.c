/* gain.c - the output of a layer times a number for each channel */
#include "lib/model/block/gain.h"
#include "train/layers/layer.h"

/* Without y nothing is computed: the backward pass reads x alone. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct scale_columns scale = {
		.y = *y, .x = *x, .g = engine_weight(s->e, l->block->layer, GAIN_WEIGHT)
	};

	if (y->data)
		s->e->ops->scale_columns(s->e->stream, &scale);
}

static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct scale_columns scale = { .y = *dx,
		.x = *dx,
		.g = engine_weight(e, l->block->layer, GAIN_WEIGHT),
		.input = *x,
		.dg = engine_grad(e, l->block->layer, GAIN_WEIGHT) };

	if (!s->accumulate)
		e->ops->fill(e->stream, &(struct fill){ scale.dg, 0 });
	e->ops->scale_columns(e->stream, &scale);
}

const struct layer_kind layer_gain = { &block_gain, SITE_COUNT, forward, backward };
