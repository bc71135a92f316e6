/*
 * embedding.c - token and position embeddings; the vocabulary is split over tensor ranks by rows
 *
 * The only layer that reads the batch. Its dropout multiplies by the mask in both directions.
 */
#include "lib/model/block/embedding.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/residual.h"

#include <math.h>

/* The table is padded so that every tensor rank holds equally many rows. */
static int64_t
first_token(const struct engine *e, const struct tensor *table)
{
	return table->shape[0] * e->coord[AX_TP];
}

/* Where words and positions are summed, in act: y, or a place from which y is widened. */
static struct tensor
sums_of(struct step *s, const struct tensor *y)
{
	return y->dtype == s->e->plan.shape.dtype ? *y : engine_buffer(s->e, BUF_BRANCH);
}

/* What rows of words are multiplied by, as transformers does it: the root of the width is a number
 * of the run's type. */
static double
word_scale(const struct engine *e)
{
	enum dtype t = e->plan.shape.dtype;
	double exact = sqrt((double)e->plan.model.hidden_size), scale;
	char rounded[sizeof(double)];

	if (e->plan.model.embedding_multiplier > 0)
		return e->plan.model.embedding_multiplier;
	if (!e->plan.model.scale_embeddings_by_hidden_size)
		return 1;
	dtype_convert(rounded, t, &exact, DTYPE_F64, 1);
	dtype_convert(&scale, DTYPE_F64, rounded, t, 1);
	return scale;
}

/* A token that another rank holds gives zeros here, so the sum over the tensor group makes the
 * row whole. Position rows are on every rank and are added after that sum, once, to the rank's own
 * rows. x is unused: the input is the batch. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor positions = step_buffer(s, BUF_POSITIONS, 0);
	struct dropout drop = layer_dropout(l, s, SITE_EMBEDDING, e->plan.model.embedding_dropout);
	struct tensor sums = sums_of(s, y);
	struct embedding words = { .y = partial_sums(s, &sums),
		.table = engine_weight(e, l->block->layer, EMBEDDING_WORDS),
		.ids = step_buffer(s, BUF_TOKENS, 0),
		.scale = word_scale(e) };
	struct embedding places = { .y = sums,
		.table = engine_weight(e, l->block->layer, EMBEDDING_POSITIONS),
		.ids = tensor_rows(&positions, first_row(s), y->shape[0]),
		.scale = 1,
		.accumulate = true };

	(void)x;
	words.first_row = first_token(e, &words.table);
	e->ops->embedding_fwd(e->stream, &words);
	scatter_sums(s, &sums);
	if (places.table.data)
		e->ops->embedding_fwd(e->stream, &places);
	/* Dropout is the same forward and backward: a multiplication by the mask. */
	if (drop.p > 0 || sums.data != y->data)
		e->ops->dropout_bwd(e->stream, &(struct dropout_grad){ *y, sums, drop });
}

/* Every tensor rank gets all rows of dy, so nothing is summed: each keeps those of its part of the
 * vocabulary. There is no layer before this one, so dx is left as it is. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct dropout drop = layer_dropout(l, s, SITE_EMBEDDING, e->plan.model.embedding_dropout);
	struct tensor dy = dropout_backward(s, dx, &drop);
	struct embedding_grad words = { .dtable = engine_grad(e, l->block->layer, EMBEDDING_WORDS),
		.ids = step_buffer(s, BUF_TOKENS, 0),
		.scale = word_scale(e) };
	struct embedding_grad places = { .dtable =
					     engine_grad(e, l->block->layer, EMBEDDING_POSITIONS),
		.ids = step_buffer(s, BUF_POSITIONS, 0),
		.scale = 1 };

	(void)x;
	/* The gradient of a tied table on this stage already contains the head's. */
	words.accumulate =
	    s->accumulate || (e->last_stage && !e->plan.model.untie_embeddings_and_output_weights);
	places.accumulate = s->accumulate;
	words.dy = places.dy = gather_rows(s, &dy);
	words.first_row = first_token(e, &words.dtable);
	e->ops->embedding_bwd(e->stream, &words);
	if (places.dtable.data)
		e->ops->embedding_bwd(e->stream, &places);
}

static const enum use uses[] = { OP_dropout_bwd, OP_embedding_bwd, OP_embedding_fwd, USES_END };

const struct layer_kind layer_embedding = { &block_embedding, SITE_COUNT, forward, backward,
	.uses = uses };
