/* loss.h - cross entropy */
#ifndef TRAIN_OP_LOSS_H
#define TRAIN_OP_LOSS_H

#include "train/op/call.h"

/*
 * Cross entropy over a vocabulary split by columns over `parts` tensor ranks, of logits that are
 * the tensor's, or c tanh(x / c) of its x with softcap c > 0; the gradient is that of x:
 *
 *   xent_stats  stats[i] = { max of the valid columns z, sum exp(z - max), z_label or 0 };
 *               then the parts are all-gathered
 *   xent_loss   combines the parts in their order; loss[i] = lse - z_label and
 *               zloss[i] = z_loss * lse^2 (both unmasked), and when grad_scale != 0
 *               logits <- grad_scale * mask[i] * (softmax * (1 + 2 z_loss lse) - [label]),
 *               0 in padding columns
 *
 * With one part stats.data is NULL and xent_loss does both, in one reading of a row where it fits
 * on chip. A part without valid columns has max -inf and sum 0. Source: docs/math.md 2.8 and
 * docs/parallelism.md 2.2; Milakov & Gimelshein 2018 arXiv:1805.02867 for the running maximum;
 * Chowdhery 2022 arXiv:2204.02311 for the z-loss.
 */
struct xent {
	struct tensor logits; /* act [T, v], in place */
	struct tensor labels; /* I32 [T], global ids */
	struct tensor mask;   /* F32 [T] */
	struct tensor stats;  /* real [parts * T, 3], part by part; xent_stats writes [T, 3] */
	int parts;
	struct tensor loss, zloss; /* real [T] */
	/* global id of column 0; columns that are real tokens here */
	int64_t first_column, valid_columns;
	double z_loss, grad_scale, softcap; /* softcap 0: none */
};

static inline void
describe_xent_stats(struct op_call *c, const struct xent *x)
{
	op_reads(c, &x->logits);
	/* Written, but not an output here: the maximum over no columns is -inf, which is correct.
	 */
	op_reads(c, &x->stats);
}

/* Evaluation does not change the logits. */
static inline void
describe_xent_loss(struct op_call *c, const struct xent *x)
{
	op_reads(c, &x->logits);
	op_writes(c, "loss", &x->loss);
	if (x->grad_scale != 0)
		op_writes(c, "logits", &x->logits);
}

#endif

#ifdef OPERATION
OPERATION(xent_stats, xent)
OPERATION(xent_loss, xent)
#endif
