/* quantise.h - copies of 8 bits and their scales */
#ifndef TRAIN_OP_QUANTISE_H
#define TRAIN_OP_QUANTISE_H

#include "train/op/call.h"

/* An 8-bit copy of x: q = the number nearest to factor * x (a product in F32), ties to even, held
 * to the largest finite one, NaN kept; qt is its transpose: one reading of x. Where x's largest is
 * wanted apart from a copy, q and qt are none. Source: Micikevicius 2022 arXiv:2209.05433. */
enum quantise_kind {
	QUANTISE_DELAYED, /* by a factor that is known */
	QUANTISE_CURRENT, /* by that of x's own largest, as in struct scales; 1 where that keeps */
	/* By a power of two for each block (scale_kind): the largest that keeps the block within
	 * the type's largest number, from 2^-126 to 2^126; 1 where the block's largest is 0 or not
	 * finite */
	QUANTISE_BLOCK,
};
struct quantise {
	struct tensor x;       /* act [m,n] */
	struct tensor q, qt;   /* F8 [m,n], F8 [n,m]; either may be none */
	struct tensor scale;   /* F32 [SCALE_ROW]: the factor is read, or with its inverse written
				* (CURRENT); of blocks the inverses alone, of q (BLOCK), written */
	struct tensor scale_t; /* BLOCK: those of qt, of the same kind */
	struct tensor amax;    /* F32 [1]: becomes the larger of itself and the largest |x|, a NaN
				* counting as infinity; or none, and so for BLOCK */
	struct tensor sums;    /* real [n]: the sums over the rows of x as it is, which are a bias's
				* gradient, in the order of gemm's dbias; or none */
	bool accumulate;       /* sums are added to, or written without */
	enum quantise_kind kind;
	/* x and q are a round of rows of experts (below): q alone, without sums; or none */
	struct tensor counts;
	int64_t first;
	/* CURRENT: is called with x's largest, F32 [1] of the device, before the factor and amax
	 * follow from it, and queues what makes it that of all parts of the tensor of which x is
	 * one; or NULL. It is called where no row of a round is of the experts, too. */
	void (*share)(const void *sharer, struct stream *, const struct tensor *largest);
	const void *sharer;
};

/* An operation whose result, of BF16, is read in 8 bits may make the copies in the same pass. It
 * has a struct quantise for them, with q, qt or both: they are those of the result as it would be
 * stored, bit for bit, and x is not looked at. The result then need not have data: it is not
 * stored. Sums are only of one that is, and no copies are of a window. */
static inline bool
quantise_makes(const struct quantise *q)
{
	ops_require(!q->counts.data);
	return q->q.data || q->qt.data;
}

/* Once a step: each slot's history moves one place on, and its place 0, the newest, takes amax, or
 * 0 for one that is not finite; amax becomes 0. From the maximum of the history, or its newest
 * place, the slot's factor is largest / maximum * 2^-margin in F32, at most SCALE_MAX, and its
 * inverse follows; a slot whose maximum is 0 keeps both. Source: docs/math.md 6. */
#define SCALE_MAX 0x1p126f
struct scales {
	struct tensor history; /* F32 [slots,length], dense */
	struct tensor amax;    /* F32 [slots] */
	struct tensor scale;   /* F32 [slots,SCALE_ROW], dense */
	struct tensor largest; /* F32 [slots]: of the slot's type */
	int margin;
	bool most_recent;
};

/* Copies of a result. A maximum is not an output here: that of gradients may well be infinite. */
static inline void
op_writes_copies(struct op_call *c, const struct quantise *q)
{
	op_writes(c, "q", &q->q);
	op_writes(c, "qt", &q->qt);
	op_writes(c, "sums", &q->sums);
}

static inline void
describe_quantise(struct op_call *c, const struct quantise *q)
{
	op_reads(c, &q->x);
	op_writes_copies(c, q);
	if (q->counts.data)
		op_round(c, &q->counts, q->first);
}

static inline void
describe_scales(struct op_call *c, const struct scales *s)
{
	op_reads(c, &s->amax);
	op_reads(c, &s->history);
	op_writes(c, "history", &s->history);
	op_writes(c, "scale", &s->scale);
}

#endif

#ifdef OPERATION
OPERATION(quantise, quantise)
OPERATION(scales, scales)
#endif
