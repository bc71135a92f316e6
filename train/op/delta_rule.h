/* delta_rule.h - linear attention by the gated delta rule */
#ifndef TRAIN_OP_DELTA_RULE_H
#define TRAIN_OP_DELTA_RULE_H

#include "train/op/call.h"

/*
 * Each head of values has a state M [d,e], which begins with zeros at the first token of a
 * document. With q and k of its key head divided by their lengths, roots of sums of squares and
 * 1e-6, position after position
 *
 *   M = exp(-e^decay_log softplus(decay + decay_bias)) M
 *   M = M + k (sigmoid(beta) (v - M^T k))^T
 *   out = M^T q / sqrt(d)
 *
 * q, k [S*b,n*d], v, out [S*b,m*e], beta, decay [S*b,m], decay_log, decay_bias [m], all act; a key
 * head has m / n neighbouring heads of values. Source: Yang 2024, arXiv:2412.06464, equation 10;
 * docs/math.md 2.12.
 */
struct delta_rule {
	struct tensor out, q, k, v, beta, decay, decay_log, decay_bias;
	struct tensor first; /* as in struct short_conv */
	/* real [b*n*d,e*m/n]: the states after the position before the first, of each sample and
	 * key head, which become those after the last; data NULL: zeros, and none are kept */
	struct tensor state;
	/* real, n*d or more rows of e*m/n, scratch: at least the elements that recurrence_work()
	 * of lib/model/recurrence.h states for a sample */
	struct tensor work;
	struct tensor position;                          /* as in struct short_conv */
	int micro_batch, num_key_heads, num_value_heads; /* b, n, m */
};

/* fwd as in the forward pass, without out and state; its work is real and has n*d times
 * (ceil(S/chunk) + chunk + 1) rows or more, for states before each chunk of positions and before
 * each position of one, and the elements of recurrence_work() of a backward pass. The chunk is the
 * CPU's: a GPU has those of lib/model/recurrence.h.
 * dq, dk, dv, dbeta, ddecay act, written; ddecay_log and ddecay_bias real [m], added to, or written
 * without accumulate: sums over samples, and over positions from the last on. */
struct delta_rule_grad {
	struct delta_rule fwd;
	struct tensor dq, dk, dv, dbeta, ddecay, ddecay_log, ddecay_bias, dout;
	int64_t chunk;
	bool accumulate;
};

/* Three products of a state and a vector. */
static inline double
delta_rule_flops(const struct delta_rule *d)
{
	return 6.0 * (double)tensor_elements(&d->v) * (double)(d->k.shape[1] / d->num_key_heads);
}

static inline void
describe_delta_rule(struct op_call *c, const struct delta_rule *d)
{
	c->flops = delta_rule_flops(d);
	op_reads(c, &d->q);
	op_reads(c, &d->k);
	op_reads(c, &d->v);
	op_reads(c, &d->beta);
	op_reads(c, &d->decay);
	op_reads(c, &d->decay_log);
	op_reads(c, &d->decay_bias);
	op_reads(c, &d->state);
	op_writes(c, "out", &d->out);
}

static inline void
describe_delta_rule_grad(struct op_call *c, const struct delta_rule_grad *d)
{
	c->flops = 2 * delta_rule_flops(&d->fwd);
	op_reads(c, &d->fwd.q);
	op_reads(c, &d->fwd.k);
	op_reads(c, &d->fwd.v);
	op_reads(c, &d->dout);
	op_writes(c, "dq", &d->dq);
	op_writes(c, "dk", &d->dk);
	op_writes(c, "dv", &d->dv);
	op_writes(c, "dbeta", &d->dbeta);
	op_writes(c, "ddecay", &d->ddecay);
	op_writes(c, "ddecay_log", &d->ddecay_log);
	op_writes(c, "ddecay_bias", &d->ddecay_bias);
}

#endif

#ifdef OPERATION
OPERATION(delta_rule, delta_rule)
OPERATION(delta_rule_grad, delta_rule_grad)
#endif
