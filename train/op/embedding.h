/* embedding.h - rows of a table */
#ifndef TRAIN_OP_EMBEDDING_H
#define TRAIN_OP_EMBEDDING_H

#include "train/op/call.h"

/* Row i of y gets scale times table row ids[i] - first_row, or zeros when that is outside the table
 * (another rank's row); accumulate adds instead. table act [rows,h], ids I32 [T], y act [T,h]. */
struct embedding {
	struct tensor y, table, ids;
	int64_t first_row;
	double scale;
	bool accumulate;
};
struct embedding_grad {
	/* real [rows,h]: sums in the order of the rows of dy, added to; without accumulate the
	 * other rows become 0 */
	struct tensor dtable;
	struct tensor dy, ids;
	int64_t first_row;
	double scale; /* of what is added */
	bool accumulate;
};

static inline void
describe_embedding_fwd(struct op_call *c, const struct embedding *a)
{
	op_reads(c, &a->y);
	op_writes(c, "y", &a->y);
}

/* The number of touched rows of the table is not known here, that of the gradient is. */
static inline void
describe_embedding_bwd(struct op_call *c, const struct embedding_grad *a)
{
	op_reads(c, &a->dy);
	op_writes(c, "dtable", &a->dtable);
}

#endif

#ifdef OPERATION
OPERATION(embedding_fwd, embedding)
OPERATION(embedding_bwd, embedding_grad)
#endif
