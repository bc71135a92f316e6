/*
 * adamw.c - Adam with decoupled weight decay (or L2), bias corrected. Source: Loshchilov &
 * Hutter 2019 arXiv:1711.05101
 *
 * The backends hold the formula itself (cpu/optim.c, cuda/optim.cu); here the options and the piece
 * become its arguments.
 */
#include "train/optim/optim.h"

#include <math.h>

/* Bias corrections are computed in double from the number of optimizer steps, which excludes
 * skipped steps, and are passed to the device as numbers. Queued; no communication. */
static void
update(struct engine *e, const struct optim_options *o, const struct optim_chunk *p)
{
	struct adamw a = {
		.master = p->master,
		.low_bits = p->low_bits,
		.exp_avg = p->state[0],
		.exp_avg_sq = p->state[1],
		.draws = p->draws,
		.grad = p->grad,
		.weight = p->weight,
		.lr = p->lr,
		.beta1 = o->beta1,
		.beta2 = o->beta2,
		.eps = o->eps,
		.weight_decay = p->weight_decay,
		.grad_scale = p->grad_scale,
		.correction1 = 1 - pow(o->beta1, (double)p->step),
		.correction2 = 1 - pow(o->beta2, (double)p->step),
		.decoupled = o->decoupled_weight_decay,
	};

	(void)e;
	p->ops->adamw(p->stream, &a);
}

static const enum use uses[] = { OP_adamw, USES_END };

const struct optim_kind optim_adam = { update,
	OPTIM_BETA1 | OPTIM_BETA2 | OPTIM_EPS | OPTIM_DECAY_FORM, .uses = uses };
