/* act.h - activations of the MLP */
#ifndef TRAIN_OP_ACT_H
#define TRAIN_OP_ACT_H

#include "train/op/quantise.h"

/* The gated kinds take [gate | up] side by side, 2f columns, and give f. ACT_QUICK_GEGLU gates by
 * x sigmoid(1.702 x). */
enum act_kind {
	ACT_GELU_TANH,
	ACT_GELU_ERF,
	ACT_RELU2,
	ACT_SWIGLU,
	ACT_GEGLU_TANH,
	ACT_QUICK_GEGLU,
	ACT_KINDS
};
/* What a gated kind takes in place of gate and up: min(gate, clamp), and up bounded by -clamp and
 * clamp, plus offset. Gradients are 0 at the bounds and beyond. clamp 0: no bounds. Source:
 * docs/math.md 2.6. */
struct act_gate {
	double clamp, offset;
};
struct act {
	enum act_kind kind;
	struct tensor y, x; /* act [T,f], [T,f or 2f] */
	struct quantise copies;
	struct act_gate gate;
};
/* With copies y is not stored, and blocks of those of dx must not have columns of both its halves:
 * QUANTISE_BLOCK needs an f of whole blocks where there is a gate. */
struct act_grad {
	enum act_kind kind;
	struct tensor dx, dy,
	    x; /* act [T,f or 2f], [T,f], as dx; dx may be x itself, or without a gate dy */
	/* none, or act(x) is written there: it need not have been saved; may be dy itself */
	struct tensor y;
	struct quantise dx_copies, y_copies;
	struct act_gate gate;
};

static inline void
describe_act_fwd(struct op_call *c, const struct act *a)
{
	op_reads(c, &a->x);
	op_writes(c, "y", &a->y);
	op_writes_copies(c, &a->copies);
}

static inline void
describe_act_bwd(struct op_call *c, const struct act_grad *a)
{
	op_reads(c, &a->dy);
	op_reads(c, &a->x);
	op_writes(c, "dx", &a->dx);
	op_writes(c, "y", &a->y);
	op_writes_copies(c, &a->dx_copies);
	op_writes_copies(c, &a->y_copies);
}

#endif

#ifdef OPERATION
OPERATION(act_fwd, act)
OPERATION(act_bwd, act_grad)
#endif
