/*
 * mtp.c - the beginning of a layer after the head: from the hidden state that a head has read, and
 * the embedding of the token that it predicts, to what attention reads
 *
 * y = W [norm(E[token]), norm(hidden)]. The token is the label of that head. Each tensor rank
 * projects its own rows by the whole matrix. Source: docs/math.md 2.11.
 */
#include "train/layers/mtp.h"
#include "lib/model/block/mtp.h"
#include "train/layers/embedding.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/residual.h"

/* The rows of a head among those of all but the first. */
static struct tensor
of_head(const struct step *s, int first, int others, int number)
{
	struct tensor t = step_buffer(s, number ? others : first, 0);
	int64_t rows = memory_buffer(&s->e->mem, first)->shape[0];

	return number ? tensor_rows(&t, (number - 1) * rows, rows) : t;
}

struct tensor
later_labels(const struct step *s, int number)
{
	return of_head(s, BUF_LABELS, BUF_LATER_LABELS, number);
}

struct tensor
later_mask(const struct step *s, int number)
{
	return of_head(s, BUF_LOSS_MASK, BUF_LATER_MASK, number);
}

/* The number of a layer among those after the head. */
static int
number_of(const struct layer *l, const struct step *s)
{
	return l->block->layer - (int)s->e->plan.model.num_layers - 1;
}

/* The tokens whose embeddings a layer reads: the labels of the head before it. */
static struct tensor
tokens_of(const struct layer *l, const struct step *s)
{
	return later_labels(s, number_of(l, s));
}

/* Their positions, where these are learned. */
static struct tensor
positions_of(const struct layer *l, const struct step *s)
{
	struct tensor all = step_buffer(s, BUF_LATER_POSITIONS, 0);
	int64_t rows = memory_buffer(&s->e->mem, BUF_POSITIONS)->shape[0];

	return all.data ? tensor_rows(&all, number_of(l, s) * rows, rows) : all;
}

/* One of both norms: its parameters and buffers, and which half of the columns it makes. */
struct role {
	int weight, bias, in, mean, rstd, half;
};

static const struct role of_embedding = { MTP_EMBEDDING_NORM, MTP_EMBEDDING_NORM_BIAS,
	MTP_EMBEDDING, MTP_EMBEDDING_MEAN, MTP_EMBEDDING_RSTD, 0 };
static const struct role of_hidden = { MTP_HIDDEN_NORM, MTP_HIDDEN_NORM_BIAS, MTP_HIDDEN,
	MTP_HIDDEN_MEAN, MTP_HIDDEN_RSTD, 1 };

static struct tensor
half_of(const struct tensor *both, int half)
{
	return tensor_columns(both, half * both->shape[1] / 2, both->shape[1] / 2);
}

static void
take_norm(const struct layer *l, struct step *s, const struct role *r)
{
	struct engine *e = s->e;
	struct tensor both = layer_buffer(l, s, MTP_NORMED);
	struct norm n = { .y = half_of(&both, r->half),
		.x = layer_buffer(l, s, r->in),
		.weight = engine_weight(e, l->block->layer, r->weight),
		.bias = engine_weight(e, l->block->layer, r->bias),
		.mean = layer_buffer(l, s, r->mean),
		.rstd = layer_buffer(l, s, r->rstd),
		.eps = e->plan.model.norm_epsilon,
		.shift = model_norm_shift(&e->plan.model) };

	e->ops->norm_fwd(e->stream, &n);
}

/* dx = the gradient of the norm's input, from that of its output. */
static void
norm_gradient(const struct layer *l, struct step *s, const struct role *r, const struct tensor *dx)
{
	struct engine *e = s->e;
	struct tensor both = layer_buffer(l, s, MTP_NORMED);
	struct norm_grad n = { .dx = *dx,
		.x = layer_buffer(l, s, r->in),
		.dy = half_of(&both, r->half),
		.weight = engine_weight(e, l->block->layer, r->weight),
		.mean = layer_buffer(l, s, r->mean),
		.rstd = layer_buffer(l, s, r->rstd),
		.dweight = engine_grad(e, l->block->layer, r->weight),
		.dbias = engine_grad(e, l->block->layer, r->bias),
		.accumulate = s->accumulate,
		.writes_dx = true,
		.shift = model_norm_shift(&e->plan.model) };

	e->ops->norm_bwd(e->stream, &n);
}

/* In act: y, or a place from which y is widened. */
static void
project(const struct layer *l, struct step *s, const struct tensor *y)
{
	struct engine *e = s->e;
	bool same = y->dtype == e->plan.shape.dtype;
	struct linear p = { .x = layer_buffer(l, s, MTP_NORMED),
		.y = same ? *y : engine_buffer(e, BUF_BRANCH),
		.weight = engine_weight(e, l->block->layer, MTP_PROJECTION) };

	forward_gemm(s, &p);
	if (!same)
		e->ops->cast(e->stream, &(struct pair){ *y, p.y });
}

/* The dropout of embeddings, in either direction. */
static void
drop(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct dropout d = layer_dropout(l, s, SITE_EMBEDDING, s->e->plan.model.embedding_dropout);

	if (d.p > 0)
		s->e->ops->dropout_bwd(s->e->stream, &(struct dropout_grad){ *x, *x, d });
}

/* x, the hidden state, is where the head before has left it. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct tensor tokens = tokens_of(l, s), positions = positions_of(l, s),
		      words = layer_buffer(l, s, MTP_EMBEDDING);

	(void)x;
	words_forward(s, &tokens, &words);
	if (positions.data)
		places_forward(s, &positions, &words);
	drop(l, s, &words);
	take_norm(l, s, &of_embedding);
	take_norm(l, s, &of_hidden);
	project(l, s, y);
}

/* The gradient of the norms' outputs takes their place, as they have been read by then. The
 * backward pass of the last of these layers is the first that reaches the tables, unless the head's
 * gradients are in that of words. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	const struct model_config *c = &e->plan.model;
	bool last = l->block->layer == model_end(c);
	struct dropout none = { .p = 0 };
	struct tensor both = layer_buffer(l, s, MTP_NORMED), tokens = tokens_of(l, s),
		      positions = positions_of(l, s), dwords = engine_buffer(e, BUF_DNORM), all;
	struct linear_grad p = { .dx = both,
		.dy = dropout_backward(s, dx, &none),
		.x = both,
		.weight = engine_weight(e, l->block->layer, MTP_PROJECTION),
		.dweight = engine_grad(e, l->block->layer, MTP_PROJECTION) };

	(void)x;
	weight_gradient(s, &p);
	input_gradient(s, &p);
	norm_gradient(l, s, &of_hidden, dx);
	norm_gradient(l, s, &of_embedding, &dwords);
	drop(l, s, &dwords);
	all = gather_rows(s, &dwords);
	words_backward(s, &tokens, &all, last && c->untie_embeddings_and_output_weights);
	if (positions.data)
		places_backward(s, &positions, &all, last);
}

static const enum use uses[] = { OP_cast, OP_dropout_bwd, OP_embedding_bwd, OP_embedding_fwd,
	OP_norm_bwd, OP_norm_fwd, USES_END };

const struct layer_kind layer_mtp = { &block_mtp, SITE_COUNT, forward, backward, .uses = uses };
