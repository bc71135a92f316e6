/* scale_columns.h - columns times a number each */
#ifndef TRAIN_OP_SCALE_COLUMNS_H
#define TRAIN_OP_SCALE_COLUMNS_H

#include "train/op/call.h"

/* y[r, c] = g[c] x[r, c]; y may be x. With dg, x is the gradient of such a y and y that of its x,
 * which is `input`, and dg[c] += the sum over r of x[r, c] input[r, c], in the order of rows. */
struct scale_columns {
	struct tensor y, x;      /* act or real [T,h] */
	struct tensor g;         /* act or real [h] */
	struct tensor input, dg; /* act or real [T,h], real [h]; or none */
};

static inline void
describe_scale_columns(struct op_call *c, const struct scale_columns *s)
{
	op_reads(c, &s->x);
	op_reads(c, &s->g);
	op_reads(c, &s->input);
	op_writes(c, "y", &s->y);
	op_writes(c, "dg", &s->dg);
}

#endif

#ifdef OPERATION
OPERATION(scale_columns, scale_columns)
#endif
