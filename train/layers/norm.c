/*
 * norm.c - the norm before a block; its parameters are whole on every tensor rank
 *
 * x and y are [T, h] on every tensor rank, so each rank computes the same and nothing is
 * communicated; the parameters' gradients come out equal too. Mean and 1 / sigma are saved per
 * token; the mean and the bias are missing in RMSNorm, as tensors without data.
 */
#include "train/layers/layer.h"

/* p says which of the block's parameters and saved statistics these are. */
void
norm_forward(const struct layer *l, struct step *s, const struct norm_place *p,
    const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct norm n = {
		.y = *y,
		.x = *x,
		.weight = engine_weight(e, l->index, p->weight),
		.bias = engine_weight(e, l->index, p->bias),
		.mean = step_buffer(s, p->mean, l->local),
		.rstd = step_buffer(s, p->rstd, l->local),
		.eps = e->plan.model.norm_epsilon,
	};

	e->ops->norm_fwd(e->stream, &n);
}

/* Adds to f->dx, where the residual's gradient is; dweight and dbias are added to main
 * gradients. */
void
norm_backward(
    const struct layer *l, struct step *s, const struct norm_place *p, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct norm_grad n = {
		.dx = f->dx,
		.dy = f->dy,
		.x = f->x,
		.weight = engine_weight(e, l->index, p->weight),
		.mean = step_buffer(s, p->mean, l->local),
		.rstd = step_buffer(s, p->rstd, l->local),
		.dweight = engine_grad(e, l->index, p->weight),
		.dbias = engine_grad(e, l->index, p->bias),
		.accumulate = true,
	};

	e->ops->norm_bwd(e->stream, &n);
}
