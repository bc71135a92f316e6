/* glu.h - elements that are multiplied by a function of others */
#ifndef TRAIN_OP_GLU_H
#define TRAIN_OP_GLU_H

#include "train/op/call.h"

/* y = x f(z), element by element, all act [T,w]: f is the logistic function, or with silu z times
 * it. y may be x. Source: docs/math.md 2.12. */
struct glu {
	struct tensor y, x, z;
	bool silu;
};

/* dx = dy f(z) and dz = dy x f'(z); dx may be dy. */
struct glu_grad {
	struct tensor dx, dz, dy, x, z;
	bool silu;
};

static inline void
describe_glu(struct op_call *c, const struct glu *g)
{
	op_reads(c, &g->x);
	op_reads(c, &g->z);
	op_writes(c, "y", &g->y);
}

static inline void
describe_glu_grad(struct op_call *c, const struct glu_grad *g)
{
	op_reads(c, &g->dy);
	op_reads(c, &g->x);
	op_reads(c, &g->z);
	op_writes(c, "dx", &g->dx);
	op_writes(c, "dz", &g->dz);
}

#endif

#ifdef OPERATION
OPERATION(glu, glu)
OPERATION(glu_grad, glu_grad)
#endif
