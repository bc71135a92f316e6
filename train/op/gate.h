/* gate.h - rows that are multiplied by the sigmoid of a number of each */
#ifndef TRAIN_OP_GATE_H
#define TRAIN_OP_GATE_H

#include "train/op/call.h"

/* y[r] = sigmoid(z[r]) x[r]; y and x act [T,h], z real [T,1]; y may be x. */
struct gate {
	struct tensor y, x, z;
};

/* With s = sigmoid(z[r]): dx[r] = s dy[r], dz[r] = s (1 - s) times the sum of dy[r] x[r] in a fixed
 * order. dx, dy and x act [T,h], dz and z real [T,1]; dx is neither dy nor x. */
struct gate_grad {
	struct tensor dx, dz, dy, x, z;
};

static inline void
describe_gate(struct op_call *c, const struct gate *g)
{
	op_reads(c, &g->x);
	op_reads(c, &g->z);
	op_writes(c, "y", &g->y);
}

static inline void
describe_gate_grad(struct op_call *c, const struct gate_grad *g)
{
	op_reads(c, &g->dy);
	op_reads(c, &g->x);
	op_reads(c, &g->z);
	op_writes(c, "dx", &g->dx);
	op_writes(c, "dz", &g->dz);
}

#endif

#ifdef OPERATION
OPERATION(gate, gate)
OPERATION(gate_grad, gate_grad)
#endif
