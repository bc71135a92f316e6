/* dropout.h - dropout, and the residual sum */
#ifndef TRAIN_OP_DROPOUT_H
#define TRAIN_OP_DROPOUT_H

#include "train/op/norm.h"

/* Counter-based dropout: element (row r, column c) is kept when rng_uniform(key, index, stream,
 * step) >= p, with R = first_row + r and index =
 * ((first_sample + R % b) * seq_length + position of R) * width + first_column + c, and scaled by
 * 1 / (1 - p). The first `turn` positions of the rows follow each other from first_position on, the
 * rest from second_position on (dropout_position). The mask depends on the element's global place
 * only, so every layout and every recomputation draws the same. */
struct dropout {
	double p; /* 0: off */
	uint64_t key;
	uint32_t stream, step;
	int64_t first_sample, seq_length, first_position, second_position, turn, width,
	    first_column;
	int64_t first_row; /* of the T rows: a tensor may hold some of them */
	int micro_batch;   /* b */
};

/* The position in its sample of row R of all T. */
static inline int64_t
dropout_position(const struct dropout *d, int64_t r)
{
	int64_t i = r / d->micro_batch;

	return i < d->turn ? d->first_position + i : d->second_position + i - d->turn;
}

/* y = residual + dropout(x); y may be residual itself. x act [T,h], the others stream.
 * norm: without a weight none, or what follows in the same pass over the rows: the norm of y as it
 * is stored (norm.x is y), with one head. */
struct residual {
	struct tensor y, x, residual;
	struct dropout drop;
	struct norm norm;
};

/* dx = mask * dy / (1 - p), with conversion; dx may be dy. act or stream [T,h] each. */
struct dropout_grad {
	struct tensor dx, dy;
	struct dropout drop;
};

static inline void
describe_residual_fwd(struct op_call *c, const struct residual *r)
{
	op_reads(c, &r->x);
	op_reads(c, &r->residual);
	op_writes(c, "y", &r->y);
	if (r->norm.weight.data) {
		op_writes(c, "norm", &r->norm.y);
		op_writes_copies(c, &r->norm.copies);
		op_writes(c, "rstd", &r->norm.rstd);
	}
}

static inline void
describe_dropout_bwd(struct op_call *c, const struct dropout_grad *g)
{
	op_reads(c, &g->dy);
	op_writes(c, "dx", &g->dx);
}

#endif

#ifdef OPERATION
OPERATION(residual_fwd, residual)
OPERATION(dropout_bwd, dropout_grad)
#endif
