/* argmax.h - the likeliest token of each row */
#ifndef TRAIN_OP_ARGMAX_H
#define TRAIN_OP_ARGMAX_H

#include "train/op/call.h"

/*
 * Of each row the largest of the valid columns, and the first column that has it, as a global id;
 * NaN is passed over. A row without any has -inf and -1. The vocabulary is split by columns as in
 * xent (loss.h): of equal parts the first has the row's. Capped logits have the order of those
 * before the cap, which is not applied.
 */
struct argmax {
	struct tensor logits; /* act [T, v] */
	struct tensor value;  /* real [T] */
	struct tensor index;  /* I32 [T] */
	/* global id of column 0; columns that are real tokens here */
	int64_t first_column, valid_columns;
};

static inline void
describe_argmax(struct op_call *c, const struct argmax *a)
{
	op_reads(c, &a->logits);
	/* Written, but not outputs here: the maximum over no columns is -inf, which is correct. */
	op_reads(c, &a->value);
	op_reads(c, &a->index);
}

#endif

#ifdef OPERATION
OPERATION(argmax, argmax)
#endif
