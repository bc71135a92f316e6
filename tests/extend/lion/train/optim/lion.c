/*
 * lion.c - an update rule with one state, of a name that no other has, by an operation of its own,
 * which the CPU alone has
 */
#include "train/optim/optim.h"

static void
update(struct engine *e, const struct optim_options *o, const struct optim_chunk *p)
{
	struct lion l = {
		.master = p->master,
		.m = p->state[0],
		.grad = p->grad,
		.weight = p->weight,
		.lr = p->lr,
		.beta1 = o->beta1,
		.beta2 = o->beta2,
		.weight_decay = p->weight_decay,
		.grad_scale = p->grad_scale,
	};

	(void)e;
	p->ops->lion(p->stream, &l);
}

static const enum use uses[] = { OP_lion, USES_END };

const struct optim_kind optim_lion = { update, OPTIM_BETA1 | OPTIM_BETA2, .uses = uses };
