/* residual.c - bias, dropout and the residual sum at the end of a block */
#include "train/layers/layer.h"

struct dropout
layer_dropout(const struct layer *l, const struct step *s, enum dropout_site site, double p)
{
	const struct train_shape *shape = &s->e->plan.shape;

	return (struct dropout){
		.p = s->training ? p : 0,
		.key = s->e->seed,
		.stream = (uint32_t)(l->index + 1) * SITE_COUNT + site,
		.step = s->iteration,
		.first_sample = s->first_sample,
		.seq_length = shape->seq_length,
		.width = s->e->plan.model.hidden_size,
		.micro_batch = (int)shape->micro_batch_size,
	};
}

void
residual_forward(const struct layer *l, struct step *s, enum dropout_site site, enum role bias,
    const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct residual r = {
		.y = *y,
		.x = engine_buffer(e, BUF_BRANCH),
		.bias = engine_weight(e, l->index, bias),
		.residual = *x,
		.drop = layer_dropout(l, s, site, e->plan.model.hidden_dropout),
	};

	e->ops->residual_fwd(e->stream, &r);
}

struct tensor
residual_backward(
    const struct layer *l, struct step *s, enum dropout_site site, const struct tensor *dx)
{
	struct engine *e = s->e;
	struct dropout drop = layer_dropout(l, s, site, e->plan.model.hidden_dropout);
	struct tensor dbranch;

	if (drop.p == 0)
		return *dx;
	dbranch = engine_buffer(e, BUF_DBRANCH);
	e->ops->dropout_bwd(e->stream, &dbranch, dx, &drop);
	return dbranch;
}
