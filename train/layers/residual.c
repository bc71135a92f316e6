/*
 * residual.c - dropout and the residual sum at the end of a block
 *
 * Fused because both pass over the same elements. Dropout saves no mask: an element's factor is a
 * function of seed, step, site, sample, position and column, so the backward pass redraws it and no
 * layout changes it.
 */
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"
#include "train/layers/residual.h"

/* The stream number tells layers and sites apart; layer -1 is the embedding, hence the + 1. p is
 * 0 in evaluation, which turns dropout off everywhere. */
struct dropout
layer_dropout(const struct layer *l, const struct step *s, enum dropout_site site, double p)
{
	const struct train_shape *shape = &s->e->plan.shape;

	return (struct dropout){
		.p = s->training ? p : 0,
		.key = s->e->seed,
		.stream = (uint32_t)(l->block->layer + 1) * SITE_COUNT + site,
		.step = s->iteration,
		.first_sample = s->first_sample,
		.seq_length = shape->seq_length,
		.first_position = s->e->position_range[0].first,
		.second_position = s->e->position_range[1].first,
		.turn = s->e->position_range[0].count,
		.width = s->e->plan.model.hidden_size,
		.first_row = first_row(s),
		.micro_batch = (int)shape->micro_batch_size,
	};
}

/* The dropout of the layer's branch. */
static struct dropout
branch_dropout(const struct layer *l, const struct step *s)
{
	return layer_dropout(l, s, l->kind->site, s->e->plan.model.hidden_dropout);
}

/* branch times the model's multiplier, if it has one. */
static struct tensor
multiplied(struct step *s, const struct tensor *branch, const struct tensor *to)
{
	double a = s->e->plan.model.residual_multiplier;

	if (!(a > 0))
		return *branch;
	s->e->ops->axpby(s->e->stream, &(struct axpby){ .y = *to, .x = *branch, .a = a });
	return *to;
}

/* y = x + dropout(branch), rounded once; y may not be x, which the backward pass still needs. The
 * branch is in BUF_BRANCH, with its bias and summed over tensor ranks. The norm that the next layer
 * starts with is taken in the same pass over the rows. */
void
residual_forward(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct residual r = {
		.y = *y,
		.x = engine_buffer(e, BUF_BRANCH),
		.residual = *x,
		.drop = branch_dropout(l, s),
	};

	norm_branch_forward(l, s);
	r.x = multiplied(s, &r.x, &r.x);
	if (l->norm_after && !linears_join(s))
		r.norm = norm_of(l->norm_after, s, y);
	e->ops->residual_fwd(e->stream, &r);
}

/* The last linear of a branch, in one operation with the sum where nothing is between them. */
void
branch_forward(const struct layer *l, struct step *s, const struct linear *last,
    const struct tensor *y, const struct tensor *x)
{
	struct linear joined = *last;

	if (linears_join(s) && !l->block->post && !(s->e->plan.model.residual_multiplier > 0)) {
		joined.y = *y;
		linear_step(
		    s, &joined, &(struct linear_step){ .residual = *x, .product = last->y });
		return;
	}
	row_forward(s, last);
	residual_forward(l, s, y, x);
}

/* What tensor ranks exchange and GEMMs read is act, of whichever type the stream is. */
struct tensor
dropout_backward(struct step *s, const struct tensor *dx, const struct dropout *drop)
{
	struct engine *e = s->e;
	struct tensor dbranch;

	if (drop->p == 0 && dx->dtype == e->plan.shape.dtype)
		return *dx;
	dbranch = engine_buffer(e, BUF_DBRANCH);
	e->ops->dropout_bwd(e->stream, &(struct dropout_grad){ dbranch, *dx, *drop });
	return dbranch;
}

/* The gradient of the sum that a branch is part of: dx. Parallel branches are parts of one sum: the
 * first of them in the backward pass, which does not read its own input, keeps its gradient from
 * what it adds to dx. */
static struct tensor
sum_gradient(const struct layer *l, struct step *s, const struct tensor *dx)
{
	struct tensor kept = engine_buffer(s->e, BUF_DSUM);

	if (!l->block->parallel)
		return *dx;
	if (l->block->reads != l->block->kind->input)
		s->e->ops->cast(s->e->stream, &(struct pair){ kept, *dx });
	return kept;
}

/* The gradient of the branch; where that is dx itself, the caller reads it before it is changed. dx
 * stays as it is, being the gradient along the residual. */
struct tensor
residual_backward(const struct layer *l, struct step *s, const struct tensor *dx)
{
	struct dropout drop = branch_dropout(l, s);
	struct tensor dsum = sum_gradient(l, s, dx), dbranch = dropout_backward(s, &dsum, &drop),
		      place = engine_buffer(s->e, BUF_DBRANCH);

	dbranch = multiplied(s, &dbranch, &place);
	return norm_branch_backward(l, s, &dbranch);
}

/* The GEMM of the weight's gradient is faster without it. In the last layer of a stage, with
 * dropout, and with a stream of another type, that GEMM computes it nevertheless. A norm sees its
 * rank's rows, a GEMM all of them; one sum over tensor ranks serves both kinds, so the GEMM's
 * result is the first rank's part, and the others' is zero. */
struct tensor
residual_dbias(const struct layer *l, struct step *s)
{
	struct tensor none = { .data = NULL };
	struct tensor dbias = engine_grad(s->e, l->block->layer, l->block->kind->residual->bias);

	if (l->block->bias_taken || first_row(s) == 0)
		return l->block->bias_taken ? none : dbias;
	if (dbias.data && !s->accumulate)
		s->e->ops->fill(s->e->stream, &(struct fill){ dbias, 0 });
	return none;
}
