/* vector.h - sums, copies, counts and other operations on elements */
#ifndef TRAIN_OP_VECTOR_H
#define TRAIN_OP_VECTOR_H

#include "train/op/call.h"

/*
 * What two tensors are all that is told of. Where y is F64 [1], it is added to.
 *   add              y += x, same shape; act or real
 *   cast             y = x with conversion between floating types; same shape; integers only to the
 *                    same type
 *   count_nonfinite  y F64 [1] += number of NaN or Inf in x
 *   count_zero       y F64 [1] += number of zeros in x, of either sign
 *   hash             y I64 [1] = a hash of the bits of x, dense: the sum of mix((i + 1) g + the
 *                    bits of element i as a number) modulo 2^64, mix and g those of splitmix64, so
 *                    that no change of a single element goes unseen. Source: Steele, Lea & Flood
 *                    2014, "Fast splittable pseudorandom number generators".
 */
struct pair {
	struct tensor y, x;
};

/* x = value. */
struct fill {
	struct tensor x;
	double value;
};

/* out F64 [1] += sum of x[i] * y[i] in double, in a fixed order; floating vectors of one length. */
struct dot {
	struct tensor out, x, y;
};

/* y = a x / max(sqrt(squares), eps) + b y; b = 0 does not read y. Same shape, floating types; rows
 * may lie apart. */
struct axpby {
	struct tensor y, x;
	double a, b;
	struct tensor squares; /* F64 [1], on the device; or none: y = a x + b y */
	double eps;            /* above 0 with squares */
};

/*
 * y [n] = S (lib/base/tree.h) of the terms of ranks. x [n] is that of rank `own`, the rows of
 * others [ranks - 1, n] are those of the others, in order; own -1: there is no x, and others has
 * all. Without others y is x. Terms are of one type, act or real; they are added in real, or in F64
 * where they are, and rounded once to y, of their type or real, or, of F32 terms, of any. x, y and
 * each row are dense; y may be x.
 */
struct sum {
	struct tensor y, x, others;
	int own;
	int block; /* terms of a block; 0: TREE_TERMS, which is the most */
};

/* Initial weights: x[i] = std * N(key, stream, first + i), the normals of lib/base/rng.h
 * (rng_normal with step 0); x dense, act or real. A device may differ from the CPU in the last bits
 * of a double before rounding. */
struct normal {
	struct tensor x;
	uint64_t key;
	uint32_t stream;
	int64_t first;
	double std;
};

static inline void
describe_add(struct op_call *c, const struct pair *p)
{
	op_reads(c, &p->x);
	op_reads(c, &p->y);
	op_writes(c, "y", &p->y);
}

static inline void
describe_cast(struct op_call *c, const struct pair *p)
{
	op_reads(c, &p->x);
	op_writes(c, "y", &p->y);
}

static inline void
describe_count_nonfinite(struct op_call *c, const struct pair *p)
{
	describe_add(c, p);
}

static inline void
describe_count_zero(struct op_call *c, const struct pair *p)
{
	describe_add(c, p);
}

static inline void
describe_hash(struct op_call *c, const struct pair *p)
{
	describe_cast(c, p);
}

static inline void
describe_fill(struct op_call *c, const struct fill *f)
{
	op_writes(c, "x", &f->x);
}

/* The sum of squares reads its vector once. */
static inline void
describe_dot(struct op_call *c, const struct dot *d)
{
	op_reads(c, &d->x);
	op_writes(c, "out", &d->out);
}

static inline void
describe_axpby(struct op_call *c, const struct axpby *a)
{
	op_reads(c, &a->x);
	if (a->b != 0)
		op_reads(c, &a->y);
	op_writes(c, "y", &a->y);
}

/* Each term is read. */
static inline void
describe_sum(struct op_call *c, const struct sum *a)
{
	if (a->own >= 0)
		op_reads(c, &a->x);
	op_reads(c, &a->others);
	op_writes(c, "y", &a->y);
}

static inline void
describe_normal(struct op_call *c, const struct normal *n)
{
	op_writes(c, "x", &n->x);
}

#endif

#ifdef OPERATION
OPERATION(add, pair)
OPERATION(sum, sum)
OPERATION(axpby, axpby)
OPERATION(fill, fill)
OPERATION(normal, normal)
OPERATION(cast, pair)
OPERATION(dot, dot)
OPERATION(count_nonfinite, pair)
OPERATION(count_zero, pair)
OPERATION(hash, pair)
#endif
