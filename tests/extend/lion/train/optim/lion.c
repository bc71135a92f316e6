/*
 * lion.c - an update rule with one state, of a name that no other has: the sign of a momentum,
 * on the CPU alone. Source: Chen et al. 2023 arXiv:2302.06675, algorithm 2
 *
 * This file and its line in the registry are all that a new rule needs.
 */
#include "train/optim/optim.h"

static double
get(const struct tensor *t, int64_t i)
{
	return t->dtype == DTYPE_F64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

static void
put(const struct tensor *t, int64_t i, double x)
{
	if (t->dtype == DTYPE_F64)
		((double *)t->data)[i] = x;
	else
		((float *)t->data)[i] = (float)x;
}

/* Done at once: on the CPU a stream does not queue. */
static void
update(struct engine *e, const struct optim_options *o, const struct optim_piece *p)
{
	for (int64_t i = 0; i < p->master.shape[0]; i++) {
		double g = get(&p->grad, i) * p->grad_scale, m = get(&p->state[0], i),
		       w = get(&p->master, i), c = o->beta1 * m + (1 - o->beta1) * g;

		put(&p->master, i, w - p->lr * ((c > 0) - (c < 0) + p->weight_decay * w));
		put(&p->state[0], i, o->beta2 * m + (1 - o->beta2) * g);
	}
	if (p->weight.data)
		e->ops->cast(e->stream, &(struct pair){ p->weight, p->master });
}

const struct optim_kind optim_lion = { update, OPTIM_BETA1 | OPTIM_BETA2 };
