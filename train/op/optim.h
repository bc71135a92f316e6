/* optim.h - updates of masters */
#ifndef TRAIN_OP_OPTIM_H
#define TRAIN_OP_OPTIM_H

#include "train/op/call.h"

/*
 * The random bits of a flat range, by the number of each element in its whole tensor, so that they
 * do not depend on the layout: element i is number start + j / columns * width + j % columns with
 * j = first + i, and takes word number % 4 of Philox's block number / 4 (lib/base/rng.h).
 */
struct draws {
	uint64_t key;
	uint32_t stream, step;
	int64_t start, first, columns, width;
};

static inline uint64_t
draws_number(const struct draws *d, int64_t i)
{
	int64_t j = d->first + i;

	return (uint64_t)(d->start + j / d->columns * d->width + j % d->columns);
}

/* One AdamW (or L2 when decoupled is false) update of a flat range; g = grad * grad_scale.
 * Source: Loshchilov & Hutter 2019 arXiv:1711.05101; docs/math.md 4.2. */
struct adamw {
	struct tensor master, grad; /* real [count]; grad may be BF16 */
	/* U16 [count]: completes a master in BF16 (dtype_f32_from_parts), and weight is none then;
	 * else data NULL */
	struct tensor low_bits;
	/* real or BF16 [count]; BF16 is rounded stochastically (dtype_bf16_stochastic), exp_avg by
	 * the lower half of the element's word, exp_avg_sq by the upper half */
	struct tensor exp_avg, exp_avg_sq;
	struct draws draws;
	/* act [count]: the rounded master is written there; data NULL when master is it */
	struct tensor weight;
	double lr, beta1, beta2, eps, weight_decay, grad_scale;
	double correction1, correction2; /* 1 - beta^k, k the step number from 1 */
	bool decoupled;
};

struct sgd {
	struct tensor master, momentum, grad, weight; /* as above; momentum real */
	double lr, momentum_factor, weight_decay, grad_scale;
};

/* master BF16 [n] = x real [n] rounded, low bits U16 [n] = what x has beyond that, as in struct
 * adamw; all dense. */
struct halves {
	struct tensor master, low_bits, x;
};

/* A step of an exponential moving average: average += (master - average) * share. */
struct average {
	struct tensor average;          /* real [count] */
	struct tensor master, low_bits; /* as in struct adamw */
	double share;
};

/* Biases of experts move towards equal loads: master[i] += rate * sign(mean - load[i]). Source:
 * Wang 2024 arXiv:2408.15664, algorithm 1. */
struct balance {
	struct tensor master, load; /* real [n]; load may be BF16, and master with low bits */
	struct tensor low_bits;     /* U16 [n], or none, and weight act [n], as in struct adamw */
	struct tensor weight;
	double mean, rate;
};

/* master *= factor. */
struct shrink {
	struct tensor master, low_bits; /* as in struct adamw */
	struct tensor weight;           /* act [n], as in struct adamw */
	double factor;
};

/* Low bits are read and written, but hold no numbers that an observer could check. */
static inline void
describe_adamw(struct op_call *c, const struct adamw *a)
{
	op_reads(c, &a->grad);
	op_reads(c, &a->master);
	op_reads(c, &a->low_bits);
	op_reads(c, &a->low_bits);
	op_reads(c, &a->exp_avg);
	op_reads(c, &a->exp_avg_sq);
	op_writes(c, "master", &a->master);
	op_writes(c, "exp_avg", &a->exp_avg);
	op_writes(c, "exp_avg_sq", &a->exp_avg_sq);
	op_writes(c, "weight", &a->weight);
}

static inline void
describe_sgd(struct op_call *c, const struct sgd *a)
{
	op_reads(c, &a->grad);
	op_reads(c, &a->master);
	op_reads(c, &a->momentum);
	op_writes(c, "master", &a->master);
	op_writes(c, "momentum", &a->momentum);
	op_writes(c, "weight", &a->weight);
}

static inline void
describe_split(struct op_call *c, const struct halves *s)
{
	op_reads(c, &s->x);
	op_writes(c, "master", &s->master);
	op_writes(c, "low bits", &s->low_bits);
}

static inline void
describe_average(struct op_call *c, const struct average *a)
{
	op_reads(c, &a->master);
	op_reads(c, &a->low_bits);
	op_reads(c, &a->average);
	op_writes(c, "average", &a->average);
}

static inline void
describe_balance(struct op_call *c, const struct balance *b)
{
	op_reads(c, &b->load);
	op_writes(c, "master", &b->master);
	op_writes(c, "weight", &b->weight);
}

static inline void
describe_shrink(struct op_call *c, const struct shrink *s)
{
	op_reads(c, &s->master);
	op_writes(c, "master", &s->master);
	op_writes(c, "weight", &s->weight);
}

#endif

#ifdef OPERATION
OPERATION(split, halves)
OPERATION(adamw, adamw)
OPERATION(sgd, sgd)
OPERATION(balance, balance)
OPERATION(shrink, shrink)
OPERATION_CPU(average, average)
#endif
