/* lion.h - an update by the sign of a momentum */
#ifndef TRAIN_OP_LION_H
#define TRAIN_OP_LION_H

#include "train/op/call.h"

/* One update of a flat range: with g = grad * grad_scale and c = beta1 m + (1 - beta1) g,
 * master -= lr (sign(c) + weight_decay master), m = beta2 m + (1 - beta2) g.
 * Source: Chen et al. 2023 arXiv:2302.06675, algorithm 2. */
struct lion {
	struct tensor master, m; /* real [count] */
	struct tensor grad;      /* real or BF16 [count] */
	struct tensor weight;    /* act [count]: the rounded master; or none */
	double lr, beta1, beta2, weight_decay, grad_scale;
};

static inline void
describe_lion(struct op_call *c, const struct lion *l)
{
	op_reads(c, &l->grad);
	op_reads(c, &l->master);
	op_reads(c, &l->m);
	op_writes(c, "master", &l->master);
	op_writes(c, "m", &l->m);
	op_writes(c, "weight", &l->weight);
}

#endif

#ifdef OPERATION
OPERATION_CPU(lion, lion)
#endif
