/* norm.c - the norm before a block; its parameters are whole on every tensor rank */
#include "train/layers/layer.h"

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
	};

	e->ops->norm_bwd(e->stream, &n);
}
