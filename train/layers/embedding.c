/*
 * embedding.c - token and position embeddings; the vocabulary is split over tensor ranks by rows
 *
 * The only layer that reads the batch. Its dropout multiplies by the mask in both directions.
 */
#include "lib/model/block/embedding.h"
#include "train/layers/embedding.h"
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
 * row whole. */
void
words_forward(struct step *s, const struct tensor *ids, const struct tensor *y)
{
	struct engine *e = s->e;
	struct embedding words = { .y = partial_sums(s, y),
		.table = engine_weight(e, -1, EMBEDDING_WORDS),
		.ids = *ids,
		.scale = word_scale(e) };

	words.first_row = first_token(e, &words.table);
	e->ops->embedding_fwd(e->stream, &words);
	scatter_sums(s, y);
}

/* Every tensor rank gets all rows of dy, so nothing is summed: each keeps those of its part of the
 * vocabulary. */
void
words_backward(struct step *s, const struct tensor *ids, const struct tensor *dy, bool first)
{
	struct engine *e = s->e;
	struct embedding_grad words = { .dtable = engine_grad(e, -1, EMBEDDING_WORDS),
		.dy = *dy,
		.ids = *ids,
		.scale = word_scale(e),
		.accumulate = s->accumulate || !first };

	words.first_row = first_token(e, &words.dtable);
	e->ops->embedding_bwd(e->stream, &words);
}

/* Position rows are on every rank and are added after the sum over the tensor group, once. */
void
places_forward(struct step *s, const struct tensor *ids, const struct tensor *y)
{
	struct engine *e = s->e;
	struct embedding places = { .y = *y,
		.table = engine_weight(e, -1, EMBEDDING_POSITIONS),
		.ids = tensor_rows(ids, first_row(s), y->shape[0]),
		.scale = 1,
		.accumulate = true };

	if (places.table.data)
		e->ops->embedding_fwd(e->stream, &places);
}

void
places_backward(struct step *s, const struct tensor *ids, const struct tensor *dy, bool first)
{
	struct engine *e = s->e;
	struct embedding_grad places = { .dtable = engine_grad(e, -1, EMBEDDING_POSITIONS),
		.dy = *dy,
		.ids = *ids,
		.scale = 1,
		.accumulate = s->accumulate || !first };

	if (places.dtable.data)
		e->ops->embedding_bwd(e->stream, &places);
}

/* x is unused: the input is the batch. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor tokens = step_buffer(s, BUF_TOKENS, 0),
		      positions = step_buffer(s, BUF_POSITIONS, 0), sums = sums_of(s, y);
	struct dropout drop = layer_dropout(l, s, SITE_EMBEDDING, e->plan.model.embedding_dropout);

	(void)x;
	words_forward(s, &tokens, &sums);
	places_forward(s, &positions, &sums);
	/* Dropout is the same forward and backward: a multiplication by the mask. */
	if (drop.p > 0 || sums.data != y->data)
		e->ops->dropout_bwd(e->stream, &(struct dropout_grad){ *y, sums, drop });
}

/* There is no layer before this one, so dx is left as it is. The gradients of tables that the last
 * stage reads already contain the parts of that. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	const struct engine *e = s->e;
	const struct model_config *c = &e->plan.model;
	struct dropout drop = layer_dropout(l, s, SITE_EMBEDDING, c->embedding_dropout);
	struct tensor dy = dropout_backward(s, dx, &drop), tokens = step_buffer(s, BUF_TOKENS, 0),
		      positions = step_buffer(s, BUF_POSITIONS, 0), all = gather_rows(s, &dy);

	(void)x;
	words_backward(s, &tokens, &all, !(e->last_stage && model_table_at_ends(c)));
	places_backward(s, &positions, &all, !c->mtp_num_layers);
}

static const enum use uses[] = { OP_dropout_bwd, OP_embedding_bwd, OP_embedding_fwd, USES_END };

const struct layer_kind layer_embedding = { &block_embedding, SITE_COUNT, forward, backward,
	.uses = uses };
