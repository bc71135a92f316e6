/*
 * sgd.c - gradient descent with momentum
 *
 * The backends hold the formula itself; here the options and the piece become its arguments.
 */
#include "train/optim/optim.h"

/* Queued; no communication. */
static void
update(struct engine *e, const struct optim_options *o, const struct optim_chunk *p)
{
	struct sgd s = {
		.master = p->master,
		.momentum = p->state[0],
		.grad = p->grad,
		.weight = p->weight,
		.lr = p->lr,
		.momentum_factor = o->momentum,
		.weight_decay = p->weight_decay,
		.grad_scale = p->grad_scale,
	};

	(void)e;
	p->ops->sgd(p->stream, &s);
}

static const enum use uses[] = { OP_sgd, USES_END };

const struct optim_kind optim_sgd = { update, OPTIM_MOMENTUM, .uses = uses };
