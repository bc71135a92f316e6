/*
 * norm.c - the norm before a block; its parameters are whole on every tensor rank
 *
 * x and y are [T, h] on every tensor rank, so each rank computes the same and nothing is
 * communicated; the parameters' gradients come out equal too. Mean and 1 / sigma are saved per
 * token; the mean and the bias are missing in RMSNorm, as tensors without data.
 */
#include "train/layers/layer.h"

/* Arguments of the layer's norm of x. */
struct norm
norm_of(const struct layer *l, struct step *s, const struct tensor *x)
{
	const struct block_norm *p = l->block->kind->norm;
	struct engine *e = s->e;

	return (struct norm){
		.y = step_buffer(s, p->out, l->block->local),
		.x = *x,
		.weight = engine_weight(e, l->block->layer, p->weight),
		.bias = engine_weight(e, l->block->layer, p->bias),
		.mean = step_buffer(s, p->mean, l->block->local),
		.rstd = step_buffer(s, p->rstd, l->block->local),
		.eps = e->plan.model.norm_epsilon,
	};
}

/* Called in the layer's own forward pass, or for it by the layer before. */
void
norm_take(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct norm n = norm_of(l, s, x);

	s->e->ops->norm_fwd(s->e->stream, &n);
}

/* For most layers the residual sum of the layer before has computed the norm; the first of a stage,
 * or after the embedding, computes it here. */
struct tensor
norm_forward(const struct layer *l, struct step *s, const struct tensor *x)
{
	if (!l->block->norm_taken)
		norm_take(l, s, x);
	return step_buffer(s, l->block->kind->norm->out, l->block->local);
}

/* Writes the statistics again, with the same bits. */
struct tensor
norm_recompute(const struct layer *l, struct step *s, const struct tensor *x)
{
	enum buffer out = l->block->kind->norm->out;

	if (s->e->mem.place[out] == ARENA_SCRATCH)
		norm_take(l, s, x);
	return step_buffer(s, out, l->block->local);
}

/* Adds to f->dx, which holds the residual's gradient. As residual_forward takes the norm after it,
 * this takes the gradient of the bias before it. */
void
norm_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	const struct block_norm *p = l->block->kind->norm;
	struct engine *e = s->e;
	struct norm_grad n = {
		.dx = f->dx,
		.dy = f->dy,
		.x = f->x,
		.weight = engine_weight(e, l->block->layer, p->weight),
		.mean = step_buffer(s, p->mean, l->block->local),
		.rstd = step_buffer(s, p->rstd, l->block->local),
		.dweight = engine_grad(e, l->block->layer, p->weight),
		.dbias = engine_grad(e, l->block->layer, p->bias),
		.dx_sum = residual_sums(l, s),
		.accumulate = s->accumulate,
	};

	e->ops->norm_bwd(e->stream, &n);
}
