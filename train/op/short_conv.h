/* short_conv.h - sums over the last positions of each channel, and SiLU of them */
#ifndef TRAIN_OP_SHORT_CONV_H
#define TRAIN_OP_SHORT_CONV_H

#include "train/op/call.h"

/* y [S*b,c] = silu(a), a[s] = sum over j < k of weight[j] x[s - k + 1 + j] in each channel and
 * sample, over positions of the sample and of the row's document alone. x act [S*b,c], weight act
 * [c,k]; y is not x. Source: docs/math.md 2.12. */
struct short_conv {
	struct tensor y, x, weight;
	struct tensor first; /* I32 [S*b]: position in its sample of the first token of the row's
			      * document; data NULL: a sample is one document */
	/* x of the k - 1 positions before the first, act [(k-1)*b,c], which become the last ones;
	 * data NULL: nothing is before it, and nothing is kept */
	struct tensor before;
	/* I32 [1]: of the first rows in their samples; data NULL: 0, nothing is before them */
	struct tensor position;
	int micro_batch; /* b */
};

/* fwd as in the forward pass, without before and y. dx act [S*b,c], which is not dy; dweight real
 * [c,k], added to, or written without accumulate: sums over samples, and over positions from the
 * last on. */
struct short_conv_grad {
	struct short_conv fwd;
	struct tensor dx, dweight, dy;
	bool accumulate;
};

static inline void
describe_short_conv(struct op_call *c, const struct short_conv *s)
{
	op_reads(c, &s->x);
	op_reads(c, &s->weight);
	op_reads(c, &s->before);
	op_writes(c, "y", &s->y);
}

static inline void
describe_short_conv_grad(struct op_call *c, const struct short_conv_grad *s)
{
	op_reads(c, &s->fwd.x);
	op_reads(c, &s->fwd.weight);
	op_reads(c, &s->dy);
	op_writes(c, "dx", &s->dx);
	op_writes(c, "dweight", &s->dweight);
}

#endif

#ifdef OPERATION
OPERATION(short_conv, short_conv)
OPERATION(short_conv_grad, short_conv_grad)
#endif
